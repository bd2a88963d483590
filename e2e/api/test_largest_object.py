"""The largest object that the schema allows is stored, and its children are, too: etcd has a limit of its own."""

from __future__ import annotations

import json

from e2e.bench.largest import largest_spec
from e2e.kube import KINDS, Kube
from gptservice_operator import names, parse, render, resolve
from gptservice_operator.child import with_hash
from gptservice_operator.config import Config
from gptservice_operator.render.resolved import Refusal, Resolved
from gptservice_operator.replies import encoded


def test_is_stored_with_its_children(kube: Kube, access: object, namespace: str) -> None:
    body = {
        "apiVersion": "ai.example.com/v1",
        "kind": "GPTService",
        "metadata": {"name": "largest"},
        "spec": {**largest_spec(), "replicas": 0},
    }
    assert len(json.dumps(body)) > 500_000
    stored = kube.create(body, namespace)
    spec = parse.parse(stored)
    assert not isinstance(spec, Refusal), spec
    resolved = resolve.resolve(stored, spec, {}, Config(runtime_image="localhost/gptservice-standin:dev"))
    assert isinstance(resolved, Resolved), resolved
    for manifest in map(with_hash, render.render(resolved)):
        path = KINDS[manifest["kind"]].path(namespace, manifest["metadata"]["name"])
        query = {"fieldManager": names.MANAGER, "force": "true", "fieldValidation": "Strict"}
        kube.request("PATCH", path, query=query, body=encoded(manifest), content_type="application/apply-patch+yaml")
