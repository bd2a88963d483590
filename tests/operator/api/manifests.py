"""Manifests that must be accepted, and manifests that must be refused with the field that is wrong.

The unit level runs them through the models and the schema of the CRD; the api level applies them to a real API server.
Both must agree, since the CRD of a cluster may be older than the operator.
"""

from dataclasses import dataclass
from typing import Any, Literal

from tests.operator.golden_cases import CASES

Body = dict[str, Any]

By = Literal["schema", "cel"]
"""Who refuses it on the API server: the structural schema, or a CEL rule."""


@dataclass(frozen=True)
class Bad:
    """A manifest to be refused."""

    body: Body
    field: str
    """The field that the message must name, in the path notation of the models."""
    by: By = "schema"


def service(spec: Any = None, *, name: str = "chat") -> Body:
    body: Body = {"apiVersion": "ai.example.com/v1", "kind": "GPTService", "metadata": {"name": name}}
    return body if spec is None else {**body, "spec": spec}


def model(spec: Any = None, *, name: str = "gpt-4-turbo") -> Body:
    body: Body = {"apiVersion": "ai.example.com/v1", "kind": "GPTModel", "metadata": {"name": name}}
    return body if spec is None else {**body, "spec": spec}


def with_spec(**fields: Any) -> Body:
    return service({"model": "gpt-4-turbo", **fields})


def with_env(*variables: Body) -> Body:
    return with_spec(engine={"env": list(variables)})


def with_scheduling(**fields: Any) -> Body:
    return with_spec(scheduling=fields)


GOOD: dict[str, Body] = {
    "prod-gpt, as it was given": service({"model": "gpt-4-turbo", "replicas": 3, "maxTokens": 2048}, name="prod-gpt"),
    "prod-gpt-35, as it was given": service(
        {
            "modelRef": "gpt-3.5-turbo-2024-04",
            "replicas": 3,
            "maxInflightRequests": 128,
            "upgradeStrategy": "RollingUpdate",
        },
        name="prod-gpt-35",
    ),
    **{f"golden case {name}": service(case.spec, name=case.name) for name, case in CASES.items()},
    "63 characters": service({"model": "m"}, name="a" * 63),
    "stopped": with_spec(replicas=0),
    "a model by its uri": with_spec(model="hf://org/name@main"),
    "the largest numbers": with_spec(
        replicas=2147483647,
        maxTokens=16777216,
        contextLength=16777216,
        maxInflightRequests=1000000,
        startupTimeoutSeconds=86400,
        drainTimeoutSeconds=3600,
        gpu={"count": 64},
    ),
    "the smallest numbers": with_spec(
        replicas=0,
        maxTokens=1,
        contextLength=1,
        maxInflightRequests=1,
        startupTimeoutSeconds=10,
        drainTimeoutSeconds=0,
        gpu={"count": 0},
    ),
    "quantities of every form": with_spec(
        resources={"requests": {"cpu": 1, "memory": "1.5Gi"}, "limits": {"cpu": "1500m", "memory": "2G"}}
    ),
    "an empty value": with_env({"name": "A", "value": ""}),
    "a variable without a value": with_env({"name": "A"}),
    "a toleration of everything": with_scheduling(tolerations=[{"operator": "Exists"}]),
    "empty lists and maps": with_scheduling(nodeSelector={}, tolerations=[], topologySpreadConstraints=[]),
    "a catalogue entry": model({"uri": "pvc://models/m"}),
    "a full catalogue entry": model(
        {
            "uri": "hf://org/name",
            "servedModelNames": ["a", "b/c"],
            "contextLength": 4096,
            "gpu": {"count": 2, "resourceName": "amd.com/gpu", "product": "MI300"},
            "engine": {"args": ["--dtype=auto"]},
        }
    ),
}

