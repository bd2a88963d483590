"""What a reader types to ask a service and to look into the operator: on a real node, the lines that pods answer to."""

from __future__ import annotations

import json
import socket
from pathlib import Path

import pytest

from e2e.api.state import Observer
from e2e.cluster.handle import Cluster
from e2e.kube import Kube, Object
from e2e.node.release import VLLM, Release
from e2e.node.services import SOON, standin
from e2e.reader import Reader

pytestmark = pytest.mark.long

NAME = "chat"


@pytest.fixture(scope="module")
def chat(release: Release, kube: Kube, namespace: str, observer: Observer) -> Object:
    release.use(VLLM)
    kube.apply(standin(NAME), namespace)
    return observer.wait_ready(NAME, timeout=SOON)


@pytest.fixture
def reader(cluster: Cluster, namespace: str, tmp_path: Path) -> Reader:
    return Reader(tmp_path / "checkout", {"kubectl": cluster.kubectl}, cluster.kubeconfig, namespace=namespace)


def elsewhere(port: int) -> dict[str, str]:
    """Another port of this machine for one that others may use: in kubectl's command, and in curl's."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        own = free.getsockname()[1]
    return {f" {port} &": f" {own}:{port} &", f" {port}:": f" {own}:", f"localhost:{port}": f"localhost:{own}"}


@pytest.mark.usefixtures("chat")
def test_a_question_is_answered(reader: Reader) -> None:
    said = reader.run("docs/quick-start.md: On a cluster of yours, sh 4", **elsewhere(8000))
    (answer,) = [json.loads(line) for line in said.splitlines() if line.startswith("{")]
    assert answer["choices"][0]["message"]["content"]


@pytest.mark.usefixtures("chat")
def test_the_operator_shows_what_it_is_doing(reader: Reader, namespace: str) -> None:
    names = {"NAMESPACE": namespace, "NAME": NAME}
    said = reader.run("docs/operations.md: The operator itself, sh 1", **elsewhere(6060), **names)
    assert f"{namespace}/{NAME}" in said


@pytest.mark.usefixtures("chat")
def test_logs_and_metrics_are_read_at_night(reader: Reader) -> None:
    assert "gptservice-runtime" in reader.run("docs/operations.md: At night, sh 1", NAME=NAME)
    said = reader.run("docs/operations.md: At night, sh 2", **elsewhere(9090))
    assert "gptservice_operator_queue_length" in said
