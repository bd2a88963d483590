"""Whether a model's weights fit into the memory that the engine may hold. Pure."""

from collections.abc import Iterable

from gptservice_runtime import contract, models


def demand(uri: str, files: Iterable[tuple[str, int]], limit: int | None) -> None:
    """Refuse a model whose weights alone are larger than the memory: models.ModelError.

    Args:
        uri: the model's.
        files: its files' names and sizes in bytes.
        limit: bytes; None where the weights go elsewhere, to a GPU's own memory.
    """
    needed = sum(size for name, size in files if models.is_weights(name))
    if limit is not None and needed > limit:
        raise models.ModelError(
            contract.REASON_OUT_OF_MEMORY,
            f"{uri}: its weights are {_gibibytes(needed)} and the container may hold {_gibibytes(limit)}: without a "
            "GPU they are held in memory; set spec.resources.limits.memory above that, or take a smaller model",
        )


def _gibibytes(count: int) -> str:
    return f"{count / (1 << 30):.2f} GiB"
