"""What pods say of themselves."""

import datetime

import pytest

from gptservice_operator import pod_state
from tests.operator.builders import Body, condition, container, pod

NOW = datetime.datetime(2026, 1, 5, 12, 0, 0, tzinfo=datetime.UTC)
DEPLOYMENT: Body = {"metadata": {"name": "chat"}}


def ready(since: str) -> Body:
    body = pod("chat-6d4c-x", ready=True)
    body["status"]["conditions"][-1]["lastTransitionTime"] = since
    return body


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        pytest.param(ready("2026-01-05T11:58:00Z"), True, id="for exactly as long"),
        pytest.param(ready("2026-01-05T11:58:01Z"), False, id="a second less"),
        pytest.param(ready("2026-01-05T12:58:00+01:00"), True, id="in another zone"),
        pytest.param(ready("yesterday"), False, id="since nobody knows when"),
        pytest.param(pod("chat-6d4c-x"), False, id="not ready"),
    ],
)
def test_who_has_settled(body: Body, expected: bool) -> None:
    assert pod_state.settled([body], NOW, 120.0) == (frozenset({"chat-6d4c-x"}) if expected else frozenset())


def test_whose_pods_they_are() -> None:
    leaving = pod("b", deletionTimestamp="2026-01-05T11:00:00Z")
    stranger = pod("c", ownerReferences=[])
    other = pod("d", ownerReferences=[{"kind": "ReplicaSet", "name": "chatter-1"}])
    listed = [pod("a"), leaving, stranger, other]
    assert [one["metadata"]["name"] for one in pod_state.made_by(listed, DEPLOYMENT)] == ["a", "b"]
    assert [one["metadata"]["name"] for one in pod_state.of_deployment(listed, DEPLOYMENT)] == ["a"]


def of(replica_set: str, name: str) -> Body:
    return pod(name, ownerReferences=[{"kind": "ReplicaSet", "name": replica_set}])


@pytest.mark.parametrize(
    ("message", "expected"),
    [
        pytest.param('ReplicaSet "chat-2" is progressing.', ["b"], id="under way"),
        pytest.param('Created new replica set "chat-2"', ["b"], id="just made"),
        pytest.param('Found new replica set "chat-2"', ["b"], id="found"),
        pytest.param('ReplicaSet "chat-1" has timed out progressing.', ["a", "c"], id="too slow"),
        pytest.param('ReplicaSet "chat-0" has successfully progressed.', ["a", "c"], id="one that has no pod here"),
        pytest.param("Deployment is paused", ["a", "c"], id="of something else"),
    ],
)
def test_which_are_of_the_template_as_it_is_now(message: str, expected: list[str]) -> None:
    """Where the Deployment does not tell, the youngest is."""
    deployment = {**DEPLOYMENT, "status": {"conditions": [condition("Progressing", "True", message=message)]}}
    pods = [of("chat-1", "a"), of("chat-2", "b"), of("chat-1", "c")]
    assert [one["metadata"]["name"] for one in pod_state.of_newest_replica_set(pods, deployment)] == expected
    assert pod_state.of_newest_replica_set([], None) == []


@pytest.mark.parametrize(("code", "expected"), [(1, True), (137, True), (0, False)])
def test_who_has_crashed(code: int, expected: bool) -> None:
    body = pod(containers=[container(running={}, last={"exitCode": code})])
    assert pod_state.has_crashed(body) is expected
    assert not pod_state.has_crashed(pod(containers=[container(running={})]))


def test_failed_pods_are_of_now_where_no_other_is_there() -> None:
    over = pod("a", phase="Failed")
    assert pod_state.recently_failed([over], frozenset()) == [over]
    assert pod_state.recently_failed([over, pod("b", ready=True)], frozenset({"b"})) == []
    assert pod_state.recently_failed([pod("b")], frozenset()) == []
