"""API keys: a Secret that is made once and never read, and that a pod's Events show to be missing."""

from __future__ import annotations

import base64
import re
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import pytest

from e2e.api.quiet import assert_quiet, wait_for_resyncs
from e2e.api.state import COLLECTED, Observer, holds, service
from e2e.cluster.handle import Cluster
from e2e.kube import Kube, Object, stays, wait_until
from e2e.kubectl import Kubectl, KubectlError
from e2e.operator_process import NAMESPACE, RELEASE, OperatorProcess
from e2e.proxy import Match, Switchboard, drop_reply, kill

ANNOTATION = "ai.example.com/key-secret"
THEIRS: dict[str, Any] = {"apiKeys": {"secretRef": {"name": "team-keys"}}}
# Simulated pods of this mode get a node, and nothing more happens: as while a volume cannot be mounted.
STUCK = {"env": [{"name": "E2E_MODE", "value": "pending"}]}
VERBS = ("get", "list", "watch", "update", "patch", "delete", "deletecollection")


def secrets(kube: Kube, namespace: str) -> dict[str, Object]:
    return {secret["metadata"]["name"]: secret for secret in kube.all("Secret", namespace)}


def mounted(observer: Observer, name: str = "gpt") -> str | None:
    """The Secret that the pods of a service mount."""
    volumes = observer.child("Deployment", name)["spec"]["template"]["spec"]["volumes"]
    return next((volume["secret"]["secretName"] for volume in volumes if "secret" in volume), None)


@pytest.fixture
def ready(operator: OperatorProcess, kube: Kube, namespace: str, observer: Observer) -> Object:
    """A Ready GPTService with a generated key."""
    kube.apply(service(), namespace)
    return observer.wait_ready()


@pytest.fixture
def secret(ready: Object, kube: Kube, namespace: str) -> Object:
    """The Secret with its key."""
    return kube.get("Secret", ready["status"]["authSecret"], namespace)


def test_one_secret_is_made_of_the_form_that_clients_expect(
    ready: Object, secret: Object, kube: Kube, namespace: str, observer: Observer
) -> None:
    name, uid = secret["metadata"]["name"], ready["metadata"]["uid"]
    assert set(secrets(kube, namespace)) == {name}
    assert name == f"gpt-key-{uid[:8]}"
    assert re.fullmatch(rb"sk-[A-Za-z0-9_-]{43}", base64.b64decode(secret["data"]["api-key"]))
    assert secret["type"] == "Opaque"
    assert not secret.get("immutable"), "it is rotated by writing another value into it"
    (owner,) = secret["metadata"]["ownerReferences"]
    assert (owner["kind"], owner["uid"]) == ("GPTService", uid)
    assert secret["metadata"]["labels"]["gptservice-name"] == "gpt"
    assert mounted(observer) == name
    assert observer.child("Deployment")["metadata"]["annotations"][ANNOTATION] == name


def test_the_value_survives_a_restart_and_three_resyncs_without_a_write(
    operator: OperatorProcess,
    secret: Object,
    board: Switchboard,
    cluster: Cluster,
    kube: Kube,
    namespace: str,
) -> None:
    assert_quiet(operator, board, cluster, {namespace})
    after = kube.get("Secret", secret["metadata"]["name"], namespace)
    assert (after["data"], after["metadata"]["resourceVersion"]) == (
        secret["data"],
        secret["metadata"]["resourceVersion"],
    )


def test_a_value_that_somebody_writes_stays(
    operator: OperatorProcess, secret: Object, board: Switchboard, kube: Kube, namespace: str
) -> None:
    name = secret["metadata"]["name"]
    kube.merge("Secret", name, namespace, {"stringData": {"api-key": "sk-mine"}})
    operator.restart()
    wait_for_resyncs(board, 2)
    assert base64.b64decode(kube.get("Secret", name, namespace)["data"]["api-key"]) == b"sk-mine"


def test_every_request_about_secrets_is_a_create(secret: Object, board: Switchboard) -> None:
    """kopf's, too."""
    verbs = {entry.target.verb for entry in board.log.since(where=lambda e: e.target.resource == "secrets")}
    assert verbs == {"create"}


