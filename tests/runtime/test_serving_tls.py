"""TLS over real connections: what is demanded, that new certificates count without a restart, that it heals."""

import asyncio
import gc
import os
import signal
import socket
import ssl
import warnings
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import aiohttp
import pytest

from e2e.cluster.pki import Authority, KeyPair
from gptservice_runtime import contract
from tests.runtime.harness import Runtime, children, until
from tests.runtime.mounted import mount, mount_pair
from tests.runtime.test_key_check import DEMANDED, KEY, put
from tests.runtime.test_scraping import scrape

pytestmark = [
    pytest.mark.wiring,
    pytest.mark.timeout(120),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]

TLS = [contract.TLS_FLAG]
MUTUAL = [contract.TLS_FLAG, contract.REQUIRE_CLIENT_CERTIFICATE_FLAG]
HOSTS = ("127.0.0.1",)


@pytest.fixture(autouse=True)
def collected() -> Iterator[None]:
    """asyncio leaves the transport of a handshake that failed to the collector, which must not warn in another test."""
    yield
    gc.collect()


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return Authority(tmp_path / "ca")


def server_pair(authority: Authority, name: str) -> KeyPair:
    return authority.issue(name, name, hosts=HOSTS)


def client(authority: Authority, pair: KeyPair | None = None) -> ssl.SSLContext:
    """What a client needs that verifies the server by the authority and shows the pair."""
    context = ssl.create_default_context(cafile=str(authority.certificate))
    if pair is not None:
        context.load_cert_chain(pair.certificate, pair.key)
    return context


async def subject(runtime: Runtime, context: ssl.SSLContext) -> str:
    """The common name of the certificate that a new connection is given."""
    _, writer = await asyncio.open_connection("127.0.0.1", runtime.engine_port, ssl=context)
    certificate = writer.get_extra_info("peercert")
    writer.close()
    return str(dict(pair for part in certificate["subject"] for pair in part)["commonName"])


async def answer(runtime: Runtime, context: ssl.SSLContext, **headers: str) -> int:
    """The status of one request over a connection of its own; 0 when none comes about."""
    connector = aiohttp.TCPConnector(ssl=context, force_close=True)
    async with aiohttp.ClientSession(connector=connector) as session:
        try:
            async with session.get(runtime.url("/v1/models"), headers=headers) as response:
                return response.status
        except (aiohttp.ClientError, ConnectionError):
            return 0


@pytest.fixture
async def served(runtime: Runtime, authority: Authority) -> Runtime:
    mount_pair(runtime.tls_directory, server_pair(authority, "first"))
    runtime.scheme = "https"
    runtime.start(options=TLS)
    await runtime.ready()
    return runtime


@pytest.fixture
async def mutual(runtime: Runtime, authority: Authority) -> Runtime:
    mount_pair(runtime.tls_directory, server_pair(authority, "first"))
    mount(runtime.client_ca_directory, ca_crt=authority.certificate.read_bytes())
    runtime.scheme = "https"
    runtime.start(options=MUTUAL)
    await runtime.ready()
    return runtime


async def test_it_is_served_with_the_certificate_and_scraped(served: Runtime, authority: Authority) -> None:
    assert await answer(served, client(authority)) == 200
    assert await subject(served, client(authority)) == "first"
    assert (await scrape(served))["gptservice_engine_up"] == 1


async def test_plain_http_and_old_versions_are_refused(served: Runtime, authority: Authority) -> None:
    with pytest.raises(aiohttp.ClientError):
        await served.session.get(f"http://127.0.0.1:{served.engine_port}/v1/models")
    for version, expected in (("TLSv1_1", 0), ("TLSv1_2", 200), ("TLSv1_3", 200)):
        context = client(authority)
        context.set_ciphers("DEFAULT:@SECLEVEL=0")  # Or the client itself would refuse the old one.
        with warnings.catch_warnings(action="ignore", category=DeprecationWarning):
            context.minimum_version = context.maximum_version = ssl.TLSVersion[version]
        assert await answer(served, context) == expected, version


