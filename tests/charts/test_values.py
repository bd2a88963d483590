"""Every value of the chart does what its comment says; the table has a row for each of them."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

import pytest
import yaml

from tests.charts.conftest import CHART, Manifest, Render, one
from tests.operator.golden_cases import CA_BUNDLE

pytestmark = pytest.mark.api  # needs a Go binary, no cluster

Look = Callable[[list[Manifest]], Any]
DIGEST = "sha256:" + "0" * 64


@dataclass(frozen=True)
class Row:
    """One value: what it is set to, where that shows, and what is seen there."""

    value: str
    given: Any
    look: Look
    seen: Any

    @property
    def values(self) -> dict[str, Any]:
        nested: Any = self.given
        for key in reversed(self.value.split(".")):
            nested = {key: nested}
        return nested


def deployment(manifests: list[Manifest]) -> Manifest:
    return one(manifests, "Deployment")


def pod(key: str) -> Look:
    return lambda manifests: deployment(manifests)["spec"]["template"]["spec"].get(key)


def pod_metadata(key: str, name: str) -> Look:
    return lambda manifests: deployment(manifests)["spec"]["template"]["metadata"][key].get(name)


def container(key: str) -> Look:
    return lambda manifests: deployment(manifests)["spec"]["template"]["spec"]["containers"][0][key]


def variable(name: str) -> Look:
    return lambda manifests: {one["name"]: one.get("value") for one in container("env")(manifests)}.get(name)


def count(kind: str) -> Look:
    return lambda manifests: sum(manifest["kind"] == kind for manifest in manifests)


def everywhere(key: str, name: str) -> Look:
    """What all objects have there, as a set."""
    return lambda manifests: {manifest["metadata"].get(key, {}).get(name) for manifest in manifests}


def metrics_readers(manifests: list[Manifest]) -> list[str]:
    (rule,) = [rule for rule in one(manifests, "NetworkPolicy")["spec"]["ingress"] if "from" in rule]
    assert rule["ports"] == [{"port": "metrics"}]
    (peer,) = rule["from"]
    (expression,) = peer["namespaceSelector"]["matchExpressions"]
    return list(expression["values"])


def scraped_every(manifests: list[Manifest]) -> str:
    return next((m["spec"]["podMetricsEndpoints"][0]["interval"] for m in manifests if m["kind"] == "PodMonitor"), "")


def labels_of(kind: str, *names: str) -> Look:
    return lambda manifests: {
        tuple(manifest["metadata"]["labels"].get(name) for name in names)
        for manifest in manifests
        if manifest["kind"] == kind
    }


def alerts(manifests: list[Manifest]) -> list[Manifest]:
    groups = [group for one in manifests if one["kind"] == "PrometheusRule" for group in one["spec"]["groups"]]
    return [rule for group in groups for rule in group["rules"] if "alert" in rule]


def runbook_hosts(manifests: list[Manifest]) -> set[str | None]:
    return {urlsplit(alert["annotations"]["runbook_url"]).hostname for alert in alerts(manifests)}


def has_alert(name: str) -> Look:
    """Whether the alerts, if there are some, have one of that name."""
    return lambda manifests: [any(one["alert"] == name for one in found) for found in [alerts(manifests)] if found]


def spread(manifests: list[Manifest]) -> list[tuple[str, Any]]:
    found = pod("topologySpreadConstraints")(manifests)
    return [(each["topologyKey"], each["labelSelector"]) for each in found]


OURS = {
    "matchLabels": {
        "app.kubernetes.io/name": "gptservice-operator",
        "app.kubernetes.io/instance": "gptservice-operator",
    }
}
SPREAD = {"maxSkew": 1, "whenUnsatisfiable": "DoNotSchedule"}
OTHERS = {"matchLabels": {"a": "b"}}
RESOURCES = {"requests": {"cpu": "2", "memory": "128Mi"}, "limits": {"memory": "1Gi"}}
AFFINITY = {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": []}}
TOLERATION = {"key": "infra", "operator": "Exists"}

ROWS = [
    Row("image.repository", "registry.example.com/op", container("image"), "registry.example.com/op:dev"),
    Row("image.tag", "1.2", container("image"), "localhost/gptservice-operator:1.2"),
    Row("image.digest", DIGEST, container("image"), f"localhost/gptservice-operator@{DIGEST}"),
    Row("image.pullPolicy", "Always", container("imagePullPolicy"), "Always"),
    Row("imagePullSecrets", ["a", "b"], pod("imagePullSecrets"), [{"name": "a"}, {"name": "b"}]),
    Row("runtime.image", "r:1", variable("GPTSERVICE_RUNTIME_IMAGE"), "r:1"),
    Row("runtime.cpuImage", "c:1", variable("GPTSERVICE_RUNTIME_CPU_IMAGE"), "c:1"),
    Row("runtime.imagePullSecrets", ["a", "b"], variable("GPTSERVICE_RUNTIME_IMAGE_PULL_SECRETS"), "a,b"),
    Row("runtime.pullPolicy", "Always", variable("GPTSERVICE_RUNTIME_IMAGE_PULL_POLICY"), "Always"),
    Row("runtime.vllmVersion", "0.40.0", variable("GPTSERVICE_RUNTIME_VLLM_VERSION"), "0.40.0"),
    Row("runtime.resources.cpu", 3, variable("GPTSERVICE_RUNTIME_CPU"), "3"),
    Row("runtime.resources.memory", "9Gi", variable("GPTSERVICE_RUNTIME_MEMORY"), "9Gi"),
    Row("runtime.cacheSize", "1Ti", variable("GPTSERVICE_RUNTIME_CACHE_SIZE"), "1Ti"),
    Row("runtime.scheduling", {"tolerations": [{"key": "a", "operator": "Exists"}]},
        variable("GPTSERVICE_RUNTIME_SCHEDULING"), '{"tolerations":[{"key":"a","operator":"Exists"}]}'),
    Row("runtime.proxy.http", "http://p", variable("GPTSERVICE_RUNTIME_HTTP_PROXY"), "http://p"),
    Row("runtime.proxy.https", "http://p", variable("GPTSERVICE_RUNTIME_HTTPS_PROXY"), "http://p"),
    Row("runtime.proxy.noProxy", ".a,b", variable("GPTSERVICE_RUNTIME_NO_PROXY"), ".a,b"),
    Row("runtime.caBundle", CA_BUNDLE, variable("GPTSERVICE_RUNTIME_CA_BUNDLE"), CA_BUNDLE),
    Row("runtime.hubEndpoint", "https://hub", variable("GPTSERVICE_HUB_ENDPOINT"), "https://hub"),
    Row("fsGroup", None, variable("GPTSERVICE_FS_GROUP"), ""),
    Row("namespaces", ["a", "b"], variable("GPTSERVICE_NAMESPACES"), "a,b"),
    Row("catalogue.enabled", False, variable("GPTSERVICE_CATALOGUE"), "false"),
    Row("resyncSeconds", 60, variable("GPTSERVICE_RESYNC_SECONDS"), "60"),
    Row("logLevel", "DEBUG", variable("GPTSERVICE_LOG_LEVEL"), "DEBUG"),
    Row("logFormat", "text", variable("GPTSERVICE_LOG_FORMAT"), "text"),
    Row("replicas", 3, lambda manifests: deployment(manifests)["spec"]["replicas"], 3),
    Row("leaseSeconds", 30, variable("GPTSERVICE_LEASE_SECONDS"), "30"),
    Row("resources", RESOURCES, container("resources"), RESOURCES),
    Row("extraEnv", [{"name": "A", "value": "b"}], variable("A"), "b"),
    Row("nodeSelector", {"infra": "yes"}, pod("nodeSelector"), {"infra": "yes"}),
    Row("tolerations", [TOLERATION], pod("tolerations"), [TOLERATION]),
    Row("affinity", AFFINITY, pod("affinity"), AFFINITY),
    Row("topologySpreadConstraints", [], pod("topologySpreadConstraints"), None),
    Row("topologySpreadConstraints", [{**SPREAD, "topologyKey": "zone"}], spread, [("zone", OURS)]),
    Row(
        "topologySpreadConstraints",
        [{**SPREAD, "topologyKey": "zone", "labelSelector": OTHERS}],
        spread,
        [("zone", OTHERS)],
    ),
    Row("priorityClassName", "system-cluster-critical", pod("priorityClassName"), "system-cluster-critical"),
    Row("podDisruptionBudget.enabled", False, count("PodDisruptionBudget"), 0),
    Row("networkPolicy.enabled", False, count("NetworkPolicy"), 0),
    Row("networkPolicy.metricsNamespaces", ["monitoring"], metrics_readers, ["gptservice-system", "monitoring"]),
    Row("podMonitor.enabled", True, count("PodMonitor"), 1),
    Row("podMonitor", {"enabled": True, "interval": "5s"}, scraped_every, "5s"),
    Row("podMonitor", {"enabled": True, "labels": {"release": "p"}}, everywhere("labels", "release"), {None, "p"}),
    Row("monitoring.dashboards.enabled", True, count("ConfigMap"), 3),
    Row("monitoring.dashboards", {"enabled": True, "labels": {"grafana": "x"}},
        labels_of("ConfigMap", "grafana", "grafana_dashboard"), {("x", "1")}),
    Row("monitoring.dashboards", {"enabled": True, "annotations": {"grafana_folder": "AI"}},
        everywhere("annotations", "grafana_folder"), {None, "AI"}),
    Row("monitoring.rules.enabled", True, count("PrometheusRule"), 2),
    Row("monitoring.rules", {"enabled": True, "labels": {"release": "p"}},
        labels_of("PrometheusRule", "release"), {("p",)}),
    Row("monitoring.rules", {"enabled": True, "runbookUrl": "https://git.example.com/x"},
        runbook_hosts, {"git.example.com"}),
    Row("monitoring.rules", {"enabled": True, "disabled": ["GPTServiceDown"]}, has_alert("GPTServiceDown"), [False]),
    Row("aggregatedRoles.enabled", False, count("ClusterRole"), 1),
    Row("crds.enabled", False, count("CustomResourceDefinition"), 0),
    Row("serviceAccount.annotations", {"a": "b"},
        lambda manifests: one(manifests, "ServiceAccount")["metadata"].get("annotations"), {"a": "b"}),
    Row("labels", {"team": "ml"}, everywhere("labels", "team"), {"ml"}),
    Row("labels", {"team": "ml"}, pod_metadata("labels", "team"), "ml"),
    Row("annotations", {"example.com/owner": "ml"}, everywhere("annotations", "example.com/owner"), {"ml"}),
    Row("podLabels", {"a": "b"}, pod_metadata("labels", "a"), "b"),
    Row("podAnnotations", {"a": "b"}, pod_metadata("annotations", "a"), "b"),
]  # fmt: skip


@pytest.mark.parametrize("row", [pytest.param(row, id=f"{row.value}={row.given}") for row in ROWS])
def test_the_value_is_seen_where_it_counts(render: Render, row: Row) -> None:
    assert row.look(render()) != row.seen, "the default shows the same, so that this row would prove nothing"
    assert row.look(render(row.values)) == row.seen


def leaves(values: dict[str, Any], covered: set[str], path: str = "") -> Iterator[str]:
    for key, value in values.items():
        if isinstance(value, dict) and value and path + key not in covered:
            yield from leaves(value, covered, f"{path}{key}.")
        else:
            yield f"{path}{key}"


def test_there_is_a_row_for_every_value() -> None:
    values = yaml.safe_load((CHART / "values.yaml").read_text())
    covered = {row.value for row in ROWS}
    told = {f"{row.value}.{key}" for row in ROWS if isinstance(row.given, dict) for key in row.given}
    missing = [
        leaf
        for leaf in leaves(values, covered)
        if leaf not in covered | told and not any(c.startswith(f"{leaf}.") for c in covered)
    ]
    assert not missing


def test_one_replica_has_no_disruption_budget(render: Render) -> None:
    """It would keep every drain of its node waiting, or mean nothing."""
    assert count("PodDisruptionBudget")(render({"replicas": 1})) == 0
    assert one(render(), "PodDisruptionBudget")["spec"]["maxUnavailable"] == 1


def test_replicas_are_spread_over_nodes_where_that_is_possible(render: Render) -> None:
    (constraint,) = pod("topologySpreadConstraints")(render())
    assert (constraint["topologyKey"], constraint["whenUnsatisfiable"]) == ("kubernetes.io/hostname", "ScheduleAnyway")
    assert constraint["labelSelector"] == OURS


def test_probes_come_from_everywhere_and_metrics_from_named_namespaces(render: Render) -> None:
    policy = one(render(), "NetworkPolicy")["spec"]
    assert policy["policyTypes"] == ["Ingress"]
    assert [rule["ports"] for rule in policy["ingress"] if "from" not in rule] == [[{"port": "health"}]]
    assert metrics_readers(render()) == ["gptservice-system"]
    ports = {port["name"] for port in container("ports")(render())}
    assert ports == {"health", "metrics"}, "the debug page is on the loopback, and no port of the pod"


def test_roles_of_people_are_no_wider_than_view_and_edit(render: Render) -> None:
    roles = {m["metadata"]["name"]: m for m in render() if m["kind"] == "ClusterRole"}
    view, edit = roles["gptservice-operator-view"], roles["gptservice-operator-edit"]
    assert [rule["verbs"] for rule in view["rules"]] == [["get", "list", "watch"]]
    written = {resource for rule in edit["rules"] for resource in rule["resources"]}
    assert written == {"gptservices", "gptservices/scale"}, "nobody writes a status, nor the catalogue"
    for role in (view, edit):
        aggregated = {key for key in role["metadata"]["labels"] if "aggregate-to" in key}
        assert {f"rbac.authorization.k8s.io/aggregate-to-{to}" for to in ("edit", "admin")} <= aggregated
    assert "rbac.authorization.k8s.io/aggregate-to-view" not in edit["metadata"]["labels"]


def test_rights_are_called_the_same_in_every_release(render: Render) -> None:
    """So that Helm refuses a second operator for what one looks after already."""
    rights = ("ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding")

    def names(values: dict[str, Any]) -> set[tuple[str, str, str]]:
        return {
            (m["kind"], m["metadata"].get("namespace", ""), m["metadata"]["name"])
            for m in render({**values, "aggregatedRoles": {"enabled": False}, "catalogue": {"enabled": False}})
            if m["kind"] in rights
        }

    assert ("ClusterRole", "", "gptservice-operator") in names({})
    assert ("Role", "team-a", "gptservice-operator") in names({"namespaces": ["team-a"]})
    assert ("Role", "gptservice-system", "gptservice-operator-lease") in names({})
