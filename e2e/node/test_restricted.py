"""Pods pass Pod Security "restricted", and are confined as it promises. Every namespace of this level enforces it."""

from __future__ import annotations

import pytest

from e2e.api.state import Observer
from e2e.kube import Kube
from e2e.kubectl import Kubectl, KubectlError
from e2e.node.release import STANDIN_IMAGE, VLLM, Release
from e2e.node.services import SOON, standin

NAME = "confined"
WRITABLE = ("/tmp", "/var/cache/gptservice", "/dev/shm")
READ_ONLY = ("/", "/opt", "/etc", "/models/source", "/etc/gptservice/limits", "/etc/gptservice/keys")


@pytest.fixture(scope="module")
def pod(release: Release, kube: Kube, namespace: str, observer: Observer) -> str:
    release.use(VLLM)
    kube.apply(standin(NAME), namespace)
    observer.wait_ready(NAME, timeout=SOON)
    (pod,) = observer.pods(NAME)
    return str(pod["metadata"]["name"])


@pytest.fixture(scope="module")
def inside(pod: str, kubectl: Kubectl, namespace: str) -> dict[str, str]:
    """What the kernel says of the engine's process 1."""
    status = kubectl.run("exec", pod, "--namespace", namespace, "-c", "engine", "--", "cat", "/proc/1/status")
    return {key: " ".join(value.split()) for key, _, value in (line.partition(":") for line in status.splitlines())}


def test_the_namespace_refuses_other_pods(kubectl: Kubectl, namespace: str) -> None:
    with pytest.raises(KubectlError, match="violates PodSecurity"):
        kubectl.run("run", "loose", "--image", STANDIN_IMAGE, "--namespace", namespace)


def test_process_1_has_no_privileges(inside: dict[str, str]) -> None:
    assert "0" not in inside["Uid"].split()
    assert int(inside["CapEff"], 16) == int(inside["CapBnd"], 16) == 0
    assert inside["NoNewPrivs"] == "1"
    assert inside["Seccomp"] == "2"


def test_it_writes_only_to_its_volumes(pod: str, kubectl: Kubectl, namespace: str) -> None:
    script = 'for place in "$@"; do touch "$place/probe" 2>/dev/null && echo "$place"; done; true'
    command = ("exec", pod, "--namespace", namespace, "-c", "engine", "--", "sh", "-c", script, "sh")
    assert kubectl.run(*command, *WRITABLE, *READ_ONLY).split() == list(WRITABLE)


def test_it_has_no_token_of_the_cluster(pod: str, kubectl: Kubectl, namespace: str) -> None:
    command = ("exec", pod, "--namespace", namespace, "-c", "engine", "--")
    assert kubectl.run(*command, "sh", "-c", "ls /run/secrets /var/run/secrets 2>/dev/null; true") == ""
    environment = kubectl.run(*command, "env")
    assert not [line for line in environment.splitlines() if line.startswith("CONFINED_")], "service links are off"
