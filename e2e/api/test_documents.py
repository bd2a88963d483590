"""What the documents tell people to apply and to type: manifests of every page, and what is done to a service.

`tests/project/test_documents.py` sees to it that no block is left out; installing is in `chart/test_documents.py`.
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from e2e import documents
from e2e.api.conftest import Stable
from e2e.api.state import Observer, revision_of, service
from e2e.cluster.handle import Cluster
from e2e.kube import Kube, Object
from e2e.kubectl import Kubectl
from e2e.operator_process import ROOT, OperatorProcess
from e2e.reader import Reader

OURS = "ai.example.com/v1"
JUDGED = (OURS, "networking.k8s.io/v1")
# Where a reader has to put something in.
PLACEHOLDERS = {"<commit>": "c1899de289a04d12100db370d81485cdf75e47ca", "sha256:…": "sha256:" + "0" * 64}


def manifests() -> dict[str, Object]:
    """Our objects in the blocks of all pages, and what is put beside them; a bare spec is that of a GPTService."""
    found: dict[str, Object] = {}
    for block in documents.blocks():
        if block.language != "yaml":
            continue
        text = block.text
        for placeholder, value in PLACEHOLDERS.items():
            text = text.replace(placeholder, value)
        for number, document in enumerate(yaml.safe_load_all(text)):
            if isinstance(document, dict) and list(document) == ["spec"]:
                document = {"apiVersion": OURS, "kind": "GPTService", "metadata": {"name": "partial"}, **document}
            if isinstance(document, dict) and document.get("apiVersion") in JUDGED:
                found[f"{block.name}.{number}" if number else block.name] = document
    return found


def secrets() -> dict[str, str]:
    """The commands in comments of the examples that make a Secret, each in one line."""
    found: dict[str, str] = {}
    for file in sorted((ROOT / "examples").rglob("*.yaml")):
        comments = re.sub(r"\\\n *# *", "", file.read_text())
        for command in re.findall(r"#.*(kubectl create secret [^\n#]*)", comments):
            found[f"{file.name}: {command.split()[4]}"] = command
    return found


@pytest.fixture
def reader(cluster: Cluster, namespace: str, tmp_path: Path) -> Reader:
    return Reader(tmp_path / "checkout", {"kubectl": cluster.kubectl}, cluster.kubeconfig, namespace=namespace)


@pytest.fixture
def argocd(kubectl: Kubectl, kube: Kube) -> Iterator[None]:
    """The namespace of Argo CD with its ConfigMap, which has other settings already."""
    settings = {"metadata": {"name": "argocd-cm", "namespace": "argocd"}, "data": {"url": "https://cd.example.com"}}
    kubectl.apply(
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "argocd"}},
        {"apiVersion": "v1", "kind": "ConfigMap", **settings},
    )
    yield
    kube.delete("Namespace", "argocd")


@pytest.mark.parametrize("name", manifests())
def test_a_manifest_is_accepted(access: object, kube: Kube, namespace: str, name: str) -> None:
    manifest = manifests()[name]
    kube.judge(manifest, "" if manifest["kind"] == "GPTModel" else namespace)


@pytest.mark.parametrize("name", secrets())
def test_a_secret_is_made_as_its_example_says(reader: Reader, name: str) -> None:
    reader.shell("openssl req -x509 -newkey rsa:2048 -nodes -days 1 -subj /CN=a -keyout tls.key -out tls.crt")
    for file in ("key.json", "weights.key", "ca.crt"):
        (reader.folder / file).write_text("what the reader has")
    assert name.split()[1] in reader.shell(secrets()[name])


def test_there_are_manifests_of_every_page_that_has_some() -> None:
    assert {name.partition(":")[0] for name in manifests()} >= {"README.md", "docs/api.md", "docs/coming-from.md"}


@pytest.mark.long
def test_revisions_are_listed_chosen_and_rendered_again(reader: Reader, observer: Observer, stable: Stable) -> None:
    first = stable(maxTokens=1)
    listed = reader.run("docs/operations.md: Revisions, sh 2", NAME="gpt")
    assert f"gpt-{first}" in listed
    reader.shell("""kubectl patch gptservice gpt --type merge -p '{"spec": {"maxTokens": 2}}'""")
    observer.wait(lambda o: revision_of(observer.child("Deployment")) != first, "another revision")
    reader.run("docs/operations.md: Revisions, sh 3", NAME="gpt", REVISION=f"gpt-{first}")
    observer.wait(lambda o: revision_of(observer.child("Deployment")) == first, "the first revision again")
    reader.run("docs/operations.md: Revisions, sh 1", NAME="gpt")
    observer.wait(lambda o: revision_of(observer.child("Deployment")) != first, "to be rendered again")
    observer.wait_ready()
    reader.run("docs/upgrading.md: The operator, sh 2", NAME="gpt")


@pytest.mark.long
def test_a_rollback_is_left_in_each_of_three_ways(reader: Reader, observer: Observer, stable: Stable) -> None:
    first = stable(maxTokens=1)
    reader.run("docs/operations.md: Rollback, sh 1", NAME="gpt", REVISION=f"gpt-{first}")
    annotations = observer.kube.get("GPTService", "gpt", observer.namespace)["metadata"]["annotations"]
    assert annotations["ai.example.com/retry"].isdigit()


@pytest.mark.long
def test_a_key_is_read_and_rotated(reader: Reader, kube: Kube, namespace: str, stable: Stable) -> None:
    stable()
    read, rotate = "docs/operations.md: API keys, sh 1", "docs/operations.md: API keys, sh 2"
    old = reader.run(read, NAME="gpt").strip()
    assert old.startswith("sk-")
    assert reader.run("README.md: Try it, sh 2", without=["curl"], quickstart="gpt") == ""
    before = _secret(kube, namespace)
    reader.run(read, rotate, NAME="gpt")
    both = reader.run(read, NAME="gpt").split()
    assert both[0] == old
    assert len(both) == 2
    after = _secret(kube, namespace)
    for kept in ("uid", "labels", "ownerReferences"):
        assert after["metadata"][kept] == before["metadata"][kept], kept


def _secret(kube: Kube, namespace: str) -> Object:
    name = kube.get("GPTService", "gpt", namespace)["status"]["authSecret"]
    return kube.get("Secret", name, namespace)


@pytest.mark.long
def test_a_certificate_is_given_and_rotated(
    reader: Reader, operator: OperatorProcess, kube: Kube, namespace: str, observer: Observer
) -> None:
    kube.apply(service(), namespace)
    observer.wait_ready()
    for name in ("server", "new", "client-ca"):
        reader.shell(
            f"openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 1 -subj /CN={name} "
            f"-keyout {name}.key -out {name}.crt"
        )
    reader.run("docs/operations.md: TLS, sh 1", NAME="gpt")
    observer.wait(lambda o: (o or {})["status"]["endpoint"].startswith("https://"), "an endpoint with TLS")
    before = kube.get("Secret", "gpt-cert", namespace)["data"]
    reader.run("docs/operations.md: TLS, sh 2", NAME="gpt")
    assert kube.get("Secret", "gpt-cert", namespace)["data"] != before


@pytest.mark.long
def test_weights_are_encrypted_and_get_another_key(reader: Reader, kube: Kube, namespace: str) -> None:
    encrypt, rotate = "docs/operations.md: Encrypted weights, sh 1", "docs/operations.md: Encrypted weights, sh 2"
    shutil.copytree(reader.folder / "tests/runtime/weights/vectors/plain", reader.folder / "MODEL")
    reader.run(encrypt)
    assert (reader.folder / "MODEL-encrypted/model.safetensors").read_bytes() != (
        reader.folder / "MODEL/model.safetensors"
    ).read_bytes()
    before = kube.get("Secret", "weights-key", namespace)["data"]
    reader.shell("openssl rand -base64 32 > new.key")
    reader.run(rotate)
    assert kube.get("Secret", "weights-key", namespace)["data"] != before
    reader.shell("gptservice-runtime verify --key new.key MODEL-encrypted")


@pytest.mark.long
def test_at_night_a_service_is_looked_at(reader: Reader, stable: Stable) -> None:
    stable()
    seen = reader.run("docs/operations.md: At night, sh 1", without=["kubectl logs"], NAME="gpt")
    assert "AllReplicasReady" in seen
    assert "Events:" in seen


@pytest.mark.usefixtures("argocd")
@pytest.mark.long
def test_the_health_scripts_come_to_what_argo_cd_has_already(reader: Reader, kube: Kube) -> None:
    for _ in range(2):  # of the second time nothing is seen
        reader.run("docs/gitops.md: Install the health scripts, sh 1")
    data = kube.get("ConfigMap", "argocd-cm", "argocd")["data"]
    assert data.pop("url") == "https://cd.example.com"
    scripts = ROOT / "gitops/argocd/resource_customizations/ai.example.com"
    assert data == {
        f"resource.customizations.health.ai.example.com_{kind}": (scripts / kind / "health.lua").read_text()
        for kind in ("GPTService", "GPTModel")
    }
