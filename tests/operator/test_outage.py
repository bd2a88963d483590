"""How long nothing served after a failure: begun, ended and told from what a restart of the operator leaves."""

import pytest

from gptservice_operator import outage
from tests.operator import builders
from tests.operator.builders import Body

NOW = "2026-01-05T12:00:00Z"
SINCE = "2026-01-05T11:58:30Z"
LASTS = f"{SINCE}/.."


def service(status: str | None = None) -> Body:
    listed = [builders.condition("Available", status, lastTransitionTime=SINCE)] if status else []
    return {**builders.service(), "status": {"conditions": listed}}


def ready(since: str) -> Body:
    body = builders.pod(ready=True)
    body["status"]["conditions"][-1]["lastTransitionTime"] = since
    return body


@pytest.mark.parametrize(
    ("status", "pods", "expected"),
    [
        pytest.param("False", [], LASTS, id="since the status said so, whenever the pods went"),
        pytest.param("True", [builders.pod()], f"{NOW}/..", id="the status does not know yet"),
        pytest.param(None, [], f"{NOW}/..", id="no status"),
        pytest.param("True", [builders.pod(), ready(SINCE)], None, id="one serves"),
    ],
)
def test_it_begins_when_nothing_serves(status: str | None, pods: list[Body], expected: str | None) -> None:
    assert outage.begun(service(status), pods, NOW) == expected


@pytest.mark.parametrize(
    ("interval", "pods", "expected"),
    [
        pytest.param(LASTS, [builders.pod()], LASTS, id="it lasts"),
        pytest.param(LASTS, [ready(NOW), ready("2026-01-05T11:59:00Z")], f"{SINCE}/2026-01-05T11:59:00Z", id="first"),
        pytest.param(f"{SINCE}/{NOW}", [ready("2026-01-05T13:00:00Z")], f"{SINCE}/{NOW}", id="it ended before"),
        pytest.param(None, [ready(NOW)], None, id="there was none"),
    ],
)
def test_it_ends_with_the_first_pod_that_serves(interval: str | None, pods: list[Body], expected: str | None) -> None:
    assert outage.ended(interval, pods) == expected


@pytest.mark.parametrize(
    ("interval", "said"),
    [
        (None, ""),
        ("somebody's words", ""),
        (LASTS, f"nothing has served since {SINCE}"),
        (f"{SINCE}/{NOW}", f"nothing served for 90 s, until {NOW}"),
        (f"{NOW}/{SINCE}", f"nothing served for 0 s, until {SINCE}"),
    ],
)
def test_what_is_told_of_it(interval: str | None, said: str) -> None:
    assert outage.told(interval) == said
