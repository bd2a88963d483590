"""The wiring: which watch feeds what, and the tasks of the process. Only this module and ``watches`` import kopf."""

import asyncio
import datetime
import logging
import random
import signal
import time
from collections.abc import Callable, Coroutine, Mapping
from dataclasses import dataclass
from typing import Any, cast

import kopf
import prometheus_client

from . import __version__, extract, metrics, names
from .api import kinds
from .api.body import section
from .cluster import Cluster
from .config import Config
from .discovery import Discovery
from .errors import OperatorError, Transient
from .extract import Entry, Key
from .listing import Listing
from .queue import Queue
from .reconcile import Reconciler
from .skew import Skew
from .store import Store
from .watches import login_traced

logger = logging.getLogger(__name__)

END_SECONDS = 1.0
"""How long to wait for tasks that were told to end."""

STUCK_SECONDS = 300.0
"""A pass that has been due for so long means that the queue does not move; the liveness probe then fails."""


@dataclass(slots=True)
class App:
    """The parts of a running operator."""

    config: Config
    store: Store
    queue: Queue
    listing: Listing
    cluster: Cluster
    skew: Skew
    discovery: Discovery
    filled: bool = False

    def changed(self, kind: kinds.Kind, entry: Entry) -> None:
        """Wake the services that an object's change concerns."""
        if not self.filled:
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

    def wake_all(self) -> None:
        """Have every service looked at."""
        for key in self.store.services():
            self.queue.wake(key)

    def on_watch_begun(self, kind: kinds.Kind) -> None:
        """Have a kind read after its watch began; an optional one may have come to the cluster just now."""
        self.listing.request(kind)
        if kind in kinds.OPTIONAL:
            self.discovery.request()

    async def _ask_what_is_served(self) -> None:
        await self.skew.refresh(self.cluster)
        await self.discovery.refresh(self.cluster)

    async def run(self, started: float) -> None:
        """Fill the store, then run passes and resyncs until cancelled."""
        async with asyncio.TaskGroup() as group:
            await self._ask_what_is_served()
            group.create_task(self.listing.run())
            group.create_task(self.discovery.run(self.cluster, self.wake_all))
            for kind in kinds.OPTIONAL:
                # No watch will ask for a kind that is not there.
                self.listing.request(kind)
            await self.listing.filled()
            self._report_filled(time.monotonic() - started)
            self.wake_all()
            group.create_task(self.queue.run())
            group.create_task(self._resync())

    def _report_filled(self, seconds: float) -> None:
        self.filled = True
        metrics.STORE_FILLED.set(seconds)
        logger.info("store filled: %d services, %.2f s after the start", len(self.store.services()), seconds)

    async def _resync(self) -> None:
        while True:
            await asyncio.sleep(self.config.resync_seconds * random.uniform(0.9, 1.1))  # noqa: S311  # jitter
            await self._ask_what_is_served()
            for kind in kinds.WATCHED:
                self.listing.request(kind)
            self.wake_all()


def build_app(config: Config, cluster: Cluster) -> App:
    """Put the parts together."""
    store = Store()
    skew, discovery = Skew(), Discovery()
    reconciler = Reconciler(
        store, cluster, config, now=lambda: datetime.datetime.now(datetime.UTC), skew=skew, discovery=discovery
    )

    async def run_pass(key: Key) -> float | None:
        with metrics.PASS_SECONDS.time():
            again = await _counted(reconciler, key)
        if store.service(key) is None:
            queue.forget(key)
        return again

    queue = Queue(
        run_pass=run_pass,
        clock=time.monotonic,
        workers=config.workers,
        backoff_base=config.backoff_base_seconds,
        backoff_max=config.backoff_max_seconds,
        interval=config.status_interval_seconds,
        retry_after=lambda error: error.retry_after if isinstance(error, Transient) else None,
    )
    app: App
    listing = Listing(store, cluster, changed=lambda kind, entry: app.changed(kind, entry))
    app = App(config, store, queue, listing, cluster, skew, discovery)
    return app


async def _counted(reconciler: Reconciler, key: Key) -> float | None:
    outcome = "error"
    try:
        again = await reconciler.reconcile(key)
        outcome = "ok"
        return again
    except OperatorError as error:
        outcome = type(error).__name__.lower()
        raise
    except Exception:
        logger.exception("%s/%s: a fault of the operator itself; please report it", *key)
        raise
    finally:
        metrics.PASSES.labels(outcome).inc()
        metrics.LAST_PASS.set_to_current_time()


