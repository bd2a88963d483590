"""The runtime's health, logs and endings with real vLLM as its child, without a cluster.

The tests share one engine and run in this order: the last one ends it.
"""

import asyncio
import gc
import json
import os
import secrets
import signal
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import aiohttp
import pytest
import pytest_asyncio

from e2e.cluster.images import model
from e2e.cluster.pki import Authority
from e2e.vllm import environment
from gptservice_runtime import contract, control, processes
from tests.runtime.collector import Collector, collecting
from tests.runtime.harness import Runtime, until
from tests.runtime.mounted import mount, mount_pair
from tests.runtime.test_metrics import samples
from tests.runtime.test_serving_tls import MUTUAL, answer, client, server_pair, subject

pytestmark = [
    pytest.mark.node,
    pytest.mark.vllm,
    pytest.mark.long,
    pytest.mark.asyncio(loop_scope="module"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]

START_SECONDS = 600
LONG_PROMPT = "The quick brown fox jumps over the lazy dog. " * 400
RUNNING = "vllm:num_requests_running/0/main-name"
ARGUMENTS = ("--dtype=float32", "--enforce-eager", "--kv-cache-memory-bytes=1G", "--no-enable-prefix-caching")


@pytest.fixture(autouse=True)
def collected() -> Iterator[None]:
    """asyncio leaves the transport of a handshake that failed to the collector, which must not warn in another test."""
    yield
    gc.collect()


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("ca"))


@pytest.fixture(scope="module")
def collector() -> Iterator[Collector]:
    with collecting() as found:
        yield found


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def engine(
    tmp_path_factory: pytest.TempPathFactory, authority: Authority, collector: Collector
) -> AsyncIterator[Runtime]:
    folder = tmp_path_factory.mktemp("real")
    verified = client(authority, authority.issue("client", "client"))
    timeout = aiohttp.ClientTimeout(total=START_SECONDS)
    async with aiohttp.ClientSession(timeout=timeout, connector=aiohttp.TCPConnector(ssl=verified)) as session:
        running = Runtime(folder, session)
        mount_pair(running.tls_directory, server_pair(authority, "first"))
        mount(running.client_ca_directory, ca_crt=authority.certificate.read_bytes())
        running.scheme = "https"
        running.model = model.prepared()
        path = f"{environment.executable(folder / 'bin')}:/usr/local/bin:/usr/bin:/bin"
        given = {**environment.variables(), "PATH": path, "NVIDIA_VISIBLE_DEVICES": "void"}
        given |= {contract.SERVICE_NAME_ENV: "chat-of-the-test"}
        options = [*MUTUAL, contract.OTLP_ENDPOINT_FLAG, collector.endpoint]
        running.start(*ARGUMENTS, options=options, environment=given, startup_timeout=START_SECONDS)
        try:
            await running.ready(START_SECONDS)
            yield running
        finally:
            running.kill()


async def core(engine: Runtime) -> int:
    """The engine core's process."""
    found = processes.of_group(await engine.engine_pid())
    (pid,) = [one.pid for one in found if one.name.startswith("VLLM::EngineC")]
    return pid


async def is_ready(engine: Runtime) -> bool:
    return (await engine.probe())[0] == 200


async def running(engine: Runtime) -> float:
    async with engine.session.get(f"http://127.0.0.1:{engine.probe_port}/metrics") as response:
        return samples(await response.read())[RUNNING]


async def test_an_idle_core_that_is_stopped_is_not_ready_and_comes_back(engine: Runtime) -> None:
    pid = await core(engine)
    os.kill(pid, signal.SIGSTOP)
    answer: dict[str, str] = {}

    async def told() -> bool:
        status, body = await engine.probe()
        answer.update(body)
        return status == 503

    await until(told, "the stopped core to be told")
    assert answer["reason"] == contract.REASON_ENGINE_UNRESPONSIVE
    assert f"process {pid}" in answer["message"]
    assert (await engine.probe("/livez"))[0] == (await engine.probe("/startupz"))[0] == 200
    async with engine.session.get(engine.url("/health")) as response:
        assert response.status == 200, "vLLM has learned to tell: its own check could be used"
    os.kill(pid, signal.SIGCONT)
    await until(lambda: is_ready(engine), "it to be ready again")


async def test_long_prompts_under_load_trip_nothing(engine: Runtime) -> None:
    """Prompts so long that the core answers nothing else for longer than a probe waits."""
    asked = [
        asyncio.create_task(engine.complete(prompt=f"{n} {LONG_PROMPT}", max_tokens=4, ignore_eos=True))
        for n in range(4)
    ]
    looks: list[bool] = []
    while not all(task.done() for task in asked):
        looks.append(await is_ready(engine))
        await asyncio.sleep(0.5)
    assert [(await task)[0] for task in asked] == [200] * 4
    assert all(looks)
    shared = control.ControlBlock.open(engine.run_directory / "control")
    assert shared.probes_failed > 0, "no step was long enough: this test tests nothing"
    assert shared.movements > 0


