"""Whatever the API server accepts can be rendered, and whatever is rendered the API server accepts.

Specs are made from the schema. A counterexample becomes a row of tests/operator/api/manifests.yaml, and is mended.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings

from e2e.api import optional_crds
from e2e.kube import KINDS, Kube, KubeError, Object
from gptservice_operator import companions, names, parse, render, resolve
from gptservice_operator.api import conditions, kinds
from gptservice_operator.child import with_hash
from gptservice_operator.config import Config
from gptservice_operator.render.resolved import Refusal
from gptservice_operator.replies import encoded
from tests.operator.api import generated, manifests

EXAMPLES = 250
LONG_EXAMPLES = 1500
CATALOGUE = {"gpt-4-turbo": {"spec": {"uri": "pvc://models/gpt-4"}}}
EVERYTHING_SERVED = companions.Seen(served=frozenset(kinds.OPTIONAL))
CONFIG = Config(runtime_image="localhost/gptservice-standin:dev")
# What must exist before a pod may name it; none of it does here.
PREREQUISITES = ("serviceAccountName", "priorityClassName", "runtimeClassName")
NOT_IN_THE_SCHEMA = (
    " models, and this is ",
    "is a GGUF file",
    "leaves nothing for decrypted weights",
    "is reserved: ",
    "the variable is reserved: ",
)
"""What the operator refuses though the schema does not: what belongs to it, and what hangs on several fields, on the
catalogue or on the version of vLLM."""

seen: dict[str, int] = {"accepted": 0, "refused": 0, "rendered": 0}


@pytest.fixture(scope="module")
def restricted(kube: Kube) -> Iterator[str]:
    """A namespace that enforces Pod Security "restricted", in a cluster that has every optional kind."""
    with optional_crds.installed(kube), kube.namespace("generated") as name:
        kube.merge(
            "Namespace", name, "", {"metadata": {"labels": {"pod-security.kubernetes.io/enforce": "restricted"}}}
        )
        yield name


FIXED = settings(
    max_examples=EXAMPLES, derandomize=True, deadline=None, database=None, suppress_health_check=list(HealthCheck)
)


@FIXED
@given(spec=generated.specs())
def test_the_operator_and_the_api_server_agree(kube: Kube, access: object, restricted: str, spec: Any) -> None:
    check(kube, restricted, spec)


@pytest.mark.long
@settings(FIXED, max_examples=LONG_EXAMPLES, derandomize=False)
@given(spec=generated.specs())
def test_they_agree_on_others_each_time(kube: Kube, access: object, restricted: str, spec: Any) -> None:
    check(kube, restricted, spec)


def check(kube: Kube, restricted: str, spec: Any) -> None:
    body = manifests.manifest(spec)
    told = server_refusal(kube, body, restricted)
    parsed = parse.parse(body)
    if isinstance(parsed, Refusal):
        assert told is not None, f"only the operator refuses it: {parsed.message}"
        seen["refused"] += 1
        return
    assert told is None, f"only the API server refuses it: {told}"
    seen["accepted"] += 1
    stored = {**body, "metadata": {**body["metadata"], "namespace": restricted, "uid": "u-1"}}
    resolved = resolve.resolve(stored, parsed, CATALOGUE, CONFIG, EVERYTHING_SERVED)
    if isinstance(resolved, Refusal):
        known = (conditions.UNKNOWN_MODEL, conditions.INVALID_ENGINE_ARGUMENT)
        assert resolved.reason in known or any(text in resolved.message for text in NOT_IN_THE_SCHEMA), resolved
        return
    for manifest in map(with_hash, render.render(resolved)):
        assert_accepted(kube, manifest)
    seen["rendered"] += 1


def test_enough_was_accepted_and_enough_refused() -> None:
    """Else the test above says little."""
    assert seen["rendered"] >= EXAMPLES // 5, seen
    assert seen["refused"] >= EXAMPLES // 10, seen


def server_refusal(kube: Kube, body: Object, namespace: str) -> str | None:
    try:
        kube.judge(body, namespace)
    except KubeError as refused:
        if refused.status not in (400, 422):
            raise
        return refused.message
    return None


def assert_accepted(kube: Kube, manifest: Object) -> None:
    metadata = manifest["metadata"]
    path = KINDS[manifest["kind"]].path(metadata["namespace"], metadata["name"])
    query = {"fieldManager": names.MANAGER, "force": "true", "fieldValidation": "Strict", "dryRun": "All"}
    kube.request("PATCH", path, query=query, body=encoded(manifest), content_type="application/apply-patch+yaml")
    if manifest["kind"] == "Deployment":
        kube.judge(_pod(manifest))


def _pod(deployment: Object) -> Object:
    """The pod that the Deployment makes: only pods are held to Pod Security, not what makes them."""
    template = deployment["spec"]["template"]
    metadata = {**template["metadata"], "name": "pod", "namespace": deployment["metadata"]["namespace"]}
    spec = {key: value for key, value in template["spec"].items() if key not in PREREQUISITES}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}
