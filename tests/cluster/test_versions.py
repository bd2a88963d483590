from pathlib import Path

import pytest

from e2e.cluster import binaries, paths, versions

GO_MOD = """module example.com/tools/thing

go 1.25.3

tool (
	example.org/thing/v2/cmd/one
	example.org/thing/v2/cmd/two
)

require example.org/thing/v2 v2.4.2

require (
	example.org/thing/v2/cmd v9.9.9 // indirect
	example.org/other v1.0.0 // indirect
)

replace example.org/other => example.org/fork v0.1.0
"""


@pytest.fixture
def tools(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(paths, "TOOLS", tmp_path)
    for cached in (versions.go_module, versions.go_modules, versions.go_compiler):
        cached.cache_clear()
        # Again at the end, so that no other test sees these modules.
        monkeypatch.setattr(versions, cached.__name__, cached.__wrapped__)
    return tmp_path


def add(tools: Path, name: str, content: str) -> None:
    (tools / name).mkdir()
    (tools / name / "go.mod").write_text(content)


def test_version_is_that_of_the_module_which_owns_the_tools(tools: Path) -> None:
    add(tools, "thing", GO_MOD.replace("\texample.org/thing/v2/cmd v9.9.9 // indirect\n", ""))
    module = versions.go_module("thing")
    assert (module.version, module.packages) == (
        "v2.4.2",
        ("example.org/thing/v2/cmd/one", "example.org/thing/v2/cmd/two"),
    )


def test_the_innermost_module_owns_a_package(tools: Path) -> None:
    add(tools, "thing", GO_MOD)
    assert versions.go_module("thing").version == "v9.9.9"


def test_a_single_tool_needs_no_block(tools: Path) -> None:
    add(tools, "thing", "module m\n\ngo 1.26\n\ntool example.org/thing\n\nrequire example.org/thing v1.2.3\n")
    assert versions.go_module("thing").packages == ("example.org/thing",)


def test_changed_sums_make_another_key(tools: Path) -> None:
    add(tools, "thing", GO_MOD)
    before = versions.go_module("thing").key
    (tools / "thing" / "go.sum").write_text("example.org/other v1.0.0 h1:abc=\n")
    after = versions.go_module("thing").key
    assert before != after
    assert before.rsplit("-", 1)[0] == after.rsplit("-", 1)[0] == "thing-v9.9.9"


def test_a_module_without_tools_is_an_error_that_says_what_to_add(tools: Path) -> None:
    add(tools, "thing", "module m\n\ngo 1.26\n")
    with pytest.raises(ValueError, match="no `tool` line"):
        versions.go_module("thing")


def test_the_compiler_must_suit_the_most_demanding_module(tools: Path) -> None:
    add(tools, "old", "module m\n\ngo 1.9\n")
    add(tools, "new", GO_MOD)
    assert versions.go_compiler() == (1, 25)


def test_every_program_of_the_profiles_is_pinned() -> None:
    wanted = {*binaries.of_profile("api"), *binaries.of_profile("node"), binaries.HELM}
    assert wanted <= binaries.tools().keys()
    assert all(module.version.startswith("v") for module in versions.go_modules().values())


def test_every_module_has_its_sums_committed() -> None:
    assert [name for name in versions.go_modules() if not (paths.TOOLS / name / "go.sum").exists()] == []
