"""What `vllm serve` is started with: its arguments and its environment. Pure."""

import json
import ssl
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from gptservice_runtime import contract, tls, tracing

EXECUTABLE = "vllm"
"""Looked up on PATH."""
RUN_FOLDER = "gptservice"
"""Of what supervisor and engine share; see run_directory.py."""
LIMITS_FILE_ENV = "GPTSERVICE_LIMITS_FILE"
CONTROL_FILE_ENV = "GPTSERVICE_CONTROL_FILE"
KEYS_DIRECTORY_ENV = "GPTSERVICE_KEYS_DIRECTORY"
TLS_DIRECTORY_ENV = "GPTSERVICE_TLS_DIRECTORY"
CLIENT_CA_DIRECTORY_ENV = "GPTSERVICE_CLIENT_CA_DIRECTORY"
OWN_SOCKET_ENV = "GPTSERVICE_OWN_SOCKET"
METRICS_TOKEN_ENV = "GPTSERVICE_METRICS_TOKEN"  # noqa: S105 - the variable's name
"""How the supervisor tells the middleware inside the engine where to look, and how to know the supervisor."""
ENGINE_PROBE = "gptservice_runtime.probing.EngineProbe"
MIDDLEWARE = "gptservice_runtime.limits.InFlightLimit"
SIZE_LIMIT = "gptservice_runtime.sizes.SizeLimit"
ROUTE_GUARD = "gptservice_runtime.guard.RouteGuard"
KEY_CHECK = "gptservice_runtime.keys.KeyCheck"
ACCESS_LOG = "gptservice_runtime.access.AccessLog"
LIVE_CERTIFICATES = "gptservice_runtime.tls_server.LiveCertificates"

_UNLESS_GIVEN = {"VLLM_CPU_OMP_THREADS_BIND": "nobind"}
"""On a CPU, vLLM binds its threads to cores that it chooses as if it were alone on the node: every pod chooses the same
ones, so that a new pod beside one that works hardly gets to load its model."""

_NEVER_PASSED = frozenset({"VLLM_SERVER_DEV_MODE"})
"""Dev mode opens routes that reset caches and put the engine to sleep."""


@dataclass(frozen=True, kw_only=True)
class EngineOptions:
    """What the engine is asked to serve; times in seconds."""

    model: Path
    served_model_names: tuple[str, ...]
    tensor_parallel_size: int | None
    max_model_len: int | None
    max_tokens: int | None
    otlp_endpoint: str | None
    drain_timeout: int
    require_api_key: bool
    tls: tls.Directories | None
    """None for plain HTTP."""
    host: str
    """The address to listen at."""
    port: int
    extra_arguments: tuple[str, ...]

    @property
    def is_mutual_tls(self) -> bool:
        """Whether clients must show a certificate, which the supervisor has not."""
        return self.tls is not None and self.tls.client_ca is not None


@dataclass(frozen=True, kw_only=True)
class EnginePaths:
    """Files shared with the engine, and the one folder that it may write to besides /tmp and /dev/shm."""

    cache_root: Path
    limits_file: Path
    keys_directory: Path
    run_directory: Path
    """Of this pod alone: the cache may be shared, and full. Its path is short, as a socket's has to be."""
    package_parent: Path
    """The folder from which ``gptservice_runtime`` was imported."""

    @property
    def home(self) -> Path:
        """The engine's home folder."""
        return self.cache_root / "home"

    @property
    def control_file(self) -> Path:
        """See control.py."""
        return self.run_directory / "control"

    @property
    def own_socket(self) -> Path:
        """The way in that needs no client certificate; in a folder that nobody but this user may enter."""
        return self.run_directory / "engine.sock"


def arguments(options: EngineOptions) -> list[str]:
    """Argument vector, program name included.

    The user's arguments come first: in argparse the last value of an option wins, and ours are promises. The cap of
    tokens is a single key, which vLLM lays over the user's other keys: a whole value would lose to any of them.
    """
    return [
        *(EXECUTABLE, "serve", str(options.model)),
        *chosen_arguments(options),
        *("--host", options.host, "--port", str(options.port)),
        *("--shutdown-timeout", str(options.drain_timeout)),
        # From the innermost to the outermost: what the key check refuses is never in flight, and all is logged.
        *("--middleware", ENGINE_PROBE, "--middleware", MIDDLEWARE),
        *("--middleware", SIZE_LIMIT, "--middleware", ROUTE_GUARD),
        *(("--middleware", KEY_CHECK) if options.require_api_key else ()),
        *(_tls_arguments(options.tls) if options.tls is not None else ()),
        *("--middleware", ACCESS_LOG, "--disable-uvicorn-access-log"),
        *("--served-model-name", *options.served_model_names),
    ]


def _tls_arguments(directories: tls.Directories) -> list[str]:
    """The engine enforces TLS and client certificates by itself; our middleware keeps them up to date."""
    certificate = directories.certificate
    found = ["--ssl-certfile", str(certificate / contract.TLS_CERTIFICATE_FILE)]
    found += ["--ssl-keyfile", str(certificate / contract.TLS_KEY_FILE), "--middleware", LIVE_CERTIFICATES]
    if directories.client_ca is not None:
        # Without a CA, which our middleware brings, nobody's certificate is good enough.
        found += ["--ssl-cert-reqs", str(ssl.CERT_REQUIRED.value)]
    return found


