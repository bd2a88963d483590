"""A downloaded model in the pod: what is fetched, with what, and to where."""

from typing import Any

import pytest

from gptservice_operator.render import pod
from gptservice_runtime import contract
from tests.operator import builders
from tests.operator.builders import Body, gpt_model, refusal, resolved
from tests.operator.golden_cases import CA_BUNDLE

URI = "hf://org/name"
STORES = ("s3://bucket/m", "gs://bucket/m", "oci://registry.example.com/m:v1", "https://example.com/m.tar")
DIGEST = "sha256:" + "1" * 64
OWN = ("spec: huggingFaceTokenSecretRef is for hf:// models", "spec: modelCredentialsSecretRef is for s3://")


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


class TestProxy:
    """Through which models are downloaded."""

    URL = "http://proxy.example.com:3128"
    CLUSTER = "localhost,127.0.0.1,.svc,.cluster.local,169.254.169.254,169.254.170.23,metadata.google.internal"

    def variables(self, container: Body) -> dict[str, str]:
        return {one["name"]: one["value"] for one in container.get("env", []) if one["name"].endswith("_PROXY")}

    @pytest.mark.parametrize("uri", [URI, *STORES])
    def test_a_download_is_told(self, uri: str) -> None:
        settings = {"runtime_http_proxy": self.URL, "runtime_https_proxy": f"{self.URL}0"}
        assert self.variables(fetch({"model": uri}, **settings)) == {
            "HTTP_PROXY": self.URL, "HTTPS_PROXY": f"{self.URL}0", "NO_PROXY": self.CLUSTER,
        }  # fmt: skip

    def test_what_is_left_out_comes_beside_what_is_the_cluster_s_own(self) -> None:
        settings = {"runtime_https_proxy": self.URL, "runtime_no_proxy": (".corp", "127.0.0.1")}
        others = self.CLUSTER.replace("127.0.0.1,", "")
        assert self.variables(fetch({"model": URI}, **settings)) == {
            "HTTPS_PROXY": self.URL, "NO_PROXY": f".corp,127.0.0.1,{others}",
        }  # fmt: skip

    def test_the_engine_is_not(self) -> None:
        engine = template({"model": URI}, runtime_https_proxy=self.URL)["containers"][0]
        assert self.variables(engine) == {}

    @pytest.mark.parametrize(
        ("uri", "settings"),
        [
            pytest.param("pvc://m/x", {"runtime_https_proxy": URL}, id="nothing is downloaded"),
            pytest.param(URI, {"runtime_no_proxy": ("a",)}, id="there is no proxy"),
        ],
    )
    def test_else_nothing_is_said(self, uri: str, settings: dict[str, Any]) -> None:
        assert self.variables(fetch({"model": uri}, **settings)) == {}


class TestAuthorities:
    """Of the platform's own, which every download trusts."""

    PATH = "/etc/gptservice/authorities"

    @pytest.mark.parametrize("uri", [URI, *STORES])
    def test_a_download_is_given_them(self, uri: str) -> None:
        spec = template({"model": uri}, runtime_ca_bundle=CA_BUNDLE)
        container = spec["initContainers"][0]
        args = container["args"]
        assert args[args.index(contract.CA_BUNDLE_FLAG) + 1] == f"{self.PATH}/ca.crt"
        (mount,) = [mount for mount in container["volumeMounts"] if mount["mountPath"] == self.PATH]
        assert mount == {"name": mount["name"], "mountPath": self.PATH, "readOnly": True}
        (volume,) = named(spec["volumes"], mount["name"])
        assert volume["configMap"]["name"] == "chat-limits"
        assert "items" not in volume["configMap"], "a key that is taken away would keep pods of kept revisions waiting"

    def test_the_engine_is_not(self) -> None:
        engine = template({"model": URI}, runtime_ca_bundle=CA_BUNDLE)["containers"][0]
        assert self.PATH not in {mount["mountPath"] for mount in engine["volumeMounts"]}

    @pytest.mark.parametrize(
        ("uri", "bundle"),
        [pytest.param(URI, "", id="none"), pytest.param("pvc://m/x", CA_BUNDLE, id="nothing is downloaded")],
    )
    def test_else_nothing_is_there(self, uri: str, bundle: str) -> None:
        container = fetch({"model": uri}, runtime_ca_bundle=bundle)
        assert contract.CA_BUNDLE_FLAG not in container["args"]
        assert self.PATH not in {mount["mountPath"] for mount in container["volumeMounts"]}


@pytest.mark.parametrize("uri", [URI, *STORES, "pvc://m/x", "file:///m"])
@pytest.mark.parametrize(
    ("own", "catalogue", "demanded"),
    [(None, None, None), (DIGEST, "sha256:" + "2" * 64, DIGEST), (None, DIGEST, DIGEST)],
)
def test_a_digest_is_demanded(uri: str, own: str | None, catalogue: str | None, demanded: str | None) -> None:
    entry = gpt_model("m", uri=uri, **({"digest": catalogue} if catalogue else {}))
    args = fetch({"modelRef": "m", **({"modelDigest": own} if own else {})}, entry)["args"]
    assert (args[args.index("--digest") + 1] if "--digest" in args else None) == demanded


