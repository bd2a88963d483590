"""The process: what it serves and connects to, its tasks, and how they end."""

import asyncio
import contextlib
import datetime
import signal
import socket
import time
import uuid
from typing import Any

from . import __version__, leader, web
from .app import App, build_app
from .cluster import Cluster
from .config import Config
from .errors import OperatorError
from .login import Tracing
from .watches import Hooks, watch

END_SECONDS = 1.0
"""How long to wait for tasks that were told to end."""


async def run(config: Config, started: float) -> None:
    """Run the operator until a signal ends it.

    Raises:
        OperatorError: the watches ended by themselves, without which the operator would be deaf; or the Lease is lost.
    """
    asyncio.get_running_loop().set_exception_handler(_on_loop_error)
    signalled = asyncio.Event()
    _take_signals(signalled)
    async with contextlib.AsyncExitStack() as stack:
        election = await _election(config, stack)
        cluster = await Cluster.connect(
            user_agent=f"gptservice-operator/{__version__}",
            request_timeout=config.request_timeout_seconds,
            may_write=election.leads if election is not None else lambda: True,
        )
        stack.push_async_callback(cluster.close)
        app = build_app(config, cluster, election)
        await _serve_pages(app, stack)
        await _run_tasks(app, started, signalled)


async def _run_tasks(app: App, started: float, signalled: asyncio.Event) -> None:
    """Run until a signal, whatever else happens with it, or until a task ends."""
    tracing = Tracing(
        scope=app.access.scope,
        event=lambda one, event: app.on_event(one.kind, event),
        listed=app.on_listed,
        began=app.listing.allow_watch,
        asked=app.on_asked,
        refused=app.listing.refuse_watch,
        on_scan=app.discovery.on_scan,
    )
    hooks = Hooks(tracing=tracing, spawned=lambda: _take_signals(signalled))
    tasks = [
        asyncio.create_task(watch(app.config, hooks), name="watches"),
        asyncio.create_task(app.run(started), name="passes"),
        asyncio.create_task(signalled.wait(), name="signal"),
        asyncio.create_task(hooks.ending.wait(), name="watches ending"),
    ]
    try:
        done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        if signalled.is_set():
            return
        for task in done:
            _raise_from(task)
        raise OperatorError("the watches ended by themselves; see the lines above. Ending, to be started again")
    finally:
        await _end(tasks)
        if app.election is not None:
            await app.election.give_back()


def _take_signals(signalled: asyncio.Event) -> None:
    """Have SIGTERM and SIGINT end the passes first."""
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, signalled.set)


def _raise_from(task: asyncio.Task[Any]) -> None:
    """Raise what a task ended with; a lost Lease as what it is, and not as one of a group."""
    try:
        task.result()
    except* leader.LostError as group:
        raise group.exceptions[0] from None


async def _election(config: Config, stack: contextlib.AsyncExitStack) -> leader.Election | None:
    if not config.lease_seconds:
        return None
    agent = f"gptservice-operator-lease/{__version__}"
    timeout = leader.request_seconds(config.lease_seconds)
    connection = await Cluster.connect(user_agent=agent, request_timeout=timeout)
    stack.push_async_callback(connection.close)
    return leader.Election(
        cluster=connection,
        namespace=config.namespace,
        identity=f"{config.pod_name or socket.gethostname()}_{config.pod_uid or uuid.uuid4()}",
        seconds=config.lease_seconds,
        clock=time.monotonic,
        now=lambda: datetime.datetime.now(datetime.UTC),
    )


async def _serve_pages(app: App, stack: contextlib.AsyncExitStack) -> None:
    pages = web.Pages(
        problems=app.problems,
        not_ready=app.not_ready,
        refused=app.access.refused,
        measure=app.measure,
        overview=app.debug.overview,
        one=app.debug.one,
    )
    await stack.enter_async_context(web.serving(web.probes(pages), web.EVERYWHERE, app.config.health_port))
    await stack.enter_async_context(web.serving(web.metrics(pages), web.EVERYWHERE, app.config.metrics_port))
    await stack.enter_async_context(web.serving(web.debug(pages), web.LOOPBACK, app.config.debug_port))


def _on_loop_error(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
    """Report what no task did, but for kopf's watch generators: it leaves them to the loop, which cannot close them."""
    if "asyncgen" not in context:
        loop.default_exception_handler(context)


async def _end(tasks: list[asyncio.Task[Any]]) -> None:
    """Cancel everything, within bounds: kopf forgets to close some watch generators and waits long for the rest."""
    for task in tasks:
        task.cancel()
    await asyncio.wait(tasks, timeout=END_SECONDS)
