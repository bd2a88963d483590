"""What a hub may answer, and what of it is used."""

from types import SimpleNamespace
from typing import Any

import pytest

from gptservice_runtime import models
from gptservice_runtime.sources import hugging_face
from gptservice_runtime.sources.hugging_face import HuggingFaceHub
from gptservice_runtime.transfer import http
from gptservice_runtime.transfer.source import Listing

COMMIT = "a" * 40
FILES = ("config.json", "model.safetensors")


def sibling(name: str, **fields: Any) -> Any:
    return SimpleNamespace(**{"rfilename": name, "size": 2, "lfs": None, "blob_id": "b" * 40, **fields})


URI = "hf://org/name"


async def listing(monkeypatch: pytest.MonkeyPatch, sha: object, *more: str, uri: str = URI) -> Listing:
    found = HuggingFaceHub(hugging_face.parse(uri), None, 5)
    info = SimpleNamespace(sha=sha, siblings=[sibling(name) for name in (*FILES, *more)])
    monkeypatch.setattr(found._api, "model_info", lambda *_args, **_named: info)
    async with http.connected(found, 5) as connection:
        return await found.listing(connection)


async def test_a_branch_is_the_commit_that_the_hub_names(monkeypatch: pytest.MonkeyPatch) -> None:
    listed = await listing(monkeypatch, COMMIT)
    assert (listed.revision, [file.path for file in listed.files]) == (COMMIT, list(FILES))


@pytest.mark.parametrize("sha", ["../../../pwned", "/tmp/pwned", "", None, 5, "A" * 40, "main"])
async def test_anything_else_is_no_commit(monkeypatch: pytest.MonkeyPatch, sha: object) -> None:
    with pytest.raises(models.ModelError, match="not the commit"):
        await listing(monkeypatch, sha)


@pytest.mark.parametrize(("sha", "taken"), [(COMMIT, True), (None, True), ("b" * 40, False)])
async def test_a_commit_that_was_asked_for_is_no_other(
    monkeypatch: pytest.MonkeyPatch, sha: object, taken: bool
) -> None:
    uri = f"{URI}@{COMMIT}"
    if taken:
        assert (await listing(monkeypatch, sha, uri=uri)).revision == COMMIT
        return
    with pytest.raises(models.ModelError, match="not the commit"):
        await listing(monkeypatch, sha, uri=uri)


@pytest.mark.parametrize(
    "name",
    ["../x.json", "/x.json", "a//x.json", "./x.json", "", "x\n.json", "x\x00.json", f"{'x' * 250}.json",
     f"{'a/' * 1500}x.json", "x\ud800.json"],
)  # fmt: skip
async def test_names_that_lead_elsewhere_are_left_out(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    assert [file.path for file in (await listing(monkeypatch, COMMIT, name)).files] == list(FILES)


@pytest.mark.parametrize("uri", ["hf://org/na--me", "hf://org/name.git", "hf://org/name."])
async def test_a_name_that_no_hub_has_is_not_asked_for_again_and_again(uri: str) -> None:
    found = HuggingFaceHub(hugging_face.parse(uri), None, 5)
    async with http.connected(found, 5) as connection:
        with pytest.raises(models.ModelError, match="no hub has such a name") as refused:
            await found.listing(connection)
    assert refused.value.reason == "InvalidSpec"
