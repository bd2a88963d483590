"""Whether a manifest is contained in a live object, by the merge keys of Kubernetes' own schemas."""

from typing import Any, cast

from .api.quantity import stored

Map = dict[str, Any]
Items = list[Any]

_MERGE_KEYS: dict[str, tuple[str, ...]] = {
    "containers": ("name",),
    "env": ("name",),
    "imagePullSecrets": ("name",),
    "initContainers": ("name",),
    "ownerReferences": ("uid",),
    "topologySpreadConstraints": ("topologyKey", "whenUnsatisfiable"),
    "volumeMounts": ("mountPath",),
    "volumes": ("name",),
}
_EXACT = frozenset({"ingress", "labelSelector", "namespaceSelector", "nodeSelector", "podSelector", "selector"})
"""Fields that belong to one owner as a whole and get no defaults: what others add there changes whom it is about."""
_LEFT_OUT_IF_FALSE = frozenset({"publishNotReadyAddresses"})
_PORT_KEYS = (("containerPort", "protocol"), ("port", "protocol"))
_QUANTITY_MAPS = frozenset({"limits", "requests", "capacity"})
_QUANTITIES = frozenset({"sizeLimit", "averageValue"})


def contains(live: Any, wanted: Any, field: str = "") -> bool:
    """Return whether ``wanted`` is in ``live``; what ``live`` has besides belongs to others.

    Args:
        live: a value as the API server returned it.
        wanted: the value that was applied.
        field: name of the field that holds both; the field of the list for elements of a list.
    """
    if isinstance(wanted, dict):
        return isinstance(live, dict) and _map_contains(cast("Map", live), cast("Map", wanted), field)
    if isinstance(wanted, list):
        return isinstance(live, list) and _list_contains(live, wanted, field)  # pyright: ignore[reportUnknownArgumentType]
    return bool(live == wanted)


def _map_contains(live: Map, wanted: Map, field: str) -> bool:
    for key, value in wanted.items():
        if key not in live:
            # The API server leaves out what is empty.
            if value not in ("", [], {}) and not (value is False and key in _LEFT_OUT_IF_FALSE):
                return False
        # Most are equal, which is found out several times faster than by looking into them.
        elif live[key] != value and not _same(live[key], value, parent=field, field=key):
            return False
    return True


def _same(live: Any, wanted: Any, *, parent: str, field: str) -> bool:
    if field in _QUANTITIES or parent in _QUANTITY_MAPS:
        return stored(live) == stored(wanted)
    if field in _EXACT:
        return contains(live, wanted, field) and contains(wanted, live, field)
    return contains(live, wanted, field)


def _list_contains(live: Items, wanted: Items, field: str) -> bool:
    keys = _merge_keys(field, wanted)
    if keys is None:
        return len(live) == len(wanted) and all(
            contains(mine, theirs, field) for mine, theirs in zip(live, wanted, strict=True)
        )
    by_key = {tuple(item.get(key) for key in keys): item for item in live}
    return all(
        (item_key := tuple(item.get(key) for key in keys)) in by_key and contains(by_key[item_key], item, field)
        for item in wanted
    )


def _merge_keys(field: str, items: Items) -> tuple[str, ...] | None:
    if field == "ports":
        return next((keys for keys in _PORT_KEYS if all(keys[0] in item for item in items)), None)
    return _MERGE_KEYS.get(field)
