"""Starts the operator: ``gptservice-operator``, in a pod or anywhere with a KUBECONFIG."""

import asyncio
import gc
import sys
import time
from collections.abc import Coroutine
from typing import Any

from . import config, logs, process
from .errors import OperatorError


def main() -> int:
    """Run until SIGTERM; return the exit code: 0 after a signal, 1 after a failure, 2 for bad settings."""
    started = time.monotonic()
    # What was imported stays. Each look of the collector at all of it would stop the passes for a tenth of a second.
    gc.freeze()
    try:
        settings = config.load()
    except config.ConfigError as error:
        sys.stderr.write(f"gptservice-operator: {error}\n")
        return 2
    logs.configure(settings.log_level, settings.log_format)
    try:
        _run_to_end(process.run(settings, started))
    except OperatorError as error:
        sys.stderr.write(f"gptservice-operator: {error}\n")
        return 1
    return 0


def _run_to_end(main: Coroutine[Any, Any, None]) -> None:
    """Run a coroutine; unlike ``asyncio.run``, leave the rest: kopf's requests outlive cancellation."""
    loop = asyncio.new_event_loop()
    asyncio.set_event_loop(loop)
    try:
        loop.run_until_complete(main)
    finally:
        loop.set_exception_handler(_say_nothing)


def _say_nothing(_loop: asyncio.AbstractEventLoop, _context: dict[str, Any]) -> None:
    """What was left behind is of no interest: the process ends."""


if __name__ == "__main__":
    sys.exit(main())