async def test_three_rotations_in_a_row_need_no_restart(served: Runtime, authority: Authority) -> None:
    engine = await served.engine_pid()
    for name in ("second", "third", "fourth"):
        mount_pair(served.tls_directory, server_pair(authority, name))

        async def shown(expected: str = name) -> bool:
            return await subject(served, client(authority)) == expected

        await until(shown, f"the {name} certificate")
        assert await answer(served, client(authority)) == 200
    assert children(served.pid) == [engine]
    assert (await served.probe())[0] == 200


async def test_a_connection_that_is_open_goes_on(served: Runtime, authority: Authority) -> None:
    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(ssl=client(authority))) as session:
        body = {
            "model": "main-name",
            "prompt": "hello",
            "stream": True,
            "standin": {"tokens": 100, "token_milliseconds": 50},
        }
        async with session.post(served.url("/v1/completions"), json=body) as response:
            await response.content.readline()
            mount_pair(served.tls_directory, server_pair(authority, "second"))

            async def shown() -> bool:
                return await subject(served, client(authority)) == "second"

            await until(shown, "the second certificate")
            assert b"[DONE]" in await response.read()


async def test_a_broken_certificate_is_refused_and_told_and_the_old_one_stays(
    served: Runtime, authority: Authority
) -> None:
    good = server_pair(authority, "broken")
    mount(served.tls_directory, tls_crt=good.certificate.read_bytes(), tls_key=b"nonsense")

    async def told() -> bool:
        assert await subject(served, client(authority)) == "first"
        return "the certificate known before stays" in served.stderr

    await until(told, "the warning")
    mount_pair(served.tls_directory, authority.issue("old", "old", hosts=HOSTS, lifetime=timedelta(minutes=-1)))
    await until(lambda: answer(served, client(authority)), "an answer")
    await asyncio.sleep(contract.TLS_POLL_SECONDS)
    assert await subject(served, client(authority)) == "first"


async def test_only_a_client_certificate_of_the_ca_gets_in(
    mutual: Runtime, authority: Authority, tmp_path: Path
) -> None:
    stranger = Authority(tmp_path / "strangers")
    assert await answer(mutual, client(authority, authority.issue("client", "client"))) == 200
    assert await answer(mutual, client(authority)) == 0
    assert await answer(mutual, client(authority, stranger.issue("client", "client"))) == 0
    assert (await scrape(mutual))["gptservice_engine_up"] == 1, "though the supervisor has no certificate"


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
async def test_another_client_ca_shuts_out_the_clients_of_the_old_one(
    mutual: Runtime, authority: Authority, tmp_path: Path, version: ssl.TLSVersion
) -> None:
    other = Authority(tmp_path / "others", "others")
    old = client(authority, authority.issue("client", "client"))
    new = client(authority, other.issue("client", "client"))
    for context in (old, new):
        context.maximum_version = version
    assert (await answer(mutual, old), await answer(mutual, new)) == (200, 0)
    both = authority.certificate.read_bytes() + other.certificate.read_bytes()
    mount(mutual.client_ca_directory, ca_crt=both)
    await until(lambda: answer(mutual, new), "the new clients to be let in")
    assert await answer(mutual, old) == 200, "both, while clients change"
    mount(mutual.client_ca_directory, ca_crt=other.certificate.read_bytes())

    async def shut_out() -> bool:
        return await answer(mutual, old) == 0

    await until(shut_out, "the old clients to be shut out")
    assert await answer(mutual, new) == 200


async def test_a_session_does_not_outlive_the_ca(mutual: Runtime, authority: Authority, tmp_path: Path) -> None:
    other = Authority(tmp_path / "others", "others")
    context = client(authority, authority.issue("client", "client"))
    context.maximum_version = ssl.TLSVersion.TLSv1_2
    session = await asyncio.to_thread(_session, mutual.engine_port, context, None)
    mount(mutual.client_ca_directory, ca_crt=other.certificate.read_bytes())
    new = client(authority, other.issue("client", "client"))
    await until(lambda: answer(mutual, new), "the new CA to count")
    with pytest.raises(ssl.SSLError):
        await asyncio.to_thread(_session, mutual.engine_port, context, session)


