"""Runs the real `gptservice-runtime serve` with the stand-in engine as real processes on free loopback ports."""

import asyncio
import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import aiohttp

ROOT = Path(__file__).resolve().parents[2]
STANDIN = ROOT / "e2e" / "standin" / "bin"
PACKAGE_PARENT = ROOT / "runtime-image"
WAIT_SECONDS = 40
"""Hang detection for anything that should happen soon; no statement about speed."""


def free_ports(count: int) -> list[int]:
    """Ports that were free a moment ago."""
    sockets = reserved_ports(count)
    ports = [each.getsockname()[1] for each in sockets]
    for each in sockets:
        each.close()
    return ports


def reserved_ports(count: int) -> list[socket.socket]:
    """Sockets whose ports nobody is given by chance until they are closed; a server that names one may listen on it."""
    sockets = [socket.socket() for _ in range(count)]
    for each in sockets:
        # Of two that are set so, and of which at most one listens, the system takes both.
        each.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        each.bind(("127.0.0.1", 0))
    return sockets


def make_model(folder: Path) -> Path:
    """A folder that looks like a model; the stand-in does not look inside."""
    folder.mkdir(parents=True)
    (folder / "config.json").write_text("{}")
    (folder / "model.safetensors").write_bytes(b"weights")
    return folder


def children(pid: int) -> list[int]:
    """Direct children, zombies included."""
    with suppress(FileNotFoundError):
        return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    return []


