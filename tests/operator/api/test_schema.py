"""Comparison of objects with schemas."""

from typing import Any

import pytest

from gptservice_operator.api import schema

SPEC = schema.spec_schemas()["GPTService"]


EMPTY: dict[str, Any] = {}


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


@pytest.mark.parametrize(
    ("value", "path", "has"),
    [
        pytest.param({"tls": {}}, "tls", True, id="an empty part is there"),
        pytest.param({"tls": None}, "tls", False, id="null is not"),
        pytest.param({"rollout": {"autoRollback": False}}, "rollout.autoRollback", True, id="false is there"),
        pytest.param({"rollout": {}}, "rollout.autoRollback", False, id="a part without the field"),
        pytest.param({"rollout": 5}, "rollout.autoRollback", False, id="no part"),
        pytest.param({"env": [EMPTY, {"valueFrom": EMPTY}]}, "env[].valueFrom", True, id="in one of a list"),
        pytest.param({"env": {}}, "env[].valueFrom", False, id="no list"),
    ],
)
def test_has(value: Any, path: str, has: bool) -> None:
    assert schema.has(value, path) is has
