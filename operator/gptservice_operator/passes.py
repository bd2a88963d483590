"""What surrounds a pass: its number in the log, its time and outcome in the metrics and the journal."""

import datetime
import logging
import time
from collections.abc import Callable

from . import logs, metrics
from .config import Config
from .errors import OperatorError, Transient, Waiting
from .extract import Key
from .journal import Journal, PassRecord
from .queue import Queue
from .reconcile import Reconciler
from .store import Store

logger = logging.getLogger(__name__)


def build_queue(
    config: Config, reconciler: Reconciler, store: Store, journal: Journal, may_look: Callable[[str], bool]
) -> Queue:
    """Return the queue that runs the reconciler's passes, but for those in namespaces that are not known in full."""

    async def run_pass(key: Key) -> float | None:
        if not may_look(key[0]):
            reconciler.forget(key)
            return None
        with logs.in_pass(*key) as number, metrics.PASS_SECONDS.time():
            again = await _noted(reconciler, key, journal, number)
        if store.service(key) is None:
            # The pass itself may have seen that it is gone, of which no watch then tells any more.
            reconciler.forget(key)
            queue.forget(key)
            journal.forget(key)
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
    return queue


async def _noted(reconciler: Reconciler, key: Key, journal: Journal, number: int) -> float | None:
    outcome, told, again = "error", "", None
    began, start = datetime.datetime.now(datetime.UTC), time.monotonic()
    try:
        again = await reconciler.reconcile(key)
        outcome = "ok"
        return again
    except OperatorError as error:
        kind = Waiting if isinstance(error, Waiting) else type(error)
        outcome, told = kind.__name__.lower(), str(error)
        raise
    except Exception as error:
        told = repr(error)
        logger.exception("%s/%s: a fault of the operator itself; please report it", *key)
        raise
    finally:
        metrics.PASSES.labels(outcome).inc()
        metrics.LAST_PASS.set_to_current_time()
        seconds = round(time.monotonic() - start, 3)
        journal.note(key, PassRecord(number, began.isoformat(), seconds, outcome, told, again))
