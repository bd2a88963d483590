"""Follows one object through `kubectl get --watch`."""

import asyncio
import json
from collections.abc import AsyncGenerator, Iterable, Iterator
from contextlib import aclosing

from e2e.kubectl import Kubectl, Object

RETRY_SECONDS = 1.0


async def states(kubectl: Kubectl, kind: str, name: str, *, namespace: str) -> AsyncGenerator[Object]:
    """Yields the object as it is now and after every change, for ever: a watch that ends is begun again."""
    while True:
        async with aclosing(_one_watch(kubectl, kind, name, namespace)) as watch:
            async for state in watch:
                yield state
        await asyncio.sleep(RETRY_SECONDS)


async def _one_watch(kubectl: Kubectl, kind: str, name: str, namespace: str) -> AsyncGenerator[Object]:
    process = await asyncio.create_subprocess_exec(
        *kubectl.command("get", kind, name, "--namespace", namespace, "--watch", "-o", "json"),
        env=kubectl.environment(),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.DEVNULL,
        # A Ctrl-C is for us, who end the child.
        start_new_session=True,
    )
    try:
        buffer: list[str] = []
        while process.stdout and (line := await process.stdout.readline()):
            buffer.append(line.decode())
            for state in take_documents(buffer):
                yield state
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()


def take_documents(buffer: list[str]) -> Iterator[Object]:
    """Takes the complete documents out of lines of kubectl's indented JSON; each ends with a bare `}`."""
    while (end := _end(buffer)) is not None:
        text = "".join(buffer[: end + 1])
        del buffer[: end + 1]
        yield json.loads(text)


def _end(lines: Iterable[str]) -> int | None:
    return next((number for number, line in enumerate(lines) if line.rstrip("\n") == "}"), None)
