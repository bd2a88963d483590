"""The bytes that the supervisor and the middleware share."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gptservice_runtime import control, engine

LARGEST = 2**64 - 1


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "control"


def seen(block: control.ControlBlock) -> tuple[int, dict[control.Refused, int], bool, bool]:
    return block.in_flight, {why: block.refused(why) for why in control.REFUSED}, block.stopping, block.draining


NOTHING = (0, {"limit": 0, "draining": 0, "key": 0}, False, False)


def test_a_new_one_says_nothing_whatever_was_there(file: Path) -> None:
    file.write_bytes(b"\xff" * 500)
    assert seen(control.ControlBlock.create(file)) == NOTHING


def test_what_one_side_writes_the_other_reads(file: Path) -> None:
    supervisor = control.ControlBlock.create(file)
    middleware = control.ControlBlock.open(file)
    middleware.in_flight = 3
    middleware.count_refused("key")
    middleware.count_refused("key")
    middleware.count_refused("limit")
    assert seen(supervisor) == (3, {"limit": 1, "draining": 0, "key": 2}, False, False)
    supervisor.drain()
    assert (middleware.stopping, middleware.draining) == (True, True)
    assert seen(middleware) == (3, {"limit": 1, "draining": 0, "key": 2}, True, True)


@given(
    in_flight=st.integers(0, LARGEST),
    refusals=st.lists(st.sampled_from(control.REFUSED), max_size=40),
    ends=st.booleans(),
)
def test_no_field_touches_another(in_flight: int, refusals: list[control.Refused], ends: bool) -> None:
    block = control.ControlBlock.private()
    for why in refusals:
        block.count_refused(why)
    block.in_flight = in_flight
    if ends:
        block.stop()
    assert seen(block) == (in_flight, {why: refusals.count(why) for why in control.REFUSED}, ends, False)


@given(results=st.lists(st.booleans(), max_size=40), moved=st.integers(0, 20), in_flight=st.integers(0, LARGEST))
def test_what_the_probe_found_is_counted_apart(results: list[bool], moved: int, in_flight: int) -> None:
    block = control.ControlBlock.private()
    block.in_flight = in_flight
    for answered in results:
        block.count_probe(answered=answered)
    for _ in range(moved):
        block.count_movement()
    counted = (block.probes_answered, block.probes_failed, block.movements)
    assert counted == (results.count(True), results.count(False), moved)
    assert seen(block) == (in_flight, {why: 0 for why in control.REFUSED}, False, False)


def test_a_private_one_is_nobody_elses() -> None:
    mine, other = control.ControlBlock.private(), control.ControlBlock.private()
    mine.count_refused("limit")
    assert seen(other) == NOTHING


def test_middleware_finds_the_supervisors(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    supervisor = control.ControlBlock.create(file)
    monkeypatch.setenv(engine.CONTROL_FILE_ENV, str(file))
    control.ControlBlock.of_supervisor().count_refused("key")
    assert supervisor.refused("key") == 1


@pytest.mark.parametrize("left", [pytest.param(None, id="no file"), pytest.param(b"", id="an empty file")])
def test_without_one_it_counts_for_itself_and_says_so(
    file: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, left: bytes | None
) -> None:
    if left is not None:
        file.write_bytes(left)
    monkeypatch.setenv(engine.CONTROL_FILE_ENV, str(file))
    block = control.ControlBlock.of_supervisor()
    block.count_refused("key")
    assert block.refused("key") == 1
    assert [record.levelname for record in caplog.records] == ["WARNING"]
    assert str(file) in caplog.text
