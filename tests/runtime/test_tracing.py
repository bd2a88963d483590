"""Where traces go, in the engine's own terms."""

import pytest

from gptservice_runtime import tracing

PROTOCOL = "OTEL_EXPORTER_OTLP_TRACES_PROTOCOL"


@pytest.mark.parametrize(
    ("endpoint", "url", "protocol"),
    [
        ("http://collector:4317", "http://collector:4317", "grpc"),
        ("https://collector", "https://collector", "grpc"),
        ("grpc://collector:4317", "http://collector:4317", "grpc"),
        ("grpc://collector:4318", "http://collector:4318", "grpc"),
        ("http://collector:4318", "http://collector:4318/v1/traces", "http/protobuf"),
        ("http://[::1]:4318/", "http://[::1]:4318/v1/traces", "http/protobuf"),
        ("https://collector/otlp/v1/traces", "https://collector/otlp/v1/traces", "http/protobuf"),
        ("http://collector:99999", "http://collector:99999", "grpc"),
    ],
)
def test_the_port_and_the_path_say_which_protocol(endpoint: str, url: str, protocol: str) -> None:
    assert tracing.arguments(endpoint) == ("--otlp-traces-endpoint", url)
    assert tracing.variables(endpoint, {}) == {PROTOCOL: protocol}


def test_the_user_s_protocol_is_kept() -> None:
    assert tracing.variables("http://collector:4318", {PROTOCOL: "grpc"}) == {}
