"""The reference page: that which is committed, complete, with examples that are accepted."""

from pathlib import Path

import pytest
import yaml

from gptservice_operator import parse
from gptservice_operator.api import reference, schema, v1
from gptservice_operator.render.resolved import Refusal

PAGE = Path(__file__).resolve().parents[3] / "docs" / "api.md"


def test_what_is_committed_is_what_the_models_say() -> None:
    """If not: make generate."""
    assert PAGE.read_text(encoding="utf-8") == reference.render()


@pytest.mark.parametrize("kind", ["GPTService", "GPTModel"])
def test_every_field_of_the_spec_is_in_it(kind: str) -> None:
    text = reference.render()
    for name in schema.spec_schemas()[kind]["properties"]:
        assert f"| `{name}` |" in text


def test_every_row_of_a_table_has_three_cells() -> None:
    rows = [line for line in reference.render().splitlines() if line.startswith("| ")]
    assert {line.replace("\\|", "").count("|") for line in rows} == {4}


@pytest.mark.parametrize(
    ("kind", "text"), [(kind, text) for kind, listed in reference.EXAMPLES.items() for _, text in listed]
)
def test_its_examples_are_accepted(kind: str, text: str) -> None:
    body = yaml.safe_load(text)
    assert list(schema.unknown(schema.spec_schemas()[kind], body["spec"], "spec")) == []
    if kind == "GPTService":
        assert not isinstance(parse.parse(body), Refusal)
    else:
        v1.GPTModelSpec.model_validate(body["spec"])
