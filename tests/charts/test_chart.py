"""The chart: what it renders, what it grants, and what it refuses."""

import os
import re
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml
from kubernetes.client import models

from e2e import documents
from gptservice_operator import config, lease
from gptservice_operator.api import kinds
from gptservice_operator.api.scheduling import Scheduling
from tests.charts.conftest import CATALOGUE, CHART, Helm, Render, one
from tests.operator.golden_cases import CA_BUNDLE, SCHEDULING

pytestmark = pytest.mark.api  # needs a Go binary, no cluster

ROOT = CHART.parents[1]
SNAPSHOTS = Path(__file__).parent / "snapshots"

VALUES: dict[str, dict[str, Any]] = {
    "default": {},
    "namespaces": {"namespaces": ["team-a", "team-b"], "catalogue": {"enabled": False}},
    "openshift": {
        "fsGroup": None,
        "image": {"repository": "registry.example.com/ai/gptservice-operator", "tag": "0.1.0"},
        "imagePullSecrets": ["registry"],
        "runtime": {
            "image": "registry.example.com/ai/gptservice-runtime:0.1.0",
            "resources": {"cpu": 4, "memory": "64Gi"},
        },
        "resyncSeconds": 0.5,
        "logLevel": "DEBUG",
        "extraEnv": [{"name": "GPTSERVICE_WORKERS", "value": "4"}],
        "nodeSelector": {"node-role.kubernetes.io/infra": ""},
        "tolerations": [{"key": "node-role.kubernetes.io/infra", "operator": "Exists"}],
    },
    "production": {
        "image": {"repository": "registry.example.com/ai/gptservice-operator", "digest": "sha256:" + "0" * 64},
        "replicas": 3,
        "priorityClassName": "system-cluster-critical",
        "networkPolicy": {"metricsNamespaces": ["monitoring"]},
        "podMonitor": {"enabled": True, "labels": {"release": "prometheus"}},
        "serviceAccount": {"annotations": {"example.com/cloud-role": "operator"}},
        "labels": {"team": "ml"},
        "annotations": {"example.com/owner": "platform"},
        "podLabels": {"sidecar": "none"},
        "podAnnotations": {"example.com/restart": "never"},
    },
}


CLUSTER_WIDE = {"gptmodels", "customresourcedefinitions"}
RIGHTS = "gptservice-operator"
"""Name of the ClusterRole or the Roles that the operator has, whatever the release is called."""


def container(manifests: list[dict[str, Any]]) -> dict[str, Any]:
    return one(manifests, "Deployment")["spec"]["template"]["spec"]["containers"][0]


def environment(manifests: list[dict[str, Any]]) -> dict[str, str]:
    """The variables as the container sees them; those of the downward API by the path of their field."""
    return {
        variable["name"]: variable.get("value")
        or variable.get("valueFrom", {}).get("fieldRef", {}).get("fieldPath", "")
        for variable in container(manifests)["env"]
    }


@pytest.mark.parametrize("folder", [CHART, CATALOGUE], ids=lambda folder: folder.name)
def test_helm_lint_finds_nothing(helm: Helm, folder: Path) -> None:
    done = helm("lint", "--strict", str(folder))
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("case", VALUES)
def test_rendered_manifests_are_those_of_the_snapshot(render: Render, case: str) -> None:
    """To accept a change: UPDATE_SNAPSHOTS=1 make test-api, and read the diff."""
    manifests = [m for m in render(VALUES[case]) if m["kind"] != "CustomResourceDefinition"]
    text, snapshot = yaml.safe_dump_all(manifests, sort_keys=False), SNAPSHOTS / f"{case}.yaml"
    if os.environ.get("UPDATE_SNAPSHOTS"):
        snapshot.write_text(text)
    assert text == snapshot.read_text()


@pytest.mark.parametrize("case", VALUES)
def test_the_same_values_render_the_same(helm: Helm, case: str) -> None:
    """What differs from one rendering to the next differs from Git for ever, and restarts pods."""
    first, second = (helm("template", "r", str(CHART), values=VALUES[case]).stdout for _ in range(2))
    assert first == second


