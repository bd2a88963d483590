"""TLS on a real node: certificates as the kubelet mounts them, and new ones without a restart."""

from __future__ import annotations

import asyncio
import gc
import ssl
from collections.abc import Iterator
from pathlib import Path

import aiohttp
import pytest

from e2e import client
from e2e.api.state import Observer, holds
from e2e.cluster.pki import Authority, KeyPair
from e2e.kube import Kube, Object
from e2e.node import containers
from e2e.node.release import VLLM, Release
from e2e.node.services import SOON, standin
from e2e.reach import Reach

pytestmark = pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")

NAME = "secured"
# As for API keys: when the kubelet looks at the pod next.
ARRIVES_SECONDS = 150.0


def pair(authority: Authority, namespace: str) -> KeyPair:
    return authority.issue("server", "server", hosts=(f"{NAME}.{namespace}.svc",))


def tls_secret(name: str, pair: KeyPair) -> Object:
    data = {"tls.crt": pair.certificate.read_text(), "tls.key": pair.key.read_text()}
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": name},
        "type": "kubernetes.io/tls",
        "stringData": data,
    }


def ca_secret(authority: Authority) -> Object:
    data = {"root.pem": authority.certificate.read_text(), "root.key": "not for the pods"}
    return {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "clients"}, "stringData": data}


def trusting(server: Authority, own: KeyPair | None = None) -> ssl.SSLContext:
    context = ssl.create_default_context(cafile=str(server.certificate))
    if own is not None:
        context.load_cert_chain(own.certificate, own.key)
    return context


@pytest.fixture(autouse=True)
def collected() -> Iterator[None]:
    """asyncio leaves the transport of a handshake that failed to the collector, which must not warn in another test."""
    yield
    gc.collect()


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("authority"), "first")


@pytest.fixture(scope="module")
def secured(release: Release, kube: Kube, namespace: str, observer: Observer, authority: Authority) -> Object:
    """Served by TLS to clients with a certificate and without a key, once its Secret is there."""
    release.use(VLLM)
    kube.create(ca_secret(authority), namespace)
    tls = {"secretName": "cert", "clientCASecretRef": {"name": "clients", "key": "root.pem"}}
    kube.apply(standin(NAME, tls=tls, auth={"disabled": True}), namespace)
    observer.wait(lambda o: holds(o, "Ready", "False", "SecretNotFound"), "to miss the Secret", NAME, timeout=SOON)
    kube.create(tls_secret("cert", pair(authority, namespace)), namespace)
    return observer.wait_ready(NAME, timeout=SOON)


async def status(reach: Reach, service: Object, context: ssl.SSLContext) -> int:
    """The status of one request at the endpoint, by its name and over a connection of its own; 0 when none comes."""
    namespace = service["metadata"]["namespace"]
    with reach.route(namespace, client.k8s_service_name(service)) as route:
        connector = aiohttp.TCPConnector(ssl=context, socket_factory=route.socket_factory, force_close=True)
        url = route.url.replace("http://", "https://") + "/v1/models"
        async with aiohttp.ClientSession(connector=connector, timeout=aiohttp.ClientTimeout(total=10)) as session:
            try:
                async with session.get(url, server_hostname=f"{NAME}.{namespace}.svc") as response:
                    return response.status
            except (aiohttp.ClientError, TimeoutError, OSError):
                return 0


async def until_it_is(reach: Reach, service: Object, context: ssl.SSLContext, wanted: int) -> None:
    async with asyncio.timeout(ARRIVES_SECONDS):
        while await status(reach, service, context) != wanted:  # noqa: ASYNC110 - clients have no other way
            await asyncio.sleep(0.5)


async def test_it_is_served_by_the_name_of_its_endpoint(
    secured: Object, reach: Reach, authority: Authority, namespace: str
) -> None:
    assert secured["status"]["endpoint"] == f"https://{NAME}.{namespace}.svc:443"
    await until_it_is(reach, secured, trusting(authority, authority.issue("client", "client")), 200)


async def test_a_client_needs_a_certificate_of_the_ca(
    secured: Object, reach: Reach, authority: Authority, tmp_path: Path
) -> None:
    await until_it_is(reach, secured, trusting(authority, authority.issue("client", "client")), 200)
    assert await status(reach, secured, trusting(authority)) == 0
    stranger = Authority(tmp_path / "strangers", "strangers")
    assert await status(reach, secured, trusting(authority, stranger.issue("client", "client"))) == 0


def test_the_key_of_the_ca_does_not_reach_the_pod(secured: Object, observer: Observer) -> None:
    (pod,) = observer.pods(NAME)
    inside = Path(f"/proc/{containers.first_process(containers.status(pod))}/root/etc/gptservice")
    assert [each.name for each in (inside / "client-ca").glob("[!.]*")] == ["ca.crt"]
    assert {each.name for each in (inside / "tls").glob("[!.]*")} == {"tls.crt", "tls.key"}


@pytest.mark.parametrize("rotations", [1, pytest.param(3, marks=pytest.mark.long)])
async def test_another_certificate_counts_without_a_restart(
    secured: Object,
    reach: Reach,
    authority: Authority,
    kube: Kube,
    namespace: str,
    observer: Observer,
    tmp_path: Path,
    rotations: int,
) -> None:
    own = authority.issue("client", "client")
    before = list(map(containers.identity, observer.pods(NAME)))
    for number in range(rotations):
        issuer = Authority(tmp_path / str(number), f"issuer {number}")
        kube.merge(
            "Secret", "cert", namespace, {"stringData": tls_secret("cert", pair(issuer, namespace))["stringData"]}
        )
        await until_it_is(reach, secured, trusting(issuer, own), 200)
    assert list(map(containers.identity, observer.pods(NAME))) == before
    assert await status(reach, secured, trusting(authority, own)) == 0, "the first is still shown"


@pytest.mark.long
async def test_so_does_another_client_ca(
    secured: Object, reach: Reach, authority: Authority, kube: Kube, namespace: str, observer: Observer, tmp_path: Path
) -> None:
    new_pair = pair(authority, namespace)
    kube.merge("Secret", "cert", namespace, {"stringData": tls_secret("cert", new_pair)["stringData"]})
    old, other = authority.issue("client", "client"), Authority(tmp_path / "other", "other")
    await until_it_is(reach, secured, trusting(authority, old), 200)
    before = list(map(containers.identity, observer.pods(NAME)))
    kube.merge("Secret", "clients", namespace, {"stringData": ca_secret(other)["stringData"]})
    await until_it_is(reach, secured, trusting(authority, old), 0)
    assert await status(reach, secured, trusting(authority, other.issue("client", "client"))) == 200
    assert list(map(containers.identity, observer.pods(NAME))) == before
