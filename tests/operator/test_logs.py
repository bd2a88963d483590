"""A line of the log says of which object and pass it is."""

import json
import logging
import sys

import pytest

from gptservice_operator import logs


def line(message: str, *, error: bool = False) -> dict[str, object]:
    info = None
    if error:
        try:
            raise ValueError("broken")
        except ValueError:
            info = sys.exc_info()
    record = logging.LogRecord("gptservice_operator.queue", logging.WARNING, "", 0, message, (), info)
    parsed: dict[str, object] = json.loads(logs.JsonFormatter().format(record))
    return parsed


def test_a_line_is_one_object_with_the_pass_that_it_belongs_to() -> None:
    with logs.in_pass("team-a", "chat") as number:
        inside = line('said "x"\nand more')
    assert (inside["object"], inside["pass"]) == ("team-a/chat", number)
    assert (inside["level"], inside["logger"]) == ("WARNING", "gptservice_operator.queue")
    assert inside["message"] == 'said "x"\nand more'
    with logs.in_pass("team-a", "chat") as next_number:
        assert next_number > number


def test_outside_of_a_pass_there_is_none() -> None:
    assert {"object", "pass"}.isdisjoint(line("x"))


def test_a_traceback_is_part_of_its_line() -> None:
    assert "ValueError: broken" in str(line("x", error=True)["error"])


def test_a_watch_that_fails_for_long_is_told_of_once_in_a_while(caplog: pytest.LogCaptureFixture) -> None:
    logs.configure("INFO", logs.TEXT)
    kopf = logging.getLogger("kopf._cogs.clients.watching")
    for attempt in range(1, 2 * logs.SELDOM + 2):
        kopf.error(f"Request attempt #{attempt} failed; will retry: GET /api/v1/pods -> APIForbiddenError()")
    kopf.error("Request attempt #7/9 failed; escalating: GET /api/v1/pods -> APIForbiddenError()")
    said = [record.getMessage().partition(";")[0] for record in caplog.records]
    assert said == [f"Request attempt #{number} failed" for number in (1, 121, 241, "7/9")]
