"""Which certificates can be used, and when what is mounted is read again."""

import ssl
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

import pytest
from cryptography.hazmat.primitives import serialization

from e2e.cluster.pki import Authority, KeyPair
from gptservice_runtime import contract, tls
from gptservice_runtime.tls import Certificates, Directories, UnusableCertificateError
from tests.runtime.mounted import mount, mount_pair

HOSTS = ("localhost",)


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return Authority(tmp_path / "ca")


@pytest.fixture
def pair(authority: Authority) -> KeyPair:
    return authority.issue("server", "server", hosts=HOSTS)


@pytest.fixture
def mounted(tmp_path: Path, pair: KeyPair) -> Directories:
    mount_pair(tmp_path / "tls", pair)
    return Directories(certificate=tmp_path / "tls", client_ca=None)


@pytest.fixture
def mutual(mounted: Directories, tmp_path: Path, authority: Authority) -> Directories:
    mount(tmp_path / "client-ca", ca_crt=authority.certificate.read_bytes())
    return Directories(certificate=mounted.certificate, client_ca=tmp_path / "client-ca")


def test_a_context_demands_what_was_asked_for(mutual: Directories) -> None:
    context = tls.usable(mutual)
    assert context.verify_mode is ssl.CERT_REQUIRED
    assert context.minimum_version is ssl.TLSVersion.TLSv1_2
    assert context.num_tickets == 0
    assert tls.usable(Directories(certificate=mutual.certificate, client_ca=None)).verify_mode is ssl.CERT_NONE


def encrypted(key: Path) -> bytes:
    private = serialization.load_pem_private_key(key.read_bytes(), None)
    password = serialization.BestAvailableEncryption(b"secret")
    return private.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, password)


Spoil = Callable[[Path, Authority, KeyPair], None]


def no_certificate(directory: Path, _authority: Authority, pair: KeyPair) -> None:
    mount(directory, tls_key=pair.key.read_bytes())


def no_key(directory: Path, _authority: Authority, pair: KeyPair) -> None:
    mount(directory, tls_crt=pair.certificate.read_bytes())


def another_key(directory: Path, authority: Authority, pair: KeyPair) -> None:
    other = authority.issue("other", "other", hosts=HOSTS)
    mount(directory, tls_crt=pair.certificate.read_bytes(), tls_key=other.key.read_bytes())


def expired(directory: Path, authority: Authority, _pair: KeyPair) -> None:
    mount_pair(directory, authority.issue("old", "old", hosts=HOSTS, lifetime=timedelta(minutes=-1)))


def for_clients_only(directory: Path, authority: Authority, _pair: KeyPair) -> None:
    mount_pair(directory, authority.issue("client", "client"))


def locked(directory: Path, _authority: Authority, pair: KeyPair) -> None:
    mount(directory, tls_crt=pair.certificate.read_bytes(), tls_key=encrypted(pair.key))


def nonsense(directory: Path, _authority: Authority, pair: KeyPair) -> None:
    mount(directory, tls_crt=b"nonsense", tls_key=pair.key.read_bytes())


def emptied(directory: Path, _authority: Authority, _pair: KeyPair) -> None:
    mount(directory, tls_crt=b"", tls_key=b"")


SPOILT = [
    pytest.param(no_certificate, "there is no tls.crt", id="no certificate"),
    pytest.param(no_key, "there is no tls.key", id="no key"),
    pytest.param(another_key, "KEY_VALUES_MISMATCH", id="the key of another"),
    pytest.param(expired, "expired", id="expired"),
    pytest.param(for_clients_only, "purpose", id="for clients only"),
    pytest.param(locked, "cannot be used", id="a key with a password"),
    pytest.param(nonsense, "cannot be used", id="no certificate at all"),
    pytest.param(emptied, "cannot be used", id="empty files"),
]


@pytest.mark.parametrize(("spoil", "said"), SPOILT)
def test_what_no_client_would_take_is_refused(
    mounted: Directories, authority: Authority, pair: KeyPair, spoil: Spoil, said: str
) -> None:
    spoil(mounted.certificate, authority, pair)
    with pytest.raises(UnusableCertificateError, match=said) as refused:
        tls.usable(mounted)
    assert "PRIVATE KEY" not in str(refused.value)


