"""API keys over real connections: nobody gets in without one, they change live, and they are to be found nowhere."""

import asyncio
import os
import sys
from pathlib import Path

import pytest

from gptservice_runtime import contract
from gptservice_runtime.engine import KEY_CHECK
from tests.runtime.harness import STANDIN, Runtime, children, until

pytestmark = pytest.mark.wiring

DEMANDED = [contract.REQUIRE_API_KEY_FLAG]
KEY = "sk-" + "k" * 43
NEW = "sk-" + "n" * 43


def put(directory: Path, *lines: str) -> None:
    """As the kubelet does: the new content appears at once, by a rename."""
    directory.mkdir(exist_ok=True)
    new = directory / "..new"
    new.write_text("\n".join(lines))
    os.replace(new, directory / "api-key")


def read(file: Path) -> str:
    return file.read_text()


async def status(runtime: Runtime, key: str | None = None, path: str = "/v1/models", method: str = "GET") -> int:
    headers = {} if key is None else {"Authorization": f"Bearer {key}"}
    async with runtime.session.request(method, runtime.url(path), headers=headers) as response:
        return response.status


async def raw(runtime: Runtime, request: bytes) -> bytes:
    """What the server answers to bytes that no client library would send."""
    reader, writer = await asyncio.open_connection("127.0.0.1", runtime.engine_port)
    writer.write(request)
    await writer.drain()
    answer = await reader.readuntil(b"\r\n")
    writer.close()
    return answer


@pytest.fixture
async def guarded(runtime: Runtime) -> Runtime:
    put(runtime.keys_directory, KEY)
    runtime.start(options=DEMANDED)
    await runtime.ready()
    return runtime


@pytest.mark.parametrize("path", ["/v1/models", "/health", "/version", "/nowhere"])
async def test_only_a_key_gets_in(guarded: Runtime, path: str) -> None:
    expected = 404 if path == "/nowhere" else 200
    assert await status(guarded, None, path) == 401
    assert await status(guarded, NEW, path) == 401
    assert await status(guarded, KEY, path) == expected


async def test_the_probes_need_none(guarded: Runtime) -> None:
    assert (await guarded.probe("/readyz"))[0] == 200
    assert (await guarded.probe("/livez"))[0] == 200


AUTHORIZED = f"Authorization: Bearer {KEY}\r\n".encode()


@pytest.mark.parametrize(
    "request_line",
    [
        pytest.param(b"GET //v1/models HTTP/1.1", id="two slashes"),
        pytest.param(b"GET /v1%2fmodels HTTP/1.1", id="an encoded slash"),
        pytest.param(b"GET /%76%31/models HTTP/1.1", id="encoded letters"),
        pytest.param(b"GET /health/../v1/models HTTP/1.1", id="a way back"),
        pytest.param(b"GET /V1/Models HTTP/1.1", id="capitals"),
        pytest.param(b"GET http://127.0.0.1:8081/readyz HTTP/1.1", id="another host's address"),
        pytest.param(b"OPTIONS * HTTP/1.1", id="the server as a whole"),
        pytest.param(b"OPTIONS /v1/chat/completions HTTP/1.1\r\nOrigin: https://a.example\r\n"
                     b"Access-Control-Request-Method: POST", id="a preflight"),
        pytest.param(b"GET /v1/models?api_key=" + KEY.encode() + b" HTTP/1.1", id="the key in the query"),
        pytest.param(b"GET /v1/models HTTP/1.1\r\n" + AUTHORIZED + AUTHORIZED.strip(), id="the header twice"),
        pytest.param(b"GET /v1/models HTTP/1.1\r\nAuthorization: Bearer wrong\r\n" + AUTHORIZED.strip(), id="two keys"),
        pytest.param(b"GET /v1/models HTTP/1.1\r\nAuthorization: Bearer \xff\xfe\xfd", id="bytes that are no text"),
        pytest.param(b"GET /v1/models HTTP/1.1\r\nAuthorization: Bearer " + b"x" * 20_000, id="a long header"),
        pytest.param(b"GET /v1/models HTTP/1.0", id="an old protocol"),
        pytest.param(b"GET /v1/realtime HTTP/1.1\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
                     b"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==", id="a websocket"),
    ],
)  # fmt: skip
async def test_hostile_requests_are_refused(guarded: Runtime, request_line: bytes) -> None:
    answer = await raw(guarded, request_line + b"\r\nHost: chat\r\n\r\n")
    assert answer.split()[1] in (b"401", b"403"), answer


async def test_a_refused_body_is_not_waited_for(guarded: Runtime) -> None:
    """Of a body that was announced nothing is sent: whoever read it would wait for ever."""
    announced = b"POST /v1/completions HTTP/1.1\r\nHost: chat\r\nContent-Length: 100000000\r\n\r\n"
    async with asyncio.timeout(20):
        assert (await raw(guarded, announced)).split()[1] == b"401"


