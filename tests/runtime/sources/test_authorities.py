"""A platform's own authorities: every library that asks for something trusts them, beside those that it knows."""

import asyncio
import os
import ssl
import sys
from pathlib import Path

import certifi
import pytest

from e2e.cluster import pki
from e2e.hub.faults import Fault
from e2e.hub.server import Hub
from gptservice_runtime import contract, models
from gptservice_runtime.sources import authorities
from tests.runtime.harness import PACKAGE_PARENT
from tests.runtime.sources import clients
from tests.runtime.sources.conftest import MakePod
from tests.runtime.sources.fetching import Pod, assert_model
from tests.runtime.sources.places import Servers

REMEDY = "put its authority into runtime.caBundle of the operator's chart"


def trusting(authority: pki.Authority) -> list[str]:
    return [contract.CA_BUNDLE_FLAG, str(authority.certificate)]


class TestHub:
    async def test_a_model_comes_from_a_mirror_with_a_private_authority(
        self, private_hub: Hub, authority: pki.Authority, tmp_path: Path
    ) -> None:
        one = Pod(tmp_path, private_hub, tmp_path / "cache", options=trusting(authority))
        assert_model(await one.fetch(), one, private_hub.repositories["org/name"].folder)
        assert private_hub.count("cdn"), "the host that it redirects to is trusted, too"

    async def test_without_it_the_chart_s_value_is_named(self, private_hub: Hub, tmp_path: Path) -> None:
        outcome = await Pod(tmp_path, private_hub, tmp_path / "cache").fetch()
        assert outcome.message["reason"] == "ModelDownloadFailed", outcome.log
        assert f"its certificate is not trusted: {REMEDY}" in outcome.message["message"]
        assert "modelCredentialsSecretRef" not in outcome.message["message"], "which is refused beside hf://"

    async def test_so_it_is_where_a_file_comes_from_another_host(
        self, hub: Hub, private_hub: Hub, tmp_path: Path
    ) -> None:
        elsewhere = f"{private_hub.endpoint}/org/name/resolve/main/config.json"
        hub.faults.append(Fault("resolve", status=302, headers={"Location": elsewhere}))
        outcome = await Pod(tmp_path, hub, tmp_path / "cache").fetch()
        assert outcome.message["reason"] == "ModelDownloadFailed", outcome.log
        assert REMEDY in outcome.message["message"]


@pytest.mark.api  # needs Go binaries, no cluster
class TestStores:
    @pytest.mark.parametrize("name", ["https", "s3", "gs"])
    async def test_a_model_comes_without_ca_crt_in_the_secret(
        self, servers: Servers, pod_at: MakePod, name: str
    ) -> None:
        with servers.place(name, tls=True) as place:
            secret = {key: value for key, value in place.credentials.items() if key != "ca.crt"}
            one = pod_at(place, secret=secret, options=trusting(servers.authority))
            assert_model(await one.fetch(), one, servers.model)

    async def test_both_count_where_both_are_given(
        self, servers: Servers, authority: pki.Authority, pod_at: MakePod
    ) -> None:
        with servers.place("https") as place:
            assert "ca.crt" in place.credentials
            one = pod_at(place, options=trusting(authority))
            assert_model(await one.fetch(), one, servers.model)

    async def test_without_either_both_ways_are_named(self, servers: Servers, pod_at: MakePod) -> None:
        with servers.place("https") as place:
            outcome = await pod_at(place, secret={"token": "secret-of-the-web"}).fetch()
        assert outcome.message["reason"] == "ModelDownloadFailed", outcome.log
        assert "modelCredentialsSecretRef as ca.crt, or for all services" in outcome.message["message"]
        assert "runtime.caBundle" in outcome.message["message"]

    async def test_inspect_trusts_it_too(self, servers: Servers, tmp_path: Path) -> None:
        (tmp_path / "token").write_text("secret-of-the-web")
        with servers.place("https") as place:
            process = await asyncio.create_subprocess_exec(
                *(sys.executable, "-m", "gptservice_runtime", "inspect", "--uri", place.uri),
                *("--credentials-directory", str(tmp_path), *trusting(servers.authority)),
                env={"PATH": "/usr/bin:/bin", "PYTHONPATH": str(PACKAGE_PARENT)},
                stdout=asyncio.subprocess.PIPE,
            )
            out, _ = await process.communicate()
        assert place.uri in out.decode()


