"""Reads the API server's audit log: who wrote what, how often.

The default policy keeps one event for each completed write (create, update, patch, delete...), none for reads and
leases. Of a cluster whose policy keeps all requests, `requests` in `e2e.bench` reads the log.
"""

import json
import os
import time
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

_LONGEST_LINE = 1 << 20


@dataclass(frozen=True, order=True)
class Write:
    """One write by one client to one object, without its time: equal ones are counted together."""

    user_agent: str
    verb: str
    resource: str
    """Plural, with the subresource: `deployments`, `gptservices/status`."""
    namespace: str
    """Empty for cluster-scoped objects."""
    name: str
    """Empty where the server chose it (generateName) and did not log it."""
    code: int
    """HTTP status of the answer."""

    @property
    def agent(self) -> str:
        """The user agent's program: what stands before the first slash or space."""
        return self.user_agent.split("/", 1)[0].split(" ", 1)[0]


@dataclass(frozen=True)
class Mark:
    """A place in the log; see `AuditLog.mark`."""

    offset: int


START = Mark(0)


@dataclass(frozen=True)
class AuditLog:
    """One API server's audit log. It may be read while the server writes it."""

    path: Path

    def mark(self, *, quiet_seconds: float = 1.0, limit_seconds: float = 3.0) -> Mark:
        """The end of the log once it has stood still for a while: writes from now on come after it.

        Some components write all the time (a kubelet its node's status), so it waits no longer than the limit.
        """
        deadline = time.monotonic() + limit_seconds
        offset = -1
        while (end := self._end()) != offset and time.monotonic() < deadline:
            offset = end
            time.sleep(quiet_seconds)
        return Mark(end)

    def writes(self, since: Mark = START, *, include_refused: bool = False) -> list[Write]:
        """The writes after a mark that are in the file now, in the log's order.

        Without `include_refused` only those that the server answered with a status below 300.
        """
        found = [parse(line) for line in self._lines(since)]
        return [write for write in found if write and (include_refused or write.code < 300)]

    def count(
        self,
        since: Mark = START,
        *,
        matching: Callable[[Write], bool] = lambda write: True,
        include_refused: bool = False,
        quiet_seconds: float = 1.0,
        limit_seconds: float = 30.0,
    ) -> Counter[Write]:
        """The matching writes after a mark, counted once the log has stood still for `quiet_seconds`.

        The server writes in batches, so what happened just now is not in the file yet. Raises TimeoutError when the
        matching part keeps growing for `limit_seconds`: then something writes without end.
        """
        deadline = time.monotonic() + limit_seconds
        before = -1
        while True:
            writes = [w for w in self.writes(since, include_refused=include_refused) if matching(w)]
            if len(writes) == before:
                return Counter(writes)
            if time.monotonic() > deadline:
                raise TimeoutError(
                    f"{self.path}: still growing after {limit_seconds:.0f} s: {summary(writes[before:])}"
                )
            before = len(writes)
            time.sleep(quiet_seconds)

    def _end(self) -> int:
        """Where the last whole line ends: the server may be in the middle of writing one."""
        try:
            with self.path.open("rb") as file:
                start = max(0, file.seek(0, os.SEEK_END) - _LONGEST_LINE)
                file.seek(start)
                return start + file.read().rfind(b"\n") + 1
        except FileNotFoundError:
            return 0

    def _lines(self, since: Mark) -> list[bytes]:
        try:
            with self.path.open("rb") as file:
                file.seek(since.offset)
                data = file.read()
        except FileNotFoundError:
            return []
        return data[: data.rfind(b"\n") + 1].splitlines()


def parse(line: bytes) -> Write | None:
    """One line of the log; None for an event that is about no object."""
    event = cast(dict[str, Any], json.loads(line))
    target = event.get("objectRef")
    if not target:
        return None
    resource = target.get("resource", "")
    if subresource := target.get("subresource"):
        resource = f"{resource}/{subresource}"
    return Write(
        user_agent=event.get("userAgent", ""),
        verb=event["verb"],
        resource=resource,
        namespace=target.get("namespace", ""),
        name=target.get("name", ""),
        code=event.get("responseStatus", {}).get("code", 0),
    )


def summary(writes: Iterable[Write]) -> str:
    """A count for each kind of write, most frequent first, for messages and for people."""
    counted = Counter((w.agent, w.verb, w.resource, "/".join(filter(None, (w.namespace, w.name)))) for w in writes)
    return "; ".join(f"{count}x {' '.join(key)}" for key, count in counted.most_common())
