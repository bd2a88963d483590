"""Why pods do not serve. The statuses are what a kubelet, a scheduler and the runtime really write."""

import json
from typing import Any, ClassVar, get_args

import pytest

from gptservice_operator import causes, names, pod_state
from gptservice_operator.api import conditions
from gptservice_operator.api.conditions import Reason
from gptservice_operator.cause import Complaint
from gptservice_runtime import contract
from tests.operator import builders
from tests.operator.builders import Body, condition, container, pod

NO_GPU = (
    "0/3 nodes are available: 1 node(s) had untolerated taint(s), 2 Insufficient nvidia.com/gpu. "
    "preemption: 0/3 nodes are available: 3 Preemption is not helpful for scheduling."
)
NO_CPU = "0/1 nodes are available: 1 Insufficient cpu, 1 Insufficient memory. no new claims to deallocate"
NO_CLAIM = '0/1 nodes are available: persistentvolumeclaim "models" not found. not found'
HELD = (
    "0/2 nodes are available: 2 node has pod using PersistentVolumeClaim with the same name and ReadWriteOncePod "
    "access mode. preemption: 0/2 nodes are available: 2 No preemption victims found for incoming pod."
)
QUOTA = (
    'pods "chat-6d4c-" is forbidden: exceeded quota: gpus, requested: requests.nvidia.com/gpu=1, used: 4, limited: 4'
)
NO_ACCOUNT = (
    'pods "chat-6d4c-" is forbidden: error looking up service account team-a/loader: serviceaccount "loader" not found'
)
POLICY = 'pods "chat-6d4c-" is forbidden: violates PodSecurity "restricted:latest": runAsNonRoot != true'


def unscheduled(message: str) -> Body:
    return pod(conditions=[condition("PodScheduled", "False", reason="Unschedulable", message=message)])


def crashing(message: str | None = None, *, code: int = 1, reason: str = "Error", name: str = "engine") -> Body:
    """Return a container that ended and that the kubelet waits to start again."""
    ended: Body = {"exitCode": code, "reason": reason, "finishedAt": "2026-01-05T10:01:00Z"}
    if message is not None:
        ended["message"] = message
    waiting = {
        "reason": "CrashLoopBackOff",
        "message": "back-off 40s restarting failed container=engine pod=chat-6d4c-x1_team-a(0b1c)",
    }
    return container(name, waiting=waiting, last=ended)


def told(reason: str, message: str = "it went wrong", phase: str = "Loading") -> str:
    return json.dumps({"reason": reason, "message": message, "phase": phase})


def waiting(reason: str, message: str, name: str = "engine") -> Body:
    return container(name, waiting={"reason": reason, "message": message})


def lost_readiness(when: str, engine: Body) -> Body:
    """Return a pod that runs and whose condition Ready turned False at that time."""
    lost = pod(phase="Running", init=[FETCHED], containers=[engine])
    lost["status"]["conditions"][-1]["lastTransitionTime"] = when
    return lost


def gated(when: str, engine: Body) -> Body:
    """Return a pod whose containers are ready and which the AWS Load Balancer Controller keeps from traffic."""
    message = 'corresponding condition of pod readiness gate "target-health.elbv2.k8s.aws/chat" does not exist.'
    held = pod(
        phase="Running",
        init=[FETCHED],
        containers=[engine],
        conditions=[condition("PodScheduled", "True"), condition("ContainersReady", "True")],
    )
    held["status"]["conditions"][-1] |= {
        "reason": "ReadinessGatesNotReady", "message": message, "lastTransitionTime": when
    }  # fmt: skip
    return held


def failed(reason: str, message: str, name: str = "chat-6d4c-x1", **metadata: Any) -> Body:
    """Return a pod that is over."""
    return {**pod(name, **metadata), "status": {"phase": "Failed", "reason": reason, "message": message}}


FETCHED = container("fetch", terminated={"exitCode": 0, "reason": "Completed", "message": '{"uri": "pvc://models/m"}'})
RUNNING: Body = {"running": {"startedAt": "2026-01-05T10:00:30Z"}}
INITIALIZING = waiting("PodInitializing", "")

