"""Random edits of one object, valid and not: none is ignored, their order does not matter, and all can be taken back.

E2E_SEED chooses the edits. A counterexample becomes a test of its own.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st

from e2e.api.exhaustive.faults import SEED
from e2e.api.quiet import settle
from e2e.api.state import Observer, is_ready, is_stopped, service
from e2e.kube import KINDS, Kube, KubeError, Object, wait_until
from e2e.operator_process import OperatorProcess
from e2e.proxy import Switchboard
from gptservice_operator.api import schema as schemas
from tests.operator.api import generated

# The strategy for a part of the schema is large, and so is its name.
pytestmark = pytest.mark.filterwarnings("ignore:Generating overly large repr")
EDITS = 10
"""In a row, before all of them are taken back."""
ROWS = 2
LONG_ROWS = 30
START = service(replicas=1)
Edit = tuple[str, Any]

# Read while something happens, not when it is set: docs/api.md says of each what it is for.
WITHOUT_EFFECT = frozenset({"rollout"})


@st.composite
def rows(draw: Callable[[st.SearchStrategy[Any]], Any]) -> list[Edit]:
    """Draw some edits: of each a field of the spec, and its new value or None for its removal."""
    properties: Any = schemas.spec_schemas()["GPTService"]["properties"]
    names = draw(st.lists(st.sampled_from(sorted(properties)), min_size=EDITS, max_size=EDITS))
    values = [draw(st.one_of(generated.values(properties[name], f".{name}"), st.none())) for name in names]
    return list(zip(names, values, strict=True))


FIXED = settings(
    max_examples=ROWS,
    deadline=None,
    database=None,
    phases=[Phase.generate],
    suppress_health_check=list(HealthCheck),
)
counted: dict[str, int] = {"accepted": 0, "refused": 0, "compared": 0}
effects: dict[str, list[bool]] = {}
"""Of each field, whether its edits showed."""
TRIES = 5
"""After so many without any effect a field counts as ignored."""


@seed(int(SEED))
@FIXED
@given(row=rows())
def test_some_edits(operator: OperatorProcess, board: Switchboard, kube: Kube, row: list[Edit]) -> None:
    try_row(board, kube, row)


@pytest.mark.long
@pytest.mark.timeout(3600)
@seed(int(SEED))
@settings(FIXED, max_examples=LONG_ROWS)
@given(row=rows())
def test_many_edits(operator: OperatorProcess, board: Switchboard, kube: Kube, row: list[Edit]) -> None:
    try_row(board, kube, row)


def test_enough_was_accepted_and_enough_refused(record_property: Callable[[str, object], None]) -> None:
    """Else the tests above say little."""
    told = f"random edits (E2E_SEED={SEED}): {json.dumps(counted)}"
    print(told)
    record_property("edits", told)
    assert counted["accepted"] >= EDITS // 2, counted
    assert counted["refused"], counted


def test_no_field_is_ignored() -> None:
    ignored = {name for name, seen in effects.items() if len(seen) >= TRIES and not any(seen)}
    assert ignored <= WITHOUT_EFFECT, effects


def try_row(board: Switchboard, kube: Kube, row: list[Edit]) -> None:
    with kube.namespace("edited") as edited, kube.namespace("fresh") as fresh:
        observer = Observer(kube, edited)
        kube.apply(START, edited)
        observer.wait_ready()
        settle(board, {edited})
        start = view(observer)
        for name, value in row:
            make_edit(observer, name, value)
        compare_with_fresh(board, kube, observer, Observer(kube, fresh))
        set_spec(observer, START["spec"])
        observer.wait_ready(timeout=60)
        wait_for(observer, start, f"all of {row} to be taken back")


def make_edit(observer: Observer, name: str, value: Any) -> None:
    """Make one edit, and note whether an accepted one shows: one that says what is so anyhow does not."""
    spec = copy.deepcopy((observer.gpt() or {})["spec"])
    before = shown(observer)
    wanted = {key: part for key, part in {**spec, name: value}.items() if part is not None}
    try:
        stored = set_spec(observer, wanted)
    except KubeError as refused:
        if refused.status not in (400, 422):
            raise
        counted["refused"] += 1
        return
    counted["accepted"] += 1
    observer.wait(has_seen(stored), f"{name}={value!r} to be seen")
    if stored["spec"] != spec:
        # The status comes last in a pass.
        effects.setdefault(name, []).append(shown(observer) != before)


def compare_with_fresh(board: Switchboard, kube: Kube, edited: Observer, fresh: Observer) -> None:
    """Where the edits have led is where a new object with that spec is from the first."""
    spec = (edited.gpt() or {})["spec"]
    kube.apply({**START, "spec": spec}, fresh.namespace)
    fresh.wait(lambda gpt: "conditions" in ((gpt or {}).get("status") or {}), "to be seen")
    settle(board, {edited.namespace, fresh.namespace})
    if not (is_ready(fresh.gpt()) or is_stopped(fresh.gpt())):
        return
    wait_for(edited, view(fresh), f"what a new object has with {spec}")
    counted["compared"] += 1


def wait_for(observer: Observer, wanted: Mapping[str, Object], what: str) -> None:
    """Wait until the children are as wanted; what differs is what a failure shows."""
    wait_until(lambda: list(differing(view(observer), wanted)), lambda found: not found, what, timeout=60)


def differing(now: Any, wanted: Any, path: str = "") -> Iterator[str]:
    """Yield what differs between two objects, with its path."""
    if isinstance(now, Mapping) and isinstance(wanted, Mapping):
        both: Any = {**wanted, **now}
        for key in both:
            yield from differing(now.get(key), wanted.get(key), f"{path}.{key}")
    elif now != wanted:
        yield f"{path}: {now!r} in place of {wanted!r}"


def set_spec(observer: Observer, spec: Mapping[str, Any]) -> Object:
    """Replace the whole spec, as `kubectl edit` does; raises KubeError where it is refused."""
    path = KINDS["GPTService"].path(observer.namespace, "gpt")

    def replace() -> Object | None:
        try:
            body = {**observer.kube.get("GPTService", "gpt", observer.namespace), "spec": spec}
            return observer.kube.request("PUT", path, query={"fieldValidation": "Strict"}, body=body)
        except KubeError as conflict:
            if conflict.status != 409:
                raise
            return None

    return wait_until(replace, lambda stored: stored is not None, "the edit to be taken") or {}


def has_seen(stored: Object) -> Callable[[Object | None], bool]:
    generation = stored["metadata"]["generation"]
    return lambda gpt: gpt is not None and gpt["status"].get("observedGeneration") == generation


def view(observer: Observer) -> dict[str, Object]:
    """The children, but for claims that are kept though nothing refers to them any more.

    A revision's way back is the spec as it was when the revision was first made: what has been written since that makes
    no other one, such as ``cache: {}``, is not in it.
    """
    children = observer.children()
    for key, child in children.items():
        if key.startswith("ControllerRevision/"):
            child["data"].pop("patch", None)
    return {key: child for key, child in children.items() if not key.startswith("PersistentVolumeClaim/")}


def shown(observer: Observer) -> list[Any]:
    """What a person sees of an edit: the children, and what the conditions and the status say."""
    status = (observer.gpt() or {})["status"]
    conditions = [(c["type"], c["status"], c["reason"], c["message"]) for c in status["conditions"]]
    rest = {key: status.get(key) for key in ("endpoint", "effective", "authSecret", "replicas")}
    return [conditions, rest, observer.children()]
