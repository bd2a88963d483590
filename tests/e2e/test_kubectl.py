"""kubectl's answers as Python has them, with small programs in kubectl's place."""

from pathlib import Path

import pytest

from e2e.kubectl import Kubectl, KubectlError, NotFoundError


def kubectl(tmp_path: Path, script: str) -> Kubectl:
    program = tmp_path / "kubectl"
    program.write_text(f"#!/bin/sh\n{script}\n")
    program.chmod(0o755)
    return Kubectl(program, tmp_path / "kubeconfig")


def test_it_speaks_to_the_cluster_it_was_made_for(tmp_path: Path) -> None:
    assert kubectl(tmp_path, 'echo "$KUBECONFIG $*"').run("get", "pods") == f"{tmp_path}/kubeconfig get pods\n"


def test_an_absent_object_is_none(tmp_path: Path) -> None:
    script = "echo 'Error from server (NotFound): gptservices \"x\" not found' >&2; exit 1"
    assert kubectl(tmp_path, script).find("gptservice", "x", namespace="default") is None
    with pytest.raises(NotFoundError, match="kubectl get gptservice x .*not found"):
        kubectl(tmp_path, script).get("gptservice", "x", namespace="default")


def test_any_other_failure_is_told_with_the_command(tmp_path: Path) -> None:
    with pytest.raises(KubectlError, match="kubectl get pods: connection refused"):
        kubectl(tmp_path, "echo connection refused >&2; exit 1").run("get", "pods")


def test_a_ctrl_c_that_reached_only_kubectl_is_a_ctrl_c(tmp_path: Path) -> None:
    """asyncio holds back ours until the child has ended, which must then not look like a failure of the child."""
    with pytest.raises(KeyboardInterrupt):
        kubectl(tmp_path, "kill -INT $$").run("get", "pods")


def test_manifests_are_applied_as_one_list(tmp_path: Path) -> None:
    said = kubectl(tmp_path, "cat").apply({"kind": "A"}, {"kind": "B"})
    assert said == '{"apiVersion": "v1", "kind": "List", "items": [{"kind": "A"}, {"kind": "B"}]}'


def test_a_background_command_ends_with_its_block(tmp_path: Path) -> None:
    with kubectl(tmp_path, "echo started; exec sleep 60").background("get", "--watch") as child:
        assert child.stdout
        assert child.stdout.readline() == "started\n"
        assert child.poll() is None
    assert child.returncode is not None
