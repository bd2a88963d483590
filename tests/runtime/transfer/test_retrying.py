"""When the next try is."""

import email.utils
import time

import pytest

from gptservice_runtime import contract, models
from gptservice_runtime.transfer import retrying

PATIENCE = retrying.Patience(tries=3, pause=1, longest_pause=5)


@pytest.mark.parametrize(("failures", "most"), [(1, 1), (2, 2), (3, 4), (4, 5), (60, 5)])
def test_pauses_double_up_to_a_bound(failures: int, most: float) -> None:
    assert most / 2 <= retrying.pause(failures, PATIENCE, None) <= most


@pytest.mark.parametrize(("asked", "pause"), [(0, 0), (7, 7), (86400, 300), (-5, 0)])
def test_what_the_hub_asks_for_goes_first_within_bounds(asked: float, pause: float) -> None:
    assert retrying.pause(1, PATIENCE, asked) == pause


def test_retry_after_is_a_number_or_a_date() -> None:
    assert retrying.retry_after("12") == 12
    assert retrying.retry_after("soon") is None
    assert retrying.retry_after("²") is None
    assert retrying.retry_after(None) is None
    date = email.utils.formatdate(time.time() + 60, usegmt=True)
    assert retrying.retry_after(date) == pytest.approx(60, abs=10)


@pytest.mark.parametrize(
    ("gained", "tries"), [pytest.param(False, 3, id="nothing gained"), pytest.param(True, 5, id="gained at first")]
)
async def test_only_tries_in_a_row_without_gain_are_counted(gained: bool, tries: int) -> None:
    made = 0

    async def fail() -> None:
        nonlocal made
        made += 1
        raise retrying.PassingError(
            contract.REASON_MODEL_DOWNLOAD_FAILED, "broke off", retry_after=0, gained=gained and made <= 3
        )

    with pytest.raises(models.ModelError, match="broke off; that was try 3 of 3"):
        await retrying.retrying(fail, PATIENCE, lambda: None)
    assert made == tries
