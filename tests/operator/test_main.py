"""The command: its exit codes and what it says of settings and of a cluster that it cannot reach."""

import asyncio
import gc
from collections.abc import Iterator

import pytest

from gptservice_operator import __main__, process
from gptservice_operator.config import Config
from tests.operator.conftest import Kubeconfig


@pytest.fixture(autouse=True)
def _image(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GPTSERVICE_RUNTIME_IMAGE", "runtime:1")
    monkeypatch.setenv("GPTSERVICE_METRICS_PORT", "0")
    monkeypatch.setenv("GPTSERVICE_HEALTH_PORT", "0")


@pytest.fixture(autouse=True)
def _loops(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Close the loops that are left open because the process usually ends with them."""
    made: list[asyncio.AbstractEventLoop] = []
    new_event_loop = asyncio.new_event_loop

    def remembering() -> asyncio.AbstractEventLoop:
        made.append(new_event_loop())
        return made[-1]

    monkeypatch.setattr(asyncio, "new_event_loop", remembering)
    yield
    for loop in made:
        loop.close()
    asyncio.set_event_loop(None)


@pytest.mark.parametrize(
    ("variable", "text"),
    [("RUNTIME_IMAGE", ""), ("WORKERS", "many"), ("LOG_LEVEL", "LOUD"), ("RESYNC_SECONDS", "nan")],
)
def test_bad_settings_end_it_with_2_and_one_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], variable: str, text: str
) -> None:
    monkeypatch.setenv(f"GPTSERVICE_{variable}", text)
    assert __main__.main() == 2
    said = capsys.readouterr().err
    assert said.startswith(f"gptservice-operator: GPTSERVICE_{variable}")
    assert said.count("\n") == 1


def test_without_a_cluster_it_ends_with_1_and_one_line(
    kubeconfig: Kubeconfig, capsys: pytest.CaptureFixture[str]
) -> None:
    kubeconfig("http://127.0.0.1:1").unlink()
    assert __main__.main() == 1
    assert capsys.readouterr().err.startswith("gptservice-operator: no access to a cluster: ")


def test_an_end_without_a_failure_is_0(monkeypatch: pytest.MonkeyPatch) -> None:
    frozen: list[int] = []

    async def run(_settings: Config, _started: float) -> None:
        frozen.append(gc.get_freeze_count())

    gc.unfreeze()

    monkeypatch.setattr(process, "run", run)
    assert __main__.main() == 0
    gc.unfreeze()
    assert frozen[0] > 10_000, "the collector stops the passes to look at every module"
