"""Which engine arguments a service gets from the catalogue and its own spec, or why it cannot have them.

Where an argument and a field are about the same thing, the field decides, from whichever layer it comes.
"""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from . import reserved
from .vllm import schema
from .vllm.arguments import Given, parse

_MAX_TOLD = 5
_MAX_PROBLEM = 400
_TENSOR_PARALLEL = "--tensor-parallel-size"
_DIVIDE_GPUS = (_TENSOR_PARALLEL, "--pipeline-parallel-size", "--prefill-context-parallel-size")
"""The product of their sizes is the count of GPUs that the engine takes (vLLM's world size)."""


class RefusedError(Exception):
    """What is wrong with the arguments, and where."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Fields:
    """The fields that say what an argument could say too, as the layers decide them."""

    gpu_count: int
    context_length: int | None
    max_tokens: int | None


@dataclass(frozen=True, slots=True)
class EngineArguments:
    """What the engine is started with."""

    args: tuple[str, ...]
    tensor_parallel_size: int
    warnings: tuple[str, ...]


def decide(lists: Mapping[str, Sequence[str]], fields: Fields, *, vllm_version: str | None) -> EngineArguments:
    """Return what the lists of arguments, by their fields, come to; a later list wins over an earlier one.

    Args:
        lists: the arguments.
        fields: what the spec says beside them.
        vllm_version: version of the engine that will read them; None if it is not known, or has read them already.
            Without a schema of it only the reserved arguments are refused, and the engine itself refuses the others.

    Raises:
        RefusedError: the engine would not start with them, or must not.
    """
    flags = schema.bundled()
    known = vllm_version == flags.version
    given, refused = list[Given](), list[str]()
    for field, args in lists.items():
        parsed = parse(args, field, flags)
        given += parsed.given
        told = {one.where: f"{one.where}: {one.what[:_MAX_PROBLEM]}" for one in parsed.problems if known}
        told |= reserved.reserved_args(args, field, flags)
        refused += [told[where] for where in sorted(told, key=_position)]
    if refused:
        raise RefusedError(_told(refused))
    return EngineArguments(
        tuple(arg for args in lists.values() for arg in args),
        _tensor_parallel_size(given, fields.gpu_count),
        (*_without_effect(given, fields), *(_deprecated(given, flags) if known else ())),
    )


def _position(where: str) -> int:
    return int(where.rpartition("[")[2].rstrip("]"))


def _told(problems: Sequence[str]) -> str:
    more = len(problems) - _MAX_TOLD
    return "; ".join([*problems[:_MAX_TOLD], *([f"and {more} more"] if more > 0 else [])])


def _tensor_parallel_size(given: Sequence[Given], gpus: int) -> int:
    """On the CPU any parallelism is taken; else it must use exactly the GPUs there are."""
    sizes = {one.flag: one.value for one in given if one.flag in _DIVIDE_GPUS and isinstance(one.value, int)}
    others = math.prod(size for flag, size in sizes.items() if flag != _TENSOR_PARALLEL)
    tensor = sizes.get(_TENSOR_PARALLEL, max(1, gpus // others) if others > 0 else 1)
    if gpus == 0 or (tensor * others == gpus and tensor > 0):
        return tensor
    where = [one.where for one in given if one.flag in sizes]
    told = ", ".join(f"{flag.removeprefix('--').replace('-', ' ')} {size}" for flag, size in sizes.items())
    raise RefusedError(
        f"{where[-1]}: {told}: their product must be gpu.count, which is {gpus}; without the arguments it is"
        if _TENSOR_PARALLEL in sizes
        else f"{where[-1]}: {told}: must divide gpu.count, which is {gpus}; what is left is tensor parallel"
    )


def _without_effect(given: Iterable[Given], fields: Fields) -> Iterator[str]:
    for one in given:
        if one.flag == "--max-model-len" and fields.context_length is not None:
            yield f"{one.where}: {one.flag} has no effect beside contextLength, which is {fields.context_length}"
        if one.flag == "--override-generation-config" and fields.max_tokens is not None:
            if one.key is None:
                yield f"{one.where}: {one.flag} has no effect beside maxTokens; give each key as {one.flag}.KEY=VALUE"
            elif one.key == "max_new_tokens":
                yield f"{one.where}: {one.flag}.{one.key} has no effect beside maxTokens, which is {fields.max_tokens}"


def _deprecated(given: Iterable[Given], flags: schema.Schema) -> Iterator[str]:
    for one in given:
        if one.flag in flags.deprecated:
            yield f"{one.where}: {one.flag} is deprecated in vLLM {flags.version} and will go"
