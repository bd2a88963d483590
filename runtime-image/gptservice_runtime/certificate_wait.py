"""Waiting for a certificate that can be served."""

import asyncio
import logging
from collections.abc import Callable

from gptservice_runtime import contract, tls
from gptservice_runtime.waiting import first

_log = logging.getLogger(__name__)


async def until_usable(
    directories: tls.Directories, stop: asyncio.Event, deadline: float, tell: Callable[[str], None]
) -> bool:
    """Whether there is one; False when `stop` came first. Without one vLLM would end, after it has loaded the model.

    Args:
        directories: where it has to be.
        stop: ends the waiting.
        deadline: of the loop's clock; after it, UnusableCertificateError.
        tell: called with what is wrong, and with "" in the end.
    """
    problem = ""
    while not stop.is_set():
        try:
            tls.usable(directories)
        except tls.UnusableCertificateError as error:
            if asyncio.get_running_loop().time() >= deadline:
                raise
            if str(error) != problem:
                _log.warning("not ready: %s", error)
            problem = str(error)
            tell(problem)
        else:
            tell("")
            return True
        await first(stop.wait(), within=contract.TLS_POLL_SECONDS)
    return False
