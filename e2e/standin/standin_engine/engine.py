"""State of the stand-in's API server, and how it dies."""

import asyncio
import contextlib
import itertools
import os
import signal
import sys
from collections.abc import Iterator
from typing import NoReturn

from . import behaviour, metrics
from .arguments import Arguments
from .core import Core


class Engine:
    """State of the process: what it was asked to do and how many requests it has answered."""

    def __init__(self, arguments: Arguments, told: behaviour.Behaviour, core: Core) -> None:
        self.arguments = arguments
        self.told = told
        self.core = core
        self.answered = 0
        self.steps = 0
        """Of prompts being read."""
        self.tokens = 0
        self.draining = False
        self.idle = asyncio.Event()
        """Set while nothing is being generated."""
        self.idle.set()
        self._running = 0
        self._waiting = 0
        self._ids = itertools.count(1)

    def next_id(self, prefix: str) -> str:
        """Identifier of one answer."""
        return f"{prefix}-standin-{next(self._ids)}"

    @contextlib.contextmanager
    def running(self) -> Iterator[None]:
        """One request is being generated."""
        self._running += 1
        self.idle.clear()
        try:
            yield
        finally:
            self._running -= 1
            if self._running == 0:
                self.idle.set()

    @contextlib.contextmanager
    def waiting(self) -> Iterator[None]:
        """One request has come and is not being generated yet."""
        self._waiting += 1
        try:
            yield
        finally:
            self._waiting -= 1

    def metrics(self) -> str:
        """Text of `/metrics`."""
        return metrics.text(
            self.arguments.served_model_names[0],
            running=self._running,
            waiting=self._waiting,
            steps=self.steps,
            tokens=self.tokens,
        )

    def finished(self) -> None:
        """One generation request was answered."""
        self.answered += 1
        if self.answered == self.told.crash_after_requests:
            die(self.told)

    @property
    def hangs(self) -> bool:
        """Whether requests are no longer answered."""
        return 0 < self.told.hang_after_requests <= self.answered


def die(told: behaviour.Behaviour) -> NoReturn:
    """End the process at once, as a crash would."""
    if told.last_words:
        print(told.last_words, file=sys.stderr, flush=True)
    if told.crash_exit_code < 0:
        os.kill(os.getpid(), -told.crash_exit_code)
        signal.pause()
    os._exit(told.crash_exit_code)
