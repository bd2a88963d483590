"""What pods have fetched is in the status."""

import json
from typing import Any

import pytest

from gptservice_operator import fetched, names, status
from tests.operator.builders import Body, container, pod
from tests.operator.test_status import facts, message

KEY, OLD_KEY = "abc", "old"
DECIDED = {"uri": "hf://org/name", "image": "i"}


def fetching(commit: str | None, key: str = KEY, at: str = "2026-01-05T10:00:00Z", code: int = 0, **more: Any) -> Body:
    told = json.dumps({"uri": "hf://org/name", "revision": commit, "digest": "sha256:1", "bytes": 5, "seconds": 1})
    ended = {"exitCode": code, "message": told, "finishedAt": at}
    found = pod(f"pod-{commit}-{at}", init=[container("fetch", terminated={**ended, **more})])
    found["metadata"]["labels"][names.REVISION] = key
    return found


@pytest.mark.parametrize(
    ("pods", "before", "revision"),
    [
        pytest.param([fetching("c1")], {}, "c1", id="told"),
        pytest.param([fetching(None)], {}, None, id="a source without revisions"),
        pytest.param([], {}, None, id="nobody told"),
        pytest.param([], {"uri": "hf://org/name", "revision": "c0"}, "c0", id="told before, by pods that are gone"),
        pytest.param([], {"uri": "hf://org/other", "revision": "c0"}, None, id="told before, of another model"),
        pytest.param([fetching("c0", key=OLD_KEY)], {}, None, id="a pod of another revision"),
        pytest.param([fetching("c1", code=1)], {}, None, id="a fetch that failed"),
        pytest.param([fetching("c1", message="killed")], {}, None, id="no JSON"),
        pytest.param([fetching("c1", message="[]")], {}, None, id="other JSON"),
        pytest.param([fetching("c2", at="2026-01-06T10:00:00Z"), fetching("c1")], {}, "c2", id="the newest of two"),
    ],
)
def test_the_commit(pods: list[Body], before: Body, revision: str | None) -> None:
    found = fetched.effective(DECIDED, pods, KEY, before)
    assert DECIDED.items() <= found.items()
    assert found.get("revision") == revision


def test_it_is_in_the_status() -> None:
    seen = facts({"model": "hf://org/name"})
    key = seen.resolved.origin.key  # type: ignore[union-attr]
    computed = status.compute(facts({"model": "hf://org/name"}, pods=[fetching("c1", key)]), "2026-01-05T12:00:00Z")
    assert (computed["effective"]["revision"], computed["effective"]["digest"]) == ("c1", "sha256:1")


def test_a_pod_that_the_kubelet_has_given_up_serves_none() -> None:
    evicted = fetching("c0")
    evicted["status"]["phase"] = "Failed"
    assert list(fetched.disagreement([fetching("c1"), evicted], KEY)) == []


def test_pods_that_serve_different_commits_are_warned_of() -> None:
    seen = facts({"model": "hf://org/name"})
    key = seen.resolved.origin.key  # type: ignore[union-attr]
    pods = [fetching("c1", key), fetching("c2", key), fetching("c3", OLD_KEY)]
    computed = status.compute(facts({"model": "hf://org/name"}, pods=pods), "2026-01-05T12:00:00Z")
    assert "different revisions of the model (c1, c2)" in message(computed, "Accepted")
