"""The interface between the operator and the runtime image: constants only.

The operator imports this one module of the runtime and no other, so it may import nothing but ``typing``.
``runtime-image/README.md`` explains every value; a change here is a change of that contract.
"""

from typing import Final, Literal, TypedDict

# --- commands -------------------------------------------------------------------------------------
COMMAND: Final = "gptservice-runtime"
"""The executable in every runtime image. The operator always sets it as the container's command."""
FETCH_COMMAND: Final = "fetch"
SERVE_COMMAND: Final = "serve"

# --- flags of `fetch` -----------------------------------------------------------------------------
URI_FLAG: Final = "--uri"
SOURCE_ROOT_FLAG: Final = "--source-root"
DIGEST_FLAG: Final = "--digest"
CACHE_LIMIT_FLAG: Final = "--cache-limit"
"""Bytes that CACHE_ROOT may hold, where the file system under it does not know: an emptyDir's ``sizeLimit``."""
MEMORY_LIMIT_FLAG: Final = "--memory-limit"
"""Bytes that the serving container may hold, where the engine keeps the weights in them: without a GPU."""

CA_BUNDLE_FLAG: Final = "--ca-bundle"
"""File of authorities, PEM, that every download trusts beside the system's; not a mistake if it is not there."""

DECRYPT_FLAG: Final = "--decrypt"
"""Without a value: the weights have to be encrypted, with a key of DECRYPTION_KEY_DIRECTORY, and are decrypted into
DECRYPTED_ROOT; FETCHED_MODEL then leads there, whatever the source."""

# --- flags of `serve`; what follows ENGINE_ARGS_SEPARATOR goes to `vllm serve` --------------------
MODEL_FLAG: Final = "--model"
SERVED_MODEL_NAME_FLAG: Final = "--served-model-name"
"""Given once per name; the first is the one that the warm-up request uses."""
TENSOR_PARALLEL_SIZE_FLAG: Final = "--tensor-parallel-size"
MAX_MODEL_LEN_FLAG: Final = "--max-model-len"
MAX_TOKENS_FLAG: Final = "--max-tokens"
STARTUP_TIMEOUT_FLAG: Final = "--startup-timeout"
DRAIN_TIMEOUT_FLAG: Final = "--drain-timeout"
READY_LATENCY_FLAG: Final = "--ready-latency-milliseconds"
"""Absent: a pod is ready however long its answers take."""
OTLP_ENDPOINT_FLAG: Final = "--otlp-endpoint"
"""Where traces of requests are sent; see SERVICE_NAME_ENV."""
REQUIRE_API_KEY_FLAG: Final = "--require-api-key"
"""Without a value: every request to ENGINE_PORT must show a key of KEYS_DIRECTORY."""
TLS_FLAG: Final = "--tls"
"""Without a value: ENGINE_PORT speaks TLS, with the certificate of TLS_DIRECTORY."""
REQUIRE_CLIENT_CERTIFICATE_FLAG: Final = "--require-client-certificate"
"""Without a value, and only with TLS_FLAG: clients must show a certificate of the CA in CLIENT_CA_DIRECTORY."""
ENGINE_ARGS_SEPARATOR: Final = "--"

# --- the bundled engine ----------------------------------------------------------------------------
VLLM_VERSION: Final = "0.32.0"
"""Of the runtime images as their Containerfiles make them."""
ENGINE_SCHEMA_FILE: Final = "engine_arguments.json"
"""Beside this module: what that version's argument parser takes, written by ``make engine-arguments``."""

# --- ports ----------------------------------------------------------------------------------------
ENGINE_PORT: Final = 8000
"""The OpenAI API, spoken by the engine itself."""
PROBE_PORT: Final = 8081
"""Plain HTTP for the kubelet and whoever scrapes: the paths that follow."""
LIVE_PATH: Final = "/livez"
READY_PATH: Final = "/readyz"
STARTUP_PATH: Final = "/startupz"
"""200 from the first time on that READY_PATH has been, or would have been but for READY_LATENCY_FLAG."""
METRICS_PATH: Final = "/metrics"
"""Prometheus' text format: the engine's metrics as they are, then the runtime's own. ENGINE_PORT answers 404 to it."""
METRICS_PREFIX: Final = "gptservice_"
"""Beginning of the names of the runtime's own metrics."""
METRICS_TIMEOUT_SECONDS: Final = 3
"""How long the engine has for its part; then the runtime's own are answered without it."""

