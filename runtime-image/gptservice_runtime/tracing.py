"""How the engine is told where traces go: one argument, and the variables of OpenTelemetry's own SDK. Pure.

The engine continues the trace of a request's ``traceparent`` header, and keeps to that header's decision on sampling.
"""

from collections.abc import Mapping
from urllib.parse import urlsplit, urlunsplit

_HTTP_PORT = ":4318"
"""The registered port of OTLP over HTTP; 4317 is that of OTLP over gRPC."""
_TRACES_PATH = "/v1/traces"
_PROTOCOL = "OTEL_EXPORTER_OTLP_TRACES_PROTOCOL"


def arguments(endpoint: str) -> tuple[str, ...]:
    """The engine's arguments for an endpoint such as ``http://collector:4317`` or ``grpc://collector:4317``."""
    parts = urlsplit(endpoint)
    if parts.scheme == "grpc":
        # The exporter takes the scheme for whether to encrypt.
        parts = parts._replace(scheme="http")
    elif _speaks_http(endpoint) and parts.path in ("", "/"):
        parts = parts._replace(path=_TRACES_PATH)
    return ("--otlp-traces-endpoint", urlunsplit(parts))


def variables(endpoint: str, given: Mapping[str, str]) -> dict[str, str]:
    """The protocol to speak, unless the user has set it."""
    if _PROTOCOL in given:
        return {}
    return {_PROTOCOL: "http/protobuf" if _speaks_http(endpoint) else "grpc"}


def _speaks_http(endpoint: str) -> bool:
    parts = urlsplit(endpoint)
    return parts.scheme != "grpc" and (parts.netloc.endswith(_HTTP_PORT) or parts.path not in ("", "/"))
