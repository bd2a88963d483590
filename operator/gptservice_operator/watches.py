"""kopf, and the only module besides ``login`` that knows it: which watch feeds what. Nothing else happens there."""

import asyncio
import itertools
from collections.abc import Callable, Coroutine, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, cast

import kopf

from . import names
from .api import kinds
from .cluster import PAGE_SIZE
from .config import Config
from .health import WATCH_SECONDS
from .login import Tracing, login_traced

LONGEST_PAUSE = 5.0
"""Seconds between the tries of a watch while the API server does not answer: an outage is noticed to be over soon."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Hooks:
    """What is called."""

    tracing: Tracing
    """With what the watches' own requests bring."""
    spawned: Callable[[], None]
    """When kopf's tasks are there, and kopf has put its own signal handlers in place of those that were set."""
    ending: asyncio.Event = field(default_factory=asyncio.Event)
    """Set when the watches end."""


async def watch(config: Config, hooks: Hooks) -> None:
    """Watch until cancelled."""
    before = asyncio.all_tasks()
    tasks = await kopf.spawn_tasks(
        registry=build_registry(hooks),
        settings=build_settings(config),
        standalone=True,
        # Of no use without peering; kopf would make one from the user's name, which an image's UID has not.
        identity=cast(Any, names.MANAGER),
        clusterwide=not config.namespaces,
        namespaces=config.namespaces,
    )
    # In the same turn of the loop, so that no signal is taken by kopf's handlers: they would end the watches first.
    hooks.spawned()
    await kopf.run_tasks(tasks, ignored=before)


def build_registry(hooks: Hooks) -> kopf.OperatorRegistry:
    """Return the table of watches: what they bring feeds the store, and nothing happens in a handler."""
    registry = kopf.OperatorRegistry()

    async def login(**kwargs: Any) -> kopf.AiohttpSession | None:
        return login_traced(hooks.tracing, **kwargs)

    kopf.on.login(registry=registry)(login)
    for kind in hooks.tracing.scope.watched:
        group, _, version = kind.api_version.rpartition("/")
        kopf.on.event(group, version, kind.plural, id=f"on_{kind.plural}", registry=registry)(_on_event)
    kopf.on.cleanup(registry=registry, id="watches_ending")(_setter(hooks.ending))
    return registry


class Backoffs(Iterable[float]):
    """The pauses in seconds between a watch's failures: without end, as kopf ends a watch for good after the last."""

    def __iter__(self) -> Iterator[float]:
        return itertools.chain((0.5, 1.0, 2.0, 3.0), itertools.repeat(LONGEST_PAUSE))


def build_settings(config: Config) -> kopf.OperatorSettings:
    """Return kopf's settings: it watches and logs in; it writes nothing."""
    settings = kopf.OperatorSettings()
    settings.posting.enabled = False
    settings.persistence.finalizer = names.FINALIZER
    settings.networking.request_timeout = config.request_timeout_seconds
    settings.networking.connect_timeout = min(10.0, config.request_timeout_seconds)
    settings.networking.error_backoffs = Backoffs()
    # In some namespaces alone, nothing that lies in none may be read: neither CRDs nor namespaces.
    settings.scanning.disabled = bool(config.namespaces)
    settings.watching.chunk_size = PAGE_SIZE
    settings.watching.server_timeout = WATCH_SECONDS
    settings.process.ultimate_exiting_timeout = 10.0
    # kopf's watch of CRDs has a task for each, which holds it, parsed, for so long.
    settings.queueing.idle_timeout = 0.02
    settings.queueing.exit_timeout = 0.5
    for kind in kinds.WATCHED:
        if kind not in kinds.OWN:
            settings.watching.label_selectors[kind.plural] = names.WATCH_SELECTOR
    return settings


async def _on_event(**_: Any) -> None:
    """Make kopf watch a kind. It is never called: ``streams`` takes the events."""


def _setter(event: asyncio.Event) -> Callable[..., Coroutine[Any, Any, None]]:
    async def set_event(**_: Any) -> None:
        event.set()

    return set_event
