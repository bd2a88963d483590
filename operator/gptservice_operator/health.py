"""When a process is of no use any more and has to be started again: a pure rule on what moves and what does not."""

from collections.abc import Mapping
from dataclasses import dataclass

WATCH_SECONDS = 240
"""How long the API server is asked to keep a watch open: a watch that lives is asked for again that often."""
DEAF_SECONDS = 2 * WATCH_SECONDS
"""A watch that was not even asked for in so long, or was forbidden all the time, is not there any more. An outage of
the API server is no reason: then it is asked for in vain, again and again."""
WAITING_SECONDS = 300.0
"""A pass that has been due for so long, while none ended in as long, means that the queue does not move."""
BEHIND_SECONDS = 300.0
"""Lists that are older for so long than what was told before are those of an etcd that was restored, and no watch tells
of anything until it has come as far again. Another process knows of no later versions, and begins with what there is.
One API server that lags behind another has caught up by then."""
STUCK_SECONDS = 900.0
"""A pass that has run for so long will not end: each of its requests has a time-out."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Signs:
    """What a living process shows; all times are monotonic seconds."""

    now: float
    asked: Mapping[str, float]
    """When each watch was last asked for, by its path; at first the process's start."""
    overdue: float = 0.0
    """For how long the pass that is due longest has waited."""
    since_progress: float = 0.0
    """Time since a pass ended."""
    longest_pass: float = 0.0
    """For how long the oldest of the running passes has run."""
    behind: float = 0.0
    """For how long lists have been older than what was told before."""


def problems(signs: Signs) -> list[str]:
    """Return why the process has to be started again; nothing while it lives."""
    found: list[str] = []
    for path, at in signs.asked.items():
        if (silent := signs.now - at) > DEAF_SECONDS:
            found.append(f"the watch of {path} was last asked for {silent:.0f} s ago")
    if min(signs.overdue, signs.since_progress) > WAITING_SECONDS:
        found.append(f"a pass has been due for {signs.overdue:.0f} s, and none has ended since")
    if signs.longest_pass > STUCK_SECONDS:
        found.append(f"a pass has run for {signs.longest_pass:.0f} s")
    if signs.behind > BEHIND_SECONDS:
        found.append(f"lists have been older than what was told before for {signs.behind:.0f} s: was etcd restored?")
    return found
