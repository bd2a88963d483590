"""The largest GPTService that the schema allows: every list, map and text as long as it may be."""

import re
from typing import Any, cast

from gptservice_operator.api import schema as schemas

Schema = schemas.Schema

_DIGEST = "sha256:" + "0" * 64
_TEXTS = (_DIGEST, "metadata.labels['a']", "example.com/gpu", "http://a", "100%", "20Gi", "1")

# Where fields exclude one another: the one that is larger.
_CHOSEN: dict[str, Any] = {
    ".model": "pvc://models/" + "m" * 1011,
    ".modelRef": None,
    ".modelCredentialsSecretRef": None,
    ".auth.disabled": None,
    ".auth.apiKeys.secretRef": None,
    ".tls.issuerRef": None,
    ".cache.persistentVolumeClaim": None,
    ".cache.accessModes": ["ReadWriteOnce", "ReadWriteMany"],
    ".autoscaling.metrics[].type": "Pods",
    ".autoscaling.metrics[].averageUtilization": None,
    ".engine.env[].valueFrom": None,
    ".gpu.count": 4,
    ".resources.requests": {"cpu": 1, "memory": "1Gi", "ephemeral-storage": "1Gi"},
    ".resources.limits": {"cpu": 1, "memory": "8Gi", "ephemeral-storage": "1Gi"},
    ".scheduling.tolerations[].operator": "Equal",
    ".scheduling.tolerations[].effect": "NoExecute",
    ".scheduling.topologySpreadConstraints[].whenUnsatisfiable": "DoNotSchedule",
}


def largest_spec() -> dict[str, Any]:
    """Return the spec."""
    return cast("dict[str, Any]", _value(schemas.spec_schemas()["GPTService"], "", 0))


def _value(part: Schema, path: str, number: int) -> Any:
    if path in _CHOSEN:
        return _CHOSEN[path]
    if "enum" in part:
        return part["enum"][0]
    if part.get("type") == "object":
        return _object(part, path, number)
    if part.get("type") == "array":
        return [_value(part["items"], f"{path}[]", index) for index in range(part["maxItems"])]
    if part.get("type") == "integer":
        return part.get("maximum", 1)
    return True if part.get("type") == "boolean" else _text(part, number)


def _object(part: Schema, path: str, number: int) -> dict[str, Any]:
    if "properties" in part:
        fields = {name: _value(inner, f"{path}.{name}", number) for name, inner in part["properties"].items()}
        return {name: value for name, value in fields.items() if value is not None}
    keys = [f"k{index}.{'example.' * 20}com/{'k' * 63}" for index in range(part["maxProperties"])]
    return {key: _value(part["additionalProperties"], f"{path}{{}}", number) for key in keys}


def _text(part: Schema, number: int) -> str:
    """Return a long text of the pattern; texts of a list differ."""
    longest, pattern = part.get("maxLength", 1), re.compile(part.get("pattern", ""))
    long = ("a" * max(longest - 3, 1) + f"{number:03}")[-longest:]
    candidates = (long, long[-63:], f"example.com/{long[-60:]}", *_TEXTS)
    return next(text for text in candidates if len(text) <= longest and pattern.search(text))