def chosen_arguments(options: EngineOptions) -> list[str]:
    """The part that comes from the user's spec, and that the user can therefore get wrong."""
    chosen = list(options.extra_arguments)
    if options.tensor_parallel_size is not None:
        chosen += ["--tensor-parallel-size", str(options.tensor_parallel_size)]
    if options.max_model_len is not None:
        chosen += ["--max-model-len", str(options.max_model_len)]
    if options.max_tokens is not None:
        chosen += ["--override-generation-config.max_new_tokens", str(options.max_tokens)]
    if options.otlp_endpoint is not None:
        chosen += tracing.arguments(options.otlp_endpoint)
    return chosen


def environment(
    inherited: Mapping[str, str], paths: EnginePaths, metrics_token: str, otlp_endpoint: str | None
) -> dict[str, str]:
    """The inherited variables (the user's among them), then those that a pod of ours cannot do without.

    The model is local, the root file system is read-only and the user has no passwd entry: what would look
    for a hub, a home folder or a user name is answered here.
    """
    kept = {name: value for name, value in inherited.items() if name not in _NEVER_PASSED}
    return {
        **_UNLESS_GIVEN,
        **(tracing.variables(otlp_endpoint, inherited) if otlp_endpoint is not None else {}),
        **kept,
        **_cache_variables(paths.cache_root),
        "HF_HUB_OFFLINE": "1",
        "TRANSFORMERS_OFFLINE": "1",
        "HF_HUB_DISABLE_TELEMETRY": "1",
        "VLLM_NO_USAGE_STATS": "1",
        "DO_NOT_TRACK": "1",
        "PYTHONUNBUFFERED": "1",
        "PYTHONPATH": _python_path(inherited.get("PYTHONPATH", ""), paths.package_parent),
        LIMITS_FILE_ENV: str(paths.limits_file),
        KEYS_DIRECTORY_ENV: str(paths.keys_directory),
        CONTROL_FILE_ENV: str(paths.control_file),
        METRICS_TOKEN_ENV: metrics_token,
    }


def tls_environment(directories: tls.Directories | None, own_socket: Path | None) -> dict[str, str]:
    """How LIVE_CERTIFICATES is told where to look and, where clients need certificates, where to listen for us."""
    paths = {
        TLS_DIRECTORY_ENV: directories and directories.certificate,
        CLIENT_CA_DIRECTORY_ENV: directories and directories.client_ca,
        OWN_SOCKET_ENV: own_socket,
    }
    return {name: "" if path is None else str(path) for name, path in paths.items()}


def is_on_cpu(inherited: Mapping[str, str]) -> bool:
    """Whether the operator gave this container no GPU."""
    return inherited.get("NVIDIA_VISIBLE_DEVICES") == "void"


def _cache_variables(root: Path) -> dict[str, str]:
    return {
        "HOME": str(root / "home"),
        "USER": "gptservice",
        "LOGNAME": "gptservice",
        "XDG_CACHE_HOME": str(root / "xdg"),
        "XDG_CONFIG_HOME": str(root / "xdg-config"),
        "VLLM_CACHE_ROOT": str(root / "vllm"),
        "VLLM_CONFIG_ROOT": str(root / "vllm-config"),
        "HF_HOME": str(root / "huggingface"),
        "TORCHINDUCTOR_CACHE_DIR": str(root / "torchinductor"),
        "TRITON_CACHE_DIR": str(root / "triton"),
        "NUMBA_CACHE_DIR": str(root / "numba"),
    }


def _python_path(inherited: str, package_parent: Path) -> str:
    """Lets the engine import our middleware, without giving it a whole foreign site-packages folder."""
    entries = [entry for entry in inherited.split(":") if entry]
    if package_parent.name not in {"site-packages", "dist-packages"} and str(package_parent) not in entries:
        entries.append(str(package_parent))
    return ":".join(entries)


def tokens_cap(flag: int | None, inherited: Mapping[str, str]) -> int | None:
    """Cap of generated tokens: the flag, else MAX_TOKENS; ValueError when that is no positive integer."""
    if flag is not None:
        return flag
    value = inherited.get(contract.MAX_TOKENS_ENV, "").strip()
    if not value:
        return None
    if not value.isascii() or not value.isdigit() or int(value) < 1:
        raise ValueError(f"environment variable {contract.MAX_TOKENS_ENV} is {value!r}: give a positive integer")
    return int(value)


def missing_message(search_path: str) -> str:
    """What to say when the image has no engine."""
    return (
        f"the image has no executable {EXECUTABLE!r} on PATH ({search_path}): use an image derived from the "
        "GPTService runtime image"
    )


def command_line(argv: Sequence[str]) -> str:
    """For the log; arguments are not secret (keys are files), so they are shown as they are."""
    return json.dumps(list(argv))
