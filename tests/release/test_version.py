"""The version is said once; whoever repeats it says the same."""

import re
from pathlib import Path

import pytest

from release import version

FILES = [file for file in version.files() if version.repeated(file.read_text())]


@pytest.mark.parametrize("file", FILES, ids=lambda file: str(file.relative_to(version.ROOT)))
def test_every_file_says_the_version_of_the_project(file: Path) -> None:
    """Mend it with `make generate`."""
    assert set(version.repeated(file.read_text())) == {version.current()}


def test_charts_and_commands_are_among_them() -> None:
    found = {str(file.relative_to(version.ROOT)) for file in FILES}
    assert found >= {
        "charts/gptservice-operator/Chart.yaml",
        "charts/gptservice-catalogue/Chart.yaml",
        "gitops/operator/values.yaml",
        "docs/operations.md",
        "docs/quick-start.md",
    }


@pytest.mark.parametrize(
    "line",
    [
        "version: {}",
        "appVersion: {}",
        "registry=registry.example.com/ai version={}",
        "  --set image.tag={} \\",
        "  tag: {}",
        "  image: registry.example.com/ai/gptservice-runtime:{}",
        "kubectl apply -f dist/gptservice-operator-{}.yaml",
        "`gptservice-runtime-cpu-{}.cdx.json`",
        "(`--build-arg VERSION={}`)",
    ],
)
def test_it_is_found_and_replaced(line: str) -> None:
    assert version.repeated(line.format("1.2.3-rc.1")) == ["1.2.3-rc.1"]
    assert version.with_version(line.format("0.1.0"), "1.2.3-rc.1") == line.format("1.2.3-rc.1")


@pytest.mark.parametrize("line", ['vllmVersion: "0.32.0"', "kubeVersion: 1.33.0", "kopf==1.45.2", "vllm/vllm:0.32.0"])
def test_versions_of_others_stay(line: str) -> None:
    assert version.with_version(line, "9.9.9") == line


def test_the_changelog_has_it() -> None:
    changelog = (version.ROOT / "CHANGELOG.md").read_text()
    headings = re.findall(r"^## \[([^]]+)\]", changelog, flags=re.MULTILINE)
    assert headings[0] == "Unreleased"
    assert version.current() in headings
    assert set(headings) == set(re.findall(r"^\[([^]]+)\]: https://", changelog, flags=re.MULTILINE))