def test_no_template_asks_the_cluster_the_clock_or_chance() -> None:
    files = [file for chart in (CHART, CATALOGUE) for file in (chart / "templates").iterdir()]
    impure = re.compile(r"\b(lookup|rand\w+|uuidv4|now|gen[A-Z]\w+|getHostByName|IsUpgrade)\b")
    found = [
        (file.name, word)
        for file in files
        for block in re.findall(r"{{.*?}}", file.read_text(), re.DOTALL)
        if "/*" not in block
        for word in impure.findall(block)
    ]
    assert not found


@pytest.mark.parametrize("case", VALUES)
def test_kubernetes_own_models_accept_every_manifest(render: Render, case: str) -> None:
    for manifest in render(VALUES[case]):
        if manifest["kind"] == "PodMonitor":  # of which there is no model; the api level has its CRD
            continue
        getattr(models, f"V1{manifest['kind']}").model_validate(manifest)


@pytest.mark.parametrize("case", VALUES)
def test_the_operator_can_start_from_the_environment_it_is_given(render: Render, case: str) -> None:
    given = environment(render(VALUES[case]))
    known = {config.PREFIX + name.upper() for name in config.Config.__annotations__}
    assert set(given) <= known
    loaded = config.load(given)
    values = VALUES[case]
    assert loaded.fs_group == values.get("fsGroup", 65532)
    assert loaded.resync_seconds == values.get("resyncSeconds", 600)
    assert loaded.log_level == values.get("logLevel", "INFO")
    assert loaded.namespaces == tuple(values.get("namespaces", ()))
    assert loaded.catalogue is ("namespaces" not in values)


def test_what_is_said_of_every_pod_reaches_the_operator_as_it_is_written(render: Render) -> None:
    loaded = config.load(environment(render({"runtime": {"scheduling": SCHEDULING}})))
    assert loaded.runtime_scheduling == Scheduling.model_validate(SCHEDULING)


@pytest.mark.parametrize("block", ["Where models come from, yaml 2", "Where pods run, yaml 1"])
def test_the_operator_starts_with_the_values_that_the_documents_show(render: Render, block: str) -> None:
    (text,) = [each.text for each in documents.blocks() if each.name == f"docs/operations.md: {block}"]
    before, after = (config.load(environment(render(values))) for values in ({}, yaml.safe_load(text)))
    assert before != after


def test_a_ten_digit_group_stays_a_whole_number(render: Render) -> None:
    assert environment(render({"fsGroup": 1000770000}))["GPTSERVICE_FS_GROUP"] == "1000770000"


@pytest.mark.parametrize(
    ("given", "told"), [(8589934592, "8589934592"), ("8589934592", "8589934592"), ("64Gi", "64Gi")]
)
def test_a_quantity_in_bytes_stays_a_whole_number(render: Render, given: Any, told: str) -> None:
    runtime = {"resources": {"cpu": 4, "memory": given}, "cacheSize": given}
    manifests = render({"runtime": runtime, "resources": {"limits": {"memory": given}}})
    loaded = config.load(environment(manifests))
    assert (loaded.runtime_cpu, loaded.runtime_memory, loaded.runtime_cache_size) == ("4", told, told)
    (container,) = one(manifests, "Deployment")["spec"]["template"]["spec"]["containers"]
    assert str(container["resources"]["limits"]["memory"]) == told


def test_a_period_of_weeks_is_a_number(render: Render) -> None:
    assert config.load(environment(render({"resyncSeconds": 1209600}))).resync_seconds == 1209600


def test_crds_are_the_generated_ones_and_outlive_the_release(render: Render) -> None:
    rendered = {m["metadata"]["name"]: m for m in render() if m["kind"] == "CustomResourceDefinition"}
    files = [yaml.safe_load(path.read_text()) for path in (ROOT / "crds").glob("*.yaml")]
    generated = {manifest["metadata"]["name"]: manifest for manifest in files}
    assert set(rendered) == set(generated)
    for name, crd in rendered.items():
        assert crd["spec"] == generated[name]["spec"]
        assert crd["metadata"]["annotations"]["helm.sh/resource-policy"] == "keep"