@pytest.mark.parametrize("streamed", [True, False])
async def test_a_client_that_goes_takes_its_work_with_it(engine: Runtime, streamed: bool) -> None:
    body = {"model": "main-name", "prompt": "Once upon a time", "max_tokens": 2000, "ignore_eos": True}

    async def ask() -> None:
        async with engine.session.post(engine.url("/v1/completions"), json={**body, "stream": streamed}) as response:
            await response.read()

    asked = asyncio.create_task(ask())

    async def is_running(count: int) -> bool:
        return await running(engine) == count

    await until(lambda: is_running(1), "the request to run")
    asked.cancel()
    await until(lambda: is_running(0), "the engine to drop it")
    assert "aborted" in engine.stdout


async def test_the_log_has_the_identifier_and_not_the_prompt(engine: Runtime) -> None:
    headers = {"X-Request-Id": "of-the-client"}
    body = {"model": "main-name", "prompt": "a very secret prompt", "max_tokens": 2}
    async with engine.session.post(engine.url("/v1/completions"), json=body, headers=headers) as response:
        assert response.headers.getall("X-Request-Id") == ["of-the-client"]
        assert "of-the-client" in (await response.json())["id"]
    await until(lambda: "access POST /v1/completions 200" in engine.stdout, "the line")
    assert "very secret" not in engine.stdout + engine.stderr
    assert "/metrics" not in engine.stdout.partition("Application startup complete")[2]


@pytest.mark.parametrize(("sampled", "flags"), [(True, "01"), (False, "00")])
async def test_a_trace_is_continued_as_its_parent_says(
    engine: Runtime, collector: Collector, sampled: bool, flags: str
) -> None:
    trace, parent = secrets.token_hex(16), secrets.token_hex(8)
    body = {"model": "main-name", "prompt": "Once", "max_tokens": 2}
    for headers in ({"traceparent": f"00-{trace}-{parent}-{flags}"}, {}):
        async with engine.session.post(engine.url("/v1/completions"), json=body, headers=headers) as response:
            assert response.status == 200
    before = len(collector.exports)
    # The request after it has arrived, which has no parent: what was to come of the first one has come.
    await until(lambda: len(collector.exports) > before or collector.has(bytes.fromhex(trace)), "an export")
    if sampled:
        await until(lambda: collector.has(bytes.fromhex(trace), bytes.fromhex(parent), b"chat-of-the-test"), "its span")
    else:
        assert not collector.has(bytes.fromhex(trace))


async def test_certificates_and_client_ca_are_rotated_without_a_restart(
    engine: Runtime, authority: Authority, tmp_path: Path
) -> None:
    """With the event loop that vLLM has, which is another than the stand-in's."""
    other = Authority(tmp_path / "other", "others")
    ours, theirs = (client(authority, each.issue("client", "client")) for each in (authority, other))
    assert (await answer(engine, ours), await answer(engine, theirs)) == (200, 0)
    for name in ("second", "third", "fourth"):
        mount_pair(engine.tls_directory, server_pair(authority, name))

        async def shown(expected: str = name) -> bool:
            return await subject(engine, ours) == expected

        await until(shown, f"the {name} certificate")
        assert await answer(engine, ours) == 200
    for let_in, shut_out, ca in ((theirs, ours, other), (ours, theirs, authority)):
        mount(engine.client_ca_directory, ca_crt=ca.certificate.read_bytes())
        await until(lambda them=let_in: answer(engine, them), "the clients of the new CA to be let in")
        assert await answer(engine, shut_out) == 0
    assert await is_ready(engine)


async def test_a_core_that_is_killed_in_a_stream_ends_all_and_not_as_if_it_were_well(engine: Runtime) -> None:
    body = {"model": "main-name", "prompt": "Once", "max_tokens": 1900, "ignore_eos": True, "stream": True}
    events: list[str] = []
    broken = False
    killed = False
    try:
        async with engine.session.post(engine.url("/v1/completions"), json=body) as response:
            async for line in response.content:
                if line.startswith(b"data: "):
                    events.append(line[6:].decode().strip())
                if len(events) == 5 and not killed:
                    os.kill(await core(engine), signal.SIGKILL)
                    killed = True
    except aiohttp.ClientError:
        broken = True
    told = any("error" in json.loads(event) for event in events if event != "[DONE]")
    assert broken or told, f"the stream ended as if it were whole: {events[-2:]}"
    assert await engine.ended() == contract.EXIT_FAILURE
    assert engine.message()["reason"] == "CrashLoop"