CAUSES = [
    pytest.param(unscheduled(NO_GPU), conditions.INSUFFICIENT_GPU, "2 Insufficient nvidia.com/gpu", id="no GPU"),
    pytest.param(
        unscheduled("0/2 nodes are available: 2 Insufficient nvidia.com/mig-1g.10gb."),
        conditions.INSUFFICIENT_GPU,
        "mig-1g.10gb",
        id="no slice of a GPU is free",
    ),
    pytest.param(
        unscheduled("0/2 nodes are available: 2 Insufficient amd.com/gpu."),
        conditions.INSUFFICIENT_GPU,
        "amd.com/gpu",
        id="no GPU of another make is free",
    ),
    pytest.param(unscheduled(NO_CPU), conditions.UNSCHEDULABLE, "Insufficient cpu", id="no CPU is free"),
    pytest.param(
        unscheduled(HELD), conditions.VOLUME_IN_USE, "ReadWriteOncePod", id="another pod has the claim for itself"
    ),
    pytest.param(unscheduled(NO_CLAIM), conditions.VOLUME_NOT_READY, '"models" not found', id="no such claim"),
    pytest.param(
        pod(containers=[waiting("ErrImagePull", "failed to resolve reference: not found")]),
        conditions.IMAGE_PULL_FAILED,
        "ErrImagePull: failed to resolve",
        id="an image that cannot be pulled",
    ),
    pytest.param(
        pod(init=[waiting("ImagePullBackOff", 'Back-off pulling image "x"', "fetch")], containers=[INITIALIZING]),
        conditions.IMAGE_PULL_FAILED,
        "ImagePullBackOff",
        id="likewise, of the init container",
    ),
    pytest.param(
        pod(containers=[waiting("InvalidImageName", "couldn't parse image name")]),
        conditions.IMAGE_PULL_FAILED,
        "InvalidImageName",
        id="an image name that is none",
    ),
    pytest.param(
        pod(init=[FETCHED], containers=[waiting("CreateContainerConfigError", 'secret "hub" not found')]),
        conditions.SECRET_NOT_FOUND,
        'secret "hub" not found',
        id="a variable from a missing Secret",
    ),
    pytest.param(
        pod(
            init=[FETCHED],
            containers=[waiting("CreateContainerConfigError", "couldn't find key token in Secret team-a/hub")],
        ),
        conditions.SECRET_NOT_FOUND,
        "couldn't find key token",
        id="a variable from a missing key",
    ),
    pytest.param(
        pod(
            containers=[
                waiting(
                    "CreateContainerConfigError",
                    'container has runAsNonRoot and image will run as root (pod: "chat_team-a(1)", container: engine)',
                )
            ]
        ),
        conditions.INVALID_IMAGE,
        "image will run as root",
        id="an image that runs as root",
    ),
    pytest.param(
        pod(
            containers=[
                waiting(
                    "RunContainerError",
                    'failed to create containerd task: exec: "gptservice-runtime": executable file not found in $PATH',
                )
            ]
        ),
        conditions.INVALID_IMAGE,
        "executable file not found",
        id="an image without the runtime, just started",
    ),
    pytest.param(
        pod(containers=[crashing('exec: "gptservice-runtime": not found', code=128, reason="StartError")]),
        conditions.INVALID_IMAGE,
        "StartError",
        id="an image without the runtime, started again",
    ),
    pytest.param(
        pod(init=[FETCHED], containers=[crashing(told("InvalidEngineArgument", "unrecognized arguments: --nope"))]),
        conditions.INVALID_ENGINE_ARGUMENT,
        "unrecognized arguments: --nope",
        id="the runtime's own word",
    ),
    pytest.param(
        pod(containers=[container(**RUNNING, last={"exitCode": 1, "message": told("ModelLoadFailed")})]),
        conditions.MODEL_LOAD_FAILED,
        "it went wrong",
        id="the runtime's word of the try before this one",
    ),
    pytest.param(
        pod(init=[container("fetch", terminated={"exitCode": 1, "message": told("ModelNotFound", "no config.json")})]),
        conditions.MODEL_NOT_FOUND,
        "container fetch: no config.json",
        id="init fails",
    ),
    pytest.param(
        pod(init=[crashing(told("ModelAccessDenied"), name="fetch")], containers=[INITIALIZING]),
        conditions.MODEL_ACCESS_DENIED,
        "it went wrong",
        id="init fails again and again",
    ),
    pytest.param(
        pod(init=[FETCHED], containers=[crashing(code=137, reason="OOMKilled")]),
        conditions.OUT_OF_MEMORY,
        "want of memory",
        id="killed by the kernel for its memory",
    ),
    pytest.param(
        pod(init=[FETCHED], containers=[crashing(told("GPUOutOfMemory", "CUDA out of memory"))]),
        conditions.GPU_OUT_OF_MEMORY,
        "CUDA out of memory",
        id="the GPU's memory",
    ),
    pytest.param(
        pod(init=[FETCHED], containers=[crashing("Traceback (most recent call last): ...", code=1)]),
        conditions.CRASH_LOOP,
        "exit code 1",
        id="a message that is none of the runtime's",
    ),
    pytest.param(
        pod(init=[FETCHED], containers=[crashing(told("AllReplicasReady"), code=3)]),
        conditions.CRASH_LOOP,
        "exit code 3",
        id="a reason that is not the runtime's to give",
    ),
    pytest.param(
        pod(init=[FETCHED], containers=[crashing('{"reason": ["OutOfMemory"], "message": ""}', code=3)]),
        conditions.CRASH_LOOP,
        "exit code 3",
        id="a reason that is none",
    ),
    pytest.param(
        pod(init=[FETCHED], containers=[crashing('["not", "an object"]', code=3)]),
        conditions.CRASH_LOOP,
        "exit code 3",
        id="JSON that is no message",
    ),
    pytest.param(
        pod(init=[FETCHED], containers=[crashing(json.dumps({"reason": "Sunspots", "message": "m"}), code=4)]),
        conditions.CRASH_LOOP,
        "exit code 4",
        id="a reason that nobody documented",
    ),
    pytest.param(
        pod(init=[FETCHED], containers=[crashing(None, code=0, reason="Completed")]),
        conditions.CRASH_LOOP,
        "exit code 0",
        id="ends well, again and again",
    ),
    pytest.param(
        pod(init=[container("fetch", **RUNNING)], containers=[INITIALIZING]),
        conditions.MODEL_LOADING,
        "fetching the model",
        id="fetching",
    ),
    pytest.param(
        pod(phase="Running", init=[FETCHED], containers=[container(**RUNNING)]),
        conditions.MODEL_LOADING,
        "loading the model",
        id="loading",
    ),
    pytest.param(
        lost_readiness("2026-01-05T10:05:00Z", container(**RUNNING)),
        conditions.ENGINE_UNRESPONSIVE,
        "does not answer any more",
        id="it was ready, and is not",
    ),
    pytest.param(
        lost_readiness("2026-01-05T10:05:00Z", container(**RUNNING, last={"exitCode": 1, "reason": "Error"})),
        conditions.ENGINE_UNRESPONSIVE,
        "does not answer any more",
        id="likewise, long after a crash",
    ),
    pytest.param(
        lost_readiness("2026-01-05T10:00:00Z", container(**RUNNING)),
        conditions.MODEL_LOADING,
        "loading the model",
        id="loading again: it was the container before that was ready",
    ),
    pytest.param(
        gated("2026-01-05T10:00:20Z", container(**RUNNING, ready=True)),
        conditions.READINESS_GATES_NOT_READY,
        'readiness gate "target-health.elbv2.k8s.aws/chat"',
        id="somebody's gate keeps it from traffic",
    ),
    pytest.param(
        gated("2026-01-05T10:05:00Z", container(**RUNNING, ready=True)),
        conditions.READINESS_GATES_NOT_READY,
        "is given no traffic",
        id="likewise, after it was ready",
    ),
    pytest.param(
        gated("2026-01-05T10:05:00Z", container(**RUNNING, ready=True, last={"exitCode": 1, "reason": "Error"})),
        conditions.READINESS_GATES_NOT_READY,
        "is given no traffic",
        id="likewise, after a crash",
    ),
    pytest.param(pod(), conditions.PODS_STARTING, "chat-6d4c-x1", id="nothing known yet"),
    pytest.param(pod(conditions=[]), conditions.PODS_STARTING, "is being started", id="not even scheduled"),
    pytest.param(
        pod(init=[waiting("PodInitializing", "", "fetch")], containers=[INITIALIZING]),
        conditions.PODS_STARTING,
        "is being started",
        id="the volumes are being mounted",
    ),
    pytest.param(
        failed("Evicted", "The node was low on resource: ephemeral-storage. Container engine was using 96Gi."),
        conditions.POD_EVICTED,
        "Evicted: The node was low on resource: ephemeral-storage",
        id="evicted",
    ),
    pytest.param(
        failed("UnexpectedAdmissionError", "Allocate failed: no healthy devices present"),
        conditions.POD_REJECTED,
        "UnexpectedAdmissionError: Allocate failed",
        id="the device plugin gives nothing",
    ),
    pytest.param(
        failed("OutOfnvidia.com/gpu", "Pod was rejected: Node didn't have enough resource: nvidia.com/gpu"),
        conditions.POD_REJECTED,
        "OutOfnvidia.com/gpu: Pod was rejected",
        id="the scheduler and the kubelet count otherwise",
    ),
    pytest.param(failed("NodeAffinity", "node labels"), conditions.POD_REJECTED, "NodeAffinity", id="labels changed"),
    pytest.param(failed("Preempting", "for a critical pod"), conditions.PREEMPTED, "critical pod", id="by a kubelet"),
    pytest.param(
        failed("Terminated", "Pod was terminated in response to imminent node shutdown."),
        conditions.NODE_LOST,
        "Terminated: Pod was terminated",
        id="the node was shut down",
    ),
    pytest.param(
        pod(phase="Running", conditions=[condition("ContainersReady", "True")], containers=[container(**RUNNING)]),
        conditions.NODE_LOST,
        "does not report any more",
        id="the node is silent, and Kubernetes has taken readiness back",
    ),
    pytest.param(
        {**pod(), "status": {"phase": "Unknown", "message": "node-1 is unresponsive"}},
        conditions.NODE_LOST,
        "node-1 is unresponsive",
        id="nobody knows",
    ),
    pytest.param(
        pod(containers=[crashing("could not be located", code=137, reason="ContainerStatusUnknown")]),
        conditions.NODE_LOST,
        "could not be located",
        id="the node came back without the container",
    ),
]