def _session(port: int, context: ssl.SSLContext, session: ssl.SSLSession | None) -> ssl.SSLSession | None:
    with (
        socket.create_connection(("127.0.0.1", port)) as raw,
        context.wrap_socket(raw, server_hostname="127.0.0.1", session=session) as connection,
    ):
        connection.sendall(b"GET /v1/models HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")
        assert connection.recv(100)
        return connection.session


async def test_with_keys_too_both_are_needed(runtime: Runtime, authority: Authority) -> None:
    mount_pair(runtime.tls_directory, server_pair(authority, "first"))
    mount(runtime.client_ca_directory, ca_crt=authority.certificate.read_bytes())
    put(runtime.keys_directory, KEY)
    runtime.scheme = "https"
    runtime.start(options=[*MUTUAL, *DEMANDED])
    await runtime.ready()
    context = client(authority, authority.issue("client", "client"))
    assert await answer(runtime, context) == 401
    assert await answer(runtime, context, Authorization=f"Bearer {KEY}") == 200
    assert await answer(runtime, client(authority), Authorization=f"Bearer {KEY}") == 0


def _own_socket(runtime: Runtime, engine: int) -> Path:
    variables = Path(f"/proc/{engine}/environ").read_text().split("\0")
    return Path(next(part.partition("=")[2] for part in variables if part.startswith("GPTSERVICE_OWN_SOCKET=")))


async def test_the_supervisors_own_way_in_is_closed_to_others(mutual: Runtime) -> None:
    way = _own_socket(mutual, await mutual.engine_pid())
    assert way.parent.stat().st_mode & 0o777 == 0o700
    assert way.stat().st_mode & 0o777 == 0o600
    async with aiohttp.ClientSession(connector=aiohttp.UnixConnector(str(way))) as session:
        for headers in ({}, {"X-Forwarded-For": "10.0.0.1"}):
            async with session.get("http://engine/v1/models", headers=headers) as response:
                assert response.status == 403
    mutual.signal(signal.SIGTERM)
    assert await mutual.ended() == 0
    assert not way.parent.exists()


async def test_without_client_certificates_there_is_no_such_way(served: Runtime) -> None:
    assert _own_socket(served, await served.engine_pid()) == Path()


async def test_a_missing_certificate_is_told_and_it_goes_on_by_itself(runtime: Runtime, authority: Authority) -> None:
    runtime.tls_directory.mkdir()
    runtime.scheme = "https"
    runtime.start(options=TLS)
    body: dict[str, str] = {}

    async def told() -> bool:
        body.update((await runtime.probe())[1])
        return body.get("reason") == "CertificateUnusable"

    await until(told, "the reason")
    assert body["phase"] == "Checking"
    assert "there is no tls.crt" in body["message"]
    mount_pair(runtime.tls_directory, server_pair(authority, "late"))
    await runtime.ready()
    assert await subject(runtime, client(authority)) == "late"


async def test_without_one_the_container_ends_when_its_time_is_over(runtime: Runtime, authority: Authority) -> None:
    mount_pair(runtime.tls_directory, authority.issue("client", "only for clients"))
    runtime.start(options=TLS, startup_timeout=1)
    assert await runtime.ended() == contract.EXIT_FAILURE
    assert runtime.message()["reason"] == "CertificateUnusable"
    assert "purpose" in runtime.message()["message"]


async def test_sigterm_while_it_waits_ends_it_well(runtime: Runtime) -> None:
    runtime.start(options=TLS)
    await until(lambda: "not ready" in runtime.stderr, "the waiting")
    runtime.signal(signal.SIGTERM)
    assert await runtime.ended() == 0
    assert not runtime.termination_log.exists()


async def test_the_key_is_copied_nowhere(mutual: Runtime) -> None:
    key = (mutual.tls_directory / "tls.key").read_bytes().splitlines()[1]
    engine = await mutual.engine_pid()
    places = [Path(f"/proc/{pid}/{what}") for pid in (engine, mutual.pid) for what in ("environ", "cmdline")]
    written = [Path(folder) / name for folder, _, names in os.walk(mutual.cache_root) for name in names]
    for place in (*places, *written, mutual.folder / "stdout", mutual.folder / "stderr"):
        assert key not in place.read_bytes()