# --- paths in the container -----------------------------------------------------------------------
SOURCE_ROOT: Final = "/models/source"
"""Where the claim of a ``pvc://claim/path`` model is mounted, read-only, in both containers."""
CACHE_ROOT: Final = "/var/cache/gptservice"
"""Writable volume: home folder and every cache of the engine."""
TEMPORARY_ROOT: Final = "/tmp"  # noqa: S108 - the path of the writable volume, not a file name that could be guessed
FETCHED_MODEL: Final = "/tmp/model"  # noqa: S108 - likewise
"""Where ``fetch`` leaves a link to a model that it has downloaded or decrypted: only it knows where that lies."""
HUB_TOKEN_DIRECTORY: Final = "/etc/gptservice/hub-token"  # noqa: S105 - a path
"""Mount point of the Secret with the hub's token, in the init container only; it holds exactly one file."""
MODEL_CREDENTIALS_DIRECTORY: Final = "/etc/gptservice/model-credentials"
"""Mount point of the Secret that opens an object store, registry or web server, in the init container only."""
CA_DIRECTORY: Final = "/etc/gptservice/authorities"
"""Mount point of the ConfigMap with CA_FILE, in the init container only (never by ``subPath``)."""
CA_FILE: Final = "ca.crt"
DECRYPTION_KEY_DIRECTORY: Final = "/etc/gptservice/decryption-key"
"""Mount point of the Secret with the keys of encrypted weights, in the init container only; it holds one file."""
DECRYPTED_ROOT: Final = "/models/decrypted"
"""Volume in memory, in both containers: decrypted weights lie nowhere else."""
SHARED_MEMORY_ROOT: Final = "/dev/shm"  # noqa: S108 - likewise
"""Memory volume of the pod's own; what supervisor and engine share lies in it, or where it has no room in
TEMPORARY_ROOT."""
LIMITS_DIRECTORY: Final = "/etc/gptservice/limits"
"""Mount point of the ConfigMap with LIMITS_FILE (never by ``subPath``, or changes would not arrive)."""
LIMITS_FILE: Final = "limits.json"
LIMITS_KEY_MAX_INFLIGHT: Final = "maxInflightRequests"
"""The one key of LIMITS_FILE: a positive integer; absent means no bound."""
LIMITS_POLL_SECONDS: Final = 2
KEYS_DIRECTORY: Final = "/etc/gptservice/keys"
"""Mount point of the Secret whose values hold the API keys, one per line (never by ``subPath``)."""
KEYS_POLL_SECONDS: Final = 2
TLS_DIRECTORY: Final = "/etc/gptservice/tls"
"""Mount point of the Secret with TLS_CERTIFICATE_FILE and TLS_KEY_FILE (never by ``subPath``)."""
TLS_CERTIFICATE_FILE: Final = "tls.crt"
TLS_KEY_FILE: Final = "tls.key"
CLIENT_CA_DIRECTORY: Final = "/etc/gptservice/client-ca"
"""Mount point of a Secret with the client CA: CLIENT_CA_FILE, else the only file there is (never by ``subPath``)."""
CLIENT_CA_FILE: Final = "ca.crt"
TLS_POLL_SECONDS: Final = 2
TERMINATION_LOG: Final = "/dev/termination-log"
TERMINATION_MESSAGE_MAX_BYTES: Final = 4096

# --- environment ----------------------------------------------------------------------------------
MAX_TOKENS_ENV: Final = "MAX_TOKENS"
"""Cap of generated tokens per request; MAX_TOKENS_FLAG wins where both are given."""
SERVICE_NAME_ENV: Final = "OTEL_SERVICE_NAME"
"""OpenTelemetry's own variable: by which name traces are found."""
HUB_ENDPOINT_ENV: Final = "HF_ENDPOINT"
"""Of ``fetch``: the hub's URL, Hugging Face's own if absent."""
HTTP_PROXY_ENV: Final = "HTTP_PROXY"
"""Of ``fetch``, with the two that follow: the proxy on the way to sources, in the words of every HTTP client."""
HTTPS_PROXY_ENV: Final = "HTTPS_PROXY"
NO_PROXY_ENV: Final = "NO_PROXY"

# --- time, in seconds -----------------------------------------------------------------------------
DRAIN_GAP_SECONDS: Final = 5
"""From SIGTERM to the engine's own SIGTERM: requests are still served while endpoints are being removed."""
GRACE_MARGIN_SECONDS: Final = 10
"""terminationGracePeriodSeconds = DRAIN_GAP_SECONDS + drain time-out + GRACE_MARGIN_SECONDS."""
EXIT_AFTER_ENGINE_DEATH_SECONDS: Final = 2
"""PID 1 has written its message and is gone at most this long after the engine's death."""

# --- exit codes of both commands ------------------------------------------------------------------
EXIT_OK: Final = 0
EXIT_FAILURE: Final = 1
"""The termination message says why."""
EXIT_USAGE: Final = 2
"""Arguments of the runtime itself were refused; the termination message says which."""

