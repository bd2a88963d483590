"""The pod template: security, the runtime's contract, time-outs, GPUs and where it may run."""

from typing import Any

import pytest

from gptservice_operator.render import pod
from gptservice_operator.render.persistent_volume_claim import render_persistent_volume_claim
from gptservice_runtime import contract
from tests.operator import builders
from tests.operator.builders import Body
from tests.operator.golden_cases import CASES

EVERY_CASE = pytest.mark.parametrize("case", CASES)


def template_of(spec: Body | None = None, **more: Any) -> Body:
    return pod.render_pod_template(builders.resolved({"model": "pvc://models/m", **(spec or {})}, **more))


def template_spec(spec: Body | None = None, **more: Any) -> Body:
    found: Body = template_of(spec, **more)["spec"]
    return found


def engine(spec: Body | None = None, **more: Any) -> Body:
    found: Body = template_spec(spec, **more)["containers"][0]
    return found


def fetch(spec: Body | None = None) -> Body:
    found: Body = template_spec(spec)["initContainers"][0]
    return found


def env(container: Body) -> dict[str, Any]:
    return {variable["name"]: variable.get("value", variable.get("valueFrom")) for variable in container.get("env", [])}


class TestPodSecurity:
    """The level "restricted", and what goes beyond it."""

    @EVERY_CASE
    def test_the_pod(self, case: str) -> None:
        spec = pod.render_pod_template(CASES[case].resolved())["spec"]
        assert spec["securityContext"]["runAsNonRoot"] is True
        assert spec["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
        assert "runAsUser" not in spec["securityContext"], "any UID: OpenShift assigns one"
        assert spec["automountServiceAccountToken"] is False
        assert spec["enableServiceLinks"] is False
        for volume in spec["volumes"]:
            assert set(volume) - {"name"} <= {"emptyDir", "configMap", "secret", "persistentVolumeClaim"}

    @EVERY_CASE
    def test_every_container(self, case: str) -> None:
        spec = pod.render_pod_template(CASES[case].resolved())["spec"]
        for container in [*spec["initContainers"], *spec["containers"]]:
            security = container["securityContext"]
            assert security["allowPrivilegeEscalation"] is False
            assert security["capabilities"] == {"drop": ["ALL"]}
            assert security["readOnlyRootFilesystem"] is True
            assert {"cpu", "memory"} <= container["resources"]["requests"].keys()
            assert "memory" in container["resources"]["limits"]

    @pytest.mark.parametrize(("group", "expected"), [(65532, 65532), (0, 0)])
    def test_the_volumes_group(self, group: int, expected: int) -> None:
        spec = template_spec(settings=builders.config(fs_group=group))
        assert spec["securityContext"]["fsGroup"] == expected

    def test_no_group_where_the_platform_assigns_one(self) -> None:
        assert "fsGroup" not in template_spec(settings=builders.config(fs_group=None))["securityContext"]

    @EVERY_CASE
    def test_all_that_is_written_to_is_a_volume_and_the_rest_is_read_only(self, case: str) -> None:
        spec = pod.render_pod_template(CASES[case].resolved())["spec"]
        mounts = {mount["mountPath"]: mount for mount in spec["containers"][0]["volumeMounts"]}
        writable = {path for path, mount in mounts.items() if not mount.get("readOnly")}
        assert writable == {contract.CACHE_ROOT, contract.TEMPORARY_ROOT, contract.SHARED_MEMORY_ROOT}
        volumes = {volume["name"]: volume for volume in spec["volumes"]}
        for path in writable:
            volume = volumes[mounts[path]["name"]]
            bounded = "persistentVolumeClaim" in volume or "sizeLimit" in volume["emptyDir"]
            assert bounded, f"{path} could fill the node's disk"
        assert {mount["name"] for container in [*spec["initContainers"], *spec["containers"]]
                for mount in container["volumeMounts"]} == set(volumes)  # fmt: skip


class TestContract:
    @EVERY_CASE
    def test_the_command_is_ours_in_every_container(self, case: str) -> None:
        spec = pod.render_pod_template(CASES[case].resolved())["spec"]
        for container in [*spec["initContainers"], *spec["containers"]]:
            assert container["command"] == [contract.COMMAND]

    def test_what_is_fetched(self) -> None:
        assert fetch()["args"] == ["fetch", "--uri", "pvc://models/m", "--source-root", "/models/source"]

    def test_what_is_served_by_default(self) -> None:
        assert engine()["args"] == [
            "serve", "--model", "/models/source/m",
            "--served-model-name", "pvc://models/m", "--served-model-name", "chat",
            "--startup-timeout", "1800", "--drain-timeout", "60", "--require-api-key", "--",
        ]  # fmt: skip

    def test_every_flag(self) -> None:
        spec = {
            "servedModelNames": ["a"],
            "gpu": {"count": 4},
            "contextLength": 4096,
            "maxTokens": 64,
            "startupTimeoutSeconds": 100,
            "drainTimeoutSeconds": 0,
            "engine": {"args": ["--dtype", "auto"]},
            "auth": {"apiKeys": {"generate": True}},
        }
        assert engine(spec)["args"] == [
            "serve", "--model", "/models/source/m", "--served-model-name", "a", "--tensor-parallel-size", "4",
            "--max-model-len", "4096", "--max-tokens", "64", "--startup-timeout", "100", "--drain-timeout", "0",
            "--require-api-key", "--", "--dtype", "auto",
        ]  # fmt: skip

    @pytest.mark.parametrize("count", [0, 1])
    def test_one_gpu_or_none_is_not_parallel(self, count: int) -> None:
        assert "--tensor-parallel-size" not in engine({"gpu": {"count": count}})["args"]

    def test_ports(self) -> None:
        ports = {port["name"]: port["containerPort"] for port in engine()["ports"]}
        assert ports == {"http": 8000, "probes": 8081}

    def test_the_limits_arrive_as_a_directory_so_that_changes_do_too(self) -> None:
        (mount,) = [mount for mount in engine()["volumeMounts"] if mount["mountPath"] == "/etc/gptservice/limits"]
        assert "subPath" not in mount
        (volume,) = [volume for volume in template_spec()["volumes"] if volume["name"] == mount["name"]]
        assert volume["configMap"]["name"] == "chat-limits"

    @pytest.mark.parametrize(
        ("auth", "secret"),
        [
            pytest.param({}, f"chat-key-{builders.uid_of('GPTService', 'chat')[:8]}", id="ours"),
            pytest.param({"auth": {"apiKeys": {"secretRef": {"name": "team-keys"}}}}, "team-keys", id="the user's"),
        ],
    )
    def test_the_keys_arrive_as_a_directory_that_only_the_pod_s_group_reads(self, auth: Body, secret: str) -> None:
        assert contract.REQUIRE_API_KEY_FLAG in engine(auth)["args"]
        (mount,) = [mount for mount in engine(auth)["volumeMounts"] if mount["mountPath"] == "/etc/gptservice/keys"]
        assert mount == {"name": mount["name"], "mountPath": "/etc/gptservice/keys", "readOnly": True}
        (volume,) = [volume for volume in template_spec(auth)["volumes"] if volume["name"] == mount["name"]]
        assert volume["secret"] == {"secretName": secret, "defaultMode": 0o440}

    def test_what_fetches_the_model_needs_no_key(self) -> None:
        assert "/etc/gptservice/keys" not in {mount["mountPath"] for mount in fetch()["volumeMounts"]}

    def test_without_keys_there_is_neither_flag_nor_volume(self) -> None:
        spec = template_spec({"auth": {"disabled": True}})
        assert contract.REQUIRE_API_KEY_FLAG not in spec["containers"][0]["args"]
        assert not [volume for volume in spec["volumes"] if "secret" in volume]

    def test_shared_memory_is_memory(self) -> None:
        (volume,) = [volume for volume in template_spec()["volumes"] if volume["name"] == "shm"]
        assert volume["emptyDir"]["medium"] == "Memory"

    def test_a_claim_is_mounted_read_only_in_both_containers(self) -> None:
        spec = template_spec()
        (volume,) = [volume for volume in spec["volumes"] if volume["name"] == "source"]
        assert volume["persistentVolumeClaim"] == {"claimName": "models", "readOnly": True}
        for container in (spec["initContainers"][0], spec["containers"][0]):
            (mount,) = [mount for mount in container["volumeMounts"] if mount["name"] == "source"]
            assert mount == {"name": "source", "mountPath": "/models/source", "readOnly": True}

    @pytest.mark.parametrize(
        ("cache", "volume"),
        [
            pytest.param(None, {"emptyDir": {"sizeLimit": "4Gi"}}, id="the node's disk"),
            pytest.param({}, {"emptyDir": {"sizeLimit": "4Gi"}}, id="nothing said"),
            pytest.param(
                {"persistentVolumeClaim": {"claimName": "weights"}},
                {"persistentVolumeClaim": {"claimName": "weights"}},
                id="the user's claim",
            ),
        ],
    )
    def test_where_the_cache_is(self, cache: Body | None, volume: Body) -> None:
        (found,) = [
            v for v in template_spec({"cache": cache} if cache is not None else {})["volumes"] if v["name"] == "cache"
        ]
        assert found == {"name": "cache", **volume}

    def test_the_cache_is_on_the_claim_that_is_made_for_it(self) -> None:
        decided = builders.resolved({"model": "pvc://models/m", "cache": {"size": "10Gi"}})
        claim = render_persistent_volume_claim(decided)
        assert claim is not None
        spec = pod.render_pod_template(decided)["spec"]
        (volume,) = [volume for volume in spec["volumes"] if volume["name"] == "cache"]
        assert volume["persistentVolumeClaim"] == {"claimName": claim["metadata"]["name"]}
        assert spec["securityContext"]["fsGroup"] == 65532, "or a fresh volume could not be written to"
        (mount,) = [mount for mount in spec["containers"][0]["volumeMounts"] if mount["name"] == "cache"]
        assert mount == {"name": "cache", "mountPath": contract.CACHE_ROOT}

    @pytest.mark.parametrize(("named", "used"), [(None, "chat-pods"), ("serving", "serving")])
    def test_the_account(self, named: str | None, used: str) -> None:
        spec = template_spec({"serviceAccountName": named, "imagePullSecrets": [{"name": "registry"}]})
        assert spec["serviceAccountName"] == used
        assert spec["automountServiceAccountToken"] is False
        assert spec["imagePullSecrets"] == [{"name": "registry"}]

    def test_a_model_in_the_image_needs_no_claim(self) -> None:
        spec = template_spec({"model": "file:///opt/m"})
        assert "source" not in {volume["name"] for volume in spec["volumes"]}
        assert spec["containers"][0]["args"][:3] == ["serve", "--model", "/opt/m"]


class TestTimeouts:
    @pytest.mark.parametrize(("drain", "grace"), [(0, 15), (60, 75), (3600, 3615)])
    def test_a_pod_gets_the_gap_the_drain_and_a_margin_to_end(self, drain: int, grace: int) -> None:
        assert template_spec({"drainTimeoutSeconds": drain})["terminationGracePeriodSeconds"] == grace

    @pytest.mark.parametrize("startup", [10, 11, 600, 1800, 86400])
    def test_the_kubelet_gives_up_after_the_runtime_has_said_why(self, startup: int) -> None:
        probe = engine({"startupTimeoutSeconds": startup})["startupProbe"]
        patience = probe["periodSeconds"] * probe["failureThreshold"]
        assert startup + 10 <= patience <= startup + 60

    @pytest.mark.parametrize(
        ("probe", "path"), [("startupProbe", "/startupz"), ("readinessProbe", "/readyz"), ("livenessProbe", "/livez")]
    )
    def test_probes_ask_the_supervisor_over_plain_http(self, probe: str, path: str) -> None:
        asked = engine()[probe]["httpGet"]
        assert (asked["path"], asked["port"], asked["scheme"]) == (path, 8081, "HTTP")

    def test_one_failed_readiness_probe_takes_the_pod_out(self) -> None:
        assert engine()["readinessProbe"]["failureThreshold"] == 1


class TestGpus:
    @pytest.mark.parametrize(
        ("gpu", "resource"),
        [
            pytest.param({}, {"nvidia.com/gpu": "1"}, id="one by default"),
            pytest.param({"count": 8}, {"nvidia.com/gpu": "8"}, id="eight"),
            pytest.param(
                {"count": 2, "resourceName": "nvidia.com/mig-1g.10gb"}, {"nvidia.com/mig-1g.10gb": "2"}, id="slices"
            ),
        ],
    )
    def test_request_and_limit_are_equal(self, gpu: Body, resource: Body) -> None:
        container = engine({"gpu": gpu})
        for kind in ("requests", "limits"):
            assert resource.items() <= container["resources"][kind].items()
        assert "NVIDIA_VISIBLE_DEVICES" not in env(container), "the device plugin sets it"

    def test_without_gpus_none_is_asked_for_and_none_is_seen(self) -> None:
        container = engine({"gpu": {"count": 0}})
        assert not any("/" in name for kind in ("requests", "limits") for name in container["resources"][kind])
        assert env(container)["NVIDIA_VISIBLE_DEVICES"] == "void"

    def test_fetching_sees_none(self) -> None:
        assert env(fetch())["NVIDIA_VISIBLE_DEVICES"] == "void"

    def test_the_product_is_a_node_label(self) -> None:
        assert template_spec({"gpu": {"product": "H200"}})["nodeSelector"] == {"nvidia.com/gpu.product": "H200"}

    def test_the_product_joins_the_user_s_own_selector(self) -> None:
        spec = {"gpu": {"product": "H200"}, "scheduling": {"nodeSelector": {"zone": "a"}}}
        assert template_spec(spec)["nodeSelector"] == {"zone": "a", "nvidia.com/gpu.product": "H200"}

    @pytest.mark.parametrize("resource", ["nvidia.com/gpu", "amd.com/gpu", "nvidia.com/mig-1g.10gb"])
    def test_the_taint_of_gpu_nodes_is_tolerated(self, resource: str) -> None:
        taint = {"key": resource, "operator": "Exists", "effect": "NoSchedule"}
        assert template_spec({"gpu": {"resourceName": resource}})["tolerations"] == [taint]

    def test_without_gpus_no_taint_is(self) -> None:
        assert "tolerations" not in template_spec({"gpu": {"count": 0}})

    def test_the_user_s_own_tolerations_stay_and_none_is_there_twice(self) -> None:
        taint = {"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"}
        spot = {"key": "spot", "operator": "Exists"}
        assert template_spec({"scheduling": {"tolerations": [spot]}})["tolerations"] == [spot, taint]
        assert template_spec({"scheduling": {"tolerations": [taint, spot, spot]}})["tolerations"] == [taint, spot]


class TestEnvironment:
    def test_the_cap_of_tokens(self) -> None:
        assert env(engine({"maxTokens": 2048}))["MAX_TOKENS"] == "2048"
        assert "MAX_TOKENS" not in env(engine())

    def test_the_user_s_variables_in_their_order_after_ours(self) -> None:
        variables = [{"name": "B", "value": "1"}, {"name": "A", "value": "$(B)"}]
        assert list(env(engine({"maxTokens": 1, "engine": {"env": variables}}))) == ["MAX_TOKENS", "B", "A"]

    def test_a_value_from_elsewhere_is_passed_on_as_it_is(self) -> None:
        source = {"secretKeyRef": {"name": "hub", "key": "token", "optional": True}}
        variables = [{"name": "T", "valueFrom": source}]
        assert env(engine({"engine": {"env": variables}}))["T"] == source


class TestScheduling:
    def test_spread_constraints_count_the_service_s_own_pods(self) -> None:
        constraint = {"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule"}
        template = template_of({"scheduling": {"topologySpreadConstraints": [constraint]}})
        (rendered,) = template["spec"]["topologySpreadConstraints"]
        assert constraint.items() <= rendered.items()
        assert rendered["labelSelector"]["matchLabels"].items() <= template["metadata"]["labels"].items()

    def test_everything_that_is_set_arrives(self) -> None:
        scheduling = CASES["scheduling"].spec["scheduling"]
        spec = template_spec({"scheduling": scheduling})
        for field in set(scheduling) - {"topologySpreadConstraints"}:
            assert spec[field] == scheduling[field], field


def test_nothing_that_looks_like_a_variable_is_replaced_on_the_way() -> None:
    """What was checked is what the engine gets: of ``$(X)`` Kubernetes would make the value of X, of ``$$`` a ``$``."""
    spec = {
        "model": "pvc://models/a$(X)b",
        "servedModelNames": ["$(X)"],
        "engine": {"args": ["--chat-template", "$(X) a$$b"], "env": [{"name": "X", "value": "--middleware=x"}]},
    }
    template = pod.render_pod_template(builders.resolved(spec))
    (fetch,), (engine,) = template["spec"]["initContainers"], template["spec"]["containers"]
    assert "pvc://models/a$$(X)b" in fetch["args"]
    assert engine["args"][-2:] == ["--chat-template", "$$(X) a$$$$b"]
    assert "$$(X)" in engine["args"]
