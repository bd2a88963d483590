"""The services whose manifests are kept as golden files, and what their catalogue holds."""

from dataclasses import dataclass, field
from typing import Any

from gptservice_operator import companions, render
from gptservice_operator.api.scheduling import Scheduling
from gptservice_operator.config import Config
from gptservice_operator.render.resolved import Resolved
from tests.operator import builders
from tests.operator.builders import Body


@dataclass(frozen=True)
class Case:
    """One service."""

    spec: Body
    name: str = "chat"
    models: tuple[Body, ...] = ()
    settings: Config = field(default_factory=builders.config)
    seen: companions.Seen = companions.NOTHING_SEEN

    def resolved(self) -> Resolved:
        return builders.resolved(self.spec, *self.models, name=self.name, settings=self.settings, seen=self.seen)

    def manifests(self) -> list[Body]:
        return render.render(self.resolved())


def secret_key(name: str, key: str, **more: Any) -> Body:
    return {"secretKeyRef": {"name": name, "key": key, **more}}


SCHEDULING: Body = {
    "nodeSelector": {"node-role.kubernetes.io/gpu": "", "zone": "a"},
    "tolerations": [
        {"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"},
        {"key": "spot", "operator": "Equal", "value": "true", "effect": "NoExecute", "tolerationSeconds": 60},
    ],
    "affinity": {
        "nodeAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": {
                "nodeSelectorTerms": [
                    {"matchExpressions": [{"key": "gpu-memory", "operator": "Gt", "values": ["40"]}]},
                    {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["node-1"]}]},
                ]
            },
            "preferredDuringSchedulingIgnoredDuringExecution": [
                {"weight": 10, "preference": {"matchExpressions": [{"key": "fast", "operator": "Exists"}]}}
            ],
        },
        "podAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": [
                {
                    "labelSelector": {"matchLabels": {"app": "gateway"}},
                    "topologyKey": "topology.kubernetes.io/zone",
                    "namespaces": ["gateways"],
                }
            ]
        },
        "podAntiAffinity": {
            "preferredDuringSchedulingIgnoredDuringExecution": [
                {
                    "weight": 100,
                    "podAffinityTerm": {
                        "labelSelector": {"matchExpressions": [{"key": "app", "operator": "In", "values": ["llm"]}]},
                        "namespaceSelector": {"matchLabels": {"team": "a"}},
                        "topologyKey": "kubernetes.io/hostname",
                    },
                }
            ]
        },
    },
    "topologySpreadConstraints": [
        {"maxSkew": 1, "topologyKey": "topology.kubernetes.io/zone", "whenUnsatisfiable": "DoNotSchedule"},
        {"maxSkew": 2, "topologyKey": "kubernetes.io/hostname", "whenUnsatisfiable": "ScheduleAnyway"},
    ],
    "priorityClassName": "serving",
    "runtimeClassName": "nvidia",
    "schedulerName": "gang-scheduler",
}

CA_BUNDLE = "-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----\n"

ENV_VALUE_FROM: list[Body] = [
    {"name": "PLAIN", "value": "as it stands"},
    {"name": "FROM_SECRET", "valueFrom": secret_key("hub", "token", optional=True)},
    {"name": "FROM_CONFIG_MAP", "valueFrom": {"configMapKeyRef": {"name": "settings", "key": "mode"}}},
    {"name": "FROM_POD", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}},
    {
        "name": "FROM_CONTAINER",
        "valueFrom": {"resourceFieldRef": {"resource": "limits.memory", "containerName": "engine"}},
    },
]