def test_the_pod_meets_pod_security_restricted(render: Render) -> None:
    pod = one(render(), "Deployment")["spec"]["template"]["spec"]
    assert pod["securityContext"] == {"runAsNonRoot": True, "seccompProfile": {"type": "RuntimeDefault"}}
    for one_container in pod["containers"]:
        security = one_container["securityContext"]
        assert security["allowPrivilegeEscalation"] is False
        assert security["readOnlyRootFilesystem"] is True
        assert security["capabilities"] == {"drop": ["ALL"]}
    assert not {"hostNetwork", "hostPID", "hostIPC", "volumes"} & set(pod)


def test_one_of_two_replicas_leads_and_each_knows_its_pod(render: Render) -> None:
    """A container that is started again takes its own Lease back, by its pod's UID."""
    manifests = render()
    assert one(manifests, "Deployment")["spec"]["replicas"] == 2
    given = environment(manifests)
    assert given["GPTSERVICE_LEASE_SECONDS"] == "15"
    assert (given["GPTSERVICE_POD_NAME"], given["GPTSERVICE_POD_UID"]) == ("metadata.name", "metadata.uid")


@pytest.mark.parametrize("catalogue", [True, False])
def test_in_some_namespaces_the_operator_has_its_rights_there_and_nowhere_else(render: Render, catalogue: bool) -> None:
    manifests = render({"namespaces": ["team-a", "team-b"], "catalogue": {"enabled": catalogue}})
    bound = {m["roleRef"]["name"] for m in manifests if m["kind"] == "ClusterRoleBinding"}
    roles = [m for m in manifests if m["kind"] == "ClusterRole" and m["metadata"]["name"] in bound]
    everywhere = [rule for role in roles for rule in role["rules"]]
    reads = {"apiGroups": ["ai.example.com"], "resources": ["gptmodels"], "verbs": ["list", "watch"]}
    assert everywhere == ([reads] if catalogue else [])
    rules = {m["metadata"]["namespace"]: m["rules"] for m in manifests if m["kind"] == "Role"}
    assert set(rules) == {"team-a", "team-b", "gptservice-system"}
    in_all = one(render(), "ClusterRole", RIGHTS)["rules"]
    assert rules["team-a"] == rules["team-b"] == [r for r in in_all if not CLUSTER_WIDE & set(r["resources"])]
    assert {m["metadata"]["namespace"] for m in manifests if m["kind"] == "RoleBinding"} == set(rules)


def test_the_lease_of_the_election_and_no_other_can_be_changed(render: Render) -> None:
    make, change = one(render(), "Role")["rules"]
    assert make == {"apiGroups": ["coordination.k8s.io"], "resources": ["leases"], "verbs": ["create"]}
    assert (change["resourceNames"], change["verbs"]) == ([lease.NAME], ["get", "update"])


def test_the_role_grants_no_wildcard_and_nothing_on_nodes(render: Render) -> None:
    rules = one(render(), "ClusterRole", RIGHTS)["rules"]
    granted = {entry for rule in rules for entry in (*rule["resources"], *rule["verbs"], *rule["apiGroups"])}
    assert not granted & {"*", "nodes", "pods/exec", "escalate", "bind", "impersonate"}


def test_secrets_can_be_made_and_nothing_else(render: Render) -> None:
    (rule,) = [rule for rule in one(render(), "ClusterRole", RIGHTS)["rules"] if "secrets" in rule["resources"]]
    assert rule == {"apiGroups": [""], "resources": ["secrets"], "verbs": ["create"]}


def granted(manifests: list[dict[str, Any]]) -> dict[tuple[str, str], set[str]]:
    """The verbs by group and resource."""
    found: dict[tuple[str, str], set[str]] = {}
    for rule in one(manifests, "ClusterRole", RIGHTS)["rules"]:
        for group in rule["apiGroups"]:
            for resource in rule["resources"]:
                found.setdefault((group, resource), set()).update(rule["verbs"])
    return found


