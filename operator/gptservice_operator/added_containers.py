"""Containers that somebody else put into the Deployment, and that get in the way of ours.

What others add stays theirs: sidecars are welcome. But one that runs our image or listens on a port of ours, as a
container does that was renamed on the Deployment, makes every pod crash, and the crash does not say why.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from .actions import Manifest
from .api.body import entries


def warnings(deployment: Manifest, live: Mapping[str, Any] | None) -> Iterator[str]:
    """Yield a sentence for each container in the way.

    Args:
        deployment: the manifest that is applied.
        live: the Deployment in the cluster; None if there is none.
    """
    if live is None:
        return
    ours = entries(deployment, "spec", "template", "spec", "containers")
    names = {container["name"] for container in ours}
    images = {container["image"] for container in ours}
    ports = {port for container in ours for port in _ports(container)}
    for container in entries(live, "spec", "template", "spec", "containers"):
        if container.get("name") in names:
            continue
        taken = ports & set(_ports(container))
        if taken or container.get("image") in images:
            yield _told(deployment["metadata"]["name"], container.get("name"), taken)


def _ports(container: Mapping[str, Any]) -> list[Any]:
    return [port.get("containerPort") for port in entries(container, "ports")]


def _told(deployment: Any, container: Any, taken: set[Any]) -> str:
    why = f"listens on our port {min(taken)}" if taken else "runs the service's own image"
    return (
        f"Deployment {deployment} has a container {container} that the operator did not make and that {why}, so that "
        f"the pods may crash; if nobody wants it, remove it with `kubectl edit deployment {deployment}`"
    )
