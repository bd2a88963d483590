"""The limits that change without a restart, in the form that the runtime reads."""

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