BAD: dict[str, Bad] = {
    "no spec": Bad(service(), "spec"),
    "a spec that is a text": Bad(service("gpt-4"), "spec"),
    "neither model nor modelRef": Bad(service({"replicas": 1}), "spec", "cel"),
    "both model and modelRef": Bad(with_spec(modelRef="m"), "spec", "cel"),
    "a name of 64 characters": Bad(service({"model": "m"}, name="a" * 64), "metadata.name", "cel"),
    "a wrong type": Bad(with_spec(replicas="3"), "spec.replicas"),
    "a number with a fraction": Bad(with_spec(replicas=1.5), "spec.replicas"),
    "true for a number": Bad(with_spec(maxTokens=True), "spec.maxTokens"),
    "a number for a text": Bad(with_spec(model=4), "spec.model"),
    "an empty model": Bad(with_spec(model=""), "spec.model"),
    "a model with a space": Bad(with_spec(model="gpt 4"), "spec.model"),
    "a model of 1025 characters": Bad(with_spec(model="m" * 1025), "spec.model"),
    "a parent folder": Bad(with_spec(model="pvc://models/../secret"), "spec", "cel"),
    "a reference that is no name": Bad(service({"modelRef": "GPT_4"}), "spec.modelRef"),
    "negative replicas": Bad(with_spec(replicas=-1), "spec.replicas"),
    "too many replicas for an int32": Bad(with_spec(replicas=2147483648), "spec.replicas"),
    "no tokens": Bad(with_spec(maxTokens=0), "spec.maxTokens"),
    "no context": Bad(with_spec(contextLength=0), "spec.contextLength"),
    "no requests in flight": Bad(with_spec(maxInflightRequests=0), "spec.maxInflightRequests"),
    "a strategy that there is not": Bad(with_spec(upgradeStrategy="OnDelete"), "spec.upgradeStrategy"),
    "a strategy in lower case": Bad(with_spec(upgradeStrategy="recreate"), "spec.upgradeStrategy"),
    "no served names": Bad(with_spec(servedModelNames=[]), "spec.servedModelNames"),
    "17 served names": Bad(with_spec(servedModelNames=[f"m{n}" for n in range(17)]), "spec.servedModelNames"),
    "a served name twice": Bad(with_spec(servedModelNames=["a", "a"]), "spec"),
    "a served name with a comma": Bad(with_spec(servedModelNames=["a,b"]), "spec.servedModelNames.0"),
    "a startup that is too short": Bad(with_spec(startupTimeoutSeconds=9), "spec.startupTimeoutSeconds"),
    "a drain of more than an hour": Bad(with_spec(drainTimeoutSeconds=3601), "spec.drainTimeoutSeconds"),
    "a negative number of GPUs": Bad(with_spec(gpu={"count": -1}), "spec.gpu.count"),
    "half a GPU": Bad(with_spec(gpu={"count": "0.5"}), "spec.gpu.count"),
    "65 GPUs": Bad(with_spec(gpu={"count": 65}), "spec.gpu.count"),
    "a GPU resource without a domain": Bad(with_spec(gpu={"resourceName": "gpu"}), "spec.gpu.resourceName"),
    "a product that is no label": Bad(with_spec(gpu={"product": "NVIDIA H200"}), "spec.gpu.product"),
    "GPUs among the resources": Bad(with_spec(resources={"limits": {"nvidia.com/gpu": 1}}), "spec.resources", "cel"),
    "a quantity that is none": Bad(with_spec(resources={"limits": {"cpu": "lots"}}), "spec.resources.limits.cpu"),
    "a unit that there is not": Bad(with_spec(resources={"limits": {"memory": "1GB"}}), "spec.resources.limits.memory"),
    "a negative quantity": Bad(with_spec(resources={"requests": {"cpu": -1}}), "spec.resources.requests.cpu"),
    "a quantity that is true": Bad(with_spec(resources={"limits": {"cpu": True}}), "spec.resources.limits.cpu"),
    "an engine that there is not": Bad(with_spec(engine={"type": "TGI"}), "spec.engine.type"),
    "an empty image": Bad(with_spec(engine={"image": ""}), "spec.engine.image"),
    "arguments as one text": Bad(with_spec(engine={"args": "--seed=1"}), "spec.engine.args"),
    "an empty argument": Bad(with_spec(engine={"args": [""]}), "spec.engine.args.0"),
    "65 arguments": Bad(with_spec(engine={"args": ["--x"] * 65}), "spec.engine.args"),
    "a variable without a name": Bad(with_env({"value": "x"}), "spec.engine.env.0.name"),
    "a variable with a number": Bad(with_env({"name": "A", "value": 1}), "spec.engine.env.0.value"),
    "a variable that begins with a digit": Bad(with_env({"name": "1A"}), "spec.engine.env.0.name"),
    "a variable twice": Bad(with_env({"name": "A", "value": "1"}, {"name": "A", "value": "2"}), "spec.engine"),
    "a variable with two sources": Bad(
        with_env({"name": "A", "value": "x", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}),
        "spec.engine.env.0",
        "cel",
    ),
    "a source of no kind": Bad(with_env({"name": "A", "valueFrom": {}}), "spec.engine.env.0.valueFrom", "cel"),
    "a source of two kinds": Bad(
        with_env(
            {
                "name": "A",
                "valueFrom": {
                    "fieldRef": {"fieldPath": "metadata.name"},
                    "secretKeyRef": {"name": "s", "key": "k"},
                },
            }
        ),
        "spec.engine.env.0.valueFrom",
        "cel",
    ),
    "a Secret without a key": Bad(
        with_env({"name": "A", "valueFrom": {"secretKeyRef": {"name": "s"}}}),
        "spec.engine.env.0.valueFrom.secretKeyRef.key",
    ),
    "a selector of numbers": Bad(with_scheduling(nodeSelector={"zone": 1}), "spec.scheduling.nodeSelector.zone"),
    "a selector that is no label": Bad(
        with_scheduling(nodeSelector={"zone": "a b"}), "spec.scheduling.nodeSelector.zone"
    ),
    "a toleration of a wrong effect": Bad(
        with_scheduling(tolerations=[{"key": "a", "effect": "Never"}]), "spec.scheduling.tolerations.0.effect"
    ),
    "affinity without terms": Bad(
        with_scheduling(
            affinity={"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": []}}}
        ),
        "spec.scheduling.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms",
    ),
    "a spread constraint without a key": Bad(
        with_scheduling(topologySpreadConstraints=[{"maxSkew": 1, "whenUnsatisfiable": "DoNotSchedule"}]),
        "spec.scheduling.topologySpreadConstraints.0.topologyKey",
    ),
    "a spread constraint twice": Bad(
        with_scheduling(
            topologySpreadConstraints=[
                {"maxSkew": skew, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule"} for skew in (1, 2)
            ]
        ),
        "spec.scheduling",
    ),
    "a catalogue entry without a uri": Bad(model({}), "spec.uri"),
    "a catalogue entry without a spec": Bad(model(), "spec"),
    "a catalogue entry with a parent folder": Bad(model({"uri": "pvc://m/.."}), "spec", "cel"),
    "a catalogue entry with a served name twice": Bad(
        model({"uri": "pvc://m/x", "servedModelNames": ["a", "a"]}), "spec"
    ),
    "a catalogue entry with a negative number of GPUs": Bad(
        model({"uri": "pvc://m/x", "gpu": {"count": -1}}), "spec.gpu.count"
    ),
}
