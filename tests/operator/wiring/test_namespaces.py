"""An operator of some namespaces under kopf, while the rights in one of them come and go."""

import json

import aiohttp
import pytest
from aiohttp.test_utils import unused_port

from gptservice_operator import listing
from tests.operator import builders
from tests.operator.builders import NAMESPACE
from tests.operator.wiring.conftest import Operator, Run, eventually
from tests.operator.wiring.fake_api import FakeApi

pytestmark = pytest.mark.wiring

THERE = "team-b"


def looked_at(api: FakeApi, namespace: str) -> bool:
    body = api.objects["GPTService", namespace, "chat"]
    return bool(body.get("status"))


def refused(operator: Operator) -> set[str]:
    return set(operator.app.access.refused())


@pytest.fixture(autouse=True)
def two_services(api: FakeApi, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(listing, "AGAIN_SECONDS", 0.2)
    for namespace in (NAMESPACE, THERE):
        api.add(builders.service(namespace=namespace))


async def test_both_are_looked_after(api: FakeApi, run: Run) -> None:
    async with run(namespaces=(NAMESPACE, THERE)) as operator:
        await eventually(lambda: looked_at(api, NAMESPACE) and looked_at(api, THERE))
    assert refused(operator) == set()


async def test_one_that_is_refused_at_the_start_stops_no_other_and_comes_back(api: FakeApi, run: Run) -> None:
    api.closed.add(THERE)
    port = unused_port()
    async with run(namespaces=(NAMESPACE, THERE), health_port=port) as operator:
        await eventually(lambda: looked_at(api, NAMESPACE))
        async with aiohttp.ClientSession() as session, session.get(f"http://127.0.0.1:{port}/readyz") as response:
            said = json.loads(await response.text())
        assert response.status == 200
        assert 'User "system:serviceaccount:system:gptservice-operator" cannot' in said["refused"][THERE][0]
        assert not looked_at(api, THERE)
        api.closed.clear()
        await eventually(lambda: looked_at(api, THERE))
        assert refused(operator) == set()


async def test_one_that_is_refused_later_is_left_out_and_comes_back(api: FakeApi, run: Run) -> None:
    async with run(namespaces=(NAMESPACE, THERE)) as operator:
        await eventually(lambda: looked_at(api, NAMESPACE) and looked_at(api, THERE))
        api.closed.add(THERE)
        await api.cut_watches()
        await eventually(lambda: refused(operator) == {THERE})
        edited = api.edit("GPTService", "chat")
        edited["spec"]["replicas"], edited["metadata"]["generation"] = 2, 2
        await api.tell()
        await eventually(lambda: api.objects["Deployment", NAMESPACE, "chat"]["spec"]["replicas"] == 2)
        api.closed.clear()
        await eventually(lambda: refused(operator) == set() and operator.app.access.may_look(THERE))
        deployment = ("Deployment", THERE, "chat")
        await eventually(lambda: operator.app.store.get(deployment) is not None)
