"""How long a child of each kind stays other than its spec says, after an edit or a deletion by hand: 100 tries."""

from __future__ import annotations

import itertools
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass

import pytest

from e2e.api.state import Observer, service
from e2e.kube import Kube, Object, wait_until
from e2e.operator_process import OperatorProcess
from gptservice_operator import contests

pytestmark = [pytest.mark.long, pytest.mark.timeout(900)]

TRIES = 100
LIMIT_SECONDS = 30
"""Far above the bar of 2 s, which is for the printed figures: no test asserts a time."""


@dataclass(frozen=True)
class Damage:
    """One way to spoil a child: an edit by a merge patch, or its deletion where there is none."""

    kind: str
    name: str
    edit: Object | None

    def __str__(self) -> str:
        return f"{self.kind} {'deleted' if self.edit is None else 'edited'}"


EDITS: dict[tuple[str, str], Object] = {
    ("Deployment", "gpt"): {"spec": {"revisionHistoryLimit": 1}},
    ("Service", "gpt"): {"spec": {"selector": {"tier": "none"}}},
    ("ConfigMap", "gpt-limits"): {"data": {"limits.json": "{}x"}},
    ("HorizontalPodAutoscaler", "gpt"): {"spec": {"maxReplicas": 9}},
    ("ServiceAccount", "gpt-pods"): {"automountServiceAccountToken": True},
    ("Service", "gpt-pods"): {"spec": {"publishNotReadyAddresses": True}},
    ("PodDisruptionBudget", "gpt"): {"spec": {"maxUnavailable": 3}},
    ("NetworkPolicy", "gpt"): {"spec": {"ingress": [{}]}},
}
DAMAGES = [Damage(*key, edit) for key, change in EDITS.items() for edit in (change, None)]
# Of each child there are two kinds of damage. More of them in that time would be a contest.
PAUSE_SECONDS = 2 * contests.WINDOW_SECONDS / contests.MOST_REPAIRS / len(DAMAGES)


def test_every_child_is_repaired_and_what_is_not_ours_is_left(
    operator_without_resync: OperatorProcess,
    kube: Kube,
    namespace: str,
    observer: Observer,
    record_property: Callable[[str, object], None],
    capsys: pytest.CaptureFixture[str],
) -> None:
    kube.apply(service(replicas=3, autoscaling={"minReplicas": 2, "maxReplicas": 4}), namespace)
    observer.wait_rolled("gpt", lambda deployment: deployment["spec"]["replicas"] == 3, "3 replicas")
    seconds = list[float]()
    for damage in itertools.islice(itertools.cycle(DAMAGES), TRIES):
        time.sleep(PAUSE_SECONDS)
        seconds.append(repaired(kube, observer, damage))
    p50, p99 = statistics.median(seconds), statistics.quantiles(seconds, n=100)[98]
    told = f"{TRIES} tries over {len(DAMAGES)} kinds of damage: repaired after p50 {p50:.2f} s, p99 {p99:.2f} s"
    record_property("drift", told)
    with capsys.disabled():
        print(f"\n{told}")


def repaired(kube: Kube, observer: Observer, damage: Damage) -> float:
    """Do the damage and return how long it took until the child was as before, with what others have put on it."""
    place = (damage.kind, damage.name, observer.namespace)
    if damage.edit is None:
        uid = observer.uid(damage.kind, damage.name)
        kube.delete(*place)
        begun = time.monotonic()
        observer.wait_for_another(damage.kind, damage.name, uid)
        return time.monotonic() - begun
    kube.merge(*place, {"metadata": {"annotations": {"theirs": "yes"}}})
    before = observer.children()
    kube.merge(*place, damage.edit)
    begun = time.monotonic()
    wait_until(observer.children, lambda now: now == before, f"{damage}: all as before", timeout=LIMIT_SECONDS)
    return time.monotonic() - begun
