"""The engine as a child process: started in its own process group, its output passed on, its end noticed."""

import asyncio
import contextlib
import ctypes
import os
import re
import shutil
import signal
import threading
import time
from collections.abc import Callable, Mapping

from gptservice_runtime import contract
from gptservice_runtime.failures import EngineExit

_CHUNK = 65536
_TAIL_BYTES = 65536
_PR_SET_CHILD_SUBREAPER = 36
_TERMINAL_CONTROL = re.compile(contract.TERMINAL_CONTROL)


class OutputTail:
    """The last bytes of what the engine wrote, from both of its streams."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._kept = bytearray()

    def add(self, chunk: bytes) -> None:
        """Keep the chunk, forget what is older than _TAIL_BYTES."""
        with self._lock:
            self._kept += chunk
            del self._kept[:-_TAIL_BYTES]

    def text(self) -> str:
        """What is kept, without colours and the like; the first line may be cut."""
        with self._lock:
            kept = self._kept.decode(errors="replace")
        return _TERMINAL_CONTROL.sub("", kept)


class Child:
    """One started engine."""

    def __init__(self, pid: int, ended: asyncio.Future[EngineExit], tail: OutputTail) -> None:
        self.pid = pid
        self.ended = ended
        """Done once the process has been reaped."""
        self.tail = tail
        self._pumps: list[threading.Thread] = []

    def pump(self, source: int, destination: int) -> None:
        """Pass all that is read on to `destination`, in a thread: a full container log may block it."""
        thread = threading.Thread(target=_pump, args=(source, destination, self.tail), daemon=True)
        self._pumps.append(thread)
        thread.start()

    def terminate(self) -> None:
        """SIGTERM to the engine's first process only: it ends its workers when the streams are finished."""
        with contextlib.suppress(ProcessLookupError):
            if not self.ended.done():
                os.kill(self.pid, signal.SIGTERM)

    def kill_group(self) -> None:
        """SIGKILL to whatever is left of the engine's process group."""
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self.pid, signal.SIGKILL)

    def drain_output(self, timeout: float) -> None:
        """Wait until all output has been passed on; for `timeout` s if a process holds the pipe open."""
        deadline = time.monotonic() + timeout
        for thread in self._pumps:
            thread.join(max(0.0, deadline - time.monotonic()))


def _pump(source: int, destination: int, tail: OutputTail) -> None:
    with contextlib.suppress(OSError):
        while chunk := os.read(source, _CHUNK):
            tail.add(chunk)
            # A container log that cannot be written any more must not stop the engine at a full pipe.
            with contextlib.suppress(OSError):
                _write_all(destination, chunk)
    os.close(source)


def _write_all(destination: int, chunk: bytes) -> None:
    view = memoryview(chunk)
    while view:
        view = view[os.write(destination, view) :]


class Reaper:
    """Reaps every child, those inherited as PID 1 too, and tells who waits for one of them."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._waiting: dict[int, Callable[[EngineExit], None]] = {}
        # Where PID 1 is the pod's (shareProcessNamespace), orphans of the engine still come to us.
        ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
        loop.add_signal_handler(signal.SIGCHLD, self._reap)

    def on_end(self, pid: int, notify: Callable[[EngineExit], None]) -> None:
        """Call `notify` once that child has been reaped; call it in the loop's turn that started it."""
        self._waiting[pid] = notify

    def _reap(self) -> None:
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if pid == 0:
                return
            if (notify := self._waiting.pop(pid, None)) is not None:
                notify(EngineExit.from_wait_status(status))


def start(argv: list[str], environment: Mapping[str, str], reaper: Reaper) -> Child:
    """Start the program on the environment's PATH; FileNotFoundError when there is none."""
    executable = shutil.which(argv[0], path=environment.get("PATH", os.defpath))
    if executable is None:
        raise FileNotFoundError(argv[0])
    out_read, out_write = os.pipe()
    err_read, err_write = os.pipe()
    try:
        pid = os.posix_spawn(
            executable,
            argv,
            environment,
            file_actions=[(os.POSIX_SPAWN_DUP2, out_write, 1), (os.POSIX_SPAWN_DUP2, err_write, 2)],
            setpgroup=0,
            setsigmask=[],
            setsigdef=[signal.SIGPIPE, signal.SIGXFSZ],  # Python ignores them, and ignoring is inherited.
        )
    finally:
        os.close(out_write)
        os.close(err_write)
    child = Child(pid, asyncio.get_running_loop().create_future(), OutputTail())
    reaper.on_end(pid, child.ended.set_result)
    child.pump(out_read, 1)
    child.pump(err_read, 2)
    return child