@pytest.mark.parametrize("comment", ["# friendlyName: Zürich\n".encode(), "# Zürich\n".encode("latin-1")])
def test_comments_between_certificates_are_no_business_of_ours(
    mutual: Directories, authority: Authority, pair: KeyPair, comment: bytes
) -> None:
    assert mutual.client_ca is not None
    certificate = comment + pair.certificate.read_bytes()
    mount(mutual.certificate, tls_crt=certificate, tls_key=pair.key.read_bytes())
    mount(mutual.client_ca, ca_crt=comment + authority.certificate.read_bytes() + comment)
    assert tls.usable(mutual).get_ca_certs()


def test_a_client_ca_that_is_nobody_s_ca_is_refused(mutual: Directories, pair: KeyPair) -> None:
    assert mutual.client_ca is not None
    mount(mutual.client_ca, ca_crt=pair.certificate.read_bytes())
    with pytest.raises(UnusableCertificateError, match="is one of a CA"):
        tls.usable(mutual)


@pytest.mark.parametrize(
    ("content", "said"),
    [(None, "there is no ca.crt"), (b"nonsense", "cannot be used"), (b"", "no certificate in ca.crt")],
)
def test_so_is_a_client_ca_that_is_none(mutual: Directories, content: bytes | None, said: str) -> None:
    assert mutual.client_ca is not None
    mount(mutual.client_ca, **({} if content is None else {"ca_crt": content}))
    with pytest.raises(UnusableCertificateError, match=said):
        tls.usable(mutual)


def test_the_client_ca_may_be_the_only_file_under_any_name(mutual: Directories, authority: Authority) -> None:
    assert mutual.client_ca is not None
    pem = authority.certificate.read_bytes()
    mount(mutual.client_ca, team_pem=pem)
    assert tls.usable(mutual).get_ca_certs()
    mount(mutual.client_ca, team_pem=b"nonsense", ca_crt=pem)
    assert tls.usable(mutual).get_ca_certs(), "ca.crt comes before others"
    mount(mutual.client_ca, a_pem=pem, b_pem=pem)
    with pytest.raises(UnusableCertificateError, match=r"there is no ca\.crt"):
        tls.usable(mutual)


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now

    def poll(self) -> None:
        self.now += contract.TLS_POLL_SECONDS


def test_it_is_read_again_only_when_it_is_time_and_has_changed(mounted: Directories, authority: Authority) -> None:
    clock = Clock()
    certificates = Certificates(mounted, clock)
    first = certificates.current()
    mount_pair(mounted.certificate, authority.issue("next", "next", hosts=HOSTS))
    assert certificates.current() is first
    clock.poll()
    second = certificates.current()
    assert second is not first
    clock.poll()
    assert certificates.current() is second


@pytest.mark.parametrize("spoil", [another_key, expired, nonsense, emptied])
def test_what_cannot_be_used_is_told_once_and_changes_nothing(
    mounted: Directories, authority: Authority, pair: KeyPair, spoil: Spoil, caplog: pytest.LogCaptureFixture
) -> None:
    clock = Clock()
    certificates = Certificates(mounted, clock)
    first = certificates.current()
    spoil(mounted.certificate, authority, pair)
    for _ in range(3):
        clock.poll()
        assert certificates.current() is first
    assert len(caplog.records) == 1
    assert "the certificate known before stays" in caplog.text
    mount_pair(mounted.certificate, authority.issue("good", "good", hosts=HOSTS))
    clock.poll()
    assert certificates.current() is not first


def test_a_directory_that_is_gone_changes_nothing(mounted: Directories) -> None:
    clock = Clock()
    certificates = Certificates(mounted, clock)
    first = certificates.current()
    mounted.certificate.rename(mounted.certificate.with_name("away"))
    clock.poll()
    assert certificates.current() is first


def test_another_client_ca_is_a_change(mutual: Directories, tmp_path: Path) -> None:
    clock = Clock()
    certificates = Certificates(mutual, clock)
    first = certificates.current()
    mount(tmp_path / "client-ca", ca_crt=Authority(tmp_path / "other").certificate.read_bytes())
    clock.poll()
    assert certificates.current() is not first
