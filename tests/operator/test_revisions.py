"""Which edit makes another revision, what is kept, and what leaves the history."""

import copy
import dataclasses
import json
from typing import Any, cast

import pytest

from gptservice_operator import names, revisions
from gptservice_operator.api import schema, v1
from gptservice_operator.render import controller_revision, pod
from gptservice_operator.render.resolved import Resolved
from gptservice_operator.revisions import HISTORY, Kept
from gptservice_operator.store import Observed
from tests.operator import builders
from tests.operator.builders import Body

OWNER = builders.uid_of("GPTService", "chat")
MODEL = {"model": "pvc://models/a"}
SECRET = {"name": "s"}

EDITS: dict[str, tuple[Body, Body]] = {
    "model": ({"model": "pvc://models/a"}, {"model": "pvc://models/b"}),
    "modelRef": ({"modelRef": "small"}, {"modelRef": "large"}),
    "servedModelNames": ({}, {"servedModelNames": ["x"]}),
    "modelDigest": ({}, {"modelDigest": "sha256:" + "0" * 64}),
    "replicas": ({"replicas": 1}, {"replicas": 2}),
    "autoscaling.minReplicas": (
        {"autoscaling": {"minReplicas": 1, "maxReplicas": 3}}, {"autoscaling": {"minReplicas": 2, "maxReplicas": 3}},
    ),
    "autoscaling.maxReplicas": (
        {"autoscaling": {"minReplicas": 1, "maxReplicas": 3}}, {"autoscaling": {"minReplicas": 1, "maxReplicas": 4}},
    ),
    "autoscaling.metrics": (
        {"autoscaling": {"minReplicas": 1, "maxReplicas": 3}},
        {
            "autoscaling": {
                "minReplicas": 1, "maxReplicas": 3, "metrics": [{"type": "CPU", "averageUtilization": 50}],
            }
        },
    ),
    "autoscaling.behavior": (
        {"autoscaling": {"minReplicas": 1, "maxReplicas": 3}},
        {
            "autoscaling": {
                "minReplicas": 1, "maxReplicas": 3, "behavior": {"scaleDown": {"stabilizationWindowSeconds": 9}},
            }
        },
    ),
    "maxTokens": ({"maxTokens": 1}, {"maxTokens": 2}),
    "contextLength": ({}, {"contextLength": 2048}),
    "maxInflightRequests": ({}, {"maxInflightRequests": 8}),
    "upgradeStrategy": ({}, {"upgradeStrategy": "Recreate"}),
    "rollout.maxSurge": ({}, {"rollout": {"maxSurge": 2}}),
    "rollout.maxUnavailable": ({}, {"rollout": {"maxUnavailable": 2}}),
    "rollout.surgeWaitSeconds": ({}, {"rollout": {"surgeWaitSeconds": 9}}),
    "rollout.autoRollback": ({}, {"rollout": {"autoRollback": False}}),
    "rollout.readyLatencyMilliseconds": ({}, {"rollout": {"readyLatencyMilliseconds": 200}}),
    "gpu.count": ({"gpu": {"count": 1}}, {"gpu": {"count": 2}}),
    "gpu.resourceName": ({}, {"gpu": {"resourceName": "amd.com/gpu"}}),
    "gpu.product": ({}, {"gpu": {"product": "H200"}}),
    "resources.requests": ({}, {"resources": {"requests": {"cpu": "3"}}}),
    "resources.limits": ({}, {"resources": {"limits": {"memory": "9Gi"}}}),
    "engine.type": ({}, {"engine": {"type": "VLLM"}}),
    "engine.image": ({}, {"engine": {"image": "registry.example.com/own:1"}}),
    "engine.args": ({"engine": {"args": ["--seed=1"]}}, {"engine": {"args": ["--seed=2"]}}),
    "engine.env": ({}, {"engine": {"env": [{"name": "A", "value": ""}]}}),
    "auth.apiKeys": ({}, {"auth": {"apiKeys": {"secretRef": SECRET}}}),
    "auth.disabled": ({}, {"auth": {"disabled": True}}),
    "huggingFaceTokenSecretRef": (
        {"model": "hf://o/n"}, {"model": "hf://o/n", "huggingFaceTokenSecretRef": {**SECRET, "key": "k"}},
    ),
    "modelCredentialsSecretRef": (
        {"model": "s3://bucket/m"}, {"model": "s3://bucket/m", "modelCredentialsSecretRef": SECRET},
    ),
    "decryptionKeySecretRef": ({}, {"decryptionKeySecretRef": {**SECRET, "key": "k"}}),
    "tls.secretName": ({}, {"tls": {"secretName": "s"}}),
    "tls.issuerRef": ({}, {"tls": {"issuerRef": {"name": "i"}}}),
    "tls.clientCASecretRef": (
        {"tls": {"secretName": "s"}}, {"tls": {"secretName": "s", "clientCASecretRef": SECRET}},
    ),
    "cache.persistentVolumeClaim": ({}, {"cache": {"persistentVolumeClaim": {"claimName": "c"}}}),
    "cache.size": ({}, {"cache": {"size": "9Gi"}}),
    "cache.storageClassName": ({"cache": {"size": "9Gi"}}, {"cache": {"size": "9Gi", "storageClassName": "fast"}}),
    "cache.accessModes": (
        {"cache": {"size": "9Gi"}}, {"cache": {"size": "9Gi", "accessModes": ["ReadWriteMany"]}},
    ),
    "service.type": ({}, {"service": {"type": "NodePort"}}),
    "service.port": ({}, {"service": {"port": 81}}),
    "service.annotations": ({}, {"service": {"annotations": {"a": "b"}}}),
    "scheduling.nodeSelector": ({}, {"scheduling": {"nodeSelector": {"zone": "a"}}}),
    "scheduling.tolerations": ({}, {"scheduling": {"tolerations": [{"key": "k", "operator": "Exists"}]}}),
    "scheduling.affinity": (
        {}, {"scheduling": {"affinity": {"podAntiAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": [
                {"topologyKey": "zone", "labelSelector": {"matchLabels": {"a": "b"}}}
            ]
        }}}},
    ),
    "scheduling.topologySpreadConstraints": (
        {}, {"scheduling": {"topologySpreadConstraints": [
            {"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule"}
        ]}},
    ),
    "scheduling.priorityClassName": ({}, {"scheduling": {"priorityClassName": "p"}}),
    "scheduling.runtimeClassName": ({}, {"scheduling": {"runtimeClassName": "nvidia"}}),
    "scheduling.schedulerName": ({}, {"scheduling": {"schedulerName": "s"}}),
    "podLabels": ({}, {"podLabels": {"a": "b"}}),
    "podAnnotations": ({}, {"podAnnotations": {"a": "b"}}),
    "serviceAccountName": ({}, {"serviceAccountName": "a"}),
    "imagePullSecrets": ({}, {"imagePullSecrets": [SECRET]}),
    "startupTimeoutSeconds": ({"startupTimeoutSeconds": 1800}, {"startupTimeoutSeconds": 1801}),
    "drainTimeoutSeconds": ({"drainTimeoutSeconds": 60}, {"drainTimeoutSeconds": 61}),
    "priority": ({}, {"priority": "High"}),
    "disruptionBudget.disabled": ({}, {"disruptionBudget": {"disabled": True}}),
    "networkPolicy.disabled": ({}, {"networkPolicy": {"disabled": True}}),
    "monitoring.podMonitor": ({}, {"monitoring": {"podMonitor": "Enabled"}}),
    "monitoring.namespaces": ({}, {"monitoring": {"namespaces": ["monitoring"]}}),
    "tracing.otlpEndpoint": ({}, {"tracing": {"otlpEndpoint": "http://collector:4317"}}),
}  # fmt: skip
"""For each field of the spec, and each field one level down: an edit that touches it alone."""

