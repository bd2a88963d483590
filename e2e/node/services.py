"""What tests of this level make: namespaces with Pod Security "restricted" and a model volume, small GPTServices."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from e2e import installation
from e2e.cluster.images import model
from e2e.kube import Kube, Object
from e2e.kubectl import Kubectl
from e2e.node.diagnosis import PREFIX
from e2e.node.release import STANDIN_IMAGE

MODEL = f"pvc://{installation.MODEL_CLAIM}/{model.NAME}"
SMALL = {"requests": {"cpu": "10m", "memory": "192Mi"}}
# For the stand-in on a busy machine, and for real vLLM; hang detection, not a statement about speed.
SOON = 180.0
VLLM_SOON = 600.0
ON_A_CPU = ("--dtype=float32", "--enforce-eager", "--kv-cache-memory-bytes=1G")
"""Arguments of a small vLLM."""
_RESTRICTED = {"metadata": {"labels": {"pod-security.kubernetes.io/enforce": "restricted"}}}


@contextmanager
def restricted_namespace(kube: Kube, kubectl: Kubectl) -> Iterator[str]:
    """A namespace that refuses pods which are not "restricted", with the test models in the claim `models`."""
    with kube.namespace(PREFIX) as name:
        kube.merge("Namespace", name, "", _RESTRICTED)
        installation.provide_models(kubectl, name)
        yield name
    kubectl.run("delete", "persistentvolume", f"{installation.MODEL_CLAIM}-{name}", "--wait=false")


def last_words(error: str) -> str:
    """A value of STANDIN_LAST_WORDS: not the error alone, as the operator shows no variable's value in a message."""
    return f"Traceback (most recent call last):\n{error}"


def standin(
    name: str = "gpt", *, args: tuple[str, ...] = (), env: Mapping[str, str] | None = None, **spec: Any
) -> Object:
    """A GPTService of the test model on the CPU, served by the stand-in engine, whatever the operator's default is."""
    engine: Object = {"image": STANDIN_IMAGE}
    if args:
        engine["args"] = list(args)
    if env:
        engine["env"] = [{"name": key, "value": value} for key, value in env.items()]
    defaults: Object = {"model": MODEL, "gpu": {"count": 0}, "resources": SMALL, "engine": engine}
    return {
        "apiVersion": "ai.example.com/v1",
        "kind": "GPTService",
        "metadata": {"name": name},
        "spec": {**defaults, **spec},
    }


def on_vllm(name: str, *args: str, **spec: Any) -> Object:
    """A GPTService of the test model on the operator's default runtime."""
    engine = {"args": [*ON_A_CPU, *args]}
    defaults: Object = {"model": MODEL, "gpu": {"count": 0}, "contextLength": 2048, "engine": engine}
    body: Object = {"apiVersion": "ai.example.com/v1", "kind": "GPTService", "metadata": {"name": name}}
    return {**body, "spec": {**defaults, **spec}}
