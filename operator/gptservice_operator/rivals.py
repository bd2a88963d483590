"""Other services' pods that wait for a GPU too, and would get the one that an old pod gives up."""

from collections.abc import Collection, Iterator, Sequence

from . import capacity, pod_state
from .api.body import Body, section
from .extract import Entry

_MAX_NAMES = 3


def ahead(others: Sequence[Sequence[Entry]], resource: str, ours: Body, places: Collection[Body]) -> list[str]:
    """Return the pods that the scheduler may place before ours, as ``namespace/name``, in order.

    A new pod whose own service still has an old one is none: its rollout gives up as many GPUs as it takes. Were it
    one, two rollouts would wait for each other. Nor is one that asks for as many as an old pod and ours together: what
    is free beside an old pod is less than ours needs.

    Args:
        others: the pods of each other service of which one waits for a node.
        resource: the GPU's.
        ours: the spec of our pod that waits.
        places: the specs of our pods that may be taken away.
    """
    found = [
        f"{entry.key[1]}/{entry.key[2]}"
        for pods in others
        for entry, pod in _takers(pods, resource)
        if _priority(section(pod, "spec")) >= _priority(ours)
        and any(_may_share(pod, place) and _is_small(pod, place, ours, resource) for place in places)
    ]
    return sorted(found)


def told(names: Sequence[str]) -> str:
    """Return what people are told of them."""
    more = f" and {len(names) - _MAX_NAMES} more" if len(names) > _MAX_NAMES else ""
    return f"{', '.join(names[:_MAX_NAMES])}{more} of other services would get a GPU that an old pod gives up"


def _takers(entries: Sequence[Entry], resource: str) -> Iterator[tuple[Entry, Body]]:
    pods = [(entry, entry.body()) for entry in entries]
    placed = {
        pod_state.replica_set(pod) for _, pod in pods if pod_state.has_node(pod) and not pod_state.has_failed(pod)
    }
    for entry, pod in pods:
        stuck = capacity.stuck([pod])
        if stuck is not None and stuck.lacks(resource) and not placed - {pod_state.replica_set(pod)}:
            yield entry, pod


def _priority(spec: Body) -> int:
    value = spec.get("priority")
    return value if isinstance(value, int) else 0


def _may_share(pod: Body, place: Body) -> bool:
    """Return whether a node may suit both selectors: no label is to have two values."""
    selector = section(place, "nodeSelector")
    return all(selector.get(label, value) == value for label, value in section(pod, "spec", "nodeSelector").items())


def _is_small(pod: Body, place: Body, ours: Body, resource: str) -> bool:
    theirs, held, asked = (capacity.requests(spec).get(resource, 0) for spec in (section(pod, "spec"), place, ours))
    return theirs < held + asked
