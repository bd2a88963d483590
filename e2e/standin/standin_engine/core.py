"""The stand-in's engine core: a process of its own, as vLLM's is, without which the API server cannot take a step."""

import asyncio
import ctypes
import os
import socket
import struct
import time

_NAME = b"VLLM::EngineCore"
_PR_SET_NAME = 15
_STEP = struct.Struct("<QQ")
"""Number of the step, and the milliseconds that it takes; sent back when it has been taken."""


class CoreDiedError(Exception):
    """The core's process has ended."""


class Core:
    """The API server's side of it. What vLLM calls the engine client, as far as the runtime uses that."""

    def __init__(self) -> None:
        """Start the process; before there is an event loop or a thread."""
        self._ours, theirs = socket.socketpair()
        self._pid = os.fork()
        if self._pid == 0:
            self._ours.close()
            _run(theirs)
        theirs.close()
        self._taken = 0
        self._waiting: dict[int, asyncio.Future[None]] = {}
        self._writer: asyncio.StreamWriter | None = None
        self.died = asyncio.Event()

    async def connect(self) -> asyncio.StreamReader:
        """Before the first step; `serve` needs what it returns."""
        reader, self._writer = await asyncio.open_connection(sock=self._ours)
        return reader

    async def serve(self, reader: asyncio.StreamReader) -> None:
        """Pass on what the core says, until it ends."""
        try:
            while True:
                number, _ = _STEP.unpack(await reader.readexactly(_STEP.size))
                if (future := self._waiting.pop(number, None)) is not None and not future.done():
                    future.set_result(None)
        except (asyncio.IncompleteReadError, ConnectionError):
            await asyncio.to_thread(os.waitpid, self._pid, 0)
            self.died.set()
            for future in self._waiting.values():
                if not future.done():
                    future.set_exception(CoreDiedError("the engine core has died"))

    async def step(self, milliseconds: int = 0) -> None:
        """One step, which the core does not share with others; CoreDiedError."""
        if self.died.is_set() or self._writer is None:
            raise CoreDiedError("the engine core has died")
        self._taken += 1
        future = self._waiting[self._taken] = asyncio.get_running_loop().create_future()
        self._writer.write(_STEP.pack(self._taken, milliseconds))
        await future

    async def is_sleeping(self) -> bool:
        """As in vLLM, a call that the core itself has to answer."""
        await self.step()
        return False


def _run(steps: socket.socket) -> None:
    """The core's whole life; never returns."""
    ctypes.CDLL(None).prctl(_PR_SET_NAME, _NAME, 0, 0, 0)
    try:
        while len(message := steps.recv(_STEP.size, socket.MSG_WAITALL)) == _STEP.size:
            _, milliseconds = _STEP.unpack(message)
            time.sleep(milliseconds / 1000)
            steps.sendall(message)
    finally:
        os._exit(0)
