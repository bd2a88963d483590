"""Objects as Argo CD sees them, of each stage in a service's life, with the status that the operator computes."""

from dataclasses import replace
from typing import Any

from gptservice_operator import status
from gptservice_operator.api import conditions
from gptservice_operator.status import Facts
from tests.operator import builders
from tests.operator.builders import Body
from tests.operator.test_status import CRASHED, EARLIER, LOADING, NOW, READY, cause, deployment, facts

AUTOSCALING: Body = {"autoscaling": {"minReplicas": 2, "maxReplicas": 4}}
INACTIVE: Body = {
    "status": {
        "conditions": [
            {"type": "ScalingActive", "status": "False", "reason": "FailedGetPodsMetric", "message": "no metrics API"}
        ]
    }
}


def told(known: Facts, **changes: Any) -> Body:
    """Return the service with its status as the operator writes it; ``changes`` are to its metadata, made later."""
    body = known.service
    return {**body, "metadata": {**body["metadata"], **changes}, "status": status.compute(known, NOW)}


def scaled(live: int, **counts: int) -> Facts:
    """Return a service whose autoscaler asks for so many replicas."""
    deployed = deployment(**counts)
    deployed["spec"]["replicas"] = live
    return facts(AUTOSCALING, live=deployed, pods=[LOADING] if counts["readyReplicas"] < live else [])


def of_unknown_model() -> Facts:
    """Return a service that names an entry which the catalogue lacks."""
    body = builders.service(spec={"modelRef": "gpt-3.5-turbo-2024-04", "replicas": 3}, generation=4)
    return Facts(service=body, resolved=builders.decide(body), failure=None, deployment=None, pods=[])


def without_status(body: Body) -> Body:
    return {key: value for key, value in body.items() if key != "status"}


ALL_READY = facts(live=deployment(**READY))
SCALING_UP = scaled(4, replicas=4, updatedReplicas=4, readyReplicas=2, availableReplicas=2)
UNSCALED = replace(scaled(2, replicas=2, updatedReplicas=2, readyReplicas=2, availableReplicas=2), hpa=INACTIVE)
ROLLING = facts(live=deployment(replicas=4, updatedReplicas=1, readyReplicas=3), pods=[LOADING])
FAILING = facts(live=deployment(replicas=4, updatedReplicas=1, readyReplicas=3), pods=[CRASHED])
BACK = replace(ROLLING, rollout=cause(conditions.ROLLED_BACK, "revision b failed, and revision a runs instead"))
BLOCKED = replace(ROLLING, rollout=cause(conditions.ROLLOUT_BLOCKED, "pod chat-6d4c-x1 finds no node"))
QUOTA = facts(failure=cause(conditions.QUOTA_EXCEEDED, "pods of the service exceed the quota"))
REFUSED = facts({"engine": {"env": [{"name": "HOME", "value": "/"}]}})
STOPPED = facts({"replicas": 0}, live=deployment(replicas=0))

TESTDATA: dict[str, Body] = {
    "GPTService/testdata/progressing_nostatus.yaml": without_status(told(ALL_READY)),
    "GPTService/testdata/progressing_loading.yaml": told(
        facts(live=deployment(replicas=3, updatedReplicas=3), pods=[LOADING])
    ),
    "GPTService/testdata/progressing_rollout.yaml": told(ROLLING),
    "GPTService/testdata/progressing_stale.yaml": told(ALL_READY, generation=5),
    "GPTService/testdata/progressing_unknown_model.yaml": told(of_unknown_model()),
    "GPTService/testdata/progressing_quota.yaml": told(QUOTA),
    "GPTService/testdata/progressing_deleting.yaml": told(ALL_READY, deletionTimestamp=EARLIER),
    "GPTService/testdata/healthy.yaml": told(ALL_READY),
    "GPTService/testdata/healthy_scaling_up.yaml": told(SCALING_UP),
    "GPTService/testdata/healthy_autoscaling_inactive.yaml": told(UNSCALED),
    "GPTService/testdata/degraded_crash_loop.yaml": told(FAILING),
    "GPTService/testdata/degraded_rolled_back.yaml": told(BACK),
    "GPTService/testdata/degraded_rollout_blocked.yaml": told(BLOCKED),
    "GPTService/testdata/degraded_invalid_spec.yaml": told(REFUSED),
    "GPTService/testdata/suspended.yaml": told(STOPPED),
    "GPTModel/testdata/healthy.yaml": builders.gpt_model(),
    "GPTModel/testdata/progressing_deleting.yaml": {
        **builders.gpt_model(),
        "metadata": {**builders.gpt_model()["metadata"], "deletionTimestamp": EARLIER},
    },
}
"""What each file holds, below the folder of the API group."""
