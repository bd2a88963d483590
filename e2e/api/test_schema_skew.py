"""An operator beside an older or a newer CRD: what is lost is said, and everything else works."""

from __future__ import annotations

import pytest

from e2e.api import other_crds
from e2e.api.state import Observer, condition, holds, service
from e2e.kube import Kube, Object
from e2e.operator_process import OperatorProcess
from gptservice_operator import skew


def older(definition: Object) -> None:
    schema = other_crds.schema_of(definition)["properties"]
    del schema["spec"]["properties"]["priority"]
    del schema["spec"]["properties"]["gpu"]["properties"]["product"]
    del schema["status"]["properties"]["updatedReplicas"]
    del schema["status"]["properties"]["effective"]["properties"]["argsHash"]


def newer(definition: Object) -> None:
    schema = other_crds.schema_of(definition)["properties"]
    schema["spec"]["properties"]["sharding"] = {"type": "object", "properties": {"parts": {"type": "integer"}}}
    schema["status"]["properties"]["shards"] = {"type": "integer"}


def test_beside_an_older_crd_the_service_runs_and_says_what_is_dropped(
    operator: OperatorProcess, kube: Kube, namespace: str, observer: Observer
) -> None:
    with other_crds.served(kube, older):
        operator.restart()
        kube.apply(service(), namespace)
        accepted = condition(observer.wait_ready(), "Accepted")
        assert (accepted["status"], accepted["reason"]) == ("True", "AcceptedWithWarnings")
        assert "SchemaOutdated: the cluster's CRD lacks spec.gpu.product, spec.priority" in accepted["message"]
        (line,) = [line for line in operator.output().decode().splitlines() if "SchemaOutdated" in line]
        for path in ("spec.gpu.product", "spec.priority", "status.updatedReplicas", "status.effective.argsHash"):
            assert path in line
    # The CRD was brought up to date: the next resync sees it.
    observer.wait(lambda o: condition(o, "Accepted").get("reason") == "Accepted", "no warning any more")


def test_a_field_of_a_newer_crd_is_named_as_unknown(
    operator: OperatorProcess, kube: Kube, namespace: str, observer: Observer
) -> None:
    with other_crds.served(kube, newer):
        kube.apply(service(sharding={"parts": 2}), namespace)
        # The operator's watch may have begun under the old schema, which takes the field out of what it shows.
        found = observer.wait(lambda o: holds(o, "Accepted", "True", "AcceptedWithWarnings"), "the warning", timeout=90)
        accepted = condition(found, "Accepted")
        assert "spec.sharding is not known to this version of the operator" in accepted["message"]


@pytest.mark.parametrize("kind", ["GPTService", "GPTModel"])
def test_the_generated_crds_lack_nothing_once_published(kube: Kube, access: object, kind: str) -> None:
    """The API server publishes what it was given: else every service would be warned."""
    document = kube.request("GET", "/openapi/v3/apis/ai.example.com/v1")
    assert skew.compare(document)[kind] == ()