async def test_what_is_refused_takes_no_place(runtime: Runtime) -> None:
    put(runtime.keys_directory, KEY)
    runtime.limits_file.parent.mkdir()
    runtime.limits_file.write_text('{"maxInflightRequests": 1}')
    runtime.start(options=DEMANDED)
    await runtime.ready()
    body = {"model": "main-name", "prompt": "hello", "standin": {"delay_milliseconds": 3000}}
    headers = {"Authorization": f"Bearer {KEY}"}

    async def complete(headers: dict[str, str]) -> int:
        async with runtime.session.post(runtime.url("/v1/completions"), json=body, headers=headers) as response:
            return response.status

    both = [asyncio.create_task(complete(headers)) for _ in range(2)]
    (refused,), (running,) = await asyncio.wait(both, return_when=asyncio.FIRST_COMPLETED)
    assert refused.result() == 429
    assert await complete({}) == 401, "not 429: a stranger learns nothing of the load"
    assert await running == 200


async def test_a_key_is_changed_without_a_restart(guarded: Runtime) -> None:
    engine = await guarded.engine_pid()
    put(guarded.keys_directory, KEY, NEW)
    await asyncio.sleep(contract.KEYS_POLL_SECONDS)
    assert [await status(guarded, key) for key in (KEY, NEW)] == [200, 200]
    put(guarded.keys_directory, NEW)
    await asyncio.sleep(contract.KEYS_POLL_SECONDS)
    assert [await status(guarded, key) for key in (KEY, NEW)] == [401, 200]
    assert await guarded.engine_pid() == engine, "the engine was restarted"
    assert (await guarded.probe())[0] == 200


@pytest.mark.parametrize(
    ("made", "said"),
    [pytest.param(False, "cannot be read", id="no directory"), pytest.param(True, "there is no API key", id="no key")],
)
async def test_without_any_key_it_is_not_ready_says_why_and_goes_on_by_itself(
    runtime: Runtime, made: bool, said: str
) -> None:
    if made:
        put(runtime.keys_directory)
    runtime.start(options=DEMANDED)
    seen: dict[str, str] = {}

    async def told() -> bool:
        seen.update((await runtime.probe())[1])
        return seen.get("reason") == "APIKeysUnusable"

    await until(told, "the reason")
    assert said in seen["message"]
    assert str(runtime.keys_directory) in seen["message"]

    async def refuses() -> bool:
        try:
            return (await raw(runtime, b"GET /v1/models HTTP/1.1\r\nHost: chat\r\n\r\n")).split()[1] == b"401"
        except ConnectionRefusedError:
            return False

    await until(refuses, "the engine to listen, and to refuse")
    put(runtime.keys_directory, KEY)
    await runtime.ready()
    assert await status(runtime, KEY) == 200


async def test_a_start_without_a_key_ends_with_that_reason(runtime: Runtime) -> None:
    runtime.start(options=DEMANDED, startup_timeout=3)
    assert await runtime.ended() == contract.EXIT_FAILURE
    assert runtime.message()["reason"] == "APIKeysUnusable"
    assert "startupTimeoutSeconds" in runtime.message()["message"]


async def test_an_engine_that_does_not_ask_for_a_key_never_becomes_ready(runtime: Runtime) -> None:
    """As in an image whose vllm is a script that passes on only some of its arguments."""
    put(runtime.keys_directory, KEY)
    wrapper = runtime.folder / "bin" / "vllm"
    wrapper.parent.mkdir()
    wrapper.write_text(
        "#!/usr/bin/env python3\nimport os, sys\nargs = sys.argv[1:]\n"
        f"at = args.index({KEY_CHECK!r})\n"
        f"os.execv({str(STANDIN / 'vllm')!r}, ['vllm', *args[:at - 1], *args[at + 1:]])\n"
    )
    wrapper.chmod(0o755)
    path = os.environ["PATH"]
    runtime.start(options=DEMANDED, environment={"PATH": f"{wrapper.parent}:{Path(sys.executable).parent}:{path}"})
    assert await runtime.ended() == contract.EXIT_FAILURE
    assert runtime.message()["reason"] == "InvalidImage"
    assert "without an API key (HTTP 200)" in runtime.message()["message"]


async def test_keys_are_in_no_argument_no_variable_and_no_log(guarded: Runtime) -> None:
    await status(guarded, KEY)
    await status(guarded, NEW)
    processes = [guarded.pid, *children(guarded.pid)]
    assert len(processes) > 1
    for pid in processes:
        for part in ("cmdline", "environ"):
            content = read(Path(f"/proc/{pid}/{part}"))
            assert content, "nothing was read: this test tests nothing"
            assert KEY not in content
    for log in (guarded.stdout, guarded.stderr):
        assert KEY not in log
        assert NEW not in log, "a wrong key is somebody's right one elsewhere"


async def test_without_the_flag_nobody_needs_a_key(runtime: Runtime) -> None:
    put(runtime.keys_directory, KEY)
    runtime.start()
    await runtime.ready()
    assert await status(runtime) == 200