@pytest.mark.parametrize(("body", "reason", "quoted"), CAUSES)
def test_one_pod_s_cause(body: Body, reason: Reason, quoted: str) -> None:
    cause = causes.find([body], None)
    assert cause is not None
    assert cause.reason.name == reason.name
    assert cause.message.startswith("pod chat-6d4c-x1"), "a person must learn where to look"
    assert quoted in cause.message
    assert cause.message.endswith(reason.remedy), "a person must learn what to do"


SIDECAR_RUNNING = container("istio-proxy", **RUNNING)


@pytest.mark.parametrize(
    "body",
    [
        pytest.param(
            pod(init=[SIDECAR_RUNNING, FETCHED], containers=[crashing(told("OutOfMemory"))]), id="a native sidecar"
        ),
        pytest.param(
            pod(init=[FETCHED], containers=[container("aaa-agent", **RUNNING), crashing(told("OutOfMemory"))]),
            id="a sidecar listed before the engine",
        ),
    ],
)
def test_an_injected_sidecar_that_runs_hides_nothing(body: Body) -> None:
    cause = causes.find([body], None)
    assert cause is not None
    assert cause.reason is conditions.OUT_OF_MEMORY


def test_a_running_sidecar_is_not_the_model_being_loaded() -> None:
    cause = causes.find([pod(init=[SIDECAR_RUNNING], containers=[INITIALIZING])], None)
    assert cause is not None
    assert cause.reason is conditions.PODS_STARTING


