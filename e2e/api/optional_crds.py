"""Brings the kinds of other operators to the cluster for a while: only what they look like, not who acts on them.

The schemas hold the fields that may be written, so that one that does not exist is noticed as on a real CRD.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from e2e.kube import KINDS, Kube, KubeError, Object, wait_until
from gptservice_operator.api import kinds

_TEXT: Object = {"type": "string"}
_LABELS: Object = {"type": "object", "additionalProperties": _TEXT}


def _map(required: tuple[str, ...] = (), **properties: Object) -> Object:
    return {"type": "object", "properties": properties, **({"required": list(required)} if required else {})}


def _list(items: Object) -> Object:
    return {"type": "array", "items": items}


PROMETHEUS_RULE = kinds.Kind(kinds.POD_MONITOR.api_version, "PrometheusRule", "prometheusrules")
"""Of the chart alone: the operator makes none."""

_RULE = _map(("expr",), alert=_TEXT, record=_TEXT, expr=_TEXT, labels=_LABELS, annotations=_LABELS, **{"for": _TEXT})

_SPECS: dict[kinds.Kind, Object] = {
    kinds.CERTIFICATE: _map(
        ("secretName", "issuerRef"),
        secretName=_TEXT,
        issuerRef=_map(("name",), name=_TEXT, kind={**_TEXT, "default": "Issuer"}, group=_TEXT),
        dnsNames=_list(_TEXT),
        privateKey=_map(rotationPolicy={**_TEXT, "enum": ["Always", "Never"]}),
        revisionHistoryLimit={"type": "integer", "default": 1},
    ),
    kinds.POD_MONITOR: _map(
        ("selector",),
        selector={**_map(matchLabels=_LABELS), "x-kubernetes-map-type": "atomic"},
        podTargetLabels=_list(_TEXT),
        podMetricsEndpoints=_list(_map(port=_TEXT, path=_TEXT, interval=_TEXT)),
    ),
    PROMETHEUS_RULE: _map(groups=_list(_map(("name",), name=_TEXT, rules=_list(_RULE)))),
}


@contextmanager
def installed(kube: Kube, *wanted: kinds.Kind) -> Iterator[None]:
    """Serve these kinds, or all optional ones; afterwards none of them."""
    chosen = wanted or kinds.OPTIONAL
    try:
        for kind in chosen:
            kube.apply(_definition(kind))
        for kind in chosen:
            wait_until(functools.partial(_is_served, kube, kind), bool, f"the kind {kind.name} to be served")
        yield
    finally:
        for kind in chosen:
            kube.delete("CustomResourceDefinition", _name(kind))
        for kind in chosen:
            name = _name(kind)
            wait_until(
                functools.partial(kube.find, "CustomResourceDefinition", name), lambda crd: crd is None, f"{name} to go"
            )


def _name(kind: kinds.Kind) -> str:
    return f"{kind.plural}.{kind.api_version.partition('/')[0]}"


def _definition(kind: kinds.Kind) -> Object:
    group, _, version = kind.api_version.partition("/")
    schema = _map(spec=_SPECS[kind], status={"type": "object", "x-kubernetes-preserve-unknown-fields": True})
    spec: dict[str, Any] = {
        "group": group,
        "scope": "Namespaced",
        "names": {"kind": kind.name, "plural": kind.plural, "singular": kind.name.lower()},
        "versions": [{"name": version, "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}],
    }
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": _name(kind)},
        "spec": spec,
    }


def _is_served(kube: Kube, kind: kinds.Kind) -> bool:
    try:
        kube.request("GET", KINDS[kind.name].path())
    except KubeError:
        return False
    return True
