"""The Deployment around the pod template."""

from typing import Any

import pytest

from gptservice_operator import names
from gptservice_operator.render.deployment import render_deployment
from gptservice_operator.render.pod import render_pod_template
from tests.operator import builders
from tests.operator.builders import Body


def rendered(name: str = "chat", **spec: Any) -> Body:
    decided = builders.resolved({"model": "pvc://models/m", **spec}, name=name)
    found: Body = render_deployment(decided, render_pod_template(decided))["spec"]
    return found


@pytest.mark.parametrize("replicas", [0, 1, 7])
def test_replicas(replicas: int) -> None:
    assert rendered(replicas=replicas)["replicas"] == replicas


@pytest.mark.parametrize("name", ["chat", "llama-3.1-8b", "7b"])
def test_the_selector_finds_the_pods_of_the_template(name: str) -> None:
    spec = rendered(name)
    assert spec["selector"]["matchLabels"].items() <= spec["template"]["metadata"]["labels"].items()
    assert spec["selector"]["matchLabels"]["gptservice-name"] == name


def test_a_rolling_update_takes_no_pod_away_before_its_successor_is_ready() -> None:
    rolling = {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1, "maxUnavailable": 0}}
    assert rendered(upgradeStrategy="RollingUpdate")["strategy"] == rolling
    assert rendered()["strategy"] == rolling, "in full, also where it is the default: only so can it be taken back"


GENERATE: Body = {"apiKeys": {"generate": True}}
THEIRS: Body = {"apiKeys": {"secretRef": {"name": "team-keys"}}}
DISABLED: Body = {"disabled": True}


@pytest.mark.parametrize(
    ("auth", "annotations"),
    [
        pytest.param(GENERATE, {names.KEY_SECRET: f"chat-key-{builders.uid_of('GPTService', 'chat')[:8]}"}, id="ours"),
        pytest.param(THEIRS, None, id="the user's"),
        pytest.param(DISABLED, None, id="none"),
    ],
)
def test_it_tells_which_secret_was_made_before_it(auth: Body, annotations: Body | None) -> None:
    decided = builders.resolved({"model": "pvc://models/m", "auth": auth})
    manifest = render_deployment(decided, render_pod_template(decided))
    assert manifest["metadata"].get("annotations") == annotations


def test_recreate_has_no_further_settings() -> None:
    assert rendered(upgradeStrategy="Recreate")["strategy"] == {"type": "Recreate"}


def test_a_stop_scales_pods_of_every_revision_down() -> None:
    stopped = rendered(upgradeStrategy="Recreate", replicas=0)["strategy"]
    assert stopped == {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1, "maxUnavailable": 0}}


@pytest.mark.parametrize("startup", [10, 1800, 86400])
def test_a_slow_load_is_no_failed_rollout(startup: int) -> None:
    spec = rendered(startupTimeoutSeconds=startup)
    probe = spec["template"]["spec"]["containers"][0]["startupProbe"]
    assert spec["progressDeadlineSeconds"] > probe["periodSeconds"] * probe["failureThreshold"]
