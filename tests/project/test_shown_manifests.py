"""Manifests that people copy, of examples/, gitops/ and the documents: their models fit where they are downloaded."""

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from e2e import documents
from gptservice_operator.api.quantity import quantity

ROOT = documents.ROOT
OURS = "ai.example.com/v1"
HEREDOC = re.compile(r"<<'?(EOF)'?[^\n]*\n(.*?)^\1$", re.MULTILINE | re.DOTALL)
# What pods download of each model that is named anywhere, in GB: add what a test misses.
SIZES = {
    "llama-3.1-8b-instruct": 16.1,
    "phi-4-mini-instruct": 7.7,
    "qwen3-0.6b": 1.6,
    "qwen3-8b": 16.4,
    "smollm2-135m-instruct": 0.3,
}
MOUNTED = ("pvc://", "file://")
# A twentieth is left to the engine's own caches on the node's disk; on a claim, to its file system.
USABLE = 0.95
Object = dict[str, Any]


def texts() -> dict[str, str]:
    """All YAML that is shown, by where it stands: files, blocks, and what shell blocks write or apply."""
    files = [file for folder in ("examples", "gitops") for file in sorted((ROOT / folder).rglob("*.yaml"))]
    found = {str(file.relative_to(ROOT)): file.read_text() for file in files if "argocd/resource" not in str(file)}
    for block in documents.blocks():
        if block.language == "yaml":
            found[block.name] = block.text
        elif block.language in documents.SHELL:
            for number, (_, text) in enumerate(HEREDOC.findall(block.text)):
                found[f"{block.name}, document {number}"] = text
    return found


def shown() -> Iterator[tuple[str, Object]]:
    """Every document of them; a bare spec with a model is that of a GPTService."""
    for where, text in texts().items():
        for document in yaml.safe_load_all(text):
            if isinstance(document, dict) and list(document) == ["spec"]:
                yield where, {"apiVersion": OURS, "kind": "GPTService", "metadata": {"name": "partial"}, **document}
            elif isinstance(document, dict):
                yield where, document


def catalogue() -> dict[str, Object]:
    """The spec of each entry, of GPTModels and of values of the catalogue's chart."""
    entries: dict[str, Object] = {}
    for _, document in shown():
        if document.get("kind") == "GPTModel":
            entries[document["metadata"]["name"]] = document["spec"]
        elif isinstance(document.get("models"), Mapping):
            entries |= document["models"]
    return entries


def services() -> dict[str, Object]:
    """The spec of each GPTService that says which model it has, by where it stands."""
    return {
        f"{where}: {document['metadata']['name']}": document["spec"]
        for where, document in shown()
        if document.get("apiVersion") == OURS and document["kind"] == "GPTService"
        if {"model", "modelRef"} & set(document["spec"])
    }


def uri_of(spec: Object) -> str:
    name = str(spec.get("modelRef") or spec["model"])
    return name if "/" in name else str(catalogue()[name]["uri"])


def size_of(uri: str) -> float:
    """In bytes; KeyError for a model that the table lacks."""
    last = uri.partition("@")[0].rpartition("/")[2].partition(":")[0].removesuffix(".tar")
    return SIZES[last.lower()] * 1e9


def on_the_node() -> float:
    """What a pod without `cache` may keep, as the chart has it."""
    values = yaml.safe_load((ROOT / "charts/gptservice-operator/values.yaml").read_text())
    return float(quantity(values["runtime"]["cacheSize"]) or 0)


DOWNLOADED = {where: spec for where, spec in services().items() if not uri_of(spec).startswith(MOUNTED)}


def test_there_are_some_of_every_place() -> None:
    assert {re.split(r"[/:]", where)[0] for where in DOWNLOADED} >= {"examples", "gitops", "docs"}


@pytest.mark.parametrize("where", DOWNLOADED)
def test_a_model_that_is_downloaded_fits_into_its_cache(where: str) -> None:
    """Or whoever copies the manifest reads DiskFull."""
    spec = DOWNLOADED[where]
    cache = spec.get("cache", {})
    if "persistentVolumeClaim" in cache:
        return  # the user vouches for it
    room = float(quantity(cache["size"]) or 0) if "size" in cache else on_the_node()
    assert size_of(uri_of(spec)) <= USABLE * room, f"{uri_of(spec)} needs a larger spec.cache.size"


@pytest.mark.parametrize("where", DOWNLOADED)
def test_several_replicas_that_download_share_one_cache_or_have_each_its_own(where: str) -> None:
    spec = DOWNLOADED[where]
    most = max(spec.get("replicas", 1), spec.get("autoscaling", {}).get("maxReplicas", 1))
    if most > 1 and "size" in spec.get("cache", {}):
        assert "ReadWriteMany" in spec["cache"].get("accessModes", [])


CPU_IMAGE = "runtime-image/Containerfile.cpu"


def runs_on_cpus(document: Object) -> bool:
    spec = document.get("spec", {})
    named = spec.get("modelRef") or spec.get("model")
    gpu = spec.get("gpu") or catalogue().get(named, {}).get("gpu", {})
    return document.get("apiVersion") == OURS and gpu.get("count") == 0


@pytest.mark.parametrize("file", sorted((ROOT / "examples").rglob("*.yaml")), ids=lambda file: str(file.name))
def test_an_example_for_cpus_says_which_image_it_needs(file: Path) -> None:
    """vLLM's images for GPUs serve on nothing else."""
    given = file.stem.startswith("prod-gpt")  # as its authors wrote it; its entry of the catalogue says so
    on_cpus = any(runs_on_cpus(document) for document in yaml.safe_load_all(file.read_text()))
    assert (CPU_IMAGE in file.read_text()) == (on_cpus and not given)