def test_pods_can_be_seen_and_taken_away_and_nothing_else(render: Render) -> None:
    assert granted(render())["", "pods"] == {"list", "watch", "delete"}


@pytest.mark.parametrize("kind", kinds.CHILDREN, ids=lambda kind: kind.name)
def test_every_child_can_be_watched_and_applied(render: Render, kind: kinds.Kind) -> None:
    group, _, _ = kind.api_version.rpartition("/")
    verbs = granted(render())[group, kind.plural]
    assert {"get", "list", "watch", "create", "patch"} <= verbs <= {"get", "list", "watch", "create", "patch", "delete"}


def test_no_claim_can_be_deleted(render: Render) -> None:
    """What is on it goes with the GPTService only, and that is Kubernetes' work."""
    assert "delete" not in granted(render())["", "persistentvolumeclaims"]


def test_the_operator_is_told_its_namespace(render: Render) -> None:
    assert environment(render())["GPTSERVICE_NAMESPACE"] == "gptservice-system"


def test_the_binding_names_the_account_that_the_pod_runs_as(render: Render) -> None:
    manifests = render()
    (subject,) = one(manifests, "ClusterRoleBinding")["subjects"]
    account = one(manifests, "ServiceAccount")["metadata"]
    assert (subject["name"], subject["namespace"]) == (account["name"], account["namespace"])
    assert one(manifests, "Deployment")["spec"]["template"]["spec"]["serviceAccountName"] == account["name"]


@pytest.mark.parametrize("folder", [CHART, CATALOGUE], ids=lambda folder: folder.name)
def test_the_chart_has_the_projects_version(folder: Path) -> None:
    chart = yaml.safe_load((folder / "Chart.yaml").read_text())
    version = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
    assert (chart["version"], chart["appVersion"]) == (version, version)


