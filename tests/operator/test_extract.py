"""What the store keeps of an object, and whose pass looks at it."""

import json
from typing import Any

import pytest

from gptservice_operator import extract, names, pod_state
from gptservice_operator.api import kinds
from tests.operator import builders

Body = dict[str, Any]


def child(**metadata: Any) -> Body:
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "chat", "namespace": "team-a", "uid": "u", "resourceVersion": "7", **metadata},
        "spec": {"replicas": 2},
        "status": {"readyReplicas": 1},
    }


def owner(kind: str = "GPTService", **more: Any) -> Body:
    return {"apiVersion": "ai.example.com/v1", "kind": kind, "name": "chat", "uid": "o", "controller": True, **more}


def test_identity_of_an_entry() -> None:
    entry = extract.entry(kinds.DEPLOYMENT, child(ownerReferences=[owner()]))
    assert entry.key == ("Deployment", "team-a", "chat")
    assert entry.uid == "u"
    assert entry.resource_version == 7
    assert entry.controller_uid == "o"


def test_a_cluster_scoped_object_has_no_namespace_and_no_owner() -> None:
    entry = extract.entry(kinds.GPT_MODEL, builders.gpt_model("m"))
    assert entry.key == ("GPTModel", "", "m")
    assert entry.owner is None


@pytest.mark.parametrize(
    ("metadata", "expected"),
    [
        pytest.param({"ownerReferences": [owner()]}, ("team-a", "chat"), id="controlled by a service"),
        pytest.param({"ownerReferences": [owner(controller=False)]}, None, id="owned, but not controlled"),
        pytest.param({"ownerReferences": [owner("ReplicaSet")]}, None, id="controlled by something else"),
        pytest.param({"labels": {"gptservice-name": "other"}}, ("team-a", "other"), id="only a label"),
        pytest.param(
            {"labels": {"gptservice-name": "other"}, "ownerReferences": [owner()]},
            ("team-a", "chat"),
            id="the owner reference weighs more than a label, which anybody may edit",
        ),
        pytest.param(
            {"labels": {"gptservice-name": "other"}, "ownerReferences": [owner("ReplicaSet")]},
            ("team-a", "other"),
            id="a pod",
        ),
        pytest.param({"labels": {"gptservice-name": ""}}, None, id="an empty label"),
        pytest.param({}, None, id="neither"),
    ],
)
def test_whose_pass_looks_at_a_child(metadata: Body, expected: extract.Key | None) -> None:
    assert extract.entry(kinds.DEPLOYMENT, child(**metadata)).owner == expected


@pytest.mark.parametrize(
    ("spec", "models"),
    [
        pytest.param({"modelRef": "gpt-4"}, {"gpt-4"}, id="modelRef"),
        pytest.param({"model": "gpt-4"}, {"gpt-4"}, id="a bare name"),
        pytest.param({}, set[str](), id="neither"),
        pytest.param({"model": 7}, set[str](), id="a wrong type, which an older CRD may let through"),
    ],
)
def test_catalogue_names_of_a_service(spec: Body, models: set[str]) -> None:
    assert extract.entry(kinds.GPT_SERVICE, builders.service(spec=spec)).models == models


def test_a_service_without_spec_can_be_stored() -> None:
    body = builders.service()
    del body["spec"]
    assert extract.entry(kinds.GPT_SERVICE, body).models == frozenset()


def test_a_child_is_kept_whole_but_for_managed_fields() -> None:
    body = child(managedFields=[{"manager": "x"}], annotations={"a": "b"})
    kept = extract.entry(kinds.DEPLOYMENT, body).body()
    del body["metadata"]["managedFields"]
    assert kept == body


def test_a_service_is_kept_with_spec_and_status_and_what_identifies_it() -> None:
    body = builders.service(annotations={"big": "x" * 1000}, deletionTimestamp="2026-01-05T11:00:00Z")
    body["status"] = {"phase": "Ready"}
    kept = extract.entry(kinds.GPT_SERVICE, body).body()
    assert kept["spec"] == body["spec"]
    assert kept["status"] == body["status"]
    assert set(kept["metadata"]) == {
        "name", "namespace", "uid", "generation", "creationTimestamp", "deletionTimestamp",
    }  # fmt: skip


def test_of_a_service_s_annotations_only_the_one_that_a_pass_looks_at_is_kept() -> None:
    body = builders.service(annotations={"big": "x" * 1000, names.RERENDER: "2"})
    assert extract.entry(kinds.GPT_SERVICE, body).body()["metadata"]["annotations"] == {names.RERENDER: "2"}


def test_the_health_of_a_pod_s_devices_is_kept() -> None:
    body = builders.pod(containers=[builders.on_device(device="GPU-7")])
    assert pod_state.unhealthy_devices(extract.entry(kinds.POD, body).body()) == ["GPU-7 (nvidia.com/gpu)"]


def test_of_a_pod_only_identity_and_what_its_containers_say_is_kept() -> None:
    body = builders.pod(init=[builders.container("fetch")], containers=[builders.container()])
    body["status"] |= {"podIP": "10.0.0.1", "reason": "Evicted", "message": "m"}
    kept = extract.entry(kinds.POD, body).body()
    assert set(kept) == {"metadata", "status"}
    assert set(kept["metadata"]) == {"name", "uid", "labels", "ownerReferences", "creationTimestamp"}
    assert set(kept["status"]) == {
        "phase", "reason", "message", "conditions", "initContainerStatuses", "containerStatuses",
    }  # fmt: skip


def test_of_a_pod_without_a_node_it_is_kept_what_it_waits_for() -> None:
    told = builders.condition("PodScheduled", "False", reason="Unschedulable")
    body = builders.pod(conditions=[told])
    asked = {"resources": {"limits": {"nvidia.com/gpu": "1"}}}
    wanted = {"nodeSelector": {"pool": "a"}, "priority": 7, "containers": [asked]}
    body["spec"] = {**wanted, "containers": [{**asked, "name": "engine", "args": ["x"]}], "volumes": []}
    assert extract.entry(kinds.POD, body).body()["spec"] == wanted


def test_bodies_are_copies() -> None:
    entry = extract.entry(kinds.DEPLOYMENT, child())
    entry.body()["spec"]["replicas"] = 99
    assert entry.body()["spec"]["replicas"] == 2


def test_what_is_kept_is_compact() -> None:
    entry = extract.entry(kinds.DEPLOYMENT, child())
    assert len(entry.data) < len(json.dumps(child()))