NO_OTHER_VALUE = {"engine.type": "VLLM is the only engine; another one will be another template"}
"""Fields that are in the key though no edit of them changes the template, and why."""

MINIMAL, WITH_MORE, RERENDERED = "db0264cd01d4", "ab671b62ba22", "0c77573a7c16"
"""Keys as the first release made them."""

CATALOGUE = [builders.gpt_model("small"), builders.gpt_model("large")]


def fields() -> set[str]:
    """Return the spec's fields and those one level down."""
    found: set[str] = set()
    for name, part in schema.spec_schemas()["GPTService"]["properties"].items():
        inner = cast("Body", part).get("properties", {})
        found |= {f"{name}.{field}" for field in inner} if inner and "Ref" not in name else {name}
    return found


def with_spec(spec: Body, **metadata: Any) -> Body:
    base: Body = {} if "model" in spec or "modelRef" in spec else MODEL
    return builders.service(spec={**base, **spec}, **metadata)


def resolved(body: Body) -> Resolved:
    outcome = builders.decide(body, *CATALOGUE)
    assert isinstance(outcome, Resolved), outcome
    return outcome


def template(body: Body) -> Body:
    """Return the pod template without what tells its revision."""
    rendered = copy.deepcopy(pod.render_pod_template(resolved(body)))
    del rendered["metadata"]["labels"][names.REVISION]
    return rendered


