"""What one replica takes of a node."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeVar

from .api.access import SecretKeyRef
from .api.engine import Gpu, Resources
from .api.quantity import quantity
from .config import Config
from .render.resolved import Decryption, ResolvedGpu

DEFAULT_GPU_RESOURCE = "nvidia.com/gpu"

_LEAST_BYTES = 2 << 20
ENGINE_BYTES = 1 << 30
"""Of memory that are left to the engine itself, beside decrypted weights."""

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


@dataclass(frozen=True, slots=True)
class Weights:
    """What is known of a model's weights before there is a pod."""

    size: object = None
    """Of their files, a quantity; None where nobody has said it."""
    encrypted: bool = False
    gpus: int = 1
    """Of one replica."""

    @property
    def in_memory(self) -> int:
        """Bytes that they take of the container's memory; 0 for none and for an unknown size.

        What was decrypted lies in memory, and on a CPU the engine holds the weights there, too.
        """
        return int(quantity(self.size) or 0) * (self.encrypted + (self.gpus == 0))


UNKNOWN = Weights()


def resources(
    own: Resources | None, config: Config, downloads_to_node: bool, weights: Weights = UNKNOWN
) -> tuple[dict[str, str], dict[str, str]]:
    """Return requests and limits: CPU and memory are always requested, memory is always limited.

    So is room on the node's disk for what is downloaded to it: the scheduler then sees it.

    Args:
        own: what the service says.
        config: the operator's configuration.
        downloads_to_node: whether the model comes to the node's disk.
        weights: what is known of the model's: no default is smaller.
    """
    requests = {name: str(value) for name, value in ((own and own.requests) or {}).items()}
    limits = {name: str(value) for name, value in ((own and own.limits) or {}).items()}
    requests.setdefault("cpu", limits.get("cpu", config.runtime_cpu))
    memory = requests.get("memory") or limits.get("memory") or _at_least(config.runtime_memory, weights.in_memory)
    requests["memory"] = memory
    limits.setdefault("memory", memory)
    if downloads_to_node:
        requests.setdefault("ephemeral-storage", limits.get("ephemeral-storage", config.runtime_cache_size))
    return requests, limits


def decryption(key: SecretKeyRef | None, limits: Mapping[str, str], gpus: int) -> Decryption | str | None:
    """Return the memory that encrypted weights may take once they are decrypted, or what is wrong with the limit.

    It is what the memory limit leaves: the size that a catalogue names is that of files, and may be wrong. On a CPU the
    engine holds the weights once more, in memory of its own.

    Args:
        key: where the key is; None for weights that are not encrypted.
        limits: of the engine's container, with a memory limit.
        gpus: of one replica.
    """
    if key is None:
        return None
    left = int(quantity(limits["memory"]) or 0) - ENGINE_BYTES
    if left < _LEAST_BYTES:
        return (
            f"spec.resources.limits.memory: {limits['memory']} leaves nothing for decrypted weights, which lie in "
            "memory: set it to 1Gi and the size of the model, twice that without a GPU, and what the engine needs"
        )
    return Decryption(key, left if gpus else left // 2)


def lack_of_memory(own: Resources | None, limits: Mapping[str, str], weights: Weights) -> str | None:
    """Return what is wrong with a memory limit that cannot hold the weights, with the field that it comes from."""
    needed = weights.in_memory + ENGINE_BYTES * weights.encrypted
    if not weights.in_memory or (quantity(limits["memory"]) or 0) >= needed:
        return None
    return (
        f"{_memory_field(own)}: {limits['memory']} cannot hold the model: by its weightsSize it needs "
        f"{_mebibytes(needed)}{', once decrypted,' if weights.encrypted else ''} and what the engine takes beside the "
        f"weights: set spec.resources.limits.memory to {_mebibytes(weights.in_memory + ENGINE_BYTES)} or more"
    )


def _memory_field(own: Resources | None) -> str:
    """A request without a limit is the limit, too."""
    written = own is not None and "memory" in (own.requests or {}) and "memory" not in (own.limits or {})
    return f"spec.resources.{'requests' if written else 'limits'}.memory"


def _at_least(default: str, weights: int) -> str:
    needed = weights + ENGINE_BYTES
    return _mebibytes(needed) if weights and needed > (quantity(default) or 0) else default


def _mebibytes(count: int) -> str:
    return f"{-(-count >> 20)}Mi"


def _first(*values: T | None) -> T | None:
    return next((value for value in values if value is not None), None)