def state(pid: int) -> str | None:
    """The kernel's letter for the process (Z = zombie); None when it is gone."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except FileNotFoundError:
        return None


def blocks(pid: int, number: int) -> bool:
    """Whether the process holds that signal back."""
    try:
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    except FileNotFoundError:
        return False
    (mask,) = [line.split()[1] for line in lines if line.startswith("SigBlk:")]
    return bool(int(mask, 16) >> (number - 1) & 1)


async def until(condition: Any, what: str, seconds: float = WAIT_SECONDS) -> None:
    """Wait until the function returns something true; it may be a coroutine function."""
    deadline = time.monotonic() + seconds
    while True:
        result = condition()
        if asyncio.iscoroutine(result):
            result = await result
        if result:
            return
        assert time.monotonic() < deadline, f"waited {seconds} s for {what}"
        await asyncio.sleep(0.005)


class Runtime:
    """One started supervisor with its engine."""

    def __init__(self, folder: Path, session: aiohttp.ClientSession) -> None:
        self.folder = folder
        self.session = session
        # The engine listens seconds after this, while tests beside this one open servers.
        self._reserved = reserved_ports(2)
        self.engine_port, self.probe_port = (each.getsockname()[1] for each in self._reserved)
        self.termination_log = folder / "termination-log"
        self.limits_file = folder / "limits" / "limits.json"
        self.keys_directory = folder / "keys"
        self.tls_directory = folder / "tls"
        self.client_ca_directory = folder / "client-ca"
        self.scheme = "http"
        self.cache_root = folder / "cache"
        self.run_directory = folder / "run"
        self.model = folder / "model"
        self.process: subprocess.Popen[bytes] | None = None

    def start(
        self,
        *engine_arguments: str,
        options: Sequence[str] = (),
        environment: Mapping[str, str] | None = None,
        startup_timeout: int = 30,
        drain_timeout: int = 20,
        drain_gap: float = 0.2,
        names: Sequence[str] = ("main-name", "other-name"),
        prefix: Sequence[str] = (),
        python: str = sys.executable,
    ) -> None:
        """Start it; `prefix` is a command that runs the supervisor, `environment` comes on top of a clean one."""
        if not self.model.exists():
            make_model(self.model)
        command = [*prefix, python, "-m", "gptservice_runtime", "serve", "--model", str(self.model)]
        for name in names:
            command += ["--served-model-name", name]
        command += ["--startup-timeout", str(startup_timeout), "--drain-timeout", str(drain_timeout)]
        command += ["--drain-gap", str(drain_gap), "--termination-log", str(self.termination_log)]
        command += ["--engine-port", str(self.engine_port), "--probe-port", str(self.probe_port)]
        command += ["--cache-root", str(self.cache_root), "--limits-file", str(self.limits_file)]
        command += ["--run-directory", str(self.run_directory)]
        command += ["--keys-directory", str(self.keys_directory), "--tls-directory", str(self.tls_directory)]
        command += ["--client-ca-directory", str(self.client_ca_directory), *options]
        path = f"{STANDIN}:{Path(python).parent}:/usr/bin:/bin"
        clean = {"PATH": path, "PYTHONPATH": str(PACKAGE_PARENT)}
        with (self.folder / "stdout").open("wb") as out, (self.folder / "stderr").open("wb") as err:
            self.process = subprocess.Popen(
                [*command, "--", *engine_arguments],
                env={**clean, **(environment or {})},
                stdout=out,
                stderr=err,
            )

    @property
    def pid(self) -> int:
        assert self.process is not None, "not started"
        return self.process.pid

    @property
    def stdout(self) -> str:
        return (self.folder / "stdout").read_text()

    @property
    def stderr(self) -> str:
        return (self.folder / "stderr").read_text()

    async def engine_pid(self) -> int:
        """The engine's first process, once it is there."""
        await until(lambda: children(self.pid), "the engine's process")
        return children(self.pid)[0]

    async def probe(self, path: str = "/readyz") -> tuple[int, dict[str, Any]]:
        """Status and body; (0, {}) while nothing listens."""
        try:
            async with self.session.get(f"http://127.0.0.1:{self.probe_port}{path}") as response:
                return response.status, await response.json()
        except aiohttp.ClientError:
            return 0, {}

    async def ready(self, seconds: float = WAIT_SECONDS) -> None:
        """Wait for 200; fails at once when the process ends."""

        async def condition() -> bool:
            assert self.exit_code() is None, f"ended before it was ready: {self.stderr}"
            return (await self.probe())[0] == 200

        await until(condition, "readiness", seconds)

    def exit_code(self) -> int | None:
        assert self.process is not None, "not started"
        return self.process.poll()

    async def ended(self) -> int:
        """Wait for the supervisor's end; its exit code."""
        await until(lambda: self.exit_code() is not None, "the supervisor's end")
        code = self.exit_code()
        assert code is not None
        return code

    def signal(self, number: int) -> None:
        os.kill(self.pid, number)

    def message(self) -> dict[str, Any]:
        """The termination message."""
        return json.loads(self.termination_log.read_bytes())

    def url(self, path: str) -> str:
        return f"{self.scheme}://127.0.0.1:{self.engine_port}{path}"

    async def complete(self, **body: Any) -> tuple[int, dict[str, Any]]:
        """One completion: status and body."""
        request = {"model": "main-name", "prompt": "hello", **body}
        async with self.session.post(self.url("/v1/completions"), json=request) as response:
            return response.status, await response.json()

    async def stream(self, tokens: int, milliseconds: int, started: asyncio.Event | None = None) -> list[str]:
        """One streamed chat; the data of its events."""
        request = {
            "model": "other-name",
            "stream": True,
            "messages": [{"role": "user", "content": "hello"}],
            "standin": {"tokens": tokens, "token_milliseconds": milliseconds},
        }
        events: list[str] = []
        async with self.session.post(self.url("/v1/chat/completions"), json=request) as response:
            assert response.status == 200, await response.text()
            async for line in response.content:
                if line.startswith(b"data: "):
                    events.append(line[6:].decode().strip())
                if events and started is not None:
                    started.set()
        return events

    def kill(self) -> None:
        """Leave nothing behind."""
        for each in self._reserved:
            each.close()
        if self.process is None:
            return
        for engine in children(self.pid):
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(engine, signal.SIGKILL)
        with suppress(ProcessLookupError):
            self.process.kill()
        self.process.wait()
