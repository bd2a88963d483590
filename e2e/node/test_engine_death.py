"""An engine that hangs or dies after it has served: the status says why, and it serves again."""

from __future__ import annotations

import signal
from collections.abc import Callable

import aiohttp
import pytest

from e2e import client
from e2e.api.state import Observer, condition, holds
from e2e.kube import Kube, Object, wait_until
from e2e.node import containers
from e2e.node.conftest import Talk
from e2e.node.release import VLLM, Release
from e2e.node.services import SOON, last_words, standin


def kill_engine(pod: Object) -> None:
    containers.kill(containers.engine_process(pod), signal.SIGKILL)


def kill_supervisor(pod: Object) -> None:
    containers.kill(containers.first_process(containers.status(pod)), signal.SIGKILL)


async def test_a_crash_is_told_in_the_engines_last_words(
    release: Release, kube: Kube, namespace: str, observer: Observer, talk: Talk
) -> None:
    release.use(VLLM)
    words = {"STANDIN_LAST_WORDS": last_words("RuntimeError: the end is near"), "STANDIN_CRASH_EXIT_CODE": "3"}
    kube.apply(standin("crashed", env={**words, "STANDIN_STARTUP_MILLISECONDS": "5000"}), namespace)
    observer.wait_ready("crashed", timeout=SOON)
    async with talk("crashed") as chat:
        with pytest.raises(aiohttp.ClientError):
            await chat.chat("crash", standin={"crash": True})
    told = observer.wait(lambda o: holds(o, "Ready", "False", "CrashLoop"), "to say so", "crashed", timeout=SOON)
    message = condition(told, "Ready")["message"]
    assert "RuntimeError: the end is near" in message
    assert "exit code 3" in message
    observer.wait_ready("crashed", timeout=SOON)


@pytest.mark.parametrize(
    ("die", "words"),
    [
        pytest.param(kill_engine, "SIGKILL", id="engine"),
        pytest.param(kill_supervisor, "exit code 137", id="supervisor", marks=pytest.mark.long),
    ],
)
def test_a_killed_process_is_named_and_started_again(
    die: Callable[[Object], None],
    words: str,
    request: pytest.FixtureRequest,
    release: Release,
    kube: Kube,
    namespace: str,
    observer: Observer,
) -> None:
    name = f"killed-{request.node.callspec.id.split('-')[0]}"
    release.use(VLLM)
    # Slow enough to start for the cause to be seen.
    kube.apply(standin(name, env={"STANDIN_STARTUP_MILLISECONDS": "5000"}), namespace)
    observer.wait_ready(name, timeout=SOON)
    (before,) = observer.pods(name)
    die(before)
    told = observer.wait(lambda o: holds(o, "Ready", "False", "CrashLoop"), "to say what happened", name, timeout=SOON)
    assert words in condition(told, "Ready")["message"]
    assert told["status"]["phase"] == "Degraded"
    ready = observer.wait_ready(name, timeout=SOON)
    # Until it has stayed so for the stable period.
    assert holds(ready, "Degraded", "True", "CrashLoop")
    (after,) = observer.pods(name)
    assert after["metadata"]["uid"] == before["metadata"]["uid"]
    assert containers.restarts(after) == 1


def test_a_hung_engine_gets_no_requests_and_is_not_restarted(
    release: Release, kube: Kube, namespace: str, observer: Observer
) -> None:
    release.use(VLLM)
    kube.apply(standin("hung"), namespace)
    ready = observer.wait_ready("hung", timeout=SOON)
    (before,) = observer.pods("hung")
    (core,) = containers.descendants(containers.engine_process(before))
    containers.kill(core, signal.SIGSTOP)
    told = observer.wait(lambda o: holds(o, "Ready", "False", "EngineUnresponsive"), "to say so", "hung", timeout=SOON)
    assert told["status"]["phase"] == "Degraded"
    wait_until(lambda: serving(kube, namespace, client.k8s_service_name(ready)), lambda found: not found, "no endpoint")
    containers.kill(core, signal.SIGCONT)
    observer.wait_ready("hung", timeout=SOON)
    (after,) = observer.pods("hung")
    assert containers.identity(after) == containers.identity(before)


def serving(kube: Kube, namespace: str, k8s_service: str) -> list[str]:
    """Where the Service sends requests."""
    slices = kube.all("EndpointSlice", namespace, labels=f"kubernetes.io/service-name={k8s_service}")
    endpoints = [each for one in slices for each in one.get("endpoints") or () if each["conditions"]["ready"]]
    return [address for each in endpoints for address in each["addresses"]]
