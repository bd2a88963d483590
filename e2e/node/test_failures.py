"""What goes wrong with a pod is named in the conditions, in the words of whoever knows best, with what to do."""

from __future__ import annotations

import base64
from typing import Any

import pytest

from e2e import installation
from e2e.api.state import Observer, condition, holds
from e2e.cluster.images import catalogue, model
from e2e.kube import Kube, Object
from e2e.node.release import STANDIN_IMAGE, VLLM, Release
from e2e.node.services import SMALL, SOON, last_words, standin

SECRET = {"name": "TOKEN", "valueFrom": {"secretKeyRef": {"name": "absent", "key": "token"}}}


def case(name: str, reason: str, words: str, phase: str = "Degraded", **spec: Any) -> Any:
    """A GPTService that fails: the reason of Ready=False, and what its message must contain."""
    return pytest.param(standin(name, **spec), reason, words, phase, id=name)


CASES = [
    case(
        "unknown-argument",
        "InvalidEngineArgument",
        "unrecognized arguments: --no-such-flag",
        args=("--no-such-flag",),
    ),
    case("argument-value", "InvalidEngineArgument", "invalid int value: 'many'", args=("--max-num-seqs=many",)),
    # The init container names what is there instead.
    case("no-model", "ModelNotFound", model.NAME, model=f"pvc://{installation.MODEL_CLAIM}/nothing-here"),
    case("no-image", "ImagePullFailed", "gptservice-nothing", engine={"image": "localhost/gptservice-nothing:dev"}),
    case("foreign-image", "InvalidImage", "gptservice-runtime", engine={"image": catalogue.reference("pause")}),
    case("too-many-gpus", "InsufficientGPU", "Insufficient nvidia.com/gpu", "Progressing", gpu={"count": 5}),
    case(
        "no-node",
        "Unschedulable",
        "didn't match Pod's node affinity/selector",
        "Progressing",
        scheduling={"nodeSelector": {"disk": "none-like-this"}},
    ),
    case(
        "no-claim",
        "VolumeNotReady",
        'persistentvolumeclaim "nowhere" not found',
        "Progressing",
        model="pvc://nowhere/model",
    ),
    case(
        "no-secret",
        "SecretNotFound",
        'secret "absent" not found',
        "Progressing",
        engine={"image": STANDIN_IMAGE, "env": [SECRET]},
    ),
    case("no-memory", "OutOfMemory", "memory", env={"STANDIN_ALLOCATE_MEBIBYTES": "400"}),
    case(
        "never-ready",
        "ModelLoadFailed",
        "start-up budget of 10 s",
        env={"STANDIN_HANG_AT_START": "1"},
        startupTimeoutSeconds=10,
    ),
    case(
        "broken-model",
        "ModelLoadFailed",
        "ValueError: these weights are broken",
        env={"STANDIN_FAIL_AT_START": "1", "STANDIN_LAST_WORDS": last_words("ValueError: these weights are broken")},
    ),
]


@pytest.fixture(scope="module")
def all_applied(release: Release, kube: Kube, namespace: str) -> None:
    """At once, so that their start-up times do not add up."""
    release.use(VLLM)
    for parameters in CASES:
        kube.apply(parameters.values[0], namespace)


@pytest.mark.usefixtures("all_applied")
@pytest.mark.parametrize(("service", "reason", "words", "phase"), CASES)
def test_the_cause_is_named(service: Object, reason: str, words: str, phase: str, observer: Observer) -> None:
    name = service["metadata"]["name"]

    def named(gpt: Object | None) -> bool:
        return holds(gpt, "Ready", "False", reason) and words in condition(gpt, "Ready")["message"]

    told = observer.wait(named, f"to say {reason} and {words!r}", name, timeout=SOON)
    assert told["status"]["phase"] == phase
    assert condition(told, "Degraded")["status"] == ("True" if phase == "Degraded" else "False")
    assert condition(told, "Available")["status"] == "False"


@pytest.mark.usefixtures("all_applied")
def test_a_missing_secret_is_noticed_once_it_is_there(kube: Kube, namespace: str, observer: Observer) -> None:
    data = {"token": base64.b64encode(b"x").decode()}
    kube.create({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "absent"}, "data": data}, namespace)
    observer.wait_ready("no-secret", timeout=SOON)


@pytest.mark.usefixtures("all_applied")
def test_a_corrected_argument_starts_the_service(kube: Kube, namespace: str, observer: Observer) -> None:
    kube.merge("GPTService", "unknown-argument", namespace, {"spec": {"engine": {"args": None}}})
    observer.wait_ready("unknown-argument", timeout=SOON)


def test_a_bad_edit_takes_nothing_away(release: Release, kube: Kube, namespace: str, observer: Observer) -> None:
    release.use(VLLM)
    kube.apply(standin("edited", resources=SMALL), namespace)
    observer.wait_ready("edited", timeout=SOON)
    (before,) = observer.pods("edited")
    kube.merge("GPTService", "edited", namespace, {"spec": {"engine": {"args": ["--no-such-flag"]}}})
    told = observer.wait(
        lambda o: holds(o, "Ready", "False", "InvalidEngineArgument"), "to refuse the argument", "edited", timeout=SOON
    )
    assert condition(told, "Available")["status"] == "True"
    assert before["metadata"]["uid"] in {pod["metadata"]["uid"] for pod in observer.pods("edited")}
