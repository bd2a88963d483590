"""What a manifest's layers are taken for."""

import json
from typing import Any

import pytest

from gptservice_runtime import models
from gptservice_runtime.sources import oci_manifest

DIGEST = "sha256:" + "a" * 64
TITLE = "org.opencontainers.image.title"
FILE_PATH = "org.cncf.model.filepath"
UNPACK = "io.deis.oras.content.unpack"


def layer(media_type: str = "application/octet-stream", **more: Any) -> dict[str, Any]:
    return {"mediaType": media_type, "digest": DIGEST, "size": 5, **more}


@pytest.mark.parametrize(
    ("described", "path", "is_archive"),
    [
        pytest.param(layer(annotations={TITLE: "config.json"}), "config.json", False, id="ORAS"),
        pytest.param(
            layer("application/vnd.oci.image.layer.v1.tar", annotations={TITLE: "model.safetensors"}),
            "model.safetensors", False, id="ORAS's default media type of a file",
        ),
        pytest.param(
            layer("application/vnd.oci.image.layer.v1.tar+gzip", annotations={TITLE: "m", UNPACK: "true"}),
            "layer-00000.tar.gz", True, id="a folder of ORAS",
        ),
        pytest.param(
            layer("application/vnd.oci.image.layer.v1.tar", annotations={TITLE: "m", UNPACK: "true"}),
            "layer-00000.tar", True, id="a folder of ORAS that is not compressed",
        ),
        pytest.param(
            layer("application/vnd.oci.image.layer.v1.tar", annotations={TITLE: "model.tar.gz"}),
            "layer-00000.tar.gz", True, id="ORAS's default media type of what is compressed",
        ),
        pytest.param(
            layer("application/x.other", annotations={TITLE: "m", UNPACK: "true"}),
            "layer-00000.tar.gz", True, id="a folder that does not say whether it is",
        ),
        pytest.param(
            layer("application/vnd.cncf.model.weight.v1.raw", annotations={FILE_PATH: "a/w.safetensors"}),
            "a/w.safetensors", False, id="CNCF's model format",
        ),
        pytest.param(layer("application/vnd.cncf.model.weight.v1.tar"), "layer-00000.tar", True, id="and its tars"),
        pytest.param(
            layer("application/vnd.docker.image.rootfs.diff.tar.gzip"), "layer-00000.tar.gz", True, id="image"
        ),
        pytest.param(layer("application/vnd.docker.ai.gguf.v3"), "model.gguf", False, id="Docker's models"),
    ],
)  # fmt: skip
def test_a_layer(described: dict[str, Any], path: str, is_archive: bool) -> None:
    (found,) = oci_manifest.layers({"layers": [described]}, "oci://r/m")
    assert (found.path, found.is_archive, found.digest, found.size) == (path, is_archive, DIGEST, 5)


@pytest.mark.parametrize("name", ["../x.json", "/etc/passwd", "a//b", "a\nb.json", "x" * 300, "."])
def test_a_title_that_leads_elsewhere_is_refused(name: str) -> None:
    with pytest.raises(models.ModelError) as refused:
        oci_manifest.layers({"layers": [layer(annotations={TITLE: name})]}, "oci://r/m")
    assert refused.value.reason == "ModelAccessDenied"


def test_of_layers_of_one_name_the_last_counts() -> None:
    layers = [layer(annotations={TITLE: "a.json"}), layer(annotations={TITLE: "b.json"})]
    later = {**layers[0], "digest": "sha256:" + "b" * 64}
    found = oci_manifest.layers({"layers": [*layers, later]}, "oci://r/m")
    assert sorted((one.path, one.digest) for one in found) == [("a.json", later["digest"]), ("b.json", DIGEST)]


@pytest.mark.parametrize(
    "manifest",
    [
        {},
        {"layers": {}},
        {"layers": []},
        {"layers": ["x"]},
        {"layers": [layer()]},
        {"layers": [{**layer(annotations={TITLE: "a.json"}), "digest": "md5:1"}]},
        {"layers": [{**layer(annotations={TITLE: "a.json"}), "size": -1}]},
        {"layers": [{**layer(annotations={TITLE: "a.json"}), "size": "5"}]},
        {"layers": [{**layer(annotations={TITLE: "a.json"}), "size": 10**400}]},
        {"layers": [layer("application/vnd.oci.image.layer.v1.tar+zstd")]},
    ],
)
def test_what_is_no_model_s_manifest_is_refused(manifest: dict[str, Any]) -> None:
    with pytest.raises(models.ModelError) as refused:
        oci_manifest.layers(manifest, "oci://r/m")
    assert refused.value.reason == "ModelNotFound"


@pytest.mark.parametrize("body", [b"", b"[]", b"<html>", b"\xff"])
def test_what_is_no_json_object_is_refused(body: bytes) -> None:
    with pytest.raises(models.ModelError, match="no manifest"):
        oci_manifest.read(body, "oci://r/m")


def test_an_index_leads_to_the_platform_s_manifest() -> None:
    other = "sha256:" + "b" * 64
    entries = [
        {"digest": other, "platform": {"architecture": "arm64"}},
        {"digest": DIGEST, "platform": {"architecture": "amd64"}},
    ]
    index = json.loads(json.dumps({"manifests": entries}))
    assert oci_manifest.of_index(index, "oci://r/m") == DIGEST
    assert oci_manifest.of_index({"layers": []}, "oci://r/m") is None
    with pytest.raises(models.ModelError, match="amd64"):
        oci_manifest.of_index({"manifests": entries[:1]}, "oci://r/m")