@pytest.mark.parametrize("uri", STORES)
@pytest.mark.parametrize(
    ("own", "catalogue", "name"),
    [(None, None, None), ({"name": "own"}, {"name": "other"}, "own"), (None, {"name": "other"}, "other")],
)
def test_credentials_reach_the_init_container_alone(
    uri: str, own: Body | None, catalogue: Body | None, name: str | None
) -> None:
    entry = gpt_model("m", uri=uri, **({"modelCredentialsSecretRef": catalogue} if catalogue else {}))
    spec = template({"modelRef": "m", **({"modelCredentialsSecretRef": own} if own else {})}, entry)
    volumes = [volume["secret"] for volume in named(spec["volumes"], "model-credentials")]
    assert volumes == ([{"secretName": name, "defaultMode": 0o440}] if name else [])
    mounts = named(spec["initContainers"][0]["volumeMounts"], "model-credentials")
    where = {"mountPath": contract.MODEL_CREDENTIALS_DIRECTORY, "readOnly": True}
    assert mounts == ([{"name": "model-credentials", **where}] if name else [])
    assert not named(spec["containers"][0]["volumeMounts"], "model-credentials")
    assert name is None or name not in str(spec["initContainers"][0]["args"] + spec["initContainers"][0]["env"])


@pytest.mark.parametrize("uri", STORES)
def test_a_store_s_model_has_the_cache_of_a_hub_s(uri: str) -> None:
    of_hub, of_store = (template({"model": each}, runtime_cache_size="6Gi") for each in (URI, uri))
    of_store["initContainers"][0]["args"][2] = URI
    of_store["containers"][0]["args"] = of_hub["containers"][0]["args"]
    assert of_store == of_hub


@pytest.mark.parametrize(
    ("spec", "catalogue", "where"),
    [
        pytest.param({"model": URI, "modelCredentialsSecretRef": {"name": "s"}}, None, OWN[1], id="a hub"),
        pytest.param({"model": "pvc://m/x", "modelCredentialsSecretRef": {"name": "s"}}, None, OWN[1], id="pvc"),
        pytest.param({"model": "file:///m", "modelCredentialsSecretRef": {"name": "s"}}, None, OWN[1], id="file"),
        pytest.param({"model": STORES[0], "huggingFaceTokenSecretRef": {"name": "s"}}, None, OWN[0], id="s3"),
        pytest.param({"model": STORES[2], "huggingFaceTokenSecretRef": {"name": "s"}}, None, OWN[0], id="oci"),
        pytest.param(
            {"modelRef": "m"},
            {"uri": URI, "modelCredentialsSecretRef": {"name": "s"}},
            "spec.modelRef: GPTModel 'm' is not valid: spec: modelCredentialsSecretRef is for ",
            id="an entry of a hub",
        ),
        pytest.param(
            {"modelRef": "m"},
            {"uri": STORES[1], "tokenSecretRef": {"name": "s"}},
            "spec.modelRef: GPTModel 'm' is not valid: spec: tokenSecretRef is for ",
            id="an entry of a store",
        ),
        pytest.param(
            {"modelRef": "m", "huggingFaceTokenSecretRef": {"name": "s"}},
            {"uri": STORES[3]},
            "spec.huggingFaceTokenSecretRef: is for hf:// models, and this is https://",
            id="the service's, and an entry of a store",
        ),
        pytest.param(
            {"model": "m", "modelCredentialsSecretRef": {"name": "s"}},
            {"uri": "org/name"},
            "spec.modelCredentialsSecretRef: is for s3://, gs://, oci://, https:// models, and this is hf://",
            id="the service's, and an entry of a hub",
        ),
        pytest.param(
            {"model": "m", "modelCredentialsSecretRef": {"name": "s"}},
            {"uri": "pvc://m/x"},
            "spec.modelCredentialsSecretRef: is for s3://, gs://, oci://, https:// models, and this is pvc://",
            id="the service's, and an entry of a claim",
        ),
    ],
)
def test_a_secret_that_can_open_no_such_model_is_refused(spec: Body, catalogue: Body | None, where: str) -> None:
    refused = refusal(spec, *([gpt_model("m", **catalogue)] if catalogue else []))
    assert refused.reason.name == "InvalidSpec"
    assert refused.message.startswith(where)


@pytest.mark.parametrize(
    ("spec", "limit"),
    [
        pytest.param({"gpu": {"count": 0}, "resources": {"limits": {"memory": "3Gi"}}}, str(3 << 30), id="CPU"),
        pytest.param({"gpu": {"count": 1}, "resources": {"limits": {"memory": "3Gi"}}}, None, id="a GPU's memory"),
    ],
)
@pytest.mark.parametrize("uri", [URI, *STORES])
def test_the_memory_that_weights_must_fit_into(uri: str, spec: Body, limit: str | None) -> None:
    args = fetch({"model": uri, **spec})["args"]
    assert (args[args.index("--memory-limit") + 1] if "--memory-limit" in args else None) == limit


@pytest.mark.parametrize(
    "uri", ["s3://bucket/m.gguf", "gs://bucket/m.gguf", "https://host/m.gguf?x=1", "pvc://m/m.gguf", "file:///m.gguf"]
)
def test_a_gguf_file_is_for_engines_that_read_it(uri: str) -> None:
    refused = refusal({"model": uri})
    assert refused.reason.name == "InvalidSpec"
    assert refused.message.startswith("spec.model: ")
    assert "convert it to safetensors" in refused.message
    assert resolved({"model": uri, "engine": {"image": "registry.example.com/with-gguf:1"}}).source.uri == uri
    assert builders.resolved({"model": uri}, settings=builders.config(runtime_vllm_version="0.99.0")).source.uri == uri