class TestKey:
    def test_there_is_an_edit_of_every_field_of_the_spec(self) -> None:
        assert set(EDITS) == fields()

    @pytest.mark.parametrize("field", EDITS)
    def test_an_edit_makes_another_revision_exactly_if_it_changes_the_template(self, field: str) -> None:
        before, after = (with_spec(spec) for spec in EDITS[field])
        is_new, is_other = revisions.key(before) != revisions.key(after), template(before) != template(after)
        if field in NO_OTHER_VALUE:
            assert (is_new, is_other) == (True, False)
        else:
            assert is_new == is_other

    def test_every_path_is_one_of_the_spec(self) -> None:
        known = fields()
        for path in revisions.POD_SHAPING:
            assert any(field == path or field.startswith(f"{path}.") for field in known), path

    def test_it_is_that_of_every_earlier_release(self) -> None:
        """A test that fails here means that the upgrade rolls every service there is."""
        assert revisions.key(with_spec({"startupTimeoutSeconds": 1800, "drainTimeoutSeconds": 60})) == MINIMAL
        assert revisions.key(with_spec({**EDITS["engine.env"][1], "cache": {"size": "1Gi"}})) == WITH_MORE
        assert revisions.key(with_spec({}, annotations={names.RERENDER: "2"})) == RERENDERED

    def test_a_default_that_a_newer_crd_fills_in_is_no_edit(self) -> None:
        for field, value in revisions.STANDS_FOR_ABSENCE.items():
            assert revisions.key(with_spec({field: value})) == revisions.key(with_spec({}))
            assert template(with_spec({field: value})) == template(with_spec({}))
        defaults = {
            field.alias: field.default
            for field in v1.GPTServiceSpec.model_fields.values()
            if field.default is not None and field.alias in revisions.POD_SHAPING
        }
        assert set(defaults) <= set(revisions.STANDS_FOR_ABSENCE)

    @pytest.mark.parametrize(
        "spec",
        [
            pytest.param({"scheduling": {}}, id="an empty field"),
            pytest.param({"scheduling": {"nodeSelector": {}, "tolerations": []}}, id="empty fields in it"),
            pytest.param({"engine": {"args": []}}, id="an empty list"),
            pytest.param({"gpu": None}, id="null"),
        ],
    )
    def test_what_is_empty_counts_as_absent(self, spec: Body) -> None:
        assert revisions.key(with_spec(spec)) == revisions.key(with_spec({}))

    def test_emptiness_that_means_something_counts(self) -> None:
        """A selector that is empty selects everything, one that is absent nothing."""

        def spec(selector: Body) -> Body:
            term = {"topologyKey": "zone", **selector}
            rules = {"requiredDuringSchedulingIgnoredDuringExecution": [term]}
            return with_spec({"scheduling": {"affinity": {"podAntiAffinity": rules}}})

        assert revisions.key(spec({"labelSelector": {}})) != revisions.key(spec({}))

    def test_the_order_of_keys_does_not_count_that_of_a_list_does(self) -> None:
        one, other = {"podLabels": {"a": "1", "b": "2"}}, {"podLabels": {"b": "2", "a": "1"}}
        assert revisions.key(with_spec(one)) == revisions.key(with_spec(other))
        args = [{"engine": {"args": args}} for args in (["--a", "--b"], ["--b", "--a"])]
        assert revisions.key(with_spec(args[0])) != revisions.key(with_spec(args[1]))

    @pytest.mark.parametrize(
        ("one", "other"),
        [
            pytest.param({"cache": {"size": "1Gi"}}, {"cache": {"size": "2Gi"}}, id="a claim grows"),
            pytest.param({"tls": {"issuerRef": {"name": "a"}}}, {"tls": {"issuerRef": {"name": "b"}}}, id="an issuer"),
        ],
    )
    def test_of_some_fields_only_the_presence_counts(self, one: Body, other: Body) -> None:
        assert revisions.key(with_spec(one)) == revisions.key(with_spec(other)) != revisions.key(with_spec({}))

    def test_the_annotation_counts_by_its_value_and_others_do_not(self) -> None:
        def annotated(**annotations: str) -> str:
            return revisions.key(with_spec({}, annotations=annotations))

        keys = [annotated(), *(annotated(**{names.RERENDER: value}) for value in ("", "1", "2"))]
        assert len(set(keys)) == 4
        assert annotated(other="1") == annotated() == revisions.key(with_spec({}))

    def test_it_is_a_label_s_value_and_says_nothing_of_the_operator(self) -> None:
        key = revisions.key(with_spec({}))
        assert len(key) == revisions.KEY_LENGTH
        assert key.isalnum()
        assert pod.render_pod_template(resolved(with_spec({})))["metadata"]["labels"][names.REVISION] == key


