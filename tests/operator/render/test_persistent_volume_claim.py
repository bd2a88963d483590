"""The cache's claim."""

from typing import Any

import pytest

from gptservice_operator.render.persistent_volume_claim import render_persistent_volume_claim
from tests.operator import builders
from tests.operator.builders import Body


def claim(cache: Body | None) -> Body | None:
    spec: dict[str, Any] = {"model": "pvc://models/m"} if cache is None else {"model": "pvc://models/m", "cache": cache}
    return render_persistent_volume_claim(builders.resolved(spec))


@pytest.mark.parametrize(
    "cache",
    [
        pytest.param(None, id="no cache asked for"),
        pytest.param({}, id="nothing in it"),
        pytest.param({"persistentVolumeClaim": {"claimName": "weights"}}, id="the user's own claim"),
    ],
)
def test_none_is_made(cache: Body | None) -> None:
    assert claim(cache) is None


@pytest.mark.parametrize(
    ("cache", "spec"),
    [
        pytest.param(
            {"size": "10Gi"},
            {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "10Gi"}}},
            id="the cluster's default class",
        ),
        pytest.param(
            {"size": 1000, "storageClassName": "fast", "accessModes": ["ReadWriteOncePod"]},
            {
                "accessModes": ["ReadWriteOncePod"],
                "resources": {"requests": {"storage": "1000"}},
                "storageClassName": "fast",
            },
            id="a number, a class and a mode",
        ),
        pytest.param(
            {"size": "1Gi", "accessModes": ["ReadWriteOnce", "ReadWriteMany"]},
            {"accessModes": ["ReadWriteMany", "ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}},
            id="modes in alphabetical order: another order would be a change, which is refused",
        ),
    ],
)
def test_what_is_asked_for(cache: Body, spec: Body) -> None:
    manifest = claim(cache)
    assert manifest is not None
    assert manifest["spec"] == spec


def test_a_user_s_other_order_of_modes_is_the_same_claim() -> None:
    one = claim({"size": "1Gi", "accessModes": ["ReadWriteOnce", "ReadWriteMany"]})
    assert one == claim({"size": "1Gi", "accessModes": ["ReadWriteMany", "ReadWriteOnce"]})
