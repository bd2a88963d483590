"""What an older CRD lacks: one line, a metric, a warning, and a status that can still be written."""

import copy
import logging
from typing import Any

import pytest

from gptservice_operator import errors, metrics, skew
from gptservice_operator.api import schema
from gptservice_operator.skew import Skew
from tests.operator.builders import Body
from tests.operator.fake_cluster import FakeCluster


def document(**changed: Any) -> Body:
    """Return the OpenAPI document of a cluster that has the generated CRDs, or others by kind."""
    schemas: Body = {**copy.deepcopy(dict(schema.schemas())), **changed}
    return {
        "components": {
            "schemas": {
                f"com.example.ai.v1.{kind}": {
                    **part,
                    "x-kubernetes-group-version-kind": [{"group": "ai.example.com", "kind": kind, "version": "v1"}],
                }
                for kind, part in schemas.items()
            }
            | {"io.k8s.apimachinery.pkg.apis.meta.v1.Status": {"type": "object"}}
        }
    }


def without(*paths: str) -> Body:
    part: Body = copy.deepcopy(dict(schema.schemas()["GPTService"]))
    for path in paths:
        *parents, last = path.split(".")
        at = part
        for name in parents:
            at = at["properties"][name.removesuffix("[]")]
            at = at["items"] if name.endswith("[]") else at
        del at["properties"][last]
    return part


def test_the_same_crds_lack_nothing() -> None:
    assert skew.compare(document()) == {"GPTService": (), "GPTModel": ()}


def test_what_is_lacking_is_named_by_its_topmost_field() -> None:
    live = without("spec.tls", "spec.engine.env[].valueFrom", "status.effective.argsHash")
    assert set(skew.compare(document(GPTService=live))["GPTService"]) == {
        "spec.tls",
        "spec.engine.env[].valueFrom",
        "status.effective.argsHash",
    }


def test_a_crd_that_keeps_everything_lacks_nothing() -> None:
    lax = {"properties": {"spec": {"x-kubernetes-preserve-unknown-fields": True}, "status": {}, "metadata": {}}}
    found = skew.compare(document(GPTService={**lax, "x-kubernetes-preserve-unknown-fields": True}))
    assert found["GPTService"] == ()


def missing() -> float | None:
    """Return how many fields the metric says are missing."""
    (metric,) = metrics.SCHEMA_MISSING.collect()
    return next(sample.value for sample in metric.samples if sample.labels == {"kind": "GPTService"})


class TestRefreshing:
    async def test_it_is_logged_once_counted_and_told_to_services(self, caplog: pytest.LogCaptureFixture) -> None:
        cluster, seen = FakeCluster(document=document(GPTService=without("spec.tls", "spec.priority"))), Skew()
        with caplog.at_level(logging.WARNING):
            await seen.refresh(cluster.as_cluster())
            await seen.refresh(cluster.as_cluster())
        assert [record.message.partition(":")[0] for record in caplog.records] == ["SchemaOutdated"]
        assert missing() == 2
        (warning,) = seen.warnings()
        assert "spec.priority, spec.tls" in warning or "spec.tls, spec.priority" in warning

    async def test_a_crd_brought_up_to_date_ends_it(self) -> None:
        cluster, seen = FakeCluster(document=document(GPTService=without("spec.tls"))), Skew()
        await seen.refresh(cluster.as_cluster())
        cluster.document = document()
        await seen.refresh(cluster.as_cluster())
        assert seen.warnings() == []
        assert missing() == 0

    @pytest.mark.parametrize("error", [errors.Absent("no"), errors.Waiting("403"), errors.Transient("down")])
    async def test_what_cannot_be_read_stops_nothing(self, error: errors.OperatorError) -> None:
        cluster, seen = FakeCluster(failures={("openapi", "GPTService"): error}), Skew()
        await seen.refresh(cluster.as_cluster())
        assert seen.warnings() == []

    async def test_a_status_field_that_is_lacking_is_no_service_s_business(self) -> None:
        cluster, seen = FakeCluster(document=document(GPTService=without("status.updatedReplicas"))), Skew()
        await seen.refresh(cluster.as_cluster())
        assert seen.warnings() == []
        assert seen.storable({"replicas": 1, "updatedReplicas": 1}) == {"replicas": 1}


def test_a_status_is_stored_without_what_the_crd_lacks() -> None:
    seen = Skew({"GPTService": ("status.effective.argsHash", "status.conditions[].observedGeneration", "status.lost")})
    status = {"effective": {"argsHash": "x", "uri": "u"}, "conditions": [{"type": "a", "observedGeneration": 1}]}
    assert seen.storable(status) == {"effective": {"uri": "u"}, "conditions": [{"type": "a"}]}
    assert status["effective"] == {"argsHash": "x", "uri": "u"}, "the status itself is left alone"