NOT_FOUND = 'MountVolume.SetUp failed for volume "keys" : secret "team-keys" not found'
COMPLAINT = Complaint(conditions.SECRET_NOT_FOUND, NOT_FOUND, "team-keys")


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        pytest.param(pod(containers=[INITIALIZING]), conditions.SECRET_NOT_FOUND, id="a pod without its volumes"),
        pytest.param(pod(containers=[crashing(told("OutOfMemory"))]), conditions.OUT_OF_MEMORY, id="one that says why"),
        pytest.param(pod(ready=True), None, id="one that is ready all the same"),
    ],
)
def test_a_secret_that_events_call_missing_is_the_cause_where_nothing_else_is(
    body: Body, expected: Reason | None
) -> None:
    found = causes.find([body], None, {body["metadata"]["uid"]: COMPLAINT})
    assert (found and found.reason) == expected
    if expected is conditions.SECRET_NOT_FOUND:
        assert found is not None
        assert 'secret "team-keys" not found' in found.message
        assert found.message.endswith(expected.remedy)


def test_another_pod_s_missing_secret_is_not_this_one_s() -> None:
    found = causes.find([pod(containers=[INITIALIZING])], None, {"another": COMPLAINT})
    assert found is not None
    assert found.reason is conditions.PODS_STARTING