@pytest.mark.parametrize("client", clients.CLIENTS)
async def test_every_library_trusts_them(private_hub: Hub, authority: pki.Authority, client: str) -> None:
    """Hubs are listed, and clouds give tokens, by libraries of their own."""
    url = f"{private_hub.endpoint}/api/models/org/name"
    assert await clients.asked(client, url, str(authority.certificate)) == (0, "200\n")
    code, said = await clients.asked(client, url)
    assert code == 1
    assert "certificate" in said.lower()


class TestFiles:
    """What each library is given."""

    @pytest.fixture
    def environment(self, monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
        names = ("SSL_CERT_FILE", "SSL_CERT_DIR", "REQUESTS_CA_BUNDLE", "AWS_CA_BUNDLE")
        environment = {name: value for name, value in os.environ.items() if name not in names}
        monkeypatch.setattr(os, "environ", environment)
        return environment

    def trusted(self, path: str) -> set[bytes]:
        return set(ssl.create_default_context(cafile=path).get_ca_certs(binary_form=True))

    def test_what_is_trusted_anyway_stays(self, environment: dict[str, str], authority: pki.Authority) -> None:
        own, of_certifi = self.trusted(str(authority.certificate)), self.trusted(certifi.where())
        authorities.trust(authority.certificate)
        for name in ("REQUESTS_CA_BUNDLE", "AWS_CA_BUNDLE"):
            assert self.trusted(environment[name]) == of_certifi | own
        assert own < self.trusted(environment["SSL_CERT_FILE"])

    @pytest.mark.parametrize("folder", [False, True], ids=["a file", "a folder"])
    def test_the_system_s_are_a_file_or_a_folder(
        self,
        environment: dict[str, str],
        authority: pki.Authority,
        tmp_path: Path,
        monkeypatch: pytest.MonkeyPatch,
        folder: bool,
    ) -> None:
        system = pki.Authority(tmp_path / "system", "an authority of the system's")
        (tmp_path / "certs").mkdir()
        (tmp_path / "certs" / "README").write_text("no certificate")
        (tmp_path / "certs" / "0a1b2c3d.0").write_text(system.certificate.read_text())
        file = None if folder else str(system.certificate)
        paths = ssl.DefaultVerifyPaths(file, str(tmp_path / "certs"), "", "", "", "")  # type: ignore[arg-type]
        monkeypatch.setattr(ssl, "get_default_verify_paths", lambda: paths)
        authorities.trust(authority.certificate)
        both = self.trusted(str(system.certificate)) | self.trusted(str(authority.certificate))
        assert self.trusted(environment["SSL_CERT_FILE"]) == both

    def test_what_the_image_names_stays(
        self, environment: dict[str, str], authority: pki.Authority, tmp_path: Path
    ) -> None:
        image = pki.Authority(tmp_path / "image", "an authority of the image's")
        environment["REQUESTS_CA_BUNDLE"] = str(image.certificate)
        authorities.trust(authority.certificate)
        both = self.trusted(str(image.certificate)) | self.trusted(str(authority.certificate))
        assert self.trusted(environment["REQUESTS_CA_BUNDLE"]) == both

    def test_a_bundle_that_was_taken_away_is_none(
        self, environment: dict[str, str], tmp_path: Path, caplog: pytest.LogCaptureFixture
    ) -> None:
        """Pods of a kept revision name it still."""
        before = dict(environment)
        authorities.trust(tmp_path / "ca.crt")
        assert environment == before
        assert "runtime.caBundle" in caplog.text

    def test_one_without_a_certificate_is_refused(self, environment: dict[str, str], tmp_path: Path) -> None:
        (tmp_path / "ca.crt").write_text("no certificate")
        with pytest.raises(models.ModelError, match=r"^runtime\.caBundle: .* holds no certificate in PEM"):
            authorities.trust(tmp_path / "ca.crt")
