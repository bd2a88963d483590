"""The wiring: which watch feeds what, and the tasks of the process. The only module that imports kopf."""

import asyncio
import datetime
import logging
import random
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import kopf
import prometheus_client

from . import __version__, extract, metrics, names
from .api import kinds
from .api.body import section
from .cluster import Cluster
from .config import Config
from .errors import OperatorError, Transient
from .extract import Entry, Key
from .listing import Listing
from .queue import Queue
from .reconcile import Reconciler
from .store import Store

logger = logging.getLogger(__name__)

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
        if event["type"] is None and self.filled:
            # An initial listing after the start: the watch was cut, and deletions in the gap are never told.
            self.listing.request(kind)
        news = self.store.remove(entry) if event["type"] == "DELETED" else self.store.put(entry)
        if news:
            self.changed(kind, entry)

    def wake_all(self) -> None:
        """Have every service looked at."""
        for key in self.store.services():
            self.queue.wake(key)

    async def run(self, started: float) -> None:
        """Fill the store, then run passes and resyncs until cancelled."""
        await self.listing.fill()
        self.filled = True
        seconds = time.monotonic() - started
        metrics.STORE_FILLED.set(seconds)
        services = self.store.services()
        logger.info("store filled: %d services, %.2f s after the start", len(services), seconds)
        self.wake_all()
        async with asyncio.TaskGroup() as group:
            group.create_task(self.queue.run())
            group.create_task(self.listing.serve_requests())
            group.create_task(self._resync())

    async def _resync(self) -> None:
        while True:
            await asyncio.sleep(self.config.resync_seconds * random.uniform(0.9, 1.1))  # noqa: S311  # jitter
            for kind in kinds.WATCHED:
                self.listing.request(kind)
            self.wake_all()


def build_app(config: Config, cluster: Cluster) -> App:
    """Put the parts together."""
    store = Store()
    reconciler = Reconciler(store, cluster, config, now=lambda: datetime.datetime.now(datetime.UTC))

    async def run_pass(key: Key) -> float | None:
        with metrics.PASS_SECONDS.time():
            return await _counted(reconciler, key)

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
    app = App(config, store, queue, listing, cluster)
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
    kopf.on.login(registry=registry)(_login)
    for kind in kinds.WATCHED:
        group, _, version = kind.api_version.rpartition("/")

        async def on_event(event: Any, kind: kinds.Kind = kind, **_: Any) -> None:
            app.on_event(kind, event)

        kopf.on.event(group, version, kind.plural, id=f"on_{kind.plural}", registry=registry)(on_event)

    def overdue_seconds(**_: Any) -> float:
        waited = app.queue.overdue()
        if waited > STUCK_SECONDS:
            raise RuntimeError(f"a pass has been due for {waited:.0f} s")
        return round(waited, 1)

    kopf.on.probe(id="overdue_seconds", registry=registry)(overdue_seconds)
    return registry


def _login(**kwargs: Any) -> Any:
    return kopf.login_with_service_account(**kwargs) or kopf.login_with_kubeconfig(**kwargs)


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
    settings.process.ultimate_exiting_timeout = 30.0
    for kind in kinds.WATCHED:
        if kind not in kinds.OWN:
            settings.watching.label_selectors[kind.plural] = names.WATCH_SELECTOR
    return settings


async def run(config: Config, started: float) -> None:
    """Run the operator until a signal ends it, or until one of its tasks fails."""
    agent = f"gptservice-operator/{__version__}"
    cluster = await Cluster.connect(user_agent=agent, request_timeout=config.request_timeout_seconds)
    app = build_app(config, cluster)
    if config.metrics_port:
        prometheus_client.start_http_server(config.metrics_port)
    health = f"http://0.0.0.0:{config.health_port}/healthz" if config.health_port else None
    watches = kopf.operator(
        registry=build_registry(app),
        settings=build_settings(config),
        standalone=True,
        clusterwide=True,
        liveness_endpoint=health,
    )
    tasks = [
        asyncio.create_task(watches, name="watches"),
        asyncio.create_task(app.run(started), name="passes"),
    ]
    try:
        done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        for task in done:
            task.result()
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await cluster.close()
