"""Has the cluster serve another CRD for a while: an older, a newer or a lax one."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from e2e.kube import Kube, KubeError, Object, wait_until
from gptservice_operator.api import crd

NAME = "gptservices.ai.example.com"
GENERATED = "generated"
_PROBE = "probe"


def schema_of(definition: Object) -> Object:
    (version,) = definition["spec"]["versions"]
    found: Object = version["schema"]["openAPIV3Schema"]
    return found


@contextmanager
def served(kube: Kube, change: Callable[[Object], None]) -> Iterator[None]:
    """Serve a changed CRD; afterwards the generated one again."""
    changed = copy.deepcopy(crd.gptservice_crd())
    change(changed)
    try:
        install(kube, changed, "changed")
        yield
    finally:
        install(kube, crd.gptservice_crd(), GENERATED)


def install(kube: Kube, definition: Object, mark: str) -> None:
    """Replace the CRD and wait until the API server publishes it and judges by it: a description and a default tell.

    The two do not come at the same moment, and in no certain order. The generated CRD is stored as it is.
    """
    definition = copy.deepcopy(definition)
    if mark != GENERATED:
        schema_of(definition)["description"] = mark
        schema_of(definition)["properties"][_PROBE] = {"type": "string", "default": mark}
    description = schema_of(definition)["description"]
    path = f"/apis/apiextensions.k8s.io/v1/customresourcedefinitions/{NAME}"
    live = kube.request("GET", path)
    definition["metadata"]["resourceVersion"] = live["metadata"]["resourceVersion"]
    kube.request("PUT", path, body=definition)
    wait_until(lambda: _published(kube), lambda text: text == description, f"the {mark} CRD to be published")
    wait_until(lambda: _judging(kube), lambda found: found == mark, f"the {mark} CRD to be the one that judges")


def _published(kube: Kube) -> str:
    try:
        document = kube.request("GET", "/openapi/v3/apis/ai.example.com/v1")
    except KubeError:
        return ""
    schemas = document["components"]["schemas"]
    return next((s.get("description", "") for name, s in schemas.items() if name.endswith(".GPTService")), "")


def _judging(kube: Kube) -> str:
    """The mark of the CRD by which a GPTService would be stored now."""
    manifest = {
        "apiVersion": "ai.example.com/v1",
        "kind": "GPTService",
        "metadata": {"name": "probe", "namespace": "default"},
        "spec": {"model": "file:///probe"},
    }
    path = "/apis/ai.example.com/v1/namespaces/default/gptservices"
    found = kube.request("POST", path, query={"dryRun": "All"}, body=manifest)
    return str(found.get(_PROBE, GENERATED))