# --- words of engines and users -------------------------------------------------------------------
TERMINAL_CONTROL: Final = r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)?|.)"
"""Pattern of what moves a terminal's cursor, sets its title or its colours: neither half passes it on."""

# --- reasons in the termination message and in the body of a 503 ----------------------------------
REASON_API_KEYS_UNUSABLE: Final = "APIKeysUnusable"
"""A key is demanded and there is none that a client could send."""
REASON_CERTIFICATE_UNUSABLE: Final = "CertificateUnusable"
"""TLS is asked for, and the certificate, its key or the client CA is missing or of no use."""
REASON_CHECKSUM_MISMATCH: Final = "ChecksumMismatch"
"""The model's files are not those that a digest demands, a source announced, or somebody encrypted with this key."""
REASON_CRASH_LOOP: Final = "CrashLoop"
"""The engine ended without being asked after it had served, or was killed by a signal."""
REASON_DISK_FULL: Final = "DiskFull"
"""The cache volume has no room for the model."""
REASON_DRAIN_TIMEOUT: Final = "DrainTimeout"
"""The engine was still there after the drain time-out and had to be killed."""
REASON_DRAINING: Final = "Draining"
"""Only in the body of a 503: SIGTERM was received."""
REASON_ENGINE_UNRESPONSIVE: Final = "EngineUnresponsive"
"""Only in the body of a 503: the engine has served and does not answer any more."""
REASON_GPU_OUT_OF_MEMORY: Final = "GPUOutOfMemory"
REASON_HUB_THROTTLED: Final = "HubThrottled"
"""The source answered "too many requests" to every try."""
REASON_INVALID_ENGINE_ARGUMENT: Final = "InvalidEngineArgument"
REASON_INVALID_IMAGE: Final = "InvalidImage"
"""The image has no engine, or its runtime does not know a flag of this operator."""
REASON_INVALID_SPEC: Final = "InvalidSpec"
"""The model's URI cannot be served by this runtime."""
REASON_MODEL_ACCESS_DENIED: Final = "ModelAccessDenied"
REASON_MODEL_DOWNLOAD_FAILED: Final = "ModelDownloadFailed"
"""The source could not be reached, failed or broke off, at every try."""
REASON_MODEL_DOWNLOAD_STALLED: Final = "ModelDownloadStalled"
"""The connection stayed open and no byte came, at every try."""
REASON_MODEL_LOADING: Final = "ModelLoading"
"""Only in the body of a 503: the model is being loaded or warmed up."""
REASON_MODEL_LOAD_FAILED: Final = "ModelLoadFailed"
REASON_MODEL_NOT_FOUND: Final = "ModelNotFound"
REASON_OUT_OF_MEMORY: Final = "OutOfMemory"
REASON_READY_LATENCY_EXCEEDED: Final = "ReadyLatencyExceeded"
"""Only in the body of a 503: the model answers, and has not done so within READY_LATENCY_FLAG yet."""

TerminationReason = Literal[
    "APIKeysUnusable",
    "CertificateUnusable",
    "ChecksumMismatch",
    "CrashLoop",
    "DiskFull",
    "DrainTimeout",
    "GPUOutOfMemory",
    "HubThrottled",
    "InvalidEngineArgument",
    "InvalidImage",
    "InvalidSpec",
    "ModelAccessDenied",
    "ModelDownloadFailed",
    "ModelDownloadStalled",
    "ModelLoadFailed",
    "ModelNotFound",
    "OutOfMemory",
]

# --- phases in the termination message and in the body of a 503 -----------------------------------
PHASE_FETCHING: Final = "Fetching"
PHASE_CHECKING: Final = "Checking"
"""Arguments and model are being checked; the engine has not been started."""
PHASE_LOADING: Final = "Loading"
"""The engine runs; its API does not list the model yet."""
PHASE_WARMING_UP: Final = "WarmingUp"
"""The API lists the model; the warm-up request has not been answered yet."""
PHASE_SERVING: Final = "Serving"
PHASE_DRAINING: Final = "Draining"

Phase = Literal["Fetching", "Checking", "Loading", "WarmingUp", "Serving", "Draining"]


class FetchResult(TypedDict):
    """Termination message of a ``fetch`` that succeeded; ``None`` where a source has no such thing."""

    uri: str
    revision: str | None
    digest: str | None
    bytes: int
    seconds: float


class FailureMessage(TypedDict):
    """Termination message of any failure; never a secret, at most TERMINATION_MESSAGE_MAX_BYTES of JSON."""

    reason: TerminationReason
    message: str
    phase: Phase


class NotReady(TypedDict):
    """Body of a 503 of LIVE_PATH, READY_PATH or STARTUP_PATH."""

    reason: str
    message: str
    phase: Phase
