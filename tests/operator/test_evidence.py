"""Which pods were given up for their node's sake, as their kubelet tells it."""

import pytest

from gptservice_operator import evidence
from tests.operator import builders

OURS = ("fetch", "engine")
LOW = "The node was low on resource: {}. Threshold quantity: 100Mi, available: 50Mi. "
USES = "Container {} was using 9Gi, request is 8Gi, has larger consumption of memory. "


@pytest.mark.parametrize(
    ("reason", "message", "expected"),
    [
        pytest.param("Terminated", "Pod was terminated in response to imminent node shutdown.", True, id="shutdown"),
        pytest.param("NodeShutdown", "Pod was rejected as the node is shutting down.", True, id="too late"),
        pytest.param("NodeLost", "Node n which was running pod p is unresponsive", True, id="lost"),
        pytest.param("Preempting", "Preempted in order to admit critical pod", True, id="something critical"),
        pytest.param("Evicted", "The node had condition: [MemoryPressure]. ", True, id="refused under pressure"),
        pytest.param("Evicted", LOW.format("pids"), True, id="too many processes"),
        pytest.param("Evicted", LOW.format("memory"), True, id="memory that others use"),
        pytest.param("Evicted", LOW.format("memory") + USES.format("istio-proxy"), True, id="and a mesh's container"),
        pytest.param("Evicted", LOW.format("memory") + USES.format("engine"), False, id="memory that ours uses"),
        pytest.param("Evicted", LOW.format("ephemeral-storage"), False, id="a disk that the model may have filled"),
        pytest.param(
            "Evicted", 'Usage of EmptyDir volume "cache" exceeds the limit "1Gi". ', False, id="its own limit"
        ),
        pytest.param("OutOfnvidia.com/gpu", "Pod was rejected: Node didn't have enough resource", False, id="refused"),
        pytest.param(
            "DeadlineExceeded", "Pod was active on the node longer than the deadline", False, id="its deadline"
        ),
    ],
)
def test_they_do_not_speak_against_a_revision(reason: str, message: str, expected: bool) -> None:
    pod = builders.pod(phase="Failed")
    pod["status"] |= {"reason": reason, "message": message}
    assert evidence.is_the_nodes(pod, OURS) is expected
