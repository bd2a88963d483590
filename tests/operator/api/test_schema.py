"""Comparison of objects with schemas."""

from typing import Any

import pytest

from gptservice_operator.api import schema

SPEC = schema.spec_schemas()["GPTService"]


@pytest.mark.parametrize(
    ("spec", "unknown"),
    [
        pytest.param({"model": "m", "nodeSelector": {}}, ["spec.nodeSelector"], id="at the top"),
        pytest.param({"engine": {"env": [{"name": "A"}, {"nam": "B"}]}}, ["spec.engine.env[1].nam"], id="in a list"),
        pytest.param({"podLabels": {"anything": "x"}}, [], id="keys of a map are no fields"),
        pytest.param({"engine": "text", "gpu": [1]}, [], id="a wrong type is another matter"),
        pytest.param("text", [], id="no spec at all"),
    ],
)
def test_unknown_fields(spec: Any, unknown: list[str]) -> None:
    assert list(schema.unknown(SPEC, spec, "spec")) == unknown
