"""A child that somebody else changes back each time that it was set right: two writers of which neither gives in.

The other one may be a policy that changes what we write before it is stored. The only cure is a person. Until one
comes, the other writer has its way most of the time, and the service says so.
"""

import datetime
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from .actions import ChildKey
from .extract import Key

WINDOW_SECONDS = 30.0
MOST_REPAIRS = 10
"""So many repairs of one child within the window are a contest; a person's edits are not that many."""
FIRST_WAIT_SECONDS = 30.0
LONGEST_WAIT_SECONDS = 600.0
"""The wait between two repairs of a contested child doubles up to this."""


@dataclass(slots=True)
class _Contest:
    repairs: list[datetime.datetime] = field(default_factory=list[datetime.datetime])
    """Those within the window."""
    until: datetime.datetime | None = None
    """When it may be repaired again; None while there is no contest."""
    wait: float = FIRST_WAIT_SECONDS
    overruled: bool = False
    """Whether the last repair itself was changed before it was stored."""


@dataclass(slots=True)
class Contests:
    """The repairs of the last moments, by service and child."""

    _known: dict[Key, dict[ChildKey, _Contest]] = field(default_factory=dict[Key, dict[ChildKey, _Contest]])

    def forget(self, key: Key) -> None:
        """Drop what is remembered of a service that is gone."""
        self._known.pop(key, None)

    def may_repair(self, key: Key, child: ChildKey, now: datetime.datetime) -> bool:
        """Return whether a child that somebody has changed is to be set right now."""
        contest = self._known.get(key, {}).get(child)
        return contest is None or contest.until is None or now >= contest.until

    def repaired(self, key: Key, child: ChildKey, now: datetime.datetime, *, overruled: bool = False) -> None:
        """Note that a child was set right; or not even that, where the API server stored something else."""
        contest = self._known.setdefault(key, {}).setdefault(child, _Contest())
        window = datetime.timedelta(seconds=WINDOW_SECONDS)
        contest.repairs = [*(at for at in contest.repairs if now - at < window), now]
        contest.overruled = overruled
        if overruled or contest.until is not None or len(contest.repairs) >= MOST_REPAIRS:
            contest.until = now + datetime.timedelta(seconds=contest.wait)
            contest.wait = min(contest.wait * 2, LONGEST_WAIT_SECONDS)

    def settle(self, key: Key, changed: Iterable[ChildKey], now: datetime.datetime) -> None:
        """End the contests whose wait is over with the child still as it was set right.

        Args:
            key: the service.
            changed: the children that somebody has changed again.
            now: the wall clock.
        """
        window = datetime.timedelta(seconds=WINDOW_SECONDS)
        for child, contest in list(self._known.get(key, {}).items()):
            over = now >= contest.until if contest.until is not None else now - contest.repairs[-1] >= window
            if over and child not in changed:
                del self._known[key][child]
        if not self._known.get(key, True):
            del self._known[key]

    def again(self, key: Key, now: datetime.datetime) -> float | None:
        """Return the seconds until the next repair or the end of a contest; None if there is no contest."""
        waits = (contest.until for contest in self._known.get(key, {}).values())
        return min((max(0.0, (until - now).total_seconds()) for until in waits if until is not None), default=None)

    def warnings(self, key: Key) -> Iterator[str]:
        """Yield a sentence for each child in contest."""
        for (kind, name), contest in sorted(self._known.get(key, {}).items()):
            if contest.until is not None:
                yield _overruled(kind, name) if contest.overruled else _contested(kind, name)


def _contested(kind: str, name: str) -> str:
    return (
        f"{kind} {name} is contested: somebody else changes back what the operator sets, so that it is set right only "
        f"now and then; `kubectl get {kind.lower()} {name} -o yaml --show-managed-fields` names the other field manager"
    )


def _overruled(kind: str, name: str) -> str:
    return (
        f"{kind} {name} is not as the operator writes it: an admission policy or webhook of the cluster changes it as "
        "it is stored; exempt it there, or set the spec to what the policy wants"
    )
