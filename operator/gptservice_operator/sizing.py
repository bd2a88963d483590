"""What one replica takes of a node."""

from typing import TypeVar

from .api.engine import Gpu, Resources
from .config import Config
from .render.resolved import ResolvedGpu

DEFAULT_GPU_RESOURCE = "nvidia.com/gpu"

T = TypeVar("T")


def gpu(own: Gpu | None, catalogue: Gpu | None) -> ResolvedGpu:
    """Return the GPUs of a service with a catalogue entry: field by field, the service's own wins."""
    layers = [layer for layer in (own, catalogue) if layer is not None]
    count = _first(*(layer.count for layer in layers))
    return ResolvedGpu(
        count=1 if count is None else count,
        resource_name=_first(*(layer.resource_name for layer in layers)) or DEFAULT_GPU_RESOURCE,
        product=_first(*(layer.product for layer in layers)),
    )


def resources(own: Resources | None, config: Config, downloads_to_node: bool) -> tuple[dict[str, str], dict[str, str]]:
    """Return requests and limits: CPU and memory are always requested, memory is always limited.

    So is room on the node's disk for what is downloaded to it: the scheduler then sees it.
    """
    requests = {name: str(value) for name, value in ((own and own.requests) or {}).items()}
    limits = {name: str(value) for name, value in ((own and own.limits) or {}).items()}
    requests.setdefault("cpu", limits.get("cpu", config.runtime_cpu))
    memory = requests.get("memory") or limits.get("memory") or config.runtime_memory
    requests["memory"] = memory
    limits.setdefault("memory", memory)
    if downloads_to_node:
        requests.setdefault("ephemeral-storage", limits.get("ephemeral-storage", config.runtime_cache_size))
    return requests, limits


def _first(*values: T | None) -> T | None:
    return next((value for value in values if value is not None), None)
