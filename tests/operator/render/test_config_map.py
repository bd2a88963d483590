"""What changes without a restart, in the form that the runtime reads: limits, and whom downloads trust."""

import json
from typing import Any

import pytest

from gptservice_operator.render.config_map import render_config_map
from tests.operator import builders


@pytest.mark.parametrize(
    ("spec", "limits"),
    [
        pytest.param({}, {}, id="no limit: the file is there all the same, so that one can be set"),
        pytest.param({"maxInflightRequests": 1}, {"maxInflightRequests": 1}, id="the smallest"),
        pytest.param({"maxInflightRequests": 128}, {"maxInflightRequests": 128}, id="a limit"),
    ],
)
def test_the_file_of_limits(spec: dict[str, Any], limits: dict[str, int]) -> None:
    manifest = render_config_map(builders.resolved({"model": "pvc://models/m", **spec}))
    assert set(manifest["data"]) == {"limits.json"}
    assert json.loads(manifest["data"]["limits.json"]) == limits


@pytest.mark.parametrize("uri", ["pvc://models/m", "hf://org/name"])
def test_authorities_are_beside_it_whatever_the_model_is(uri: str) -> None:
    """Pods of an earlier revision, which downloads, may be started again."""
    settings = builders.config(runtime_ca_bundle="some certificates")
    manifest = render_config_map(builders.resolved({"model": uri}, settings=settings))
    assert manifest["data"] == {"limits.json": "{}", "ca.crt": "some certificates"}
