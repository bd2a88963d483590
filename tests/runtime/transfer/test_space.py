"""A download is refused before it begins if the cache volume cannot hold it and what the engine writes beside it."""

from pathlib import Path

import pytest

from gptservice_runtime import contract, models
from gptservice_runtime.transfer import space

LIMIT = 20_000_000


@pytest.mark.parametrize(
    ("needed", "limit", "fits"),
    [
        pytest.param(19_000_000, LIMIT, True, id="all but the engine's part"),
        pytest.param(19_000_001, LIMIT, False, id="a byte of the engine's part"),
        pytest.param(0, LIMIT, True, id="nothing"),
        pytest.param(1 << 60, None, False, id="more than the file system has"),
        pytest.param(1, None, True, id="a volume that nobody bounds"),
    ],
)
def test_what_fits_is_let_in(tmp_path: Path, needed: int, limit: int | None, fits: bool) -> None:
    if fits:
        space.demand(tmp_path, needed, limit)
        return
    with pytest.raises(models.ModelError, match="too small") as refused:
        space.demand(tmp_path, needed, limit)
    assert refused.value.reason == contract.REASON_DISK_FULL


def test_what_is_there_already_counts(tmp_path: Path) -> None:
    (tmp_path / "kept").write_bytes(bytes(1_000_000))
    space.demand(tmp_path, 17_000_000, LIMIT)
    with pytest.raises(models.ModelError):
        space.demand(tmp_path, 18_500_000, LIMIT)
