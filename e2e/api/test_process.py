"""The operator as a process: how it starts, ends, and what it may do."""

from __future__ import annotations

import functools
import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from e2e.api import optional_crds, rights
from e2e.api.state import Observer, service
from e2e.kube import Kube, wait_until
from e2e.operator_process import NAMESPACE, RELEASE, ROOT, Access, OperatorProcess
from e2e.proxy import Switchboard

# kopf gives tasks that it does not know five seconds before it cancels them; ours must not be among them. All that a
# busy machine adds comes on top of these.
_BEFORE_KOPF_GIVES_UP = 4.9


def test_ends_at_once_on_sigterm(operator: OperatorProcess, kube: Kube, namespace: str, observer: Observer) -> None:
    kube.apply(service(), namespace)
    observer.wait_ready()
    operator.terminate()
    assert operator.wait_ended(_BEFORE_KOPF_GIVES_UP) == 0
    kube.scale("gpt", namespace, 2)
    operator.start()
    observer.wait_ready()


def test_ends_when_a_watch_fails_for_good(
    operator: OperatorProcess, board: Switchboard, kube: Kube, namespace: str, observer: Observer
) -> None:
    """Its supervisor starts another, which lists everything anew; a deaf process would stay deaf."""
    kube.apply(service(), namespace)
    observer.wait_ready()
    board.answer_gone("deployments", how="http")
    board.cut_watches("deployments")
    assert operator.wait_ended() != 0
    uid = observer.uid("Deployment")
    kube.delete("Deployment", "gpt", namespace)
    operator.start()
    observer.wait_for_another("Deployment", "gpt", uid)
    observer.wait_ready()


def test_says_what_is_missing() -> None:
    command = [sys.executable, "-m", "gptservice_operator"]
    done = subprocess.run(command, cwd=ROOT, env={"PATH": "/usr/bin"}, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert "GPTSERVICE_RUNTIME_IMAGE is not set" in done.stderr


def test_never_runs_as_administrator(operator: OperatorProcess, access: Access, tmp_path: Path) -> None:
    token = json.loads(operator.kubeconfig.read_text())["users"][0]["user"]["token"]
    assert token == access.token
    own = Kube(access.write(tmp_path / "direct"))
    review = {"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"}
    answer = own.request("POST", "/apis/authentication.k8s.io/v1/selfsubjectreviews", body=review)
    assert answer["status"]["userInfo"]["username"] == f"system:serviceaccount:{NAMESPACE}:{RELEASE}"


def test_uses_every_verb_that_it_is_granted_and_no_other(
    operator: OperatorProcess,
    configure: Callable[..., None],
    board: Switchboard,
    kube: Kube,
    namespace: str,
    observer: Observer,
) -> None:
    """Granted and used are compared over all that this level's tests have made it do, and at least this."""
    rights.exercise(board, kube, namespace, observer)
    with optional_crds.installed(kube):
        rights.exercise_other_operators(kube, namespace, observer)
    configure(lease_seconds="15")
    renewals = functools.partial(board.log.since, where=lambda e: e.target.verb == "update" and e.code == 200)
    wait_until(renewals, bool, "the Lease to be renewed")
    assert rights.refused(board.log.since()) == []
    granted = rights.granted(kube.get("ClusterRole", RELEASE)) | rights.granted(
        kube.get("Role", f"{RELEASE}-lease", NAMESPACE)
    )
    assert rights.used(board.log.since()) == granted


@pytest.mark.parametrize("kind", ["deployments", "gptservices"])
def test_reads_only_what_carries_our_label(operator: OperatorProcess, board: Switchboard, kind: str) -> None:
    """Watches and lists of kinds that are not ours are filtered by the server."""
    seen = board.log.since(where=lambda e: e.target.resource == kind and e.target.verb in ("list", "watch"))
    assert seen
    filtered = ["labelSelector=" in entry.query for entry in seen]
    assert all(filtered) if kind == "deployments" else not any(filtered)
