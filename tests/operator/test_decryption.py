"""Encrypted weights in the pod: who has the key, where the readable files lie, and out of which limit."""

from typing import Any

import pytest

from gptservice_operator import resolve
from gptservice_operator.api import v1
from gptservice_operator.render import pod
from gptservice_operator.render.resolved import Resolved
from gptservice_runtime import contract
from tests.operator import builders
from tests.operator.builders import Body

KEY = {"name": "weights-key"}
SPEC: Body = {"model": "pvc://models/m", "decryptionKeySecretRef": KEY, "gpu": {"count": 1}}


def template(**spec: Any) -> Body:
    return pod.render_pod_template(builders.resolved({**SPEC, **spec}))["spec"]


def volume(spec: Body, name: str) -> Body:
    (found,) = [item for item in spec["volumes"] if item["name"] == name]
    return found


def mounts(container: Body) -> dict[str, Body]:
    return {mount["mountPath"]: mount for mount in container["volumeMounts"]}


@pytest.mark.parametrize("uri", ["pvc://models/m", "hf://org/name", "file:///opt/m"])
def test_the_engine_serves_what_was_decrypted(uri: str) -> None:
    spec = template(model=uri)
    assert contract.DECRYPT_FLAG in spec["initContainers"][0]["args"]
    assert spec["containers"][0]["args"][:3] == ["serve", "--model", contract.FETCHED_MODEL]


def test_the_init_container_alone_has_the_key_and_the_encrypted_files() -> None:
    spec = template()
    fetch, engine = mounts(spec["initContainers"][0]), mounts(spec["containers"][0])
    assert fetch[contract.DECRYPTION_KEY_DIRECTORY]["readOnly"]
    assert "subPath" not in fetch[contract.DECRYPTION_KEY_DIRECTORY]
    assert contract.DECRYPTION_KEY_DIRECTORY not in engine
    assert contract.SOURCE_ROOT in fetch
    assert contract.SOURCE_ROOT not in engine


def test_readable_weights_lie_in_memory_and_the_engine_cannot_change_them() -> None:
    spec = template()
    fetch, engine = mounts(spec["initContainers"][0]), mounts(spec["containers"][0])
    name = fetch[contract.DECRYPTED_ROOT]["name"]
    assert volume(spec, name)["emptyDir"]["medium"] == "Memory"
    assert not fetch[contract.DECRYPTED_ROOT].get("readOnly")
    assert engine[contract.DECRYPTED_ROOT] == {"name": name, "mountPath": contract.DECRYPTED_ROOT, "readOnly": True}


@pytest.mark.parametrize(
    ("ref", "items"),
    [(KEY, None), ({**KEY, "key": "k"}, [{"key": "k", "path": "k"}])],
    ids=["the only key", "a named key"],
)
def test_the_key_is_for_the_pod_s_group_alone(ref: Body, items: list[Body] | None) -> None:
    secret = volume(template(decryptionKeySecretRef=ref), "decryption-key")["secret"]
    assert (secret["secretName"], secret["defaultMode"], secret.get("items")) == ("weights-key", 0o440, items)


@pytest.mark.parametrize(
    ("resources", "gpus", "size"),
    [
        pytest.param({"limits": {"memory": "65Gi"}}, 1, "65536Mi", id="a GPU: all but what the engine needs"),
        pytest.param({"limits": {"memory": "65Gi"}}, 0, "32768Mi", id="a CPU holds the weights once more"),
        pytest.param({"requests": {"memory": "3Gi"}}, 2, "2048Mi", id="the request is the limit, too"),
        pytest.param(None, 1, "7168Mi", id="the operator's default, 8Gi"),
    ],
)
def test_the_volume_is_what_the_memory_limit_leaves(resources: Body | None, gpus: int, size: str) -> None:
    spec = template(gpu={"count": gpus}, **({"resources": resources} if resources else {}))
    assert volume(spec, "decrypted")["emptyDir"]["sizeLimit"] == size


@pytest.mark.parametrize("memory", ["1Gi", "512Mi", "1025Mi"])
def test_a_limit_that_leaves_nothing_is_refused_with_its_path(memory: str) -> None:
    outcome = builders.refusal({**SPEC, "resources": {"limits": {"memory": memory}}})
    assert outcome.reason.name == "InvalidSpec"
    assert outcome.message.startswith(f"spec.resources.limits.memory: {memory} leaves nothing for decrypted weights")


def test_what_is_kept_is_not_refused_by_a_later_operator() -> None:
    body = builders.service(spec={**SPEC, "resources": {"limits": {"memory": "1Gi"}}})
    spec = v1.GPTServiceSpec.model_validate(body["spec"])
    outcome = resolve.resolve(body, spec, {}, builders.config(), kept=True)
    assert isinstance(outcome, Resolved)


def test_without_a_key_nothing_is_added() -> None:
    spec = pod.render_pod_template(builders.resolved({"model": "pvc://models/m"}))["spec"]
    assert contract.DECRYPT_FLAG not in spec["initContainers"][0]["args"]
    assert not {"decryption-key", "decrypted"} & {item["name"] for item in spec["volumes"]}
