"""Engine arguments and environment variables that belong to the operator, each with its reason."""

import re
from collections.abc import Iterator, Sequence

_ENGINE_ARGS: dict[str, str] = {
    "api-key": "keys are set by the service, never in arguments, which anybody can read",
    "api-server-count": "the pod's own limits and probes count on one API server",
    "config": "a file could set every other reserved argument",
    "enable-ssl-refresh": "certificates are watched by the runtime",
    "grpc": "the Service speaks HTTP",
    "headless": "a pod without an API server never becomes ready",
    "host": "the runtime listens where the Service and the probes look",
    "middleware": "the runtime's own middleware goes there",
    "model": "use spec.model or spec.modelRef",
    "port": "the Service and the probes know the port",
    "root-path": "the warm-up request would not find the API",
    "served-model-name": "use spec.servedModelNames",
    "shutdown-timeout": "use spec.drainTimeoutSeconds",
    "uds": "the Service speaks TCP",
}
_ENGINE_ARG_PREFIXES: dict[str, str] = {
    "data-parallel": "replicas are pods: use spec.replicas",
    "ssl-": "TLS is set by the service",
}
_ENGINE_ARG_ALIASES: dict[str, str] = {
    "-asc": _ENGINE_ARGS["api-server-count"],
    "-dp": _ENGINE_ARG_PREFIXES["data-parallel"],
}
_ENV: dict[str, str] = {
    "HOME": "the root file system is read-only; the runtime sets it",
    "MAX_TOKENS": "use spec.maxTokens",
    "NVIDIA_VISIBLE_DEVICES": "the device plugin sets it",
    "PATH": "the engine is found there",
}
_ENV_PREFIXES: dict[str, str] = {
    "HF_": "the runtime sets the hub's variables",
    "LD_": "it would load foreign code into the engine",
    "PYTHON": "it would load foreign code into the engine",
    "VLLM_": "the runtime sets the engine's variables",
}
_ENV_ALLOWED = frozenset(
    {
        "PYTHONHASHSEED",
        "VLLM_ATTENTION_BACKEND",
        "VLLM_CPU_KVCACHE_SPACE",
        "VLLM_CPU_NUM_OF_RESERVED_CPU",
        "VLLM_CPU_OMP_THREADS_BIND",
        "VLLM_LOGGING_LEVEL",
        "VLLM_USE_V1",
        "VLLM_WORKER_MULTIPROC_METHOD",
    }
)


def refused_args(args: Sequence[str], field: str) -> Iterator[str]:
    """Yield a sentence for each reserved argument in the list at ``field``.

    As vLLM's parser does, this takes ``--some_flag`` for ``--some-flag``, ``--no-flag`` for ``--flag``, an unambiguous
    beginning for the whole flag, and the short aliases.
    """
    for position, arg in enumerate(args):
        if not arg.startswith("-") or arg.strip("-") == "":
            continue
        written = arg.partition("=")[0]
        why = _why_reserved(written.partition(".")[0].replace("_", "-").lower())
        if why is not None:
            yield f"{field}[{position}]: {written} is reserved: {why}"


def _why_reserved(flag: str) -> str | None:
    if not flag.startswith("--"):
        return next((why for alias, why in _ENGINE_ARG_ALIASES.items() if flag.startswith(alias)), None)
    name = flag[2:].removeprefix("no-")
    for reserved, why in _ENGINE_ARGS.items():
        if reserved.startswith(name):
            return why
    for prefix, why in _ENGINE_ARG_PREFIXES.items():
        if name.startswith(prefix) or prefix.startswith(name):
            return why
    return None


_PARALLEL_FLAGS = {
    "--tensor-parallel-size": "tp", "-tp": "tp", "--pipeline-parallel-size": "pp", "-pp": "pp",
}  # fmt: skip
_SHORTEST_PARALLEL_FLAG = len("--te")


def parallel_conflict(args: Sequence[str], gpus: int) -> str | None:
    """Return what is wrong with the parallelism that the arguments ask for; None if it uses exactly the GPUs there are.

    On the CPU (``gpus`` 0) any parallelism is taken.
    """
    sizes = {"tp": str(gpus), "pp": "1"}
    given = [(position, kind) for position, arg in enumerate(args) if (kind := _parallel_kind(arg)) is not None]
    for position, kind in given:
        _, separator, value = args[position].partition("=")
        sizes[kind] = value if separator else next(iter(args[position + 1 : position + 2]), "")
    if not given or gpus == 0:
        return None
    written = f"tensor parallel size {sizes['tp']!r}, pipeline parallel size {sizes['pp']!r}"
    if not all(re.fullmatch("[1-9][0-9]{0,3}", size) for size in sizes.values()):
        return f"{written}: both must be whole numbers"
    if int(sizes["tp"]) * int(sizes["pp"]) != gpus:
        return f"{written}: their product must be gpu.count, which is {gpus}; without the arguments it is"
    return None


def _parallel_kind(arg: str) -> str | None:
    written = arg.partition("=")[0]
    if not written.startswith("--"):
        return _PARALLEL_FLAGS.get(written)
    flag = written.replace("_", "-").lower()
    if len(flag) < _SHORTEST_PARALLEL_FLAG:
        return None
    return next((kind for known, kind in _PARALLEL_FLAGS.items() if known.startswith(flag)), None)


def refused_env(env: Sequence[str]) -> Iterator[str]:
    """Yield a sentence for each reserved environment variable."""
    for name in env:
        why = _ENV.get(name) or next((why for prefix, why in _ENV_PREFIXES.items() if name.startswith(prefix)), None)
        if why is not None and name not in _ENV_ALLOWED:
            yield f"spec.engine.env[{name}]: the variable is reserved: {why}"
