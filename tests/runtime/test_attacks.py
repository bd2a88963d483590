"""Requests that must not come through to the engine, over real connections; a spy inside of our middleware tells.

Each is sent as it stands: no client library puts it right.
"""

import asyncio
from pathlib import Path

import pytest

from gptservice_runtime import contract, sizes
from tests.runtime import spy
from tests.runtime.harness import Runtime
from tests.runtime.test_key_check import KEY, put

pytestmark = pytest.mark.wiring

OTHER_KEY = "sk-" + "o" * 43
BODY = b'{"model":"main-name","prompt":"hello"}'
POST = b"POST /v1/completions HTTP/1.1"
GET = b"GET /v1/models HTTP/1.1"


def bearer(key: str) -> bytes:
    return f"Authorization: Bearer {key}".encode()


def request(line: bytes, *headers: bytes, body: bytes = b"") -> bytes:
    length = [b"Content-Length: %d" % len(body)] if body else []
    return b"\r\n".join([line, b"Host: chat", *headers, *length, b"", body])


def post(*headers: bytes, body: bytes = BODY, line: bytes = POST) -> bytes:
    return request(line, b"Content-Type: application/json", *headers, body=body)


WITHOUT_KEY: dict[str, bytes] = {
    "no key": post(),
    "an empty header": post(b"Authorization:"),
    "an empty key": post(b"Authorization: Bearer"),
    "white space for a key": post(b"Authorization: Bearer    "),
    "a wrong key": post(bearer("sk-wrong")),
    "the key of another service": post(bearer(OTHER_KEY)),
    "the key without its end": post(bearer(KEY[:-1])),
    "the key and one letter more": post(bearer(f"{KEY}x")),
    "the key in capitals": post(bearer(KEY.upper())),
    "the key in quotes": post(bearer(f'"{KEY}"')),
    "the key twice in one header": post(bearer(f"{KEY}, {KEY}")),
    "the header twice": post(bearer(KEY), bearer(KEY)),
    "a wrong key before the right one": post(bearer("wrong"), bearer(KEY)),
    "a wrong key after the right one": post(bearer(KEY), bearer("wrong")),
    "another scheme": post(f"Authorization: Basic {KEY}".encode()),
    "the key without a scheme": post(f"Authorization: {KEY}".encode()),
    "the key in another header": post(f"X-API-Key: {KEY}".encode()),
    "the key for a proxy": post(f"Proxy-Authorization: Bearer {KEY}".encode()),
    "the key in the query": post(line=f"POST /v1/completions?api_key={KEY} HTTP/1.1".encode()),
    "the key in a cookie": post(f"Cookie: authorization=Bearer {KEY}".encode()),
    "a forwarded loopback address": post(b"X-Forwarded-For: 127.0.0.1", b"Forwarded: for=127.0.0.1"),
    "bytes that are no text": post(b"Authorization: Bearer \xff\xfe\xfd"),
    "a key of 20,000 letters": post(bearer("x" * 20_000)),
    "a supervisor's header": post(b"X-GPTService-Metrics-Token: guessed"),
    "two slashes": request(b"GET //v1/models HTTP/1.1"),
    "an encoded slash": request(b"GET /v1%2fmodels HTTP/1.1"),
    "encoded letters": request(b"GET /%76%31/models HTTP/1.1"),
    "a way back": request(b"GET /health/../v1/models HTTP/1.1"),
    "an encoded way back": request(b"GET /health/%2e%2e/v1/models HTTP/1.1"),
    "capitals": request(b"GET /V1/Models HTTP/1.1"),
    "another host's address": request(b"GET http://127.0.0.1:8081/readyz HTTP/1.1"),
    "the server as a whole": request(b"OPTIONS * HTTP/1.1"),
    "a preflight": request(b"OPTIONS /v1/completions HTTP/1.1", b"Origin: https://a",
                           b"Access-Control-Request-Method: POST"),
    "another method by a header": request(b"GET /health HTTP/1.1", b"X-HTTP-Method-Override: POST"),
    "an old protocol": request(b"GET /v1/models HTTP/1.0"),
    "a tunnel": request(b"CONNECT 127.0.0.1:8081 HTTP/1.1"),
    "a websocket": request(b"GET /v1/realtime HTTP/1.1", b"Upgrade: websocket", b"Connection: Upgrade",
                           b"Sec-WebSocket-Version: 13", b"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ=="),
    "a body that never comes": request(POST, b"Content-Length: 100000000"),
    "health": request(b"GET /health HTTP/1.1"),
    "the documentation": request(b"GET /openapi.json HTTP/1.1"),
}  # fmt: skip

