"""A hub with one small model, the real servers, and pods that fetch from them."""

import ssl
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from e2e.cluster import pki
from e2e.hub.repository import Repository
from e2e.hub.sample import make_repository
from e2e.hub.server import Hub
from e2e.sources import forward
from tests.runtime.sources import places
from tests.runtime.sources.fetching import Pod
from tests.runtime.sources.places import Place, Servers

WEIGHTS = 3_000_000
MakePod = Callable[..., Pod]


@pytest.fixture
async def hub(tmp_path: Path) -> AsyncIterator[Hub]:
    async with Hub({"org/name": make_repository(tmp_path / "hub" / "name", WEIGHTS)}).serving() as serving:
        yield serving


@pytest.fixture
def repository(hub: Hub) -> Repository:
    return hub.repositories["org/name"]


@pytest.fixture
def authority(tmp_path: Path) -> pki.Authority:
    return pki.Authority(tmp_path / "pki", "an authority of our own")


@pytest.fixture
async def private_hub(tmp_path: Path, authority: pki.Authority) -> AsyncIterator[Hub]:
    """A hub whose certificate a private authority has signed."""
    pair = authority.issue("hub", "hub", hosts=["127.0.0.1", forward.HOST])
    tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    tls.load_cert_chain(pair.certificate, pair.key)
    repository = make_repository(tmp_path / "private-hub" / "name", 1_000_000)
    async with Hub({"org/name": repository}, tls=tls).serving() as serving:
        yield serving


@pytest.fixture
async def pod(tmp_path: Path, hub: Hub) -> AsyncIterator[MakePod]:
    made: list[Pod] = []

    def make(name: str = "pod", **options: Any) -> Pod:
        cache = options.pop("cache", tmp_path / "cache")
        made.append(Pod(tmp_path, hub, cache, name, **options))
        return made[-1]

    yield make
    for one in made:
        if one.process is not None and one.process.returncode is None:
            one.process.kill()
            await one.process.wait()


@pytest.fixture(scope="module")
def servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Servers]:
    with places.all_servers(tmp_path_factory.mktemp("servers")) as running:
        yield running


@pytest.fixture
async def pod_at(tmp_path: Path) -> AsyncIterator[MakePod]:
    """Makes pods that fetch from a place, with the Secret that opens it."""
    made: list[Pod] = []

    def make(place: Place, name: str = "pod", **options: Any) -> Pod:
        cache, secret = options.pop("cache", tmp_path / "cache"), options.pop("secret", place.credentials)
        one = Pod(tmp_path, None, cache, name, **{"uri": place.uri, **options})
        one.give_credentials(secret)
        made.append(one)
        return one

    yield make
    for one in made:
        if one.process is not None and one.process.returncode is None:
            one.process.kill()
            await one.process.wait()
