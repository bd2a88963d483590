"""`make bench-runtime`: what the runtime costs beside a bare `vllm serve` of the same model with the same arguments.

Both run on this machine at the same time and are asked in turns, so that its noise hits both alike. Figures are medians
of the rounds; ratios are of one run.
"""

import asyncio
import itertools
import json
import os
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import ExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

import aiohttp

from e2e.cluster.images import model
from e2e.vllm import environment

STARTS = 3
ROUNDS = 8
STREAMS = 4
REQUESTS_PER_STREAM = 3
TOKENS = 32
START_SECONDS = 600
MEGABYTE = 1024 * 1024
NAME = "bench"
ENGINE_ARGUMENTS = ("--dtype=float32", "--enforce-eager", "--kv-cache-memory-bytes=1G", "--max-model-len=2048")


@dataclass
class Server:
    """One of the two, as a process; `ready` is the URL that answers 200 once it serves, or empty for a completion."""

    kind: str
    command: list[str]
    url: str
    ready: str = ""
    starts: list[float] = field(default_factory=list[float])
    rates: list[float] = field(default_factory=list[float])
    gaps: list[float] = field(default_factory=list[float])
    process: "subprocess.Popen[bytes] | None" = None

    def start(self, variables: dict[str, str], log: Path) -> None:
        with log.open("ab") as out:
            self.process = subprocess.Popen(self.command, env=variables, stdout=out, stderr=out, start_new_session=True)

    def stop(self) -> None:
        if self.process is None:
            return
        os.killpg(self.process.pid, signal.SIGTERM)
        try:
            self.process.wait(timeout=60)
        except subprocess.TimeoutExpired:
            os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()
        self.process = None


async def serves(server: Server, session: aiohttp.ClientSession) -> bool:
    try:
        if server.ready:
            async with session.get(server.ready) as response:
                return response.status == 200
        async with session.post(f"{server.url}/v1/completions", json=question(1)) as response:
            return response.status == 200
    except aiohttp.ClientError:
        return False


def question(tokens: int, *, stream: bool = False) -> dict[str, object]:
    """A request whose answer has exactly so many tokens."""
    exact = {"max_tokens": tokens, "ignore_eos": True, "temperature": 0}
    return {"model": NAME, "prompt": "Once upon a time", "stream": stream, **exact}


@asynccontextmanager
async def started(
    server: Server, session: aiohttp.ClientSession, variables: dict[str, str], log: Path
) -> AsyncIterator[None]:
    """Start it, wait until it has answered a completion, and end it afterwards."""
    began = time.perf_counter()
    server.start(variables, log)
    try:
        while not await serves(server, session):
            ended = server.process is None or server.process.poll() is not None
            if ended or time.perf_counter() - began > START_SECONDS:
                how = "ended before it served" if ended else f"does not serve after {START_SECONDS} s"
                raise RuntimeError(f"{server.kind} {how}:\n{await asyncio.to_thread(log.read_text)}")
            await asyncio.sleep(0.05)
        server.starts.append(time.perf_counter() - began)
        yield
    finally:
        server.stop()


async def one_answer(server: Server, session: aiohttp.ClientSession) -> list[float]:
    """Seconds between each token and the next of one streamed answer."""
    times: list[float] = []
    async with session.post(f"{server.url}/v1/completions", json=question(TOKENS, stream=True)) as response:
        response.raise_for_status()
        async for line in response.content:
            if line.startswith(b"data: {") and json.loads(line[6:])["choices"][0]["text"]:
                times.append(time.perf_counter())
    return [after - before for before, after in itertools.pairwise(times)]


async def round_of(server: Server, session: aiohttp.ClientSession) -> None:
    """Ask with several streams at a time; note requests per second and the median time between tokens."""

    async def stream() -> list[float]:
        return [gap for _ in range(REQUESTS_PER_STREAM) for gap in await one_answer(server, session)]

    began = time.perf_counter()
    gaps = await asyncio.gather(*(stream() for _ in range(STREAMS)))
    server.rates.append(STREAMS * REQUESTS_PER_STREAM / (time.perf_counter() - began))
    server.gaps.append(statistics.median(gap for each in gaps for gap in each))


