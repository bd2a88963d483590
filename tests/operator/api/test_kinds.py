"""REST paths of every kind."""

import pytest

from gptservice_operator.api import kinds


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        (kinds.GPT_SERVICE.path(), "/apis/ai.example.com/v1/gptservices"),
        (kinds.GPT_SERVICE.path("a", "b"), "/apis/ai.example.com/v1/namespaces/a/gptservices/b"),
        (kinds.GPT_SERVICE.path("a", "b", "status"), "/apis/ai.example.com/v1/namespaces/a/gptservices/b/status"),
        (kinds.GPT_MODEL.path(), "/apis/ai.example.com/v1/gptmodels"),
        (kinds.GPT_MODEL.path("ignored", "b"), "/apis/ai.example.com/v1/gptmodels/b"),
        (kinds.DEPLOYMENT.path("a", "b"), "/apis/apps/v1/namespaces/a/deployments/b"),
        (kinds.SERVICE.path("a"), "/api/v1/namespaces/a/services"),
        (kinds.CONFIG_MAP.path("a", "b"), "/api/v1/namespaces/a/configmaps/b"),
        (kinds.SERVICE_ACCOUNT.path("a", "b"), "/api/v1/namespaces/a/serviceaccounts/b"),
        (kinds.PERSISTENT_VOLUME_CLAIM.path("a", "b"), "/api/v1/namespaces/a/persistentvolumeclaims/b"),
        (kinds.POD_DISRUPTION_BUDGET.path("a", "b"), "/apis/policy/v1/namespaces/a/poddisruptionbudgets/b"),
        (kinds.NETWORK_POLICY.path("a", "b"), "/apis/networking.k8s.io/v1/namespaces/a/networkpolicies/b"),
        (kinds.CERTIFICATE.path("a", "b"), "/apis/cert-manager.io/v1/namespaces/a/certificates/b"),
        (kinds.POD_MONITOR.path("a", "b"), "/apis/monitoring.coreos.com/v1/namespaces/a/podmonitors/b"),
        (kinds.CERTIFICATE.version_path, "/apis/cert-manager.io/v1"),
        (kinds.POD.version_path, "/api/v1"),
        (kinds.POD.path(), "/api/v1/pods"),
    ],
)
def test_paths(path: str, expected: str) -> None:
    assert path == expected


def test_a_pass_writes_what_pods_refer_to_before_the_deployment() -> None:
    order = [kind.name for kind in kinds.CHILDREN]
    assert order[order.index("Deployment") :] == [
        "Deployment",
        "Service",
        "HorizontalPodAutoscaler",
        "PodDisruptionBudget",
        "NetworkPolicy",
        "PodMonitor",
    ]
    assert order[: order.index("Deployment")] == [
        "ServiceAccount",
        "PersistentVolumeClaim",
        "ConfigMap",
        "Certificate",
        "ControllerRevision",
    ]


def test_every_watched_kind_is_found_by_its_name() -> None:
    assert {kind.name for kind in kinds.WATCHED} == {
        "GPTService", "GPTModel", "ServiceAccount", "PersistentVolumeClaim", "ConfigMap", "ControllerRevision",
        "Deployment", "Service", "HorizontalPodAutoscaler", "PodDisruptionBudget", "NetworkPolicy", "Certificate",
        "PodMonitor", "Pod",
    }  # fmt: skip
    assert all(kinds.BY_NAME[kind.name] is kind for kind in kinds.WATCHED)
