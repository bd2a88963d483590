"""What tests of this level make: namespaces with Pod Security "restricted" and a model volume, small GPTServices."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from e2e import installation
from e2e.cluster import network, paths
from e2e.cluster.handle import Cluster
from e2e.cluster.images import model
from e2e.kube import Kube, Object
from e2e.kubectl import Kubectl
from e2e.node.diagnosis import PREFIX
from e2e.node.release import STANDIN_IMAGE
from e2e.sources import s3
from e2e.sources.gate import Gate, in_thread

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


@contextmanager
def model_in_s3(cluster: Cluster, kube: Kube, namespace: str, name: str, folder: Path) -> Iterator[Object]:
    """The test model in a bucket that the cluster's pods reach: what a spec says to have it from there.

    The Secret with the credentials has the given name; the server keeps its files in the folder.
    """
    host = network.outer(cluster.record.number)
    with s3.serving(folder) as server, in_thread(Gate(server.url, re.compile("^/models/"), host=host)) as gate:
        server.upload(paths.models() / model.NAME, model.NAME)
        secret: Object = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name}}
        kube.create({**secret, "stringData": dict(server.credentials(gate.url))}, namespace)
        yield {"model": f"s3://{s3.BUCKET}/{model.NAME}", "modelCredentialsSecretRef": {"name": name}}
