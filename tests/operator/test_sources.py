"""A hub's model in the pod: what is fetched, with what, and to where."""

from typing import Any

import pytest

from gptservice_operator.render import pod
from gptservice_runtime import contract
from tests.operator import builders
from tests.operator.builders import Body, gpt_model, resolved

URI = "hf://org/name"
DIGEST = "sha256:" + "1" * 64


def template(spec: Body, *models: Body, **settings: Any) -> Body:
    decided = builders.resolved(spec, *models, settings=builders.config(**settings))
    found: Body = pod.render_pod_template(decided)["spec"]
    return found


def fetch(spec: Body, *models: Body, **settings: Any) -> Body:
    found: Body = template(spec, *models, **settings)["initContainers"][0]
    return found


def named(items: list[Body], name: str) -> list[Body]:
    return [item for item in items if item["name"] == name]


@pytest.mark.parametrize("written", [URI, "org/name"])
def test_both_ways_of_writing_it_are_one(written: str) -> None:
    assert fetch({"model": written})["args"][:3] == ["fetch", "--uri", URI]
    assert resolved({"model": written}).served_model_names == (written, "chat")


def test_the_engine_serves_what_was_fetched() -> None:
    assert template({"model": URI})["containers"][0]["args"][:3] == ["serve", "--model", contract.FETCHED_MODEL]


def test_both_containers_share_the_cache_and_the_link() -> None:
    spec = template({"model": URI})
    for container in (spec["initContainers"][0], spec["containers"][0]):
        paths = {mount["mountPath"] for mount in container["volumeMounts"] if not mount.get("readOnly")}
        assert {contract.CACHE_ROOT, contract.TEMPORARY_ROOT} <= paths
    assert contract.FETCHED_MODEL.startswith(f"{contract.TEMPORARY_ROOT}/")


@pytest.mark.parametrize(
    ("cache", "limit", "requested"),
    [
        pytest.param(None, str(6 << 30), "6Gi", id="on the node's disk"),
        pytest.param({"size": "1Gi"}, None, None, id="a claim of ours"),
        pytest.param({"persistentVolumeClaim": {"claimName": "c"}}, None, None, id="the user's claim"),
    ],
)
def test_what_the_node_s_disk_has_to_give(cache: Body | None, limit: str | None, requested: str | None) -> None:
    spec = template({"model": URI, **({"cache": cache} if cache else {})}, runtime_cache_size="6Gi")
    args, resources = spec["initContainers"][0]["args"], spec["containers"][0]["resources"]
    assert (args[-1] if "--cache-limit" in args else None) == limit
    assert resources["requests"].get("ephemeral-storage") == requested


def test_a_request_of_the_user_s_for_the_node_s_disk_is_left() -> None:
    spec = template({"model": URI, "resources": {"limits": {"ephemeral-storage": "3Gi"}}})
    assert spec["containers"][0]["resources"]["requests"]["ephemeral-storage"] == "3Gi"


@pytest.mark.parametrize(
    ("own", "catalogue", "volume"),
    [
        pytest.param(None, None, None, id="none"),
        pytest.param({"name": "hub"}, None, {"secretName": "hub", "defaultMode": 0o440}, id="a Secret"),
        pytest.param(
            {"name": "hub", "key": "t"},
            {"name": "other"},
            {"secretName": "hub", "defaultMode": 0o440, "items": [{"key": "t", "path": "t"}]},
            id="one of its keys, and the service before the catalogue",
        ),
        pytest.param(None, {"name": "other"}, {"secretName": "other", "defaultMode": 0o440}, id="the catalogue's"),
    ],
)
def test_the_token_reaches_the_init_container_alone(
    own: Body | None, catalogue: Body | None, volume: Body | None
) -> None:
    entry = gpt_model("m", uri=URI, **({"tokenSecretRef": catalogue} if catalogue else {}))
    spec = template({"modelRef": "m", **({"huggingFaceTokenSecretRef": own} if own else {})}, entry)
    assert [item["secret"] for item in named(spec["volumes"], "hub-token")] == ([volume] if volume else [])
    mounts = named(spec["initContainers"][0]["volumeMounts"], "hub-token")
    assert [mount["mountPath"] for mount in mounts] == ([contract.HUB_TOKEN_DIRECTORY] if volume else [])
    assert not named(spec["containers"][0]["volumeMounts"], "hub-token")


def test_a_token_is_for_a_hub() -> None:
    assert not named(
        template({"model": "pvc://m/x", "huggingFaceTokenSecretRef": {"name": "s"}})["volumes"], "hub-token"
    )


@pytest.mark.parametrize(
    ("uri", "endpoint", "env"),
    [
        pytest.param(URI, "http://hub", ["http://hub"], id="a mirror"),
        pytest.param(URI, "", [], id="Hugging Face's own"),
        pytest.param("pvc://m/x", "http://hub", [], id="no hub's model"),
    ],
)
def test_where_the_hub_is(uri: str, endpoint: str, env: list[str]) -> None:
    found = fetch({"model": uri}, hub_endpoint=endpoint)["env"]
    assert [variable["value"] for variable in named(found, contract.HUB_ENDPOINT_ENV)] == env


@pytest.mark.parametrize("uri", [URI, "pvc://m/x", "file:///m"])
@pytest.mark.parametrize(
    ("own", "catalogue", "demanded"),
    [(None, None, None), (DIGEST, "sha256:" + "2" * 64, DIGEST), (None, DIGEST, DIGEST)],
)
def test_a_digest_is_demanded(uri: str, own: str | None, catalogue: str | None, demanded: str | None) -> None:
    entry = gpt_model("m", uri=uri, **({"digest": catalogue} if catalogue else {}))
    args = fetch({"modelRef": "m", **({"modelDigest": own} if own else {})}, entry)["args"]
    assert (args[args.index("--digest") + 1] if "--digest" in args else None) == demanded
