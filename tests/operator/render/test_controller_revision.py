"""What a ControllerRevision keeps."""

import json
from typing import Any

import pytest

from gptservice_operator import names, revisions
from gptservice_operator.render import controller_revision, pod
from gptservice_operator.render.controller_revision import MAX_WITH_PATCH, references, render_data
from gptservice_operator.render.resolved import Resolved
from tests.operator import builders
from tests.operator.builders import Body
from tests.operator.golden_cases import CASES

EVERY_CASE = pytest.mark.parametrize("case", CASES)


def data(spec: Body | None = None, *models: Body, **more: Any) -> Body:
    return render_data(builders.resolved({"model": "pvc://models/m", **(spec or {})}, *models, **more))


@EVERY_CASE
def test_it_keeps_the_template_as_it_is_rendered(case: str) -> None:
    decided = CASES[case].resolved()
    assert render_data(decided)["template"] == pod.render_pod_template(decided)


@EVERY_CASE
def test_it_survives_the_way_through_the_api_server(case: str) -> None:
    kept = render_data(CASES[case].resolved())
    assert json.loads(json.dumps(kept)) == kept


@EVERY_CASE
def test_its_name_and_label_tell_the_key(case: str) -> None:
    decided = CASES[case].resolved()
    key = decided.origin.key
    manifest = controller_revision.render_controller_revision(decided, render_data(decided), 7)
    metadata = manifest["metadata"]
    assert metadata["name"] == names.controller_revision(decided.name, key)
    assert metadata["name"].endswith(f"-{key}")
    assert metadata["labels"] == {**names.labels(decided.name), names.REVISION: key}
    assert manifest["data"]["template"]["metadata"]["labels"][names.REVISION] == key
    assert manifest["revision"] == 7


def test_the_pods_are_told_apart_by_the_key_alone() -> None:
    one, other = (builders.resolved({"model": "pvc://models/m", "maxTokens": number}) for number in (1, 2))
    labels = [pod.render_pod_template(decided)["metadata"]["labels"] for decided in (one, other)]
    assert labels[0] != labels[1]
    assert {key for key in labels[0] if labels[0][key] != labels[1][key]} == {names.REVISION}


def test_a_user_s_label_cannot_pass_for_a_revision() -> None:
    labels = data({"podLabels": {names.REVISION: "mine"}})["template"]["metadata"]["labels"]
    assert labels[names.REVISION] != "mine"


def test_it_keeps_what_the_layers_came_to() -> None:
    kept = data({"model": None, "modelRef": "m"}, builders.gpt_model("m", contextLength=2048))
    assert kept["effective"]["uri"] == "pvc://models/m"
    assert kept["image"] == kept["effective"]["image"] == builders.IMAGE
    assert kept["model"] == {"name": "m", "spec": {"uri": "pvc://models/m", "contextLength": 2048}}


def test_without_a_catalogue_entry_or_annotation_it_keeps_none() -> None:
    assert {"model", "rerender"} & set(data()) == set()


def test_it_keeps_the_annotation_that_asked_for_it() -> None:
    decided = builders.decide(builders.service(annotations={names.RERENDER: "3"}))
    assert isinstance(decided, Resolved)
    assert render_data(decided)["rerender"] == "3"


def test_the_patch_is_the_spec_s() -> None:
    spec = {"model": "pvc://models/m", "maxTokens": 5}
    assert data(spec)["patch"] == revisions.patch(builders.service(spec=spec))


class TestSize:
    @staticmethod
    def kept(value: str) -> Body:
        return data({"engine": {"env": [{"name": f"V{number}", "value": value} for number in range(64)]}})

    def test_the_patch_gives_way_where_all_would_be_too_much_to_store(self) -> None:
        too_large = self.kept("ä" * 4096)
        assert "patch" not in too_large
        assert len(json.dumps(too_large, ensure_ascii=False).encode()) < MAX_WITH_PATCH

    def test_bytes_count_not_characters(self) -> None:
        assert "patch" in self.kept("a" * 4096)


class TestReferences:
    def test_of_the_smallest_service(self) -> None:
        assert data()["references"] == [
            {"kind": "ConfigMap", "name": "chat-limits"},
            {"kind": "PersistentVolumeClaim", "name": "models"},
            {"kind": "Secret", "name": names.key_secret("chat", builders.uid_of("GPTService", "chat"))},
            {"kind": "ServiceAccount", "name": "chat-pods"},
        ]

    def test_of_what_a_user_names(self) -> None:
        env = [
            {"name": "A", "valueFrom": {"secretKeyRef": {"name": "keys", "key": "k"}}},
            {"name": "B", "valueFrom": {"configMapKeyRef": {"name": "settings", "key": "k"}}},
            {"name": "C", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}},
        ]
        spec = {"engine": {"env": env}, "imagePullSecrets": [{"name": "pull"}], "serviceAccountName": "runner"}
        found = {(reference["kind"], reference["name"]) for reference in data(spec)["references"]}
        assert found >= {
            ("Secret", "keys"), ("ConfigMap", "settings"), ("Secret", "pull"), ("ServiceAccount", "runner"),
        }  # fmt: skip

    def test_each_once_and_projected_ones_too(self) -> None:
        sources = [{"secret": {"name": "keys"}}, {"configMap": {"name": "ca"}}]
        volumes = [
            {"name": "a", "projected": {"sources": sources}},
            {"name": "b", "secret": {"secretName": "keys"}},
            {"name": "c", "emptyDir": {}},
        ]
        assert references({"spec": {"volumes": volumes}}) == [
            {"kind": "ConfigMap", "name": "ca"},
            {"kind": "Secret", "name": "keys"},
            {"kind": "ServiceAccount", "name": "default"},
        ]

    def test_a_label_called_like_a_volume_s_source_is_none(self) -> None:
        assert references({"spec": {"nodeSelector": {"secret": "x"}}}) == [
            {"kind": "ServiceAccount", "name": "default"}
        ]
