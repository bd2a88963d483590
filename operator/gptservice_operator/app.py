"""The process: its parts, who feeds whom, and its tasks."""

import asyncio
import contextlib
import datetime
import logging
import random
import socket
import time
import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from . import __version__, extract, health, leader, metrics, web
from .access import Access
from .api import kinds
from .api.body import section
from .cluster import Cluster
from .config import Config
from .debug import DebugPages
from .discovery import Discovery
from .errors import OperatorError
from .extract import Entry, Key
from .journal import Journal
from .listing import Listing
from .login import Tracing
from .passes import build_queue
from .queue import Queue
from .reconcile import Reconciler
from .scope import Collection, Scope
from .skew import Skew
from .store import Store
from .watches import Hooks, watch

logger = logging.getLogger(__name__)

END_SECONDS = 1.0
"""How long to wait for tasks that were told to end."""


@dataclass(slots=True)
class App:
    """The parts of a running operator."""

    config: Config
    store: Store
    queue: Queue
    listing: Listing
    access: Access
    cluster: Cluster
    skew: Skew
    discovery: Discovery
    debug: DebugPages
    election: leader.Election | None = None
    """None where there is but one replica."""
    filled: bool = False
    working: bool = False
    """Whether this replica runs passes: its store is filled, and it leads."""
    asked: dict[Collection, float] = field(default_factory=dict[Collection, float])
    """When each watch was last asked for, in monotonic time."""

    def changed(self, kind: kinds.Kind, entry: Entry) -> None:
        """Wake the services that an object's change concerns."""
        if not self.working:
            return
        urgent = kind is kinds.GPT_SERVICE
        concerned = self.store.users_of(entry.key[2]) if kind is kinds.GPT_MODEL else [entry.owner]
        for key in concerned:
            if key is not None:
                self.queue.wake(key, urgent=urgent and self._is_edited(key))

    def _is_edited(self, key: Key) -> bool:
        """Whether the spec is newer than the last report on it; our own status writes are not edits."""
        service = self.store.service(key)
        if service is None:
            return False
        observed = section(service, "status").get("observedGeneration")
        return bool(observed != service["metadata"].get("generation"))

    def on_event(self, kind: kinds.Kind, event: Mapping[str, Any]) -> None:
        """Take one event of a watch into the store. No API call; it cannot fail for a well-formed event."""
        entry = extract.entry(kind, event["object"])
        before = self.store.get(entry.key)
        news = self.store.remove(entry) if event["type"] == "DELETED" else self.store.put(entry)
        if news:
            self.changed(kind, entry)
            if before is not None and before.owner != entry.owner:
                self.changed(kind, before)

    def wake_all(self, namespace: str | None = None) -> None:
        """Have every service looked at, or those in one namespace."""
        if self.working:
            for key in self.store.services(namespace):
                self.queue.wake(key)

    def on_listed(self, one: Collection) -> None:
        """Have a kind read after its watch began; an optional one may have come to the cluster just now."""
        self.listing.request_one(one)
        has_begun = not self.access.is_refused(one)  # Else kopf asks in vain, every few seconds.
        if has_begun and one.kind is kinds.GPT_SERVICE:
            # A watch begins anew after an outage.
            self.queue.try_again()
        if has_begun and one.kind in kinds.OPTIONAL:
            self.discovery.request()

    def on_asked(self, one: Collection) -> None:
        """Take note that a watch lives."""
        self.asked[one] = time.monotonic()

    def on_opened(self, namespace: str) -> None:
        """Look at the services of a namespace that may be read again; its watches have their time to begin."""
        self.asked |= dict.fromkeys([one for one in self.asked if one.namespace == namespace], time.monotonic())
        self.wake_all(namespace)

    async def run(self, started: float) -> None:
        """Fill the store, wait for the Lease, then run passes and resyncs until cancelled.

        Raises:
            leader.LostError: another replica leads now.
        """
        self.asked = dict.fromkeys(self.access.scope.collections(), started)
        async with asyncio.TaskGroup() as group:
            await self._ask_what_is_served()
            group.create_task(self.listing.run())
            group.create_task(self.discovery.run(self.cluster, self.wake_all))
            for kind in kinds.OPTIONAL:
                # No watch will ask for a kind that is not there.
                self.listing.request(kind)
            await self.listing.filled()
            self._report_filled(time.monotonic() - started)
            group.create_task(self._resync())
            if self.election is not None:
                await self.election.win()
                group.create_task(self.election.hold())
            self.working = True
            metrics.LEADER.set(1)
            self.wake_all()
            group.create_task(self.queue.run())

    def _report_filled(self, seconds: float) -> None:
        self.filled = True
        metrics.STORE_FILLED.set(seconds)
        logger.info("store filled: %d services, %.2f s after the start", len(self.store.services()), seconds)

    async def _ask_what_is_served(self) -> None:
        await self.skew.refresh(self.cluster)
        await self.discovery.refresh(self.cluster)

    async def _resync(self) -> None:
        while True:
            await asyncio.sleep(self.config.resync_seconds * random.uniform(0.9, 1.1))  # noqa: S311  # jitter
            await self._ask_what_is_served()
            for kind in self.access.scope.watched:
                self.listing.request(kind)
            self.wake_all()

    def problems(self) -> list[str]:
        """Return why the process has to be started again."""
        now = time.monotonic()
        refused = self.access.refused()
        signs = health.Signs(
            now=now,
            # An optional kind is watched where the API server has it; to be started again grants no right.
            asked={
                one.path: at
                for one, at in self.asked.items()
                if self.discovery.has(one.kind) and one.namespace not in refused
            },
            overdue=self.queue.overdue(),
            since_progress=now - self.queue.last_progress,
            longest_pass=self.queue.longest_pass(),
            behind=self.listing.behind(),
        )
        return health.problems(signs)

    def measure(self) -> None:
        """Set the metrics that say how it is at the moment."""
        metrics.QUEUE_LENGTH.set(self.queue.length())
        metrics.QUEUE_AGE.set(self.queue.overdue())

    def not_ready(self) -> str:
        """Return why the process is not ready; one that waits for the Lease is, to take over at once."""
        return self.access.missing() or ("" if self.filled else "the first lists of all kinds")