def patched(spec: Body, operations: list[Body]) -> Body:
    """Apply a JSON patch as RFC 6902 says; only what our patches need."""
    result = copy.deepcopy(spec)
    for operation in operations:
        root, name = operation["path"].lstrip("/").split("/")
        assert root == "spec"
        if operation["op"] == "add":
            result[name] = copy.deepcopy(operation["value"])
        else:
            assert operation["op"] == "remove"
            del result[name]
    return result


class TestPatch:
    @pytest.mark.parametrize("field", EDITS)
    def test_it_brings_back_the_key_whatever_was_edited(self, field: str) -> None:
        before, after = (with_spec(spec) for spec in EDITS[field])
        for one, other in ((before, after), (after, before)):
            back = {**other, "spec": patched(other["spec"], revisions.patch(one))}
            assert revisions.key(back) == revisions.key(one)

    def test_what_was_added_inside_a_field_goes(self) -> None:
        """A merge patch would leave it."""
        kept, edited = with_spec({"podLabels": {"a": "1"}}), with_spec({"podLabels": {"a": "1", "b": "2"}})
        assert patched(edited["spec"], revisions.patch(kept))["podLabels"] == {"a": "1"}

    def test_what_shapes_no_pod_stays(self) -> None:
        edited = with_spec({"replicas": 7, "service": {"port": 81}, "maxInflightRequests": 3, "podLabels": {"a": "b"}})
        back = patched(edited["spec"], revisions.patch(with_spec({})))
        assert back == {**MODEL, "replicas": 7, "service": {"port": 81}, "maxInflightRequests": 3}

    def test_it_lists_every_top_level_field_that_shapes_pods(self) -> None:
        paths = {operation["path"] for operation in revisions.patch(with_spec({}))}
        assert paths == {f"/spec/{path.partition('.')[0]}" for path in revisions.POD_SHAPING}

    def test_it_holds_no_null(self) -> None:
        assert "null" not in json.dumps(revisions.patch(with_spec({})))


