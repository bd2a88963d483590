"""Engine arguments and environment variables that belong to the operator, each with its reason."""

from collections.abc import Iterator, Mapping, Sequence

from .vllm.arguments import spelled
from .vllm.schema import Schema

ENGINE_ARGS: dict[str, str] = {
    "api-key": "keys are set by the service, never in arguments, which anybody can read",
    "api-server-count": "the pod's own limits and probes count on one API server",
    "config": "a file could set every other reserved argument",
    "enable-ssl-refresh": "certificates are watched by the runtime",
    "help": "the engine would print its help and end",
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
"""By the flag's name: what to do instead, or why not."""
ENGINE_ARG_PREFIXES: dict[str, str] = {
    "data-parallel": "replicas are pods: use spec.replicas",
    "grpc": "the Service speaks HTTP",
    "ssl-": "TLS is set by the service",
}
"""By the beginning of the names of flags, in any version of vLLM."""
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


def reserved_args(args: Sequence[str], field: str, schema: Schema) -> Mapping[str, str]:
    """Return a sentence for each reserved argument in the list at ``field``, by the argument's place.

    Whatever an engine could take for a reserved flag is one, whether it is the engine of that schema or another.
    """
    found: dict[str, str] = {}
    for position, arg in enumerate(args):
        written = spelled(arg).partition("=")[0].partition(".")[0].lower()
        if written.strip("-") and written.startswith("-"):
            reasons = (_why_reserved(flag) for flag in sorted(schema.meant(written) or {written}))
            if (why := next((why for why in reasons if why is not None), None)) is not None:
                where = f"{field}[{position}]"
                found[where] = f"{where}: {arg.partition('=')[0]} is reserved: {why}"
    return found


def _why_reserved(flag: str) -> str | None:
    name = flag.lstrip("-").removeprefix("no-")
    families = (why for prefix, why in ENGINE_ARG_PREFIXES.items() if name.startswith(prefix))
    return ENGINE_ARGS.get(name) or next(families, None)


def refused_env(env: Sequence[str]) -> Iterator[str]:
    """Yield a sentence for each reserved environment variable."""
    for name in env:
        why = _ENV.get(name) or next((why for prefix, why in _ENV_PREFIXES.items() if name.startswith(prefix)), None)
        if why is not None and name not in _ENV_ALLOWED:
            yield f"spec.engine.env[{name}]: the variable is reserved: {why}"