LOADING = pod("loading", init=[FETCHED], containers=[container(**RUNNING)])
FAILING = pod("failing", init=[FETCHED], containers=[crashing(told("ModelLoadFailed"))])


@pytest.mark.parametrize(
    ("pods", "expected"),
    [
        pytest.param([], None, id="no pod"),
        pytest.param([pod(ready=True)], None, id="a ready pod"),
        pytest.param([pod(ready=True), LOADING], conditions.MODEL_LOADING, id="one ready, one loading"),
        pytest.param([LOADING, FAILING], conditions.MODEL_LOAD_FAILED, id="a failure outranks what is on its way"),
        pytest.param([unscheduled(NO_GPU), FAILING], conditions.MODEL_LOAD_FAILED, id="and what waits"),
        pytest.param([unscheduled(NO_CPU), LOADING], conditions.UNSCHEDULABLE, id="else the oldest pod's"),
        pytest.param(
            [{**FAILING, "metadata": {**FAILING["metadata"], "deletionTimestamp": "2026-01-05T10:02:00Z"}}, LOADING],
            conditions.MODEL_LOADING,
            id="a pod that leaves says nothing",
        ),
    ],
)
def test_of_several_pods_the_gravest_counts(pods: list[Body], expected: Reason | None) -> None:
    cause = causes.find(pods, None)
    assert (cause and cause.reason) == expected


def deployment(message: str, status: str = "True") -> Body:
    failure = condition("ReplicaFailure", status, reason="FailedCreate", message=message)
    return {"metadata": {"name": "chat"}, "status": {"conditions": [condition("Available", "False"), failure]}}


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        pytest.param(deployment(QUOTA), conditions.QUOTA_EXCEEDED, id="a quota"),
        pytest.param(deployment(POLICY), conditions.FORBIDDEN, id="a policy"),
        pytest.param(deployment(NO_ACCOUNT), conditions.SERVICE_ACCOUNT_NOT_FOUND, id="no ServiceAccount"),
        pytest.param(deployment(QUOTA, "False"), None, id="it is over"),
        pytest.param({"metadata": {"name": "chat"}}, None, id="no status yet"),
    ],
)
def test_pods_that_cannot_even_be_made(body: Body, expected: Reason | None) -> None:
    cause = causes.find([], body)
    assert (cause and cause.reason) == expected


def test_a_pod_s_failure_outranks_a_quota() -> None:
    cause = causes.find([FAILING], deployment(QUOTA))
    assert cause is not None
    assert cause.reason is conditions.MODEL_LOAD_FAILED


@pytest.mark.parametrize(
    ("waits", "expected"),
    [
        ("ErrImagePull", conditions.IMAGE_PULL_FAILED), ("ImagePullBackOff", conditions.IMAGE_PULL_FAILED),
        ("InvalidImageName", conditions.IMAGE_PULL_FAILED), ("ErrImageNeverPull", conditions.IMAGE_PULL_FAILED),
        ("ImageInspectError", conditions.IMAGE_PULL_FAILED), ("CreateContainerError", conditions.INVALID_IMAGE),
        ("RunContainerError", conditions.INVALID_IMAGE), ("StartError", conditions.INVALID_IMAGE),
        ("ContainerCannotRun", conditions.INVALID_IMAGE), ("ContainerCreating", conditions.PODS_STARTING),
    ],
)  # fmt: skip
def test_every_reason_for_which_a_kubelet_waits(waits: str, expected: Reason) -> None:
    cause = causes.find([pod(init=[FETCHED], containers=[waiting(waits, "so it is")])], None)
    assert cause is not None
    assert cause.reason.name == expected.name