def resident_bytes(pid: int) -> int:
    """What one process holds in memory by itself, shared pages by their share (PSS)."""
    for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
        if line.startswith("Pss:"):
            return int(line.split()[1]) * 1024
    raise RuntimeError(f"no Pss in /proc/{pid}/smaps_rollup")


def free_ports(count: int) -> list[int]:
    """Ports of the loopback that were free a moment ago."""
    with ExitStack() as stack:
        sockets = [stack.enter_context(socket.create_server(("127.0.0.1", 0))) for _ in range(count)]
        return [each.getsockname()[1] for each in sockets]


def servers(folder: Path) -> tuple[Server, Server]:
    """The bare engine and the wrapped one, not started."""
    bare, engine, probes = free_ports(3)
    where = model.prepared()
    plain = ["vllm", "serve", str(where), "--served-model-name", NAME, "--host", "127.0.0.1", "--port", str(bare)]
    runtime = [sys.executable, "-m", "gptservice_runtime", "serve", "--model", str(where), "--served-model-name", NAME]
    runtime += ["--startup-timeout", str(START_SECONDS), "--drain-timeout", "10", "--drain-gap", "0"]
    runtime += ["--engine-port", str(engine), "--probe-port", str(probes), "--cache-root", str(folder / "cache")]
    runtime += ["--run-directory", str(folder / "run")]
    runtime += [
        "--limits-file",
        str(folder / "limits.json"),
        "--termination-log",
        str(folder / "termination-log"),
        "--",
    ]
    return (
        Server("bare vllm serve", [*plain, *ENGINE_ARGUMENTS], f"http://127.0.0.1:{bare}"),
        Server(
            "gptservice-runtime",
            [*runtime, *ENGINE_ARGUMENTS],
            f"http://127.0.0.1:{engine}",
            ready=f"http://127.0.0.1:{probes}/readyz",
        ),
    )


async def measure(folder: Path) -> None:
    bare, wrapped = pair = servers(folder)
    search = f"{environment.executable(folder / 'bin')}:/usr/local/bin:/usr/bin:/bin"
    # Of the runtime's own variables, the one that is about speed counts for both.
    variables = environment.variables() | {"PATH": search, "HOME": str(folder), "VLLM_CPU_OMP_THREADS_BIND": "nobind"}
    log = folder / "log"
    async with aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=START_SECONDS)) as session:
        for number in range(STARTS - 1):
            print(f"start {number + 1} of {STARTS} of each ...", flush=True)
            for server in pair:
                async with started(server, session, variables, log):
                    pass
        async with started(bare, session, variables, log), started(wrapped, session, variables, log):
            for server in pair:
                await round_of(server, session)  # the first one warms up
                server.rates.clear()
                server.gaps.clear()
            for number in range(ROUNDS):
                print(f"round {number + 1} of {ROUNDS} ...", flush=True)
                for server in pair if number % 2 else reversed(pair):
                    await round_of(server, session)
            if wrapped.process is None:
                raise RuntimeError("the runtime has ended")
            report(bare, wrapped, resident_bytes(wrapped.process.pid))


def report(bare: Server, wrapped: Server, memory: int) -> None:
    rows: Sequence[tuple[str, Callable[[Server], list[float]], float]] = (
        ("requests per second", lambda server: server.rates, 1),
        ("time between tokens, ms", lambda server: server.gaps, 1000),
        ("start until it has answered, s", lambda server: server.starts, 1),
    )
    print(f"\n{'median of each':32}{bare.kind:>20}{wrapped.kind:>20}{'ratio':>8}")
    for name, values, unit in rows:
        theirs, ours = (statistics.median(values(server)) * unit for server in (bare, wrapped))
        print(f"{name:32}{theirs:20.2f}{ours:20.2f}{ours / theirs:8.3f}")
    added = statistics.median(wrapped.starts) - statistics.median(bare.starts)
    print(f"\nstart-up time added: {added:.2f} s (target 1 s)")
    print(f"memory of the runtime's own process: {memory / MEGABYTE:.1f} MB (PSS; target 60 MB)")


def main() -> int:
    with tempfile.TemporaryDirectory(prefix="gptservice-bench-") as folder:
        asyncio.run(measure(Path(folder)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