@pytest.mark.usefixtures("operator")
@pytest.mark.parametrize("verb", VERBS)
def test_the_service_account_may_do_nothing_else_with_secrets(kubectl: Kubectl, verb: str) -> None:
    account = f"system:serviceaccount:{NAMESPACE}:{RELEASE}"
    assert "yes" in kubectl.run("auth", "can-i", "create", "secrets", "--as", account, "--all-namespaces")
    with pytest.raises(KubectlError):  # `can-i` says no by its exit status
        kubectl.run("auth", "can-i", verb, "secrets", "--as", account, "--all-namespaces")


def test_the_value_is_in_no_log_and_in_no_other_object(
    operator: OperatorProcess, secret: Object, kube: Kube, namespace: str
) -> None:
    encoded = secret["data"]["api-key"]
    value = base64.b64decode(encoded).decode()
    everything = [kube.all(kind, namespace) for kind in ("GPTService", "Deployment", "ConfigMap", "Service", "Event")]
    for text in (operator.output().decode(), str(everything)):
        assert value not in text
        assert encoded not in text


def test_it_goes_with_the_gptservice(secret: Object, kube: Kube, namespace: str) -> None:
    kube.delete("GPTService", "gpt", namespace)
    wait_until(lambda: secrets(kube, namespace), lambda found: not found, "the Secret to go", timeout=COLLECTED)


def test_a_successor_of_the_same_name_has_another_key(
    secret: Object, kube: Kube, namespace: str, observer: Observer
) -> None:
    kube.delete("GPTService", "gpt", namespace)
    wait_until(observer.gpt, lambda gpt: gpt is None, "the GPTService to go")
    kube.apply(service(), namespace)
    again = kube.get("Secret", observer.wait_ready(timeout=COLLECTED)["status"]["authSecret"], namespace)
    assert again["metadata"]["name"] != secret["metadata"]["name"]
    assert again["data"] != secret["data"]


@pytest.mark.parametrize("fault", [kill("before"), kill("after"), drop_reply()], ids=str)
def test_whatever_happens_to_the_request_that_makes_it_there_is_one(
    operator: OperatorProcess, board: Switchboard, kube: Kube, namespace: str, observer: Observer, fault: Any
) -> None:
    rule = board.fail(fault, match=Match(namespace=namespace, resource="secrets"))
    kube.apply(service(), namespace)
    wait_until(lambda: rule.fired, lambda fired: fired == 1, "the fault")
    if fault != drop_reply():
        assert operator.wait_ended() == -9
        operator.start()
    name = observer.wait_ready()["status"]["authSecret"]
    assert set(secrets(kube, namespace)) == {name}


def test_an_annotation_that_was_taken_off_comes_back_and_the_key_stays(
    secret: Object, kube: Kube, namespace: str, observer: Observer
) -> None:
    name = secret["metadata"]["name"]
    kube.merge("Deployment", "gpt", namespace, {"metadata": {"annotations": {ANNOTATION: None}}})
    wait_until(
        lambda: observer.child("Deployment")["metadata"]["annotations"].get(ANNOTATION),
        lambda found: found == name,
        "the annotation",
    )
    assert kube.get("Secret", name, namespace)["data"] == secret["data"]


def test_back_and_forth_between_the_kinds_of_keys(
    secret: Object, kube: Kube, namespace: str, observer: Observer
) -> None:
    own = secret["metadata"]["name"]
    kube.create({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "team-keys"}}, namespace)
    theirs = kube.get("Secret", "team-keys", namespace)
    steps: list[tuple[Object, str | None]] = [
        (THEIRS, "team-keys"),
        ({"disabled": True}, None),
        ({"apiKeys": {"generate": True}}, own),
    ]
    for auth, expected in steps:
        kube.apply(service(auth=auth), namespace)
        assert observer.wait_ready()["status"].get("authSecret") == expected
        assert mounted(observer) == expected
    assert kube.get("Secret", own, namespace)["data"] == secret["data"], "clients' keys still open the door"
    assert kube.get("Secret", "team-keys", namespace)["metadata"] == theirs["metadata"], "a user's is never written"