@pytest.mark.parametrize("reason", get_args(contract.TerminationReason))
def test_every_reason_that_the_runtime_can_give_is_known(reason: str) -> None:
    cause = causes.find([pod(init=[FETCHED], containers=[crashing(told(reason))])], None)
    assert cause is not None
    assert cause.reason.name == reason


def test_a_long_message_is_cut_but_keeps_its_remedy() -> None:
    cause = causes.find([pod(containers=[crashing(told("ModelLoadFailed", "x" * 4000))])], None)
    assert cause is not None
    assert len(cause.message) < 800
    assert "…" in cause.message
    assert cause.message.endswith(conditions.MODEL_LOAD_FAILED.remedy)


@pytest.mark.parametrize(
    ("body", "ready"),
    [
        pytest.param(pod(ready=True), True, id="ready"),
        pytest.param(pod(), False, id="not ready"),
        pytest.param({"metadata": {"name": "x"}}, False, id="no status yet"),
        pytest.param({"metadata": {"name": "x"}, "status": None}, False, id="a null status"),
    ],
)
def test_who_takes_traffic(body: dict[str, Any], ready: bool) -> None:
    assert pod_state.is_ready(body) is ready


class TestWhosePodsCount:
    """Only pods of the Deployment's newest revision say why it is not ready."""

    DEPLOYMENT: ClassVar[Body] = {"metadata": {"name": "chat"}, "spec": {}, "status": {}}

    @staticmethod
    def of(replica_set: str, created: str, **rest: Any) -> Body:
        owner = {"kind": "ReplicaSet", "name": replica_set, "uid": replica_set, "controller": True}
        return pod(f"{replica_set}-x", created=created, ownerReferences=[owner], **rest)

    def test_an_old_revision_s_crash_does_not_hide_what_the_new_one_does(self) -> None:
        old = self.of("chat-old", "2026-01-01T00:00:00Z", containers=[waiting("CrashLoopBackOff", "back-off")])
        new = self.of("chat-new", "2026-01-02T00:00:00Z", conditions=[])
        found = causes.find([old, new], self.DEPLOYMENT)
        assert found is not None
        assert found.reason is conditions.PODS_STARTING

    def test_a_stranger_with_our_labels_is_not_listened_to(self) -> None:
        stranger = pod("stranger", phase="Failed", ownerReferences=[])
        assert causes.find([stranger], self.DEPLOYMENT) is None

    def test_an_evicted_pod_says_less_than_the_one_made_in_its_place(self) -> None:
        evicted = self.of("chat-a", "2026-01-01T00:00:00Z", phase="Failed")
        waits = self.of("chat-a", "2026-01-02T00:00:00Z", conditions=[])
        found = causes.find([evicted, waits], self.DEPLOYMENT)
        assert found is not None
        assert found.reason is conditions.PODS_STARTING

    def test_a_paused_deployment_is_named(self) -> None:
        found = causes.find([], {**self.DEPLOYMENT, "spec": {"paused": True}})
        assert found is not None
        assert found.reason is conditions.ROLLOUT_PAUSED
        assert "rollout resume" in found.message


@pytest.mark.parametrize(
    ("metadata", "spec", "expected"),
    [
        pytest.param({"deletionTimestamp": "2026-01-05T12:00:00Z"}, {}, "ChildDeleting", id="a finalizer holds it"),
        pytest.param({}, {"paused": True}, "RolloutPaused", id="somebody paused it"),
        pytest.param({}, {"paused": False}, None, id="neither"),
    ],
)
def test_a_deployment_that_stands_still_by_somebody_s_hand(metadata: Body, spec: Body, expected: str | None) -> None:
    cause = causes.find([], {"metadata": {"name": "chat", **metadata}, "spec": spec})
    assert (cause and cause.reason.name) == expected


