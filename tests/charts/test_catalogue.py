"""The catalogue's chart: GPTModels from values."""

import json
from typing import Any

import pytest
import yaml

from gptservice_operator.api import catalogue_values, v1
from tests.charts.conftest import CATALOGUE, Helm, Manifest

pytestmark = pytest.mark.api  # needs a Go binary, no cluster

EVERYTHING: dict[str, Any] = {
    "uri": "hf://Qwen/Qwen3-0.6B@main",
    "servedModelNames": ["qwen3", "qwen"],
    "digest": "sha256:" + "1" * 64,
    "tokenSecretRef": {"name": "hub", "key": "token"},
    "contextLength": 16777216,
    "gpu": {"count": 2, "resourceName": "nvidia.com/gpu", "product": "NVIDIA-L4"},
    "engine": {"args": ["--dtype=bfloat16", "--seed=1"]},
}


def rendered(helm: Helm, **values: Any) -> list[Manifest]:
    done = helm("template", "models", str(CATALOGUE), values=values)
    assert done.returncode == 0, done.stderr
    return [document for document in yaml.safe_load_all(done.stdout) if document]


def test_entries_are_rendered_as_they_are_given_in_the_order_of_their_names(helm: Helm) -> None:
    entries = {"b": EVERYTHING, "a": {"uri": "pvc://models/a"}, "1.5": {"uri": "org/name"}}
    manifests = rendered(helm, models=entries)
    assert [m["metadata"]["name"] for m in manifests] == ["1.5", "a", "b"]
    assert {m["metadata"]["name"]: m["spec"] for m in manifests} == entries
    for manifest in manifests:
        v1.GPTModel.model_validate(manifest)


def test_an_empty_catalogue_is_one(helm: Helm) -> None:
    assert rendered(helm) == []


def test_labels_and_annotations_are_on_every_entry(helm: Helm) -> None:
    entries = {"a": {"uri": "org/a"}, "b": {"uri": "org/b"}}
    marks = {"labels": {"team": "ml"}, "annotations": {"helm.sh/resource-policy": "keep"}}
    for manifest in rendered(helm, models=entries, **marks):
        assert manifest["metadata"]["labels"]["team"] == "ml"
        assert manifest["metadata"]["annotations"] == marks["annotations"]


def test_the_schema_is_the_generated_one() -> None:
    """`make generate` writes it."""
    assert json.loads((CATALOGUE / "values.schema.json").read_text()) == catalogue_values.schema()


@pytest.mark.parametrize(
    ("values", "said"),
    [
        pytest.param({"model": {}}, "'model' not allowed", id="unknown key"),
        pytest.param({"models": [EVERYTHING]}, "/models", id="a list"),
        pytest.param({"models": {"a": {}}}, "missing property 'uri'", id="no uri"),
        pytest.param({"models": {"a": {"uri": "org/a", "url": "x"}}}, "'url' not allowed", id="unknown field"),
        pytest.param({"models": {"a": {"uri": "org/a", "gpu": {"count": "1"}}}}, "/models/a/gpu/count", id="text"),
        pytest.param({"models": {"a": {"uri": "org/a", "contextLength": 0}}}, "/contextLength", id="out of bounds"),
        pytest.param({"models": {"a": {"uri": "org/a", "digest": "sha256:1"}}}, "/digest", id="half a digest"),
        pytest.param({"models": {"A model": {"uri": "org/a"}}}, "A model", id="a name that cannot be one"),
        pytest.param({"labels": {"helm.sh/chart": "x"}}, "helm.sh/chart", id="a label of ours"),
    ],
)
def test_mistakes_are_refused_by_their_place(helm: Helm, values: dict[str, Any], said: str) -> None:
    done = helm("template", "models", str(CATALOGUE), values=values)
    assert done.returncode != 0
    assert said in done.stderr


def test_the_notes_tell_the_next_command(helm: Helm) -> None:
    command = ("install", "models", str(CATALOGUE), "--dry-run=client")
    assert "--values models.yaml" in helm(*command).stdout
    said = helm(*command, values={"models": {"b": {"uri": "org/b"}, "a": {"uri": "org/a"}}}).stdout
    assert "2 models are in the catalogue: a, b." in said
    assert "modelRef: a" in said