def revision(key: str, number: int, **more: Any) -> Kept:
    return Kept(key=key, name=f"chat-{key}", uid=f"uid-{key}", number=number, data=more)


def history(**numbers: int) -> dict[str, Kept]:
    return {key: revision(key, number) for key, number in numbers.items()}


def child(body: Body, owner: str | None = OWNER) -> dict[tuple[str, str], Observed]:
    name = body["metadata"]["name"]
    return {("ControllerRevision", name): Observed("u", owner, body)}


def stored(spec: Body | None = None) -> Body:
    decided = resolved(with_spec(spec or {}))
    data = controller_revision.render_data(decided)
    return controller_revision.render_controller_revision(decided, data, 3)


class TestKept:
    def test_what_was_rendered_is_read_back(self) -> None:
        body = stored()
        ((key, found),) = revisions.kept(child(body), OWNER).items()
        assert key == found.key == revisions.key(with_spec({}))
        assert (found.name, found.uid, found.number) == (body["metadata"]["name"], "u", 3)
        assert found.data == body["data"]

    @pytest.mark.parametrize("owner", [None, "another"])
    def test_those_of_others_do_not_count(self, owner: str | None) -> None:
        assert revisions.kept(child(stored(), owner), OWNER) == {}

    def test_other_kinds_do_not_count(self) -> None:
        assert revisions.kept({("Deployment", "chat"): Observed("u", OWNER, stored())}, OWNER) == {}

    @pytest.mark.parametrize(
        "change",
        [
            pytest.param({"data": None}, id="no data"),
            pytest.param({"data": "text"}, id="data of another kind"),
            pytest.param({"data": {"template": {"spec": {}}, "effective": {"uri": "x"}}}, id="a template without key"),
            pytest.param({"data": {**stored()["data"], "effective": {}}}, id="nothing said of the model"),
            pytest.param({"revision": "3"}, id="a number that is none"),
        ],
    )
    def test_one_that_we_did_not_write_is_left_out(self, change: Body) -> None:
        assert revisions.kept(child({**stored(), **change}), OWNER) == {}

    def test_the_model_is_that_of_the_catalogue_or_none(self) -> None:
        from_catalogue = revisions.kept(child(stored({"modelRef": "small"})), OWNER)
        assert [kept.model["name"] for kept in from_catalogue.values()] == ["small"]
        assert [kept.model for kept in revisions.kept(child(stored()), OWNER).values()] == [{}]


class TestNumber:
    @pytest.mark.parametrize(
        ("known", "expected"),
        [
            pytest.param({}, 1, id="the first"),
            pytest.param({"x": 1}, 1, id="the only one keeps its number"),
            pytest.param({"a": 1}, 2, id="a new one comes after the others"),
            pytest.param({"a": 1, "b": 2, "x": 3}, 3, id="the highest keeps its number"),
            pytest.param({"x": 1, "a": 2, "b": 3}, 4, id="one that is gone back to becomes the highest"),
            pytest.param({"a": 3, "x": 3}, 4, id="a tie is broken"),
        ],
    )
    def test_the_current_revision_s_is_the_highest(self, known: dict[str, int], expected: int) -> None:
        assert revisions.number(history(**known), "x") == expected


NINE = {f"r{number}": number for number in range(1, 10)}