def test_pods_that_cannot_be_made_give_the_same_message_at_each_try() -> None:
    """The API server makes up another name each time, and refuses that."""
    told = [causes.find([], deployment(QUOTA.replace("6d4c-", f"6d4c-{name}"))) for name in ("x7k2p", "9bzzq")]
    assert told[0] is not None
    assert told[0] == told[1]
    assert "exceeded quota: gpus, requested: requests.nvidia.com/gpu=1" in told[0].message


def minutes(after: int) -> str:
    return f"2026-01-05T10:{after:02}:00Z"


REJECTED = [failed("UnexpectedAdmissionError", "no device", f"chat-6d4c-r{n}", created=minutes(n)) for n in range(3)]


class TestFailedPods:
    """They stay for days, and their ReplicaSet makes another at once."""

    def test_one_after_another_outranks_the_newest_that_starts(self) -> None:
        starting = pod("chat-6d4c-new", created=minutes(3))
        found = causes.find([*REJECTED, starting], None)
        assert found is not None
        assert found.reason is conditions.POD_REJECTED
        assert "one after another: UnexpectedAdmissionError: no device" in found.message

    def test_the_message_is_the_same_before_and_after_another_is_made(self) -> None:
        between, after = causes.find(REJECTED, None), causes.find([*REJECTED, pod("z", created=minutes(3))], None)
        assert between is not None
        assert between == after

    @pytest.mark.parametrize(
        "others",
        [
            pytest.param([pod("late", created=minutes(40))], id="long before the pod that starts now"),
            pytest.param([pod(f"n{n}", created=minutes(3)) for n in range(3)], id="each replaced once, by a drain"),
        ],
    )
    def test_what_is_over_is_not_told(self, others: list[Body]) -> None:
        found = causes.find([*REJECTED, *others], None)
        assert found is not None
        assert found.reason is conditions.PODS_STARTING

    def test_they_are_over_once_their_replacement_has_been_ready_for_long(self) -> None:
        fine = pod("fine", ready=True, created=minutes(3))
        assert causes.relapse([*REJECTED, fine], None, frozenset()) is not None
        assert causes.relapse([*REJECTED, fine], None, frozenset({"fine"})) is None


class TestFlicker:
    READY_AGAIN = pod("again", ready=True, containers=[crashing(told("ModelLoadFailed"))])

    def test_a_pod_that_is_ready_between_two_crashes_is_the_same_cause(self) -> None:
        down = pod("again", containers=[crashing(told("ModelLoadFailed"))])
        assert causes.relapse([self.READY_AGAIN], None, frozenset()) == causes.find([down], None)

    def test_it_is_over_once_it_has_been_ready_for_long(self) -> None:
        assert causes.relapse([self.READY_AGAIN], None, frozenset({"again"})) is None

    @pytest.mark.parametrize(
        "body",
        [
            pytest.param(pod(ready=True, containers=[container(**RUNNING)]), id="never"),
            pytest.param(pod(ready=True, containers=[crashing(None, code=0)]), id="an end without an error"),
            pytest.param(pod(ready=True, containers=[crashing(told("DrainTimeout"))]), id="no fault"),
            pytest.param(pod(ready=True, init=[crashing(told("ModelNotFound"))]), id="of the init container: mended"),
            pytest.param(pod(containers=[crashing()]), id="a pod that is not ready: another cause"),
        ],
    )
    def test_what_is_no_relapse(self, body: Body) -> None:
        assert causes.relapse([body], None, frozenset()) is None

    def test_of_two_the_oldest_is_told_in_whatever_order_the_store_has_them(self) -> None:
        old, young = (pod(n, created=minutes(at), containers=[crashing()]) for at, n in enumerate("ba"))
        first, second = causes.find([old, young], None), causes.find([young, old], None)
        assert first == second
        assert first is not None
        assert first.pod == "b"


