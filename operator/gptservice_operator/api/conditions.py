"""Condition types, and every reason that a condition can give, with its remedy."""

from dataclasses import dataclass

from .kinds import GROUP

ACCEPTED = "Accepted"
AVAILABLE = "Available"
PROGRESSING = "Progressing"
DEGRADED = "Degraded"
READY = "Ready"
TYPES: tuple[str, ...] = (ACCEPTED, AVAILABLE, PROGRESSING, DEGRADED, READY)


@dataclass(frozen=True, slots=True)
class Reason:
    """A documented reason. ``remedy`` is one sentence that says what a person can do; empty if nothing need be done."""

    name: str
    remedy: str = ""
    failing: bool = False
    """Whether it means a fault that waiting will not mend."""
    in_the_pod: bool = False
    """Whether the remedy is to look at the pod, which is gone once another revision runs instead."""

    def message(self, what: str) -> str:
        """Return ``what`` followed by the remedy."""
        return f"{what.rstrip('.')}. {self.remedy}" if self.remedy else what

    def lasting(self, message: str) -> str:
        """Return such a message without a remedy that needs the pod."""
        return message.removesuffix(f". {self.remedy}") if self.in_the_pod else message


ACCEPTED_OK = Reason("Accepted")
ACCEPTED_WITH_WARNINGS = Reason("AcceptedWithWarnings", "What is listed does not stop the service")
INVALID_SPEC = Reason("InvalidSpec", "Mend the field and apply the object again; what runs is left as it is", True)
UNKNOWN_MODEL = Reason(
    "UnknownModel",
    "Apply a GPTModel of that name (`kubectl get gptmodels` lists what there is) or set spec.model to a uri such as "
    "pvc://claim/path; the service goes on by itself",
)
CATALOGUE_DISABLED = Reason(
    "CatalogueDisabled",
    "Set spec.model to a uri such as hf://org/name or pvc://claim/path, or have the operator read the catalogue "
    "(the chart's catalogue.enabled)",
)
ROLLING_OUT = Reason("RollingOut")
PODS_STARTING = Reason("PodsStarting")
MODEL_LOADING = Reason("ModelLoading")
READY_LATENCY_EXCEEDED = Reason(
    "ReadyLatencyExceeded",
    "It is measured again until spec.startupTimeoutSeconds are over (`kubectl logs` of the pod has the figures); raise "
    "rollout.readyLatencyMilliseconds if that is too little for this model",
)
NAME_CONFLICT = Reason(
    "NameConflict",
    "Rename or delete what is named, or choose another name for the service; it is not touched",
    True,
)
CHILD_REJECTED = Reason(
    "ChildRejected",
    "Mend the spec if the field comes from there; else somebody changed the object by hand: `kubectl delete` it, and "
    "it is made again",
    True,
)
APPLY_FAILED = Reason("ApplyFailed", "It is tried again; if it lasts, mend what the API server names")
ROLLOUT_PAUSED = Reason("RolloutPaused", "Go on with `kubectl rollout resume` of the Deployment")
CHILD_DELETING = Reason("ChildDeleting", "It is waited for; see its metadata.finalizers for who holds it")
QUOTA_EXCEEDED = Reason(
    "QuotaExceeded",
    "Raise the namespace's ResourceQuota or lower what the service asks for; where old pods hold it, have one taken "
    "away first (spec.rollout: {maxSurge: 0, maxUnavailable: 1})",
)
FORBIDDEN = Reason("Forbidden", "Read the API server's message: a policy or a missing grant refuses the object", True)
SERVICE_ACCOUNT_NOT_FOUND = Reason(
    "ServiceAccountNotFound", "Create the ServiceAccount that is named, or unset spec.serviceAccountName"
)
UNSCHEDULABLE = Reason("Unschedulable", "Free or add what the scheduler names, or lower what the service asks for")
INSUFFICIENT_GPU = Reason("InsufficientGPU", "Free or add GPUs, or lower spec.gpu.count or spec.replicas")
SECRET_NOT_FOUND = Reason("SecretNotFound", "Create the Secret or key that is named; the pod goes on by itself")
API_KEYS_UNUSABLE = Reason("APIKeysUnusable", "Put a key into the Secret that status.authSecret names, one per line")
CERTIFICATE_UNUSABLE = Reason(
    "CertificateUnusable", "Put a valid certificate and its key, or client CA, into the Secret that spec.tls names"
)
ROLLOUT_BLOCKED = Reason(
    "RolloutBlocked",
    "Free or add what the scheduler names; or, if the old pods hold it, have one taken away first (spec.rollout: "
    "{maxSurge: 0, maxUnavailable: 1}); or undo the edit",
    True,
)
ROLLED_BACK = Reason(
    "RolledBack",
    f"Mend the spec, undo the edit, or have it tried again by another value of the annotation {GROUP}/retry",
    True,
)
VOLUME_NOT_READY = Reason(
    "VolumeNotReady", "Create or mend the claim or volume that is named; the pod goes on by itself"
)
VOLUME_IN_USE = Reason(
    "VolumeInUse",
    "The pod that holds the volume has to go first: set spec.rollout to {maxSurge: 0, maxUnavailable: 1}, or name a "
    "volume of access mode ReadWriteMany or ReadOnlyMany",
)
NO_SCHEDULER = Reason(
    "NoScheduler", "Start the scheduler of that name, or correct spec.scheduling.schedulerName; the pod goes on then"
)
READINESS_GATES_NOT_READY = Reason(
    "ReadinessGatesNotReady",
    "Look at the log of what sets the gate that is named (target-health.elbv2.k8s.aws: the AWS Load Balancer "
    "Controller); the pod takes traffic once it is True",
)
IMAGE_PULL_FAILED = Reason("ImagePullFailed", "Check the image's name and the pull secrets", True)
INVALID_IMAGE = Reason(
    "InvalidImage", "Use a runtime image derived from ours, with a vLLM that is built for the device of the pods", True
)
MODEL_NOT_FOUND = Reason("ModelNotFound", "Check the model's uri, and that it is there", True)
MODEL_ACCESS_DENIED = Reason("ModelAccessDenied", "Check the credentials and the files' permissions", True)
CHECKSUM_MISMATCH = Reason(
    "ChecksumMismatch", "Fetch the model's files again, or correct the digest or the key they are encrypted for", True
)
DISK_FULL = Reason("DiskFull", "Set spec.cache.size to what the message says the model needs, and more", True)
HUB_THROTTLED = Reason("HubThrottled", "It is tried again; with a token (huggingFaceTokenSecretRef) hubs allow more")
MODEL_DOWNLOAD_FAILED = Reason("ModelDownloadFailed", "It is tried again; check that pods can reach the model's source")
MODEL_DOWNLOAD_STALLED = Reason(
    "ModelDownloadStalled",
    "It is tried again, from where it was; check the network to the model's source",
)
AUTOSCALING_INACTIVE = Reason(
    "AutoscalingInactive", "Install or mend what serves the metric; until then the number of replicas stays as it is"
)
ENGINE_UNRESPONSIVE = Reason(
    "EngineUnresponsive",
    "Read `kubectl logs` of the pod; it serves again by itself once its engine answers, else delete the pod",
    failing=True,
    in_the_pod=True,
)
DRAIN_TIMEOUT = Reason("DrainTimeout", "Raise spec.drainTimeoutSeconds if requests were cut")
MODEL_LOAD_FAILED = Reason(
    "ModelLoadFailed", "Read the engine's last lines: `kubectl logs` of the pod", failing=True, in_the_pod=True
)
INVALID_ENGINE_ARGUMENT = Reason(
    "InvalidEngineArgument", "Correct spec.engine.args, or make a new GPTModel if the argument is one of its", True
)
OUT_OF_MEMORY = Reason("OutOfMemory", "Raise spec.resources.limits.memory or lower contextLength", True)
GPU_OUT_OF_MEMORY = Reason("GPUOutOfMemory", "Raise spec.gpu.count or lower contextLength", True)
GPU_UNHEALTHY = Reason(
    "GPUUnhealthy",
    "Look at that GPU on the pod's node (`nvidia-smi`, the device plugin's log); the pod is replaced by one with other "
    "GPUs once another serves or it does not itself, one pod in ten minutes",
    True,
)
CRASH_LOOP = Reason(
    "CrashLoop",
    "Read the last lines of the crashed container: `kubectl logs --previous`",
    failing=True,
    in_the_pod=True,
)
POD_FAILED = Reason("PodFailed", "Read `kubectl describe pod` of the pod that is named", failing=True, in_the_pod=True)
POD_EVICTED = Reason(
    "PodEvicted",
    "Raise what the kubelet names in spec.resources (or spec.cache.size), or free the node of others",
    True,
)
POD_REJECTED = Reason(
    "PodRejected",
    "Look at the node's device plugin and labels: the kubelet refuses what the scheduler has placed there",
    True,
)
PREEMPTED = Reason("Preempted", "Set spec.scheduling.priorityClassName, or add room for both")
NODE_LOST = Reason("NodeLost", "Look at the node (`kubectl get nodes`); the pod is made again elsewhere after a while")
NO_REPLICA = Reason("NoReplicaAvailable")
MINIMUM_REPLICAS = Reason("MinimumReplicasAvailable")
ALL_REPLICAS_READY = Reason("AllReplicasReady")
NOT_DEGRADED = Reason("AsExpected")
REVISION_STABLE = Reason("RevisionStable")
"""Of an Event alone."""
STOPPED = Reason("Stopped", "Set spec.replicas above 0 to start the service again")

REASONS: dict[str, Reason] = {value.name: value for value in list(globals().values()) if isinstance(value, Reason)}
"""In the order in which those of one moment are told: first what the spec is, then what goes on, then how it is."""