def test_a_quota_on_secrets_is_told_and_holds_up_the_deployment_alone(
    operator: OperatorProcess, kube: Kube, kubectl: Kubectl, namespace: str, observer: Observer
) -> None:
    quota = {
        "apiVersion": "v1",
        "kind": "ResourceQuota",
        "metadata": {"name": "none", "namespace": namespace},
        "spec": {"hard": {"count/secrets": "0"}},
    }
    kubectl.apply(quota)
    wait_until(
        lambda: kubectl.get("resourcequota", "none", namespace=namespace).get("status", {}).get("hard"),
        bool,
        "the quota to be in force",
    )
    kube.apply(service(), namespace)
    observer.wait(lambda o: holds(o, "Ready", "False", "QuotaExceeded"), "to say so")
    assert observer.child("Service")
    assert kube.find("Deployment", "gpt", namespace) is None, "its pods would wait for ever"
    kubectl.run("delete", "resourcequota", "none", "--namespace", namespace)
    observer.wait_ready()


def complain(kube: Kube, pod: Object, secret: str) -> None:
    """What the kubelet of a real node says of a pod whose volume needs a Secret that is not there."""
    metadata, now = pod["metadata"], datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    involved = {"apiVersion": "v1", "kind": "Pod", **{key: metadata[key] for key in ("name", "namespace", "uid")}}
    kube.create(
        {
            "apiVersion": "v1",
            "kind": "Event",
            "metadata": {"generateName": f"{metadata['name']}."},
            "involvedObject": involved,
            "type": "Warning",
            "reason": "FailedMount",
            "message": f'MountVolume.SetUp failed for volume "keys" : secret "{secret}" not found',
            "source": {"component": "kubelet"},
            "firstTimestamp": now,
            "lastTimestamp": now,
            "count": 1,
        },
        metadata["namespace"],
    )


def are_placed(pods: list[Object]) -> bool:
    return len(pods) == 1 and "nodeName" in pods[0]["spec"]


@pytest.fixture
def stuck(operator: OperatorProcess, kube: Kube, namespace: str, observer: Observer) -> Callable[..., Object]:
    """Makes a service whose one pod gets a node and does not start, and returns the pod."""

    def make(**spec: Any) -> Object:
        kube.apply(service(engine=STUCK, **spec), namespace)
        pods: list[Object] = wait_until(observer.pods, are_placed, "the pod on a node")
        return pods[0]

    return make


def test_a_deleted_secret_is_made_again_when_a_pod_misses_it(
    stuck: Callable[..., Object], kube: Kube, namespace: str, observer: Observer
) -> None:
    pod = stuck()
    name = f"gpt-key-{observer.uid('GPTService')[:8]}"
    old = kube.get("Secret", name, namespace)
    kube.delete("Secret", name, namespace)
    complain(kube, pod, name)
    again = wait_until(lambda: kube.find("Secret", name, namespace), bool, "the Secret to be made again")
    assert again is not None
    assert again["data"] != old["data"], "nobody had kept the old key"
    stays(lambda: secrets(kube, namespace), lambda found: set(found) == {name}, "one Secret", seconds=1)


def test_a_user_s_secret_that_is_missing_is_told_and_never_made(
    stuck: Callable[..., Object], kube: Kube, namespace: str, observer: Observer
) -> None:
    pod = stuck(auth=THEIRS)
    complain(kube, pod, "team-keys")
    told = observer.wait(lambda o: holds(o, "Ready", "False", "SecretNotFound"), "to say what is missing")
    assert 'secret "team-keys" not found' in str(told["status"]["conditions"])
    assert holds(told, "Degraded", "False")
    assert secrets(kube, namespace) == {}


@pytest.mark.usefixtures("ready")
def test_a_pod_that_runs_is_not_looked_at(board: Switchboard, namespace: str) -> None:
    wait_for_resyncs(board, 1)
    told = board.log.since(where=lambda e: e.target.resource == "events" and e.target.namespace == namespace)
    assert [entry for entry in told if entry.method == "GET"] == []