INTERNAL = (
    *("/metrics", "/metrics/", "/metricsx", "/load", "/kv_event_sources", "/server_info", "/is_sleeping"),
    *("/sleep", "/wake_up", "/reset_prefix_cache", "/collective_rpc", "/start_profile", "/stop_profile"),
    *("/scale_elastic_ep", "/is_scaling_elastic_ep", "/inference/v1/generate", "/inference/v1/abort_requests"),
    *("//inference/v1/generate", "/v1/../inference/v1/generate/..", "/%69nference/v1/generate"),
)
TOO_LONG = b"Content-Length: %d" % (sizes.MAX_BODY_BYTES + 1)
WITH_KEY: dict[str, bytes] = {
    **{f"internal: {path}": post(bearer(KEY), line=f"POST {path} HTTP/1.1".encode()) for path in INTERNAL},
    "a header of 100 kB": post(bearer(KEY), b"X-Long: " + b"x" * 100_000),
    "10,000 headers": post(bearer(KEY), *(b"X-%d: 1" % number for number in range(10_000))),
    "an address of 100 kB": request(b"GET /v1/models?" + b"x" * 100_000 + b" HTTP/1.1", bearer(KEY)),
    "a body that is announced as too large": request(POST, bearer(KEY), TOO_LONG),
    "two lengths": request(POST, bearer(KEY), b"Content-Length: 5", b"Content-Length: 6", body=b""),
    "no protocol": b"hello\r\n\r\n",
    "TLS where there is none": b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
}  # fmt: skip


@pytest.fixture
async def watched(runtime: Runtime, tmp_path: Path) -> Runtime:
    put(runtime.keys_directory, KEY)
    runtime.limits_file.parent.mkdir()
    runtime.limits_file.write_text('{"maxInflightRequests": 2}')
    runtime.start(
        *("--middleware", spy.NAME),
        options=[contract.REQUIRE_API_KEY_FLAG],
        environment={"PYTHONPATH": f"{Path(contract.__file__).parent.parent}:{Path(spy.__file__).parent}",
                     spy.FILE_ENV: str(tmp_path / "seen")},
    )  # fmt: skip
    await runtime.ready()
    (tmp_path / "seen").write_text("")
    return runtime


def seen(folder: Path) -> list[str]:
    """What came through; the probe inside of the engine's server reads the metrics by itself."""
    return [line for line in (folder / "seen").read_text().splitlines() if line != "GET /metrics"]


async def status(runtime: Runtime, sent: bytes) -> int:
    """What is answered to these bytes; 0 for a connection that is closed without an answer."""
    reader, writer = await asyncio.open_connection("127.0.0.1", runtime.engine_port, limit=2**20)
    try:
        writer.write(sent)
        async with asyncio.timeout(20):
            line = await reader.readline()
    except ConnectionError:
        return 0
    finally:
        writer.close()
    return int(line.split()[1]) if line.startswith(b"HTTP/") else 0


async def test_none_comes_through_to_the_engine(watched: Runtime, tmp_path: Path) -> None:
    """One engine for all: at the end it still serves, so that none of them has harmed it."""
    assert len(WITHOUT_KEY) + len(WITH_KEY) >= 50
    wrong: dict[str, int] = {}
    for name, sent in {**WITHOUT_KEY, **WITH_KEY}.items():
        answer = await status(watched, sent)
        if answer not in (0, 400, 401, 403, 404, 413, 431):
            wrong[name] = answer
    assert wrong == {}
    assert seen(tmp_path) == []
    assert await status(watched, post(bearer(KEY))) == 200
    assert seen(tmp_path) == ["POST /v1/completions"]
    assert (await watched.probe())[0] == 200


async def test_of_ten_times_what_is_allowed_the_rest_does_not_come_through(watched: Runtime, tmp_path: Path) -> None:
    slow = post(bearer(KEY), body=b'{"model":"main-name","prompt":"hello","standin":{"delay_milliseconds":2000}}')
    answers = await asyncio.gather(*(status(watched, slow) for _ in range(20)))
    assert sorted(answers) == [200, 200, *[429] * 18]
    assert seen(tmp_path) == ["POST /v1/completions"] * 2
