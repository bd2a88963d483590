"""What the documents list is what there is."""

import re
import tomllib
from pathlib import Path

import pytest
import yaml

from gptservice_operator import config

ROOT = Path(__file__).resolve().parents[2]
OPERATIONS = (ROOT / "docs/operations.md").read_text()
DOCUMENTS = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]


def first_column(text: str) -> set[str]:
    """Everything in backticks in the first cell of a table's rows."""
    cells = re.findall(r"^\| ([^|]*) \|", text, flags=re.MULTILINE)
    return {name for cell in cells for name in re.findall(r"`([^`]+)`", cell)}


def test_every_setting_is_listed_and_nothing_else() -> None:
    listed = {name for name in first_column(OPERATIONS) if name.startswith(config.PREFIX)}
    assert listed == {config.PREFIX + name.upper() for name in config.Config.__annotations__}


def test_every_value_of_the_chart_is_listed() -> None:
    values = yaml.safe_load((ROOT / "charts/gptservice-operator/values.yaml").read_text())
    listed = first_column(OPERATIONS)
    missing = [key for key in values if not any(name == key or name.startswith(f"{key}.") for name in listed)]
    assert not missing


def test_the_layers_in_the_architecture_are_those_that_are_checked() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    (layers,) = [one["layers"] for one in project["tool"]["importlinter"]["contracts"] if one["id"] == "layers"]
    checked = [[name for name in layer.split(" | ") if not name.startswith("(")] for layer in layers]
    rows = re.findall(r"^\| [\w ]+ \| (`[^|]+`) \|", (ROOT / "docs/architecture.md").read_text(), flags=re.MULTILINE)
    written = [re.findall(r"`(\w+)`", row) for row in rows]
    assert [name for row in written for name in row] == [name for layer in checked for name in layer]


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name if path.parent != ROOT else "README.md")
def test_links_and_named_files_exist(document: Path) -> None:
    text = document.read_text()
    links = [target for target in re.findall(r"\]\(([^)#]+)", text) if "://" not in target]
    named = re.findall(r"(?<![\w/.-])((?:examples|docs|charts|e2e|runtime-image)/[\w./-]*\w)", text)
    missing = [t for t in links if not (document.parent / t).exists()]
    missing += [n for n in named if not (ROOT / n).exists() and not (document.parent / n).exists()]
    assert not missing