def build_registry(app: App) -> kopf.OperatorRegistry:
    """Return the table of watches: every kind feeds the store, and nothing else happens in a handler."""
    registry = kopf.OperatorRegistry()

    async def login(**kwargs: Any) -> kopf.AiohttpSession | None:
        return login_traced(app.on_watch_begun, app.discovery.on_scan, **kwargs)

    kopf.on.login(registry=registry)(login)
    for kind in kinds.WATCHED:
        group, _, version = kind.api_version.rpartition("/")

        async def on_event(event: Any, kind: kinds.Kind = kind, **_: Any) -> None:
            app.on_event(kind, event)

        kopf.on.event(group, version, kind.plural, id=f"on_{kind.plural}", registry=registry)(on_event)

    async def overdue_seconds(**_: Any) -> float:
        waited = app.queue.overdue()
        if waited > STUCK_SECONDS:
            raise RuntimeError(f"a pass has been due for {waited:.0f} s")
        return round(waited, 1)

    # Not retried, or the probe's own request would wait for the retries.
    kopf.on.probe(id="overdue_seconds", errors=kopf.ErrorsMode.PERMANENT, registry=registry)(overdue_seconds)
    return registry


def build_settings(config: Config) -> kopf.OperatorSettings:
    """Return kopf's settings: it watches and logs in; it writes nothing."""
    settings = kopf.OperatorSettings()
    settings.posting.enabled = False
    settings.persistence.finalizer = names.FINALIZER
    settings.persistence.progress_storage = kopf.AnnotationsProgressStorage(prefix=kinds.GROUP)
    settings.persistence.diffbase_storage = kopf.AnnotationsDiffBaseStorage(prefix=kinds.GROUP, key="unused")
    settings.networking.request_timeout = config.request_timeout_seconds
    settings.networking.connect_timeout = min(10.0, config.request_timeout_seconds)
    settings.watching.chunk_size = 500
    settings.process.ultimate_exiting_timeout = 10.0
    # Handlers take no time, so nothing is lost by not waiting for them.
    settings.queueing.idle_timeout = 1.0
    settings.queueing.exit_timeout = 0.5
    for kind in kinds.WATCHED:
        if kind not in kinds.OWN:
            settings.watching.label_selectors[kind.plural] = names.WATCH_SELECTOR
    return settings


def _on_loop_error(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
    """Report what no task did, but for kopf's watch generators: it leaves them to the loop, which cannot close them."""
    if "asyncgen" not in context:
        loop.default_exception_handler(context)


async def run(config: Config, started: float) -> None:
    """Run the operator until a signal ends it.

    Raises:
        OperatorError: the watches ended by themselves; without them the operator would be deaf.
    """
    asyncio.get_running_loop().set_exception_handler(_on_loop_error)
    agent = f"gptservice-operator/{__version__}"
    cluster = await Cluster.connect(user_agent=agent, request_timeout=config.request_timeout_seconds)
    app = build_app(config, cluster)
    if config.metrics_port:
        prometheus_client.start_http_server(config.metrics_port)
    signalled, watches_ending = asyncio.Event(), asyncio.Event()
    registry = build_registry(app)
    _take_signals(registry, signalled)
    kopf.on.cleanup(registry=registry, id="watches_ending")(_setter(watches_ending))
    tasks = [
        asyncio.create_task(_watch(config, registry), name="watches"),
        asyncio.create_task(app.run(started), name="passes"),
        asyncio.create_task(signalled.wait(), name="signal"),
        asyncio.create_task(watches_ending.wait(), name="watches ending"),
    ]
    try:
        done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        for task in done:
            task.result()
    finally:
        await _end(tasks)
        await cluster.close()
    if not signalled.is_set():
        raise OperatorError("the watches ended by themselves; see the lines above. Ending, to be started again")


async def _end(tasks: list[asyncio.Task[Any]]) -> None:
    """Cancel everything, within bounds: kopf forgets to close some watch generators and waits long for the rest."""
    for task in tasks:
        task.cancel()
    await asyncio.wait(tasks, timeout=END_SECONDS)


def _setter(event: asyncio.Event) -> Callable[..., Coroutine[Any, Any, None]]:
    async def set_event(**_: Any) -> None:
        event.set()

    return set_event


def _take_signals(registry: kopf.OperatorRegistry, signalled: asyncio.Event) -> None:
    """Have signals end the passes first; kopf's own handlers would end the watches first."""

    async def take_signals(**_: Any) -> None:
        # kopf sets its handlers in the turn of the loop after the one that starts this, so they are replaced.
        await asyncio.sleep(0.01)
        for number in (signal.SIGINT, signal.SIGTERM):
            asyncio.get_running_loop().add_signal_handler(number, signalled.set)

    kopf.on.startup(registry=registry, id="take_signals")(take_signals)


async def _watch(config: Config, registry: kopf.OperatorRegistry) -> None:
    """Run kopf's watches."""
    await kopf.operator(
        registry=registry,
        settings=build_settings(config),
        standalone=True,
        # Of no use without peering; kopf would make one from the user's name, which an image's UID has not.
        identity=cast(Any, names.MANAGER),
        clusterwide=True,
        liveness_endpoint=f"http://0.0.0.0:{config.health_port}/healthz" if config.health_port else None,
    )
