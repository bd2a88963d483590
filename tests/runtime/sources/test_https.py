"""What only web servers have: certificates, redirects, files without a digest."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from e2e.cluster import pki
from e2e.hub.faults import Fault
from e2e.sources.gate import Gate, in_thread
from gptservice_runtime import contract
from tests.runtime.harness import until
from tests.runtime.sources import places
from tests.runtime.sources.conftest import MakePod
from tests.runtime.sources.fetching import assert_model
from tests.runtime.sources.places import Place, Servers

pytestmark = pytest.mark.api  # needs Go binaries, no cluster


@pytest.fixture
def place(servers: Servers) -> Iterator[Place]:
    with servers.place("https") as found:
        yield found


@pytest.fixture
def other(servers: Servers) -> Iterator[Gate]:
    """Another host that has the same file, for everybody."""
    with in_thread(Gate(servers.web, places.WEB_FILES, tls=servers.server_tls)) as gate:
        yield gate


async def test_a_redirect_gets_no_credentials(place: Place, other: Gate, pod_at: MakePod, servers: Servers) -> None:
    signed = f"{other.url}/model.tar?Signature=secret-of-the-other-host"
    place.gate.faults.append(Fault("cdn", status=302, headers={"Location": signed}))
    one = pod_at(place)
    outcome = await one.fetch()
    assert_model(outcome, one, servers.model)
    assert {seen.authorization for seen in other.seen} == {None}
    assert "secret-of-the-other-host" not in outcome.log


async def test_a_redirect_away_from_tls_is_refused(place: Place, pod_at: MakePod, servers: Servers) -> None:
    place.gate.faults.append(Fault("cdn", status=302, headers={"Location": f"{servers.web}/model.tar"}))
    outcome = await pod_at(place).fetch()
    assert outcome.message["reason"] == "ModelDownloadFailed", outcome.log
    assert "without TLS" in outcome.message["message"]


async def test_a_certificate_of_nobody_known_is_named(place: Place, pod_at: MakePod, tmp_path: Path) -> None:
    another = pki.Authority(tmp_path / "another").certificate.read_text()
    outcome = await pod_at(place, secret={"token": "secret-of-the-web", "ca.crt": another}).fetch()
    assert outcome.message["reason"] == "ModelDownloadFailed", outcome.log
    assert "ca.crt" in outcome.message["message"]


async def test_an_authority_that_is_none_is_refused(place: Place, pod_at: MakePod) -> None:
    outcome = await pod_at(place, secret={"token": "x", "ca.crt": "no certificate"}).fetch()
    assert outcome.message["reason"] == "ModelAccessDenied", outcome.log
    assert "key 'ca.crt'" in outcome.message["message"]


@pytest.mark.parametrize("rest", ["folder/", "model.zip", "x?name=model.tar"])
async def test_what_is_no_one_file_is_refused_unasked(place: Place, pod_at: MakePod, rest: str) -> None:
    outcome = await pod_at(replace(place, uri=f"{place.gate.url}/{rest}")).fetch()
    assert outcome.message["reason"] == "InvalidSpec", outcome.log
    assert place.gate.seen == []


async def test_what_is_behind_a_question_mark_is_not_told(place: Place, pod_at: MakePod, servers: Servers) -> None:
    one = pod_at(replace(place, uri=f"{place.uri}?sig=signature-of-the-user"))
    outcome = await one.fetch()
    assert_model(outcome, one, servers.model)
    assert "signature-of-the-user" not in outcome.log + str(outcome.message)
    assert any("sig=signature-of-the-user" in seen.path for seen in place.gate.seen)


async def test_a_file_that_is_replaced_meanwhile_is_not_mixed(place: Place, pod_at: MakePod, servers: Servers) -> None:
    (servers.files / "changing.tar").write_bytes((servers.files / "model.tar").read_bytes())
    place.gate.faults.append(Fault("cdn", times=1, stop_after=500_000, then="close"))
    place.gate.faults.append(Fault("cdn", times=1, status=503))
    one = pod_at(replace(place, uri=f"{place.gate.url}/changing.tar"), options=["--pause", "2"])
    await one.start()
    await until(lambda: place.gate.sent >= 500_000, "the first part")
    changed = bytearray((servers.files / "model.tar").read_bytes())
    changed[600_000] ^= 0xFF
    (servers.files / "changing.tar").write_bytes(changed)
    outcome = await one.ended()
    assert outcome.code == contract.EXIT_OK, outcome.log
    assert "cannot be resumed" in outcome.log