def build_app(config: Config, cluster: Cluster, election: leader.Election | None = None) -> App:
    """Put the parts together."""
    store, skew, discovery, journal = Store(), Skew(), Discovery(), Journal()
    reconciler = Reconciler(
        store, cluster, config, now=lambda: datetime.datetime.now(datetime.UTC), skew=skew, discovery=discovery
    )
    app: App
    access = Access(Scope(config.namespaces, config.catalogue), lambda namespace: app.on_opened(namespace))
    queue = build_queue(config, reconciler, store, journal, access.may_look)
    listing = Listing(store, cluster, lambda kind, entry: app.changed(kind, entry), access)
    debug = DebugPages(store, queue, journal, reconciler.contests, access)
    app = App(config, store, queue, listing, access, cluster, skew, discovery, debug, election)
    return app


async def run(config: Config, started: float) -> None:
    """Run the operator until a signal ends it.

    Raises:
        OperatorError: the watches ended by themselves, without which the operator would be deaf; or the Lease is lost.
    """
    asyncio.get_running_loop().set_exception_handler(_on_loop_error)
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
        await _run_tasks(app, started)


async def _run_tasks(app: App, started: float) -> None:
    tracing = Tracing(
        scope=app.access.scope,
        listed=app.on_listed,
        began=app.listing.allow_watch,
        asked=app.on_asked,
        refused=app.listing.refuse_watch,
        on_scan=app.discovery.on_scan,
    )
    hooks = Hooks(on_event=app.on_event, tracing=tracing)
    tasks = [
        asyncio.create_task(watch(app.config, hooks), name="watches"),
        asyncio.create_task(app.run(started), name="passes"),
        asyncio.create_task(hooks.signalled.wait(), name="signal"),
        asyncio.create_task(hooks.ending.wait(), name="watches ending"),
    ]
    try:
        done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        for task in done:
            _raise_from(task)
    finally:
        await _end(tasks)
        if app.election is not None:
            await app.election.give_back()
    if not hooks.signalled.is_set():
        raise OperatorError("the watches ended by themselves; see the lines above. Ending, to be started again")


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
