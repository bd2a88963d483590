"""Other people's words: a steady fault gives a steady message, without secrets."""

import pytest

from gptservice_operator import wording
from tests.operator import builders


@pytest.mark.parametrize(
    ("one", "other"),
    [
        pytest.param(
            'Post "https://hook/": context deadline exceeded, request id: 8d1f-77',
            'Post "https://hook/": context deadline exceeded, request id: 11aa-02',
            id="a request id",
        ),
        pytest.param("denied (X-Request-Id=abc)", "denied (X-Request-Id=def)", id="a header"),
        pytest.param("expired at 2026-01-05T10:00:00Z", "expired at 2027-02-06T11:22:33.5+01:00", id="a time"),
        pytest.param(
            "UID in precondition: 123e4567-e89b-12d3-a456-426614174000",
            "UID in precondition: 00000000-e89b-12d3-a456-426614174000",
            id="a UID",
        ),
        pytest.param("back-off 10s restarting", "back-off 5m0s restarting", id="a growing back-off"),
        pytest.param(
            "read udp 10.0.0.5:41823->10.96.0.10:53: timeout",
            "read udp 10.0.0.5:9->10.96.0.10:53: timeout",
            id="a port",
        ),
        pytest.param("at 0xc0001234", "at 0xc0ffee00", id="an address in memory"),
    ],
)
def test_what_varies_is_taken_out(one: str, other: str) -> None:
    assert wording.settled(one) == wording.settled(other)


@pytest.mark.parametrize(
    "text",
    [
        "exceeded quota: gpus, requested: requests.nvidia.com/gpu=2, used: 1, limited: 2",
        "manifest for r/i@sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef not found",
        "0/4 nodes are available: 4 Insufficient nvidia.com/gpu.",
    ],
)
def test_what_does_not_vary_stays(text: str) -> None:
    assert wording.settled(text) == text


def test_of_two_go_values_that_are_compared_only_the_line_before_is_kept() -> None:
    said = "spec: Forbidden: spec is immutable after creation except resources.requests for bound claims"
    shown = (
        f"PersistentVolumeClaim x is invalid: {said}\n  core.PersistentVolumeClaimSpec{{\n    ... // 2 fields\n  }}\n"
    )
    assert wording.settled(shown) == f"PersistentVolumeClaim x is invalid: {said}"


def test_nothing_moves_the_terminal_of_who_reads_it() -> None:
    assert (
        wording.settled("\x1b[31mValueError\x1b[0m: \x1b]0;title\x07no\ttab\n\x00line\x1bc")
        == "ValueError: no\ttab\nline"
    )


@pytest.mark.parametrize(
    ("value", "hidden"),
    [
        pytest.param("crash", "the last lines of the crashed container: *** it, say", id="short: only as a word"),
        pytest.param("crashed container", "the last lines of the ***: crash it, say", id="long"),
        pytest.param("it,", "the last lines of the crashed container: crash *** say", id="what ends in no word"),
    ],
)
def test_a_hidden_value_takes_nothing_else_along(value: str, hidden: str) -> None:
    assert wording.without("the last lines of the crashed container: crash it, say", [value]) == hidden


def test_a_long_value_is_hidden_within_a_word_too() -> None:
    assert wording.without("keyhunter2-1234x", ["hunter2-1234"]) == "key***x"


def test_bounds_are_kept_and_seen() -> None:
    assert wording.bounded("abcdef", 6) == "abcdef"
    assert wording.bounded("abcdefg", 6) == "ab…efg"


def test_values_of_variables_are_hidden_the_longest_first() -> None:
    env = [{"name": "A", "value": "hunter2"}, {"name": "B", "value": "hunter2-more"}, {"name": "C", "value": "1"}, "x"]
    service = builders.service(spec={"engine": {"env": env}})
    hidden = wording.env_values(service)
    assert wording.without("got hunter2-more and hunter2 and 1", hidden) == "got *** and *** and 1"
