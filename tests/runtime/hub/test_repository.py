"""What a hub may answer, and what of it is used."""

from types import SimpleNamespace
from typing import Any

import pytest

from gptservice_runtime import models
from gptservice_runtime.hub import repository
from gptservice_runtime.hub.repository import HuggingFaceHub, Repository

COMMIT = "a" * 40
FILES = ("config.json", "model.safetensors")


def sibling(name: str, **fields: Any) -> Any:
    return SimpleNamespace(**{"rfilename": name, "size": 2, "lfs": None, "blob_id": "b" * 40, **fields})


def hub(monkeypatch: pytest.MonkeyPatch, sha: object, *more: str) -> HuggingFaceHub:
    found = HuggingFaceHub(None, 5)
    info = SimpleNamespace(sha=sha, siblings=[sibling(name) for name in (*FILES, *more)])
    monkeypatch.setattr(found._api, "model_info", lambda *_args, **_named: info)
    return found


async def test_a_branch_is_the_commit_that_the_hub_names(monkeypatch: pytest.MonkeyPatch) -> None:
    listing = await hub(monkeypatch, COMMIT).listing(repository.parse("hf://org/name"))
    assert (listing.commit, [file.path for file in listing.files]) == (COMMIT, list(FILES))


@pytest.mark.parametrize("sha", ["../../../pwned", "/tmp/pwned", "", None, 5, "A" * 40, "main"])
async def test_anything_else_is_no_commit(monkeypatch: pytest.MonkeyPatch, sha: object) -> None:
    with pytest.raises(models.ModelError, match="not the commit"):
        await hub(monkeypatch, sha).listing(repository.parse("hf://org/name"))


@pytest.mark.parametrize(("sha", "taken"), [(COMMIT, True), (None, True), ("b" * 40, False)])
async def test_a_commit_that_was_asked_for_is_no_other(
    monkeypatch: pytest.MonkeyPatch, sha: object, taken: bool
) -> None:
    asked = Repository(name="org/name", revision=COMMIT)
    if taken:
        assert (await hub(monkeypatch, sha).listing(asked)).commit == COMMIT
        return
    with pytest.raises(models.ModelError, match="not the commit"):
        await hub(monkeypatch, sha).listing(asked)


@pytest.mark.parametrize(
    "name",
    ["../x.json", "/x.json", "a//x.json", "./x.json", "", "x\n.json", "x\x00.json", f"{'x' * 250}.json",
     f"{'a/' * 1500}x.json", "x\ud800.json"],
)  # fmt: skip
async def test_names_that_lead_elsewhere_are_left_out(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    listing = await hub(monkeypatch, COMMIT, name).listing(repository.parse("hf://org/name"))
    assert [file.path for file in listing.files] == list(FILES)


@pytest.mark.parametrize("uri", ["hf://org/na--me", "hf://org/name.git", "hf://org/name."])
async def test_a_name_that_no_hub_has_is_not_asked_for_again_and_again(uri: str) -> None:
    with pytest.raises(models.ModelError, match="no hub has such a name") as refused:
        await HuggingFaceHub(None, 5).listing(repository.parse(uri))
    assert refused.value.reason == "InvalidSpec"