@pytest.mark.parametrize(
    ("values", "said"),
    [
        pytest.param({"bogus": 1}, "'bogus' not allowed", id="unknown key"),
        pytest.param({"runtime": {"imgae": "x"}}, "'imgae' not allowed", id="unknown key further down"),
        pytest.param({"replicas": "2"}, "/replicas", id="replicas as text"),
        pytest.param({"leaseSeconds": 2}, "/leaseSeconds", id="a lease that one slow request loses"),
        pytest.param({"logFormat": "JSON"}, "/logFormat", id="log format"),
        pytest.param({"image": "operator:dev"}, "/image", id="an image as one string"),
        pytest.param({"image": {"tag": "a tag"}}, "/image/tag", id="a tag that cannot be one"),
        pytest.param({"runtime": {"pullPolicy": "Sometimes"}}, "/runtime/pullPolicy", id="pull policy"),
        pytest.param({"runtime": {"image": ""}}, "/runtime/image", id="no runtime image"),
        pytest.param(
            {"runtime": {"imagePullSecrets": [{"name": "a"}]}},
            "/runtime/imagePullSecrets/0",
            id="a Secret as an object",
        ),
        pytest.param({"runtime": {"resources": {"memory": "8 GB"}}}, "/runtime/resources/memory", id="quantity"),
        pytest.param({"runtime": {"cacheSize": -1}}, "/runtime/cacheSize", id="less than nothing"),
        pytest.param({"fsGroup": -1}, "/fsGroup", id="negative group"),
        pytest.param({"fsGroup": "65532"}, "/fsGroup", id="a group as text"),
        pytest.param(
            {"runtime": {"scheduling": {"nodeSelektor": {}}}}, "'nodeSelektor' not allowed", id="no such field"
        ),
        pytest.param(
            {"runtime": {"scheduling": {"tolerations": [{"operator": "Lt"}]}}}, "/operator", id="an operator of none"
        ),
        pytest.param({"runtime": {"proxy": {"http": "http://a:b@p"}}}, "/runtime/proxy/http", id="a proxy's password"),
        pytest.param({"runtime": {"proxy": {"noProxy": "10.0.0.0/8"}}}, "/runtime/proxy/noProxy", id="a network"),
        pytest.param({"runtime": {"caBundle": "ca.pem"}}, "/runtime/caBundle", id="a file's name"),
        pytest.param(
            {"runtime": {"caBundle": f"{CA_BUNDLE}-----BEGIN EC PRIVATE KEY-----"}},
            "/runtime/caBundle",
            id="a key, too",
        ),
        pytest.param({"runtime": {"caBundle": CA_BUNDLE * 2000}}, "/runtime/caBundle", id="too many authorities"),
        pytest.param({"resyncSeconds": 0}, "/resyncSeconds", id="no resync"),
        pytest.param({"resyncSeconds": "10m"}, "/resyncSeconds", id="a duration as text"),
        pytest.param({"logLevel": "debug"}, "/logLevel", id="log level in lower case"),
        pytest.param({"extraEnv": {"A": "b"}}, "/extraEnv", id="environment as a map"),
        pytest.param({"image": {"digest": "sha256:12"}}, "/image/digest", id="half a digest"),
        pytest.param({"namespaces": ["Team A"]}, "/namespaces/0", id="a namespace that cannot be one"),
        pytest.param({"namespaces": ["a", "a"]}, "/namespaces", id="a namespace twice"),
        pytest.param({"namespaces": "team-a"}, "/namespaces", id="namespaces as text"),
        pytest.param({"labels": {"app.kubernetes.io/name": "x"}}, "app.kubernetes.io/name", id="a label of ours"),
        pytest.param({"podLabels": {"x": 1}}, "/podLabels/x", id="a label that is no text"),
        pytest.param({"annotations": {"helm.sh/resource-policy": "delete"}}, "helm.sh/", id="an annotation of Helm's"),
        pytest.param({"affinity": {"nodeAfinity": {}}}, "'nodeAfinity' not allowed", id="misspelt affinity"),
        pytest.param({"tolerations": [{"effects": "NoExecute"}]}, "'effects' not allowed", id="misspelt toleration"),
        pytest.param({"topologySpreadConstraints": [{"maxSkew": 1}]}, "/topologySpreadConstraints", id="half a spread"),
        pytest.param({"podMonitor": {"interval": "30"}}, "/podMonitor/interval", id="seconds without a unit"),
        pytest.param({"podMonitor": True}, "/podMonitor", id="a switch as one value"),
        pytest.param({"monitoring": {"rules": {"runbookURL": "x"}}}, "'runbookURL' not", id="misspelt runbooks"),
        pytest.param({"monitoring": {"rules": {"runbookUrl": "docs"}}}, "/runbookUrl", id="runbooks nowhere"),
        pytest.param({"monitoring": {"enabled": True}}, "'enabled' not allowed", id="one switch for both"),
        pytest.param({"networkPolicy": {"metricsNamespace": "m"}}, "not allowed", id="misspelt namespaces"),
        pytest.param({"crds": {"install": True}}, "'install' not allowed", id="another chart's name of a switch"),
    ],
)
def test_values_that_would_go_wrong_later_are_refused_by_their_place(
    helm: Helm, values: dict[str, Any], said: str
) -> None:
    done = helm("template", "gptservice-operator", str(CHART), values=values)
    assert done.returncode != 0
    assert said in done.stderr


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ({}, "kubectl apply -f examples/quickstart-gpu.yaml  "),
        ({}, "apply examples/catalogue.yaml and examples/quickstart.yaml instead"),
        ({}, "all namespaces"),
        ({}, "`helm uninstall` leaves the two kinds, every GPTService and GPTModel and all that serves"),
        ({"namespaces": ["team-a"]}, "kubectl apply -f examples/quickstart-gpu.yaml -n team-a"),
        ({"catalogue": {"enabled": False}}, "kubectl apply -f examples/quickstart-gpu.yaml  "),
        ({"catalogue": {"enabled": False}}, "apply examples/edge/service.yaml instead"),
    ],
)
def test_the_notes_tell_the_next_command(helm: Helm, values: dict[str, Any], said: str) -> None:
    place = ("--namespace", "gptservice-system")
    done = helm("install", "gptservice-operator", str(CHART), "--dry-run=client", *place, values=values)
    assert said in done.stdout, done.stderr
    assert "jsonpath='{.status.authSecret}'" in done.stdout
