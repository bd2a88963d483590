"""Specs made from the generated schema itself, most of them within its bounds and some a little beyond.

What only a CEL rule knows (forms of a uri, keys of maps) is hinted at by path, or next to nothing would be accepted.
"""

from collections.abc import Callable
from typing import Any

from hypothesis import strategies as st

from gptservice_operator.api import schema as schemas
from gptservice_operator.api.words import LABEL_KEY

Schema = Any
Strategy = st.SearchStrategy[Any]

URIS = ["file:///models/tiny", "pvc://models/a/b", "pvc://models.v1", "gpt-4-turbo"]
_ODD_URIS = [
    "org/name@main",
    "hf://o/n",
    "s3://bucket/k",
    "ftp://x/y",
    "pvc://A/b",
    "file://h/p",
    "a..b",
    "https://h/p",
]
QUANTITIES = [
    0,
    1,
    2,
    "1",
    "1000m",
    "500m",
    "1Gi",
    "1G",
    "0.5",
    "1500m",
    "2Ti",
    "16Ei",
    "20E",
    "0",
    "0.0000000001",
    "7",
]
_JUNK: Strategy = st.one_of(st.text(max_size=5), st.integers(-2, 2**31), st.booleans(), st.just([]), st.just({}))
_ODDS = 60
"""One value in about so many is of any kind at all."""

_KEYS: Strategy = st.one_of(
    st.sampled_from(["team", "example.com/team", "app.kubernetes.io/instance", "argocd.argoproj.io/tracking-id"]),
    st.from_regex(LABEL_KEY, fullmatch=True).filter(lambda key: len(key) <= 253),
    st.text(max_size=3),
)
_HINTS: dict[str, Strategy] = {
    ".model": st.one_of(st.sampled_from(URIS), st.sampled_from(URIS), st.sampled_from(_ODD_URIS), st.text(max_size=9)),
    ".resources.requests{}": st.sampled_from(QUANTITIES),
    ".resources.limits{}": st.sampled_from(QUANTITIES),
    ".cache.size": st.sampled_from(QUANTITIES),
    ".gpu.count": st.integers(0, 4),
    ".replicas": st.integers(0, 3),
}
_KEY_HINTS: dict[str, Strategy] = {
    ".resources.requests": st.sampled_from(["cpu", "memory", "ephemeral-storage", "nvidia.com/gpu"]),
    ".resources.limits": st.sampled_from(["cpu", "memory", "ephemeral-storage", "cpu"]),
}


def specs() -> Strategy:
    """Return a strategy for the spec of a GPTService: a model, and a few of all other fields."""
    whole: Schema = schemas.spec_schemas()["GPTService"]
    model = _HINTS[".model"]
    others = {name: values(part, f".{name}") for name, part in whole["properties"].items() if name != "model"}

    @st.composite
    def draw_spec(draw: Callable[[Strategy], Any]) -> Any:
        names = draw(st.lists(st.sampled_from(sorted(others)), max_size=5, unique=True))
        spec = {name: draw(others[name]) for name in names}
        return spec if "modelRef" in spec and draw(st.booleans()) else {"model": draw(model), **spec}

    return draw_spec()


def values(schema: Schema, path: str) -> Strategy:
    """Return a strategy for one part."""
    usual = _HINTS[path] if path in _HINTS else _usual(schema, path)
    return st.integers(0, _ODDS).flatmap(lambda number: _JUNK if number == _ODDS else usual)


def _usual(schema: Schema, path: str) -> Strategy:
    if "enum" in schema:
        return st.sampled_from(schema["enum"])
    if schema.get("x-kubernetes-int-or-string"):
        return st.one_of(_integer(schema), _text(schema))
    match schema["type"]:
        case "object":
            return _object(schema, path) if "properties" in schema else _map(schema, path)
        case "array":
            most = min(schema["maxItems"], 3)
            return st.lists(values(schema["items"], f"{path}[]"), min_size=schema.get("minItems", 0), max_size=most)
        case "integer":
            return _integer(schema)
        case "boolean":
            return st.booleans()
        case _:
            return _text(schema)


def _object(schema: Schema, path: str) -> Strategy:
    properties = {name: values(part, f"{path}.{name}") for name, part in schema["properties"].items()}
    required = {name: properties[name] for name in schema.get("required", ())}
    optional = {name: part for name, part in properties.items() if name not in required}
    return st.fixed_dictionaries(required, optional=optional)


def _map(schema: Schema, path: str) -> Strategy:
    inner = values(schema["additionalProperties"], f"{path}{{}}")
    return st.dictionaries(_KEY_HINTS.get(path, _KEYS), inner, max_size=3)


def _integer(schema: Schema) -> Strategy:
    least, most = schema.get("minimum", 0), schema.get("maximum", 2**31 - 1)
    return st.one_of(st.integers(least, most), st.sampled_from([least, most, most + 1, least - 1]))


def _text(schema: Schema) -> Strategy:
    least, most = schema.get("minLength", 0), schema.get("maxLength", 20)
    if "pattern" not in schema:
        return st.text(min_size=least, max_size=min(most, 20))
    fitting: st.SearchStrategy[str] = st.from_regex(str(schema["pattern"]), fullmatch=True)
    return fitting.filter(lambda text: least <= len(text) <= most)
