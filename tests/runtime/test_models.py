"""What counts as a model, and what a URI may lead to."""

import json
from pathlib import Path

import pytest

from gptservice_runtime import models

ROOT = Path("/models/source")


def folder(root: Path, name: str = "model", **files: str) -> Path:
    """A model folder with those files; `_` in a name stands for a dot."""
    made = root / name
    made.mkdir(parents=True)
    for file, content in files.items():
        (made / file.replace("_", ".")).write_text(content)
    return made


@pytest.mark.parametrize(
    ("uri", "path", "root"),
    [
        pytest.param("pvc://models/smollm2", "/models/source/smollm2", "/models/source", id="claim"),
        pytest.param("pvc://models/a/b/", "/models/source/a/b", "/models/source", id="nested"),
        pytest.param("pvc://models", "/models/source", "/models/source", id="the whole claim"),
        pytest.param("pvc://models//etc/x", "/models/source/etc/x", "/models/source", id="no absolute path inside"),
        pytest.param("file:///opt/model", "/opt/model", "/", id="in the image"),
    ],
)
def test_where_a_uri_leads(uri: str, path: str, root: str) -> None:
    assert models.locate(uri, ROOT) == models.Location(path=Path(path), root=Path(root))


@pytest.mark.parametrize(
    "uri",
    [
        pytest.param("hf://org/name", id="hub"),
        pytest.param("org/name", id="no scheme"),
        pytest.param("", id="empty"),
        pytest.param("pvc://", id="no claim"),
        pytest.param("pvc:///path", id="no claim, but a path"),
        pytest.param("pvc://models/../secret", id="parent"),
        pytest.param("pvc://../x", id="parent for a claim"),
        pytest.param("file:///a/../../etc", id="parent in a file"),
        pytest.param("file://relative", id="relative file"),
        pytest.param("pvc://models/a\0b", id="NUL"),
    ],
)
def test_other_uris_are_refused(uri: str) -> None:
    with pytest.raises(models.ModelError) as caught:
        models.locate(uri, ROOT)
    assert caught.value.reason == "InvalidSpec"
    assert repr(uri) in str(caught.value)


def test_the_size_is_that_of_all_files(tmp_path: Path) -> None:
    model = folder(tmp_path, config_json="{}", model_safetensors="12345", tokenizer_json="123")
    (model / "extra").mkdir()
    (model / "extra" / "notes").write_text("1")
    assert models.inspect(model, tmp_path) == 2 + 5 + 3 + 1


def test_a_gguf_file_is_a_model(tmp_path: Path) -> None:
    (tmp_path / "model.gguf").write_text("GGUF")
    assert models.inspect(tmp_path / "model.gguf", tmp_path) == 4


def test_a_hub_cache_inside_the_claim_is_a_model(tmp_path: Path) -> None:
    blob = tmp_path / "blobs" / "abc"
    blob.parent.mkdir()
    blob.write_text("12345678")
    snapshot = folder(tmp_path / "snapshots", config_json="{}")
    (snapshot / "model.safetensors").symlink_to("../../blobs/abc")
    assert models.inspect(snapshot, tmp_path) == 2 + 8


@pytest.mark.parametrize(
    ("files", "reason", "said"),
    [
        pytest.param({"model_safetensors": "x"}, "ModelNotFound", "no config.json", id="no configuration"),
        pytest.param({"config_json": "{}"}, "ModelNotFound", "no weights", id="no weights"),
        pytest.param({"model_gguf": "x"}, "ModelNotFound", "name one of its .gguf files", id="gguf by its folder"),
        pytest.param({"config_json": "{}", "a_bin": ""}, "ModelLoadFailed", "a.bin is empty", id="empty weights"),
        pytest.param(
            {"config_json": "{}", "model_bin": "x", "model_bin_index_json": "[]"}, "ModelLoadFailed", "no weight index",
            id="broken index",
        ),
    ],
)  # fmt: skip
def test_what_is_no_model(tmp_path: Path, files: dict[str, str], reason: str, said: str) -> None:
    with pytest.raises(models.ModelError, match=said) as caught:
        models.inspect(folder(tmp_path, **files), tmp_path)
    assert caught.value.reason == reason


