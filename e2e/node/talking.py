"""Connections to a service that has just become Ready."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import aiohttp

from e2e import client
from e2e.kubectl import Kubectl
from e2e.reach import Reach

# kube-proxy writes a node's rules at most once a second, after the endpoints have changed.
# Hang detection, not a statement about speed.
_FOLLOWS_SECONDS = 60


@asynccontextmanager
async def connect(
    kubectl: Kubectl, reach: Reach, name: str, *, namespace: str, keep_alive: bool = True
) -> AsyncIterator[client.GPTClient]:
    """As `client.connect`, once connections to the Service are taken; TimeoutError when that does not come.

    Only before the first request: what is refused later is the caller's to judge.
    """
    async with client.connect(kubectl, reach, name, namespace=namespace, keep_alive=keep_alive) as chat:
        async with asyncio.timeout(_FOLLOWS_SECONDS):
            while not await _is_reached(chat):  # noqa: ASYNC110 - no event tells when kube-proxy has followed
                await asyncio.sleep(0.2)
        yield chat


async def _is_reached(chat: client.GPTClient) -> bool:
    try:
        return bool(await chat.models())
    except aiohttp.ClientConnectorError:
        return False