class TestUnhealthyDevices:
    """What the device plugin says of a GPU counts, however well its pod does."""

    SERVES = pod("x", ready=True, containers=[builders.on_device(device="GPU-7")])

    def test_a_pod_that_serves_on_one_is_told(self) -> None:
        found = causes.relapse([self.SERVES], None, frozenset({"x"}))
        assert found is not None
        assert (found.reason, found.pod) == (conditions.GPU_UNHEALTHY, "x")
        assert "GPU-7 (nvidia.com/gpu)" in found.message

    def test_it_goes_before_what_the_pod_says_itself(self) -> None:
        one = builders.on_device(waiting={"reason": "CrashLoopBackOff"})
        crashed = pod(containers=[{**one, "lastState": {"terminated": {"exitCode": 1}}}])
        found = causes.find([crashed], None)
        assert found is not None
        assert found.reason is conditions.GPU_UNHEALTHY

    @pytest.mark.parametrize(
        "body",
        [
            pytest.param(pod(ready=True, containers=[builders.on_device(health="Healthy")]), id="healthy"),
            pytest.param(pod(ready=True, containers=[builders.on_device(health="Unknown")]), id="unknown"),
            pytest.param({**SERVES, "status": {**SERVES["status"], "phase": "Failed"}}, id="a pod that is over"),
        ],
    )
    def test_otherwise_nothing_is(self, body: Body) -> None:
        found = causes.relapse([body], None, frozenset())
        assert found is None or found.reason is not conditions.GPU_UNHEALTHY


class TestLatency:
    """A model that answers, and not as fast as is asked for: the kubelet's start-up probe has passed."""

    ANSWERS = pod("x", phase="Running", init=[FETCHED], containers=[{**container(**RUNNING), "started": True}])

    @staticmethod
    def deployment(*args: str) -> Body:
        spec = {"containers": [{"name": "engine", "args": list(args)}]}
        return {"metadata": {"name": "chat"}, "spec": {"template": {"spec": spec}}}

    def test_it_is_waited_for_and_told_as_such(self) -> None:
        found = causes.find([self.ANSWERS], self.deployment("serve", contract.READY_LATENCY_FLAG, "200", "--"))
        assert found is not None
        assert (found.reason, found.reason.failing) == (conditions.READY_LATENCY_EXCEEDED, False)
        assert "within 200 ms (rollout.readyLatencyMilliseconds)" in found.message

    def test_where_nothing_is_asked_it_is_about_to_be_ready(self) -> None:
        found = causes.find([self.ANSWERS], self.deployment("serve"))
        assert found is not None
        assert found.reason is conditions.MODEL_LOADING

    def test_a_model_that_does_not_answer_yet_is_loading(self) -> None:
        loading = pod("x", phase="Running", init=[FETCHED], containers=[{**container(**RUNNING), "started": False}])
        found = causes.find([loading], self.deployment(contract.READY_LATENCY_FLAG, "200"))
        assert found is not None
        assert found.reason is conditions.MODEL_LOADING


def test_a_slow_model_and_a_broken_one_look_different() -> None:
    loading = causes.find([pod(phase="Running", init=[FETCHED], containers=[container(**RUNNING)])], None)
    broken = causes.find([pod(phase="Running", init=[FETCHED], containers=[crashing(code=1)])], None)
    assert loading is not None
    assert broken is not None
    assert (loading.reason.name, loading.reason.failing) == ("ModelLoading", False)
    assert (broken.reason.name, broken.reason.failing) == ("CrashLoop", True)


def test_the_pods_of_a_revision_that_came_back_count_though_they_are_the_oldest() -> None:
    def of(key: str, created: str, **rest: Any) -> Body:
        owner = {"kind": "ReplicaSet", "name": f"chat-{key}", "uid": key, "controller": True}
        return pod(f"chat-{key}", created=created, ownerReferences=[owner], labels={names.REVISION: key}, **rest)

    back = {"metadata": {"name": "chat"}, "spec": {"template": {"metadata": {"labels": {names.REVISION: "old"}}}}}
    left = of("new", minutes(5), containers=[crashing()])
    found = causes.find([of("old", minutes(1)), left], back)
    assert found is not None
    assert found.reason is conditions.PODS_STARTING
    assert causes.find([left], back) is None, "it has no pod yet"