def test_a_missing_shard_is_named(tmp_path: Path) -> None:
    model = folder(tmp_path, config_json="{}")
    (model / "model-1.safetensors").write_text("x")
    index = {"weight_map": {"a": "model-1.safetensors", "b": "model-2.safetensors"}}
    (model / "model.safetensors.index.json").write_text(json.dumps(index))
    with pytest.raises(models.ModelError, match=r"model-2\.safetensors \(1 in all\) is missing"):
        models.inspect(model, tmp_path)
    (model / "model-2.safetensors").write_text("x")
    assert models.inspect(model, tmp_path) > 0


def test_a_wrong_path_is_answered_with_what_there_is(tmp_path: Path) -> None:
    folder(tmp_path, "smollm2")
    folder(tmp_path, "qwen")
    with pytest.raises(models.ModelError, match="holds qwen, smollm2") as caught:
        models.inspect(tmp_path / "smollm", tmp_path)
    assert caught.value.reason == "ModelNotFound"


def test_a_claim_that_is_not_mounted_is_said(tmp_path: Path) -> None:
    with pytest.raises(models.ModelError, match="does not exist either"):
        models.inspect(tmp_path / "source" / "model", tmp_path / "source")


@pytest.mark.parametrize("link", ["model", "model/model.safetensors", "model/extra", "model/dangling"])
def test_a_link_that_leads_out_of_the_claim_is_refused(tmp_path: Path, link: str) -> None:
    claim = tmp_path / "claim"
    outside = folder(tmp_path, "outside", config_json="{}", model_safetensors="secret")
    if link == "model":
        claim.mkdir()
        (claim / link).symlink_to(outside)
    else:
        folder(claim, config_json="{}", model_bin="x")
        target = outside / "nowhere" if link.endswith("dangling") else outside / "model.safetensors"
        (claim / link).symlink_to(outside if link.endswith("extra") else target)
    with pytest.raises(models.ModelError, match="leads out of") as caught:
        models.inspect(claim / "model", claim)
    assert caught.value.reason == "ModelAccessDenied"


def test_a_gguf_link_that_leads_out_of_the_claim_is_refused(tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("x")
    (tmp_path / "claim").mkdir()
    (tmp_path / "claim" / "model.gguf").symlink_to(tmp_path / "secret")
    with pytest.raises(models.ModelError, match="leads out of"):
        models.inspect(tmp_path / "claim" / "model.gguf", tmp_path / "claim")


def test_a_link_to_the_claims_own_root_ends(tmp_path: Path) -> None:
    model = folder(tmp_path, config_json="{}", model_bin="x")
    (model / "loop").symlink_to("..")
    assert models.inspect(model, tmp_path) == 3


@pytest.mark.parametrize(
    ("path", "root"),
    [
        pytest.param("/models/source/a", "/models/source", id="in the claim"),
        pytest.param("/models/source", "/models/source", id="the claim itself"),
        pytest.param("/opt/a", "/", id="in the image"),
    ],
)
def test_what_serve_may_not_lead_out_of(path: str, root: str) -> None:
    assert models.root_of(Path(path)) == Path(root)


@pytest.mark.parametrize("nested", [False, True])
def test_a_link_to_itself_is_passed_over_like_one_to_nothing(tmp_path: Path, nested: bool) -> None:
    model = folder(tmp_path, config_json="{}", model_safetensors="12345")
    where = model / "extra" if nested else model
    where.mkdir(exist_ok=True)
    (where / "latest").symlink_to("latest")
    (where / "gone").symlink_to("nowhere")
    assert models.inspect(model, tmp_path) == 7


def test_a_model_that_is_a_link_to_itself_is_not_there(tmp_path: Path) -> None:
    (tmp_path / "model").symlink_to("model")
    with pytest.raises(models.ModelError, match="there is no") as caught:
        models.inspect(tmp_path / "model", tmp_path)
    assert caught.value.reason == "ModelNotFound"


def test_a_link_to_itself_leads_out_of_nothing(tmp_path: Path) -> None:
    model = folder(tmp_path)
    (model / "latest").symlink_to("latest")
    models.refuse_escapes(model, tmp_path)
