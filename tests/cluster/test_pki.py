import base64
import json
import socket
import ssl
import threading
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.exceptions import InvalidSignature

from e2e.cluster import credentials, pki


@pytest.fixture
def issued(tmp_path: Path) -> credentials.Credentials:
    return credentials.issue(
        tmp_path / "c1", server="https://127.0.0.1:1", hosts=["127.0.0.1", "localhost", "kubernetes"], node="node1"
    )


def handshake(issued: credentials.Credentials, *, server: str, client: str, host: str) -> dict[str, str]:
    """Connects as `client` to a server with certificate `server`; returns the subject that the server saw."""
    authority = str(issued.authority.certificate)
    inside = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cafile=authority)
    inside.verify_mode = ssl.CERT_REQUIRED
    inside.load_cert_chain(issued.pair(server).certificate, issued.pair(server).key)
    outside = ssl.create_default_context(cafile=authority)
    outside.load_cert_chain(issued.pair(client).certificate, issued.pair(client).key)
    ours, theirs = socket.socketpair()
    seen: dict[str, str] = {}

    def serve() -> None:
        with inside.wrap_socket(theirs, server_side=True) as connection:
            subject = connection.getpeercert() or {}
            seen.update({key: value for part in subject["subject"] for key, value in part})
            connection.recv(1)

    thread = threading.Thread(target=serve)
    thread.start()
    try:
        with outside.wrap_socket(ours, server_hostname=host) as connection:
            connection.send(b"x")
    finally:
        ours.close()
        thread.join(10)
    return seen


def test_a_component_is_seen_as_its_kubernetes_user_and_group(issued: credentials.Credentials) -> None:
    seen = handshake(issued, server="apiserver", client="kubelet", host="127.0.0.1")
    assert seen == {"commonName": "system:node:node1", "organizationName": "system:nodes"}


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "kubernetes"])
def test_the_api_server_answers_under_all_its_names(issued: credentials.Credentials, host: str) -> None:
    assert handshake(issued, server="apiserver", client="admin", host=host)["organizationName"] == "system:masters"


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_a_client_certificate_serves_nobody(issued: credentials.Credentials) -> None:
    with pytest.raises(ssl.SSLCertVerificationError):
        handshake(issued, server="kube-scheduler", client="admin", host="127.0.0.1")


def test_a_kubeconfig_stands_alone_and_only_its_owner_may_read_it(issued: credentials.Credentials) -> None:
    path = issued.kubeconfig("admin")
    content = json.loads(path.read_text())
    user = content["users"][0]["user"]
    certificate = x509.load_pem_x509_certificate(base64.b64decode(user["client-certificate-data"]))
    assert certificate.subject.rfc4514_string() == "CN=kubernetes-admin,O=system:masters"
    assert content["clusters"][0]["cluster"]["server"] == "https://127.0.0.1:1"
    assert content["current-context"] == content["contexts"][0]["name"] == "c1"
    assert path.stat().st_mode & 0o077 == 0


def test_private_keys_are_private(issued: credentials.Credentials) -> None:
    keys = list((issued.folder / "pki").glob("*.key"))
    assert len(keys) >= 10
    assert [key.name for key in keys if key.stat().st_mode & 0o077] == []


def test_two_clusters_do_not_trust_each_other(tmp_path: Path) -> None:
    own = x509.load_pem_x509_certificate(pki.Authority(tmp_path / "one").certificate.read_bytes())
    foreign = pki.Authority(tmp_path / "two").issue("x", "x").certificate
    with pytest.raises(InvalidSignature):
        x509.load_pem_x509_certificate(foreign.read_bytes()).verify_directly_issued_by(own)