class TestHistory:
    def test_so_many_are_kept_besides_those_that_are_referred_to(self) -> None:
        known = history(**{f"r{number}": number for number in range(1, 11)})
        gone = revisions.expired(known, {"r1", "r10"})
        assert [one.key for one in gone] == ["r2", "r3", "r4"]
        assert len(known) - len(gone) == HISTORY + 2

    def test_the_number_says_which_are_old(self) -> None:
        known = history(z=1, a=7, b=3, c=4, d=5, e=6, f=2)
        assert [one.key for one in revisions.expired(known, set())] == ["z", "f"]

    @pytest.mark.parametrize("count", range(HISTORY + 1))
    def test_a_short_history_is_kept_whole(self, count: int) -> None:
        assert revisions.expired(history(**{f"r{number}": number for number in range(count)}), set()) == []

    def test_one_that_a_finalizer_holds_is_not_deleted_again_and_takes_no_place(self) -> None:
        known = {key: dataclasses.replace(one, is_leaving=one.number < 3) for key, one in history(**NINE).items()}
        assert [one.key for one in revisions.expired(known, set())] == ["r3", "r4"]
        body = stored()
        body["metadata"]["deletionTimestamp"] = builders.CREATED
        assert [one.is_leaving for one in revisions.kept(child(body), OWNER).values()] == [True]

    def test_what_is_referred_to_and_not_kept_changes_nothing(self) -> None:
        assert revisions.expired(history(a=1), {"a", "unheard-of"}) == []


class TestCatalogue:
    KEPT = revision("x", 1, model={"name": "small", "spec": {"uri": "pvc://models/small"}})

    def test_what_is_kept_goes_before_what_is_there(self) -> None:
        replaced = {"small": builders.gpt_model("small", contextLength=9), "large": builders.gpt_model("large")}
        seen = revisions.catalogue(replaced, self.KEPT)
        assert seen["small"]["spec"] == {"uri": "pvc://models/small"}
        assert seen["large"] is replaced["large"]
        assert revisions.catalogue({}, self.KEPT)["small"]["spec"] == {"uri": "pvc://models/small"}

    @pytest.mark.parametrize("nothing_kept", [None, revision("x", 1)])
    def test_without_it_the_catalogue_is_what_is_there(self, nothing_kept: Kept | None) -> None:
        models = {"small": builders.gpt_model("small")}
        assert revisions.catalogue(models, nothing_kept) == models

    @pytest.mark.parametrize(
        ("models", "said"),
        [
            pytest.param([builders.gpt_model("small")], None, id="the same"),
            pytest.param([builders.gpt_model("small", digest="sha256:" + "0" * 64)], "other content", id="replaced"),
            pytest.param([], "was deleted", id="deleted"),
        ],
    )
    def test_another_entry_is_told(self, models: list[Body], said: str | None) -> None:
        warning = revisions.model_changed({model["metadata"]["name"]: model for model in models}, self.KEPT)
        assert (warning is None) == (said is None)
        if warning is not None and said is not None:
            assert warning.startswith("ModelChanged: GPTModel small")
            assert said in warning
            assert names.RERENDER in warning

    def test_a_model_that_is_not_of_the_catalogue_never_changes(self) -> None:
        assert revisions.model_changed({}, revision("x", 1)) is None


class TestUnowned:
    def test_a_restart_by_kubectl_is_left_out_and_all_else_stays(self) -> None:
        restarted = {"kubectl.kubernetes.io/restartedAt": "2026-01-05T10:00:00Z"}
        live: Body = {
            "metadata": {"labels": {"a": "b"}, "annotations": {**restarted, "mine": "x"}, "creationTimestamp": None},
            "spec": {"dnsPolicy": "ClusterFirst"},
        }
        assert revisions.unowned(live) == {
            "metadata": {"labels": {"a": "b"}, "annotations": {"mine": "x"}},
            "spec": {"dnsPolicy": "ClusterFirst"},
        }

    def test_no_empty_map_is_left(self) -> None:
        live: Body = {"metadata": {"annotations": {"kubectl.kubernetes.io/restartedAt": "x"}}, "spec": {}}
        assert revisions.unowned(live)["metadata"] == {}