CASES: dict[str, Case] = {
    "minimal": Case({"model": "pvc://models/smollm2-135m-instruct"}),
    "everything": Case(
        {
            "model": "pvc://models/llama-70b",
            "servedModelNames": ["llama", "llama-70b"],
            "replicas": 3,
            "maxTokens": 2048,
            "contextLength": 8192,
            "maxInflightRequests": 128,
            "upgradeStrategy": "RollingUpdate",
            "gpu": {"count": 4, "resourceName": "nvidia.com/gpu", "product": "NVIDIA-H200"},
            "resources": {
                "requests": {"cpu": 8, "memory": "64Gi", "ephemeral-storage": "10Gi"},
                "limits": {"cpu": "16", "memory": "128Gi"},
            },
            "engine": {
                "type": "VLLM",
                "image": "registry.example.com/team/runtime:7",
                "args": ["--dtype=bfloat16", "--seed", "1"],
                "env": [{"name": "NCCL_DEBUG", "value": "WARN"}, {"name": "EMPTY", "value": ""}],
            },
            "scheduling": {"priorityClassName": "serving"},
            "tracing": {"otlpEndpoint": "http://collector.observability:4317"},
            "startupTimeoutSeconds": 3600,
            "drainTimeoutSeconds": 120,
        }
    ),
    "cpu": Case(
        {"model": "file:///opt/models/tiny", "gpu": {"count": 0}, "resources": {"limits": {"memory": "4Gi"}}},
        settings=builders.config(fs_group=None),
    ),
    "gpu-slice": Case(
        {"model": "pvc://models/m", "gpu": {"count": 2, "resourceName": "nvidia.com/mig-1g.10gb", "product": "A100"}}
    ),
    "recreate": Case({"model": "pvc://models/m", "replicas": 1, "upgradeStrategy": "Recreate"}),
    "dotted-name": Case({"model": "pvc://models/m"}, name="llama-3.1-8b"),
    "scheduling": Case({"model": "pvc://models/m", "gpu": {"product": "NVIDIA-L4"}, "scheduling": SCHEDULING}),
    "defaults-of-pods": Case(
        {
            "model": "pvc://models/m",
            "scheduling": {"nodeSelector": {"zone": "b"}, "tolerations": [{"key": "a", "operator": "Exists"}]},
        },
        settings=builders.config(runtime_scheduling=Scheduling.model_validate(SCHEDULING)),
    ),
    "env-value-from": Case({"model": "pvc://models/m", "engine": {"env": ENV_VALUE_FROM}}),
    "catalogue": Case(
        {
            "modelRef": "gpt-3.5-turbo-2024-04",
            "replicas": 3,
            "maxInflightRequests": 128,
            "upgradeStrategy": "RollingUpdate",
        },
        name="prod-gpt-35",
        models=(
            builders.gpt_model(
                "gpt-3.5-turbo-2024-04",
                contextLength=2048,
                gpu={"count": 0},
                engine={"args": ["--dtype=bfloat16", "--enforce-eager"]},
            ),
        ),
        settings=builders.config(runtime_cpu="2", runtime_memory="6Gi", runtime_image_pull_policy="Always"),
    ),
    "exposed": Case(
        {
            "model": "pvc://models/m",
            "replicas": 2,
            "rollout": {"maxSurge": "25%", "maxUnavailable": 1, "readyLatencyMilliseconds": 200},
            "service": {"type": "LoadBalancer", "port": 8080, "annotations": {"example.com/scheme": "internal"}},
            "podLabels": {"team": "a", "app.kubernetes.io/instance": "argo-app", "gptservice-name": "other"},
            "podAnnotations": {"example.com/note": "x", "argocd.argoproj.io/tracking-id": "y"},
            "serviceAccountName": "serving",
            "imagePullSecrets": [{"name": "registry"}, {"name": "mirror"}],
            "priority": "High",
        }
    ),
    "hub": Case(
        {
            "model": "org/name@v1.0",
            "modelDigest": "sha256:" + "1" * 64,
            "huggingFaceTokenSecretRef": {"name": "hub", "key": "token"},
        },
        settings=builders.config(hub_endpoint="https://hub.example.com"),
    ),
    "private-network": Case(
        {"model": "org/name"},
        settings=builders.config(
            runtime_https_proxy="http://proxy.example.com:3128",
            runtime_no_proxy=(".example.net",),
            hub_endpoint="https://hub.example.com",
            runtime_ca_bundle=CA_BUNDLE,
            runtime_image_pull_secrets=("registry",),
        ),
    ),
    "encrypted": Case(
        {
            "model": "pvc://models/llama-70b-encrypted",
            "decryptionKeySecretRef": {"name": "weights-key", "key": "key"},
            "resources": {"limits": {"memory": "160Gi"}},
        }
    ),
    "object-store": Case(
        {
            "modelRef": "m",
            "modelCredentialsSecretRef": {"name": "own"},
            "gpu": {"count": 0},
            "resources": {"limits": {"memory": "8Gi"}},
        },
        models=(builders.gpt_model("m", uri="s3://bucket/m", modelCredentialsSecretRef={"name": "entry-s"}),),
    ),
    "autoscaled": Case(
        {
            "model": "pvc://models/m",
            "replicas": 2,
            "autoscaling": {
                "minReplicas": 2,
                "maxReplicas": 8,
                "metrics": [
                    {"type": "CPU", "averageUtilization": 60},
                    {"type": "Pods", "name": "vllm:num_requests_waiting", "averageValue": "1500m"},
                ],
                "behavior": {"scaleDown": {"stabilizationWindowSeconds": 600, "selectPolicy": "Min"}},
            },
        }
    ),
    "keys-of-the-user": Case({"model": "pvc://models/m", "auth": {"apiKeys": {"secretRef": {"name": "team-keys"}}}}),
    "tls": Case({"model": "pvc://models/m", "tls": {"secretName": "chat-cert"}}),
    "mutual-tls": Case(
        {
            "model": "pvc://models/m",
            "tls": {"issuerRef": {"name": "internal"}, "clientCASecretRef": {"name": "clients", "key": "root.pem"}},
        },
        seen=builders.EVERYTHING_SERVED,
    ),
    "no-keys": Case({"model": "pvc://models/m", "auth": {"disabled": True}}),
    "one-pod-cache": Case({"model": "pvc://models/m", "cache": {"size": "10Gi"}}),
    "shared-cache": Case(
        {
            "model": "pvc://models/m",
            "replicas": 2,
            "cache": {"size": "1Ti", "storageClassName": "nfs", "accessModes": ["ReadWriteOnce", "ReadWriteMany"]},
            "monitoring": {"namespaces": ["observability", "prometheus"]},
        },
        name="default",
    ),
    "other-operators": Case(
        {"model": "pvc://models/m", "tls": {"issuerRef": {"name": "corp", "kind": "ClusterIssuer"}}},
        name="llama-3.1-8b",
        seen=builders.EVERYTHING_SERVED,
    ),
    "nothing-around": Case(
        {
            "model": "pvc://models/m",
            "replicas": 2,
            "serviceAccountName": "serving",
            "cache": {"persistentVolumeClaim": {"claimName": "weights"}},
            "disruptionBudget": {"disabled": True},
            "networkPolicy": {"disabled": True},
            "monitoring": {"podMonitor": "Disabled"},
        },
        seen=builders.EVERYTHING_SERVED,
    ),
}
