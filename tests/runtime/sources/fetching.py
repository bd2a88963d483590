"""Runs the real `gptservice-runtime fetch` as a process, as a pod's init container does."""

import asyncio
import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from e2e.hub.server import Hub
from gptservice_runtime import contract, digest, selection
from tests.runtime.harness import PACKAGE_PARENT, free_ports

URI = "hf://org/name"
STALL = "0.5"
PAUSE = "0.01"
PATIENT = ("--stall", "20")
"""Options where bytes are counted: a server that a busy machine lets wait would be asked for some of them again."""


@dataclass
class Outcome:
    """How a fetch ended."""

    code: int
    message: dict[str, Any]
    log: str


@dataclass
class Pod:
    """One pod's view: its own link and log, a cache that it may share."""

    folder: Path
    hub: Hub | None
    cache: Path
    name: str = "pod"
    options: Sequence[str] = ()
    uri: str = URI
    prefix: Sequence[str] = ()
    environment: Mapping[str, str] = field(default_factory=dict)
    port: int = field(default_factory=lambda: free_ports(1)[0])
    process: asyncio.subprocess.Process | None = field(default=None, init=False)

    @property
    def link(self) -> Path:
        return self.folder / f"{self.name}-model"

    @property
    def _termination_log(self) -> Path:
        return self.folder / f"{self.name}-termination-log"

    async def start(self) -> None:
        self._termination_log.unlink(missing_ok=True)
        self.cache.mkdir(exist_ok=True)
        self.process = await asyncio.create_subprocess_exec(
            *(*self.prefix, sys.executable, "-m", "gptservice_runtime", "fetch", "--uri", self.uri),
            *("--cache-root", str(self.cache), "--link", str(self.link), "--stall", STALL, "--pause", PAUSE),
            *("--token-directory", str(self.folder / "token"), "--termination-log", str(self._termination_log)),
            *("--credentials-directory", str(self.folder / f"{self.name}-credentials")),
            *("--probe-port", str(self.port), *self.options),
            env={**self._endpoint, "PATH": "/usr/bin:/bin", "PYTHONPATH": str(PACKAGE_PARENT), **self.environment},
            stdout=asyncio.subprocess.DEVNULL,
            stderr=asyncio.subprocess.PIPE,
        )

    async def ended(self) -> Outcome:
        assert self.process is not None
        _, log = await self.process.communicate()
        assert self.process.returncode is not None
        message = json.loads(self._termination_log.read_bytes()) if self._termination_log.exists() else {}
        return Outcome(self.process.returncode, message, log.decode())

    async def fetch(self) -> Outcome:
        await self.start()
        return await self.ended()

    @property
    def _endpoint(self) -> dict[str, str]:
        return {} if self.hub is None else {"HF_ENDPOINT": self.hub.endpoint}

    def give_credentials(self, secret: Mapping[str, str]) -> None:
        """Mount a Secret, as the kubelet does."""
        for key, value in secret.items():
            folder = self.folder / f"{self.name}-credentials"
            folder.mkdir(exist_ok=True)
            (folder / key).write_text(value)

    def give_token(self, text: str, key: str = "token") -> None:
        (self.folder / "token").mkdir(exist_ok=True)
        (self.folder / "token" / key).write_text(text)


def size_of(model: Path) -> int:
    names = [path.relative_to(model).as_posix() for path in model.rglob("*") if path.is_file()]
    return sum((model / name).stat().st_size for name in selection.needed(names))


def assert_model(outcome: Outcome, pod: Pod, model: Path) -> None:
    """Reported, linked, and byte for byte what was put there."""
    assert outcome.code == contract.EXIT_OK, outcome.log
    root = pod.link.resolve()
    names = {path.relative_to(root).as_posix() for path in root.rglob("*") if path.is_file()}
    assert len(names) == 5
    for name in names:
        assert (pod.link / name).read_bytes() == (model / name).read_bytes(), name
    assert outcome.message["digest"] == digest.of_path(model)
    assert outcome.message["bytes"] == size_of(model)
