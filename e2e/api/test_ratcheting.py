"""A stored object that breaks a rule of a newer CRD can still be edited elsewhere, labelled, reported on, deleted."""

from __future__ import annotations

from typing import Any

import pytest

from e2e.api import other_crds
from e2e.api.state import service
from e2e.kube import Kube, KubeError, Object

FIELD_RULE = {"rule": "self <= 2", "message": "no more than 2"}
SPEC_RULE = {
    "rule": "self.replicas <= 2 || oldSelf.optMap(old, old.replicas > 2).orValue(false)",
    "message": "no more than 2",
    "optionalOldSelf": True,
}
PLAIN_SPEC_RULE = {key: value for key, value in SPEC_RULE.items() if key != "optionalOldSelf"} | {
    "rule": "self.replicas <= 2"
}


def on_the_field(definition: Object) -> None:
    replicas = other_crds.schema_of(definition)["properties"]["spec"]["properties"]["replicas"]
    replicas["x-kubernetes-validations"] = [FIELD_RULE]
    replicas["maximum"] = 2


def on_the_spec(definition: Object) -> None:
    other_crds.schema_of(definition)["properties"]["spec"]["x-kubernetes-validations"].append(SPEC_RULE)


def on_the_spec_without_care(definition: Object) -> None:
    other_crds.schema_of(definition)["properties"]["spec"]["x-kubernetes-validations"].append(PLAIN_SPEC_RULE)


EDITS: list[Any] = [
    pytest.param({"spec": {"maxTokens": 5}}, "", id="another field"),
    pytest.param({"metadata": {"labels": {"team": "x"}}}, "", id="a label"),
    pytest.param({"status": {"replicas": 3}}, "status", id="the status"),
    pytest.param({"spec": {"replicas": 2}}, "", id="the field itself, mended"),
]


@pytest.mark.parametrize("rule", [on_the_field, on_the_spec])
def test_goes_on(kube: Kube, access: object, namespace: str, rule: Any) -> None:
    kube.create(service(replicas=3), namespace)
    with other_crds.served(kube, rule):
        with pytest.raises(KubeError, match=r"no more than 2|less than or equal to 2"):
            kube.create(service("new", replicas=3), namespace)
        for parameters in EDITS:
            change, subresource = parameters.values
            kube.merge("GPTService", "gpt", namespace, change, subresource=str(subresource))
        with pytest.raises(KubeError, match=r"no more than 2|less than or equal to 2"):
            kube.merge("GPTService", "gpt", namespace, {"spec": {"replicas": 4}})
        kube.delete("GPTService", "gpt", namespace)
        assert kube.find("GPTService", "gpt", namespace) is None


def test_a_rule_on_the_spec_without_optional_old_self_would_lock_the_spec(
    kube: Kube, access: object, namespace: str
) -> None:
    """Why design asks for it: ratcheting is by field, and the spec as a whole has changed."""
    kube.create(service(replicas=3), namespace)
    with other_crds.served(kube, on_the_spec_without_care):
        kube.merge("GPTService", "gpt", namespace, {"metadata": {"labels": {"team": "x"}}})
        with pytest.raises(KubeError, match="no more than 2"):
            kube.merge("GPTService", "gpt", namespace, {"spec": {"maxTokens": 5}})


def before_the_later_rules(definition: Object) -> None:
    """As it was in the first version, in which any Secret could be named for any model, for one."""
    spec = other_crds.schema_of(definition)["properties"]["spec"]
    spec["x-kubernetes-validations"] = [
        rule for rule in spec["x-kubernetes-validations"] if "optionalOldSelf" not in rule
    ]


@pytest.mark.parametrize(
    ("model", "reference", "other"),
    [
        ("s3://bucket/m", "huggingFaceTokenSecretRef", "gs://bucket/m"),
        ("org/name", "modelCredentialsSecretRef", "hf://org/other"),
    ],
)
def test_a_stored_service_with_a_secret_that_opens_nothing_goes_on(
    kube: Kube, access: object, namespace: str, model: str, reference: str, other: str
) -> None:
    named: dict[str, Any] = {"model": model, reference: {"name": "s"}}
    with other_crds.served(kube, before_the_later_rules):
        kube.create(service(**named), namespace)
    with pytest.raises(KubeError, match=f"{reference} is for"):
        kube.create(service("new", **named), namespace)
    changes: list[dict[str, Any]] = [{"maxTokens": 5}, {"replicas": 2}, {reference: {"name": "another"}}]
    for change in changes:
        kube.merge("GPTService", "gpt", namespace, {"spec": change})
    with pytest.raises(KubeError, match=f"{reference} is for"):
        kube.merge("GPTService", "gpt", namespace, {"spec": {"model": other}})
    kube.merge("GPTService", "gpt", namespace, {"spec": {reference: None}})
    with pytest.raises(KubeError, match=f"{reference} is for"):
        kube.merge("GPTService", "gpt", namespace, {"spec": {reference: {"name": "s"}}})


def test_a_stored_service_whose_cache_takes_one_pod_and_that_spares_none_goes_on(
    kube: Kube, access: object, namespace: str
) -> None:
    """The operator says what is wrong with it."""
    named: dict[str, Any] = {"cache": {"size": "1Gi"}, "rollout": {"maxUnavailable": 0}}
    with other_crds.served(kube, before_the_later_rules):
        kube.create(service(**named), namespace)
    with pytest.raises(KubeError, match="maxUnavailable 0 starts the new pod"):
        kube.create(service("new", **named), namespace)
    changes: list[dict[str, Any]] = [
        {"maxTokens": 5},
        {"cache": {"size": "2Gi"}},
        {"rollout": {"maxUnavailable": "0%"}},
    ]
    for change in changes:
        kube.merge("GPTService", "gpt", namespace, {"spec": change})
    kube.merge("GPTService", "gpt", namespace, {"spec": {"rollout": {"maxUnavailable": 1}}})
    with pytest.raises(KubeError, match="maxUnavailable 0 starts the new pod"):
        kube.merge("GPTService", "gpt", namespace, {"spec": {"rollout": {"maxUnavailable": 0}}})
