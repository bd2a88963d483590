"""Everything that a fetch asks for goes through a proxy where one is named: no name here can be resolved but by it."""

from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from e2e.cluster import pki
from e2e.hub.server import Hub
from e2e.sources.forward import HOST, ForwardProxy
from gptservice_runtime import contract
from tests.runtime.sources import clients
from tests.runtime.sources.conftest import MakePod
from tests.runtime.sources.fetching import Pod, assert_model
from tests.runtime.sources.places import NAMES, Servers


@pytest.fixture
async def proxy() -> AsyncIterator[ForwardProxy]:
    async with ForwardProxy().serving() as serving:
        yield serving


def by(proxy: ForwardProxy, **more: str) -> dict[str, str]:
    return {"HTTP_PROXY": proxy.url, "HTTPS_PROXY": proxy.url, **more}


def elsewhere(url: str) -> str:
    """The same port of a host that is nowhere."""
    return url.replace("127.0.0.1", HOST)


@pytest.mark.api  # needs Go binaries, no cluster
@pytest.mark.parametrize("name", NAMES)
async def test_a_store_is_reached_by_it_alone(
    servers: Servers, proxy: ForwardProxy, pod_at: MakePod, name: str
) -> None:
    with servers.place(name, tls=True) as place:
        beyond = replace(
            place,
            uri=elsewhere(place.uri),
            credentials={key: elsewhere(text) for key, text in place.credentials.items()},
        )
        one = pod_at(beyond, environment=by(proxy))
        assert_model(await one.fetch(), one, servers.model)
        assert f"{HOST}:{place.gate.port}" in proxy.asked


@pytest.mark.parametrize("tls", [True, False], ids=["https", "http"])
async def test_a_hub_is_reached_by_it_alone(
    hub: Hub, private_hub: Hub, authority: pki.Authority, proxy: ForwardProxy, tmp_path: Path, tls: bool
) -> None:
    subject = private_hub if tls else hub
    options = [contract.CA_BUNDLE_FLAG, str(authority.certificate)]
    environment = by(proxy, HF_ENDPOINT=elsewhere(subject.endpoint))
    one = Pod(tmp_path, None, tmp_path / "cache", environment=environment, options=options)
    assert_model(await one.fetch(), one, subject.repositories["org/name"].folder)
    assert set(proxy.asked) == {f"{HOST}:{subject.port}", f"{HOST}:{subject.cdn_port}"}, "the list, and the files"


async def test_hosts_that_are_left_out_are_asked_directly(hub: Hub, proxy: ForwardProxy, tmp_path: Path) -> None:
    one = Pod(tmp_path, hub, tmp_path / "cache", environment=by(proxy, NO_PROXY="example.com,127.0.0.1"))
    assert_model(await one.fetch(), one, hub.repositories["org/name"].folder)
    assert proxy.asked == []


async def test_a_proxy_that_lets_nothing_through_is_told(private_hub: Hub, tmp_path: Path) -> None:
    async with ForwardProxy(refuses=True).serving() as proxy:
        outcome = await Pod(tmp_path, private_hub, tmp_path / "cache", environment=by(proxy)).fetch()
    assert outcome.message["reason"] == "ModelDownloadFailed", outcome.log
    assert "Proxy" in outcome.message["message"]


async def test_a_proxy_that_breaks_tls_open_has_to_be_trusted(
    private_hub: Hub, proxy: ForwardProxy, tmp_path: Path
) -> None:
    environment = by(proxy, HF_ENDPOINT=elsewhere(private_hub.endpoint))
    outcome = await Pod(tmp_path, None, tmp_path / "cache", environment=environment).fetch()
    assert "runtime.caBundle" in outcome.message["message"]


@pytest.mark.parametrize("client", clients.CLIENTS)
async def test_every_library_obeys(
    private_hub: Hub, authority: pki.Authority, proxy: ForwardProxy, client: str
) -> None:
    url = elsewhere(f"{private_hub.endpoint}/api/models/org/name")
    answer = await clients.asked(client, url, str(authority.certificate), environment=by(proxy))
    assert answer == (0, "200\n")
    assert proxy.asked == [urlsplit(url).netloc]
