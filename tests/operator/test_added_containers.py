"""A container that was added by hand is told if it gets in the way; sidecars are left alone."""

import copy

import pytest

from gptservice_operator import added_containers
from gptservice_operator.api import kinds
from tests.operator import builders
from tests.operator.builders import Body

DEPLOYMENT = builders.child(builders.resolved(), kinds.DEPLOYMENT.name)


def live(*added: Body) -> Body:
    body = builders.live(DEPLOYMENT)
    body["spec"]["template"]["spec"]["containers"] += added
    return body


def engine(**changes: object) -> Body:
    """Return a copy of the engine's container, as a rename by JSON patch leaves one beside ours."""
    (ours,) = DEPLOYMENT["spec"]["template"]["spec"]["containers"]
    return {**copy.deepcopy(ours), **changes}


@pytest.mark.parametrize(
    ("added", "told"),
    [
        pytest.param(engine(name="engine-2"), "our port 8000", id="renamed"),
        pytest.param(engine(name="engine-2", ports=None), "the service's own image", id="our image"),
        pytest.param(engine(name="proxy", image="proxy:1"), "our port 8000", id="our port"),
    ],
)
def test_it_is_named_with_what_it_does_and_how_to_remove_it(added: Body, told: str) -> None:
    (warning,) = added_containers.warnings(DEPLOYMENT, live(added))
    assert f"container {added['name']} " in warning
    assert told in warning
    assert "kubectl edit deployment chat" in warning


@pytest.mark.parametrize(
    "added",
    [
        pytest.param([], id="none"),
        pytest.param([{"name": "mesh", "image": "mesh:1", "ports": [{"containerPort": 15090}]}], id="a sidecar"),
        pytest.param([{"name": "mesh", "image": "mesh:1"}], id="without ports"),
    ],
)
def test_sidecars_are_welcome(added: list[Body]) -> None:
    assert list(added_containers.warnings(DEPLOYMENT, live(*added))) == []


def test_there_is_no_deployment_yet() -> None:
    assert list(added_containers.warnings(DEPLOYMENT, None)) == []
