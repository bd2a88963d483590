"""What becomes of the examples on a real API server: every child, as the operator made it, to the letter.

To accept a change: ``pytest e2e/api/test_example_children.py --update-golden``, and read the diff.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from e2e.api import optional_crds
from e2e.api.conftest import EXAMPLES
from e2e.api.state import Observer, condition, holds, plain
from e2e.kube import Kube, Object, wait_until
from e2e.kubectl import Kubectl
from e2e.operator_process import OperatorProcess
from gptservice_operator.api import kinds

GOLDEN = Path(__file__).parent / "golden"
CATALOGUE = ("catalogue", "model-gpt-4-turbo", "model-gpt-3.5-turbo-2024-04")
# Its name tells a hash of everything the operator renders, and what it holds is in the Deployment.
SHOWN = [kind for kind in kinds.CHILDREN if kind is not kinds.CONTROLLER_REVISION]


def manifests(file: Path) -> list[Object]:
    return [document for document in yaml.safe_load_all(file.read_text()) if document]


FILES = {
    str(file.relative_to(EXAMPLES).with_suffix("")).replace("/", "-"): file
    for file in sorted(EXAMPLES.rglob("*.yaml"))
    if any(manifest.get("kind") == "GPTService" for manifest in manifests(file))
}


@pytest.fixture(scope="module")
def other_operators(kube: Kube, access: object) -> Iterator[None]:
    """The kinds that cert-manager and the Prometheus operator bring."""
    with optional_crds.installed(kube):
        yield


@pytest.fixture
def models(kube: Kube) -> Iterator[None]:
    """The entries that examples name."""
    added = [manifest for name in CATALOGUE for manifest in manifests(EXAMPLES / f"{name}.yaml")]
    for manifest in added:
        kube.apply(manifest)
    yield
    for manifest in added:
        kube.delete("GPTModel", manifest["metadata"]["name"])


@pytest.fixture
def place(kube: Kube, namespace: str, example: str) -> Iterator[str]:
    """Where the example goes: the test's namespace, unless it brings its own."""
    found = manifests(FILES[example])
    own = next((m["metadata"]["name"] for m in found if m["kind"] == "Namespace"), None)
    yield own or namespace
    for manifest in found:
        if manifest["kind"] in ("Namespace", "ClusterRoleBinding", "GPTModel"):
            kube.delete(manifest["kind"], manifest["metadata"]["name"])
    if own is not None:
        wait_until(lambda: kube.find("Namespace", own), lambda left: left is None, f"{own} to go", timeout=90)


def children(kube: Kube, namespace: str) -> str:
    services = kube.all("GPTService", namespace)
    owners = {gpt["metadata"]["uid"]: gpt["metadata"]["name"] for gpt in services}
    found = {
        f"{kind.name}/{child['metadata']['name']}": plain(child, owners)
        for kind in SHOWN
        for child in kube.all(kind.name, namespace, labels="gptservice-name")
    }
    text = yaml.safe_dump(found, sort_keys=True, width=120)
    # The revision's name is a hash of all that shapes pods, which is told in full anyway.
    return re.sub(r"(revision: )[0-9a-f]{12}\b", r"\1REVISION", str(text).replace(namespace, "NAMESPACE"))


@pytest.mark.parametrize("example", FILES)
def test_children_are_those_of_the_golden_file(
    operator: OperatorProcess, other_operators: None, models: None, kube: Kube, kubectl: Kubectl, place: str,
    example: str, request: pytest.FixtureRequest,
) -> None:  # fmt: skip
    kubectl.run("apply", "-f", str(FILES[example]), *([] if place.startswith("team-") else ["--namespace", place]))
    observer, golden = Observer(kube, place), GOLDEN / f"{example}.yaml"
    for manifest in manifests(FILES[example]):
        if manifest["kind"] == "GPTService":
            name = manifest["metadata"]["name"]
            observer.wait(lambda o: holds(o, "Accepted"), "to be accepted", name)
            observer.wait(lambda o: bool(condition(o, "Ready")), "to be seen", name)
            wait_until(functools.partial(kube.find, "Deployment", name, place), bool, f"the Deployment {name}")
    if request.config.getoption("--update-golden"):
        before = ""
        while before != (now := children(kube, place)):
            before = now
        golden.parent.mkdir(exist_ok=True)
        golden.write_text(before)
    expected = golden.read_text()
    try:
        wait_until(lambda: children(kube, place), lambda found: found == expected, str(golden.name))
    except AssertionError:
        assert children(kube, place) == expected


def test_no_golden_file_is_left_over() -> None:
    assert {path.stem for path in GOLDEN.glob("*.yaml")} == set(FILES)


def may_scale(kube: Kube, namespace: str) -> bool:
    """Whether the jobs' ServiceAccount may scale a service."""
    resource = {"group": "ai.example.com", "resource": "gptservices", "subresource": "scale", "name": "office-hours"}
    review = {
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SubjectAccessReview",
        "spec": {
            "user": f"system:serviceaccount:{namespace}:office-hours",
            "resourceAttributes": {**resource, "namespace": namespace, "verb": "patch"},
        },
    }
    answer = kube.request("POST", "/apis/authorization.k8s.io/v1/subjectaccessreviews", body=review)
    return bool(answer["status"]["allowed"])


def test_the_night_s_jobs_can_scale_their_service_and_nothing_else(
    operator: OperatorProcess, kube: Kube, kubectl: Kubectl, namespace: str, tmp_path: Path, observer: Observer,
    access: object,
) -> None:  # fmt: skip
    """The commands of the CronJobs, run as their ServiceAccount."""
    file = EXAMPLES / "stopped-at-night.yaml"
    kubectl.apply_file(file, namespace=namespace)
    jobs = [manifest for manifest in manifests(file) if manifest["kind"] == "CronJob"]
    server = yaml.safe_load(kubectl.kubeconfig.read_text())["clusters"][0]["cluster"]["server"]
    as_job = ("--token", kube.token("office-hours", namespace), "--kubeconfig", "/dev/null", "--namespace", namespace)
    there = ("--server", server, "--insecure-skip-tls-verify")
    # Whether it may is known a moment after its Role was made.
    wait_until(functools.partial(may_scale, kube, namespace), bool, "the Role to count")
    kubectl.apply({
        "apiVersion": "ai.example.com/v1", "kind": "GPTService", "metadata": {"name": "other", "namespace": namespace},
        "spec": {"model": "file:///models/tiny", "gpu": {"count": 0}},
    })  # fmt: skip
    for job, replicas in zip(jobs, (0, 1), strict=True):
        (container,) = job["spec"]["jobTemplate"]["spec"]["template"]["spec"]["containers"]
        kubectl.run(*container["args"], *as_job, *there)
        assert kube.get("GPTService", "office-hours", namespace)["spec"]["replicas"] == replicas
        observer.wait(
            lambda o: (o or {}).get("status", {}).get("observedGeneration") == (o or {})["metadata"]["generation"],
            "to follow", "office-hours",
        )  # fmt: skip
    for refused in (("scale", "gptservice", "other", "--replicas=0"), ("delete", "gptservice", "office-hours")):
        with pytest.raises(Exception, match="forbidden"):
            kubectl.run(*refused, *as_job, *there)
