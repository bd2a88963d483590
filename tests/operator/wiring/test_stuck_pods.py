"""A pod that nobody speaks of any more is looked at when it is time, without an event of any watch."""

import datetime

import pytest

from gptservice_operator import events, names
from tests.operator import builders
from tests.operator.builders import Body, condition, container, pod
from tests.operator.wiring.conftest import Run, eventually
from tests.operator.wiring.fake_api import FakeApi

pytestmark = pytest.mark.wiring

SECRET = names.key_secret("chat", builders.uid_of("GPTService", "chat"))
SOON_SECONDS = 2
"""From now until it is time to look at the pod."""


def stuck_pod() -> Body:
    since = datetime.datetime.now(datetime.UTC) - datetime.timedelta(seconds=events.STUCK_SECONDS - SOON_SECONDS)
    scheduled = condition("PodScheduled", "True", lastTransitionTime=since.strftime("%Y-%m-%dT%H:%M:%SZ"))
    return pod(conditions=[scheduled], containers=[container(waiting={"reason": "PodInitializing"})])


async def test_a_key_that_was_deleted_comes_back_by_itself(api: FakeApi, run: Run) -> None:
    api.add(builders.service())
    async with run():
        await eventually(lambda: api.get_body("Service", "chat"))
        api.secrets.clear()
        body = api.add(stuck_pod())
        message = f'MountVolume.SetUp failed for volume "keys" : secret "{SECRET}" not found'
        api.pod_events[body["metadata"]["uid"]] = [{"reason": "FailedMount", "message": message}]
        await api.tell()
        await eventually(lambda: SECRET in api.secrets)
    assert api.looks == [body["metadata"]["uid"]], "once, and not before it was time"
    requested = [request for request in api.requests if request.method == "GET" and request.path.endswith("/events")]
    assert [request.query["fieldSelector"] for request in requested] == [f"involvedObject.uid={api.looks[0]}"]
