"""What the demo shows, and how it ends."""

import io
import json
from collections.abc import Callable
from typing import Any

import pytest
from rich.console import Console

from e2e.demo import cli as demo
from e2e.demo import timeline, view, watch
from e2e.kubectl import Object

GENERATION = 3


def condition(type_: str, status: str, reason: str = "Why", message: str = "", generation: int = GENERATION) -> Object:
    return {
        "type": type_, "status": status, "reason": reason, "message": message, "observedGeneration": generation,
    }  # fmt: skip


def service(phase: str = "Progressing", *conditions: Object) -> Object:
    metadata = {"name": "quickstart", "namespace": "default", "generation": GENERATION}
    return {"metadata": metadata, "status": {"phase": phase, "conditions": list(conditions)}}


def clock(*seconds: float) -> Callable[[], float]:
    """A clock that reads each of these in turn."""
    return iter(seconds).__next__


def plain() -> tuple[Console, io.StringIO]:
    out = io.StringIO()
    return Console(file=out, width=120), out


@pytest.mark.parametrize(
    ("state", "ready"),
    [
        pytest.param({"metadata": {"name": "x", "generation": 1}}, False, id="no status yet"),
        pytest.param(service("Progressing", condition("Ready", "False")), False, id="not ready"),
        pytest.param(service("Ready", condition("Ready", "True")), True, id="ready"),
        pytest.param(service("Ready", condition("Available", "True")), False, id="another condition"),
        pytest.param(
            service("Ready", condition("Ready", "True", generation=GENERATION - 1)), False, id="ready for an older spec"
        ),
    ],
)
def test_the_demo_waits_for_ready_of_the_present_spec(state: Object, ready: bool) -> None:
    assert view.is_ready(state) is ready


def test_without_a_terminal_each_change_is_one_line() -> None:
    console, out = plain()
    shown = view.View(console, clock=clock(100, 101, 130.5))
    loading = service("Progressing", condition("Ready", "False", "ModelLoading", "loading [weights]"))
    with shown.running():
        shown.show(loading)
        shown.show(loading)
        shown.show(service("Ready", condition("Ready", "True", "Serving")))
    first, second = out.getvalue().splitlines()
    assert first.split() == ["1.0", "s", "Progressing", "Ready=False", "ModelLoading:", "loading", "[weights]"]
    assert second.split() == ["30", "s", "Ready", "Ready=True", "Serving"]


def test_on_a_terminal_the_table_has_all_five_conditions_also_before_the_operator_spoke() -> None:
    console, out = plain()
    shown = view.View(console, clock=lambda: 0.0)
    shown.service = service("Progressing", condition("Accepted", "True", "Accepted"))
    console.print(shown)
    rows = [line.split() for line in out.getvalue().splitlines()]
    assert rows[0][:3] == ["GPTService", "default/quickstart", "Progressing"]
    assert [row[0] for row in rows[1:]] == list(view.CONDITIONS)
    assert rows[1][1:] == ["True", "Accepted"]
    assert rows[5][1:] == ["-"]


@pytest.mark.parametrize(
    ("one", "style"),
    [
        pytest.param(view.Condition("Ready", "True"), "green", id="ready"),
        pytest.param(view.Condition("Ready", "False"), "yellow", id="not ready"),
        pytest.param(view.Condition("Degraded", "False"), "green", id="not degraded is good"),
        pytest.param(view.Condition("Degraded", "True"), "red", id="degraded"),
        pytest.param(view.Condition("Available"), "dim", id="nothing known"),
    ],
)
def test_colours_say_good_or_bad(one: view.Condition, style: str) -> None:
    assert one.style == style


def test_objects_are_cut_out_of_kubectls_output_as_they_arrive() -> None:
    first, second = {"a": {"b": [{"c": 1}]}}, {"d": "}"}
    text = json.dumps(first, indent=4) + "\n" + json.dumps(second, indent=4) + "\n"
    buffer: list[str] = []
    taken: list[Any] = []
    for line in text.splitlines(keepends=True):
        buffer.append(line)
        taken += watch.take_documents(buffer)
    assert taken == [first, second]
    assert not buffer


def test_the_table_shows_a_stage_that_failed_too() -> None:
    console, out = plain()
    stages = timeline.Timeline(console, clock=clock(0, 2, 10, 75))
    with stages.stage("Prerequisites") as stage:
        stage.note = "all [there]"
    with pytest.raises(RuntimeError), stages.stage("Cluster"):
        raise RuntimeError
    console.print(stages.table())
    text = out.getvalue()
    assert "✓ all [there] (2.0 s)" in text
    assert "1 min 05 s" in text
    assert "1 min 07 s" in text


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0.44, "0.4 s"), (9.96, "10.0 s"), (38.4, "38 s"), (59.7, "1 min 00 s"), (725, "12 min 05 s")],
)
def test_durations_for_people(seconds: float, text: str) -> None:
    assert timeline.spell(seconds) == text


def test_ctrl_c_says_how_to_go_on(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    def interrupted(_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(demo.lifecycle, "down", interrupted)
    assert demo.main(["down"]) == 130
    assert "`make demo` goes on from here" in capsys.readouterr().err


def test_an_expected_error_is_a_sentence_not_a_traceback(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def refused(_: object) -> None:
        raise demo.lifecycle.ClusterError("cluster 'demo' is not what it was")

    monkeypatch.setattr(demo.lifecycle, "down", refused)
    assert demo.main(["down"]) == 1
    assert capsys.readouterr().err.strip() == "cluster 'demo' is not what it was"
