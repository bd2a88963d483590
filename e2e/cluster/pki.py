"""Keys and certificates of one cluster: elliptic curves (fast to make), one certificate authority.

Everything lives as long as the cluster does, which is made anew rather than renewed.
"""

import ipaddress
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from e2e.cluster import files

_LIFETIME = timedelta(days=365)
# Clocks of host and containers may differ a little.
_BACKDATED = timedelta(minutes=5)


@dataclass(frozen=True)
class KeyPair:
    """Paths of a certificate and its private key, both PEM."""

    certificate: Path
    key: Path


class Authority:
    """Signs every certificate of a cluster and writes them into one folder (private: mode 0700)."""

    def __init__(self, folder: Path, name: str = "gptservice-cluster-ca") -> None:
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        self.folder = folder
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = _name(name, ())
        self._certificate = self._self_signed()
        self.certificate = files.write(folder / "ca.crt", _pem(self._certificate))
        # The controller manager signs certificate requests with it.
        files.write(folder / "ca.key", _private_pem(self._key), mode=0o600)

    def issue(
        self,
        file_name: str,
        common_name: str,
        *,
        groups: Sequence[str] = (),
        hosts: Sequence[str] = (),
        lifetime: timedelta = _LIFETIME,
    ) -> KeyPair:
        """Writes `<file_name>.crt` and `.key`.

        `common_name` is the Kubernetes user, `groups` its groups; `hosts` are the addresses and DNS names a server
        answers under, empty for a pure client. A negative `lifetime` of up to 5 minutes gives one that has expired.
        """
        key = ec.generate_private_key(ec.SECP256R1())
        builder = self._builder(_name(common_name, groups), key.public_key(), lifetime)
        usages = [ExtendedKeyUsageOID.CLIENT_AUTH, *([ExtendedKeyUsageOID.SERVER_AUTH] if hosts else [])]
        builder = builder.add_extension(x509.ExtendedKeyUsage(usages), critical=False)
        if hosts:
            names = x509.SubjectAlternativeName([_host(host) for host in hosts])
            builder = builder.add_extension(names, critical=False)
        certificate = builder.sign(self._key, hashes.SHA256())
        return KeyPair(
            files.write(self.folder / f"{file_name}.crt", _pem(certificate)),
            files.write(self.folder / f"{file_name}.key", _private_pem(key), mode=0o600),
        )

    def _self_signed(self) -> x509.Certificate:
        usage = x509.KeyUsage(
            digital_signature=True, key_cert_sign=True, crl_sign=True, content_commitment=False,
            key_encipherment=False, data_encipherment=False, key_agreement=False, encipher_only=False,
            decipher_only=False,
        )  # fmt: skip
        builder = self._builder(self._name, self._key.public_key())
        builder = builder.add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        return builder.add_extension(usage, critical=True).sign(self._key, hashes.SHA256())

    def _builder(
        self, subject: x509.Name, key: ec.EllipticCurvePublicKey, lifetime: timedelta = _LIFETIME
    ) -> x509.CertificateBuilder:
        now = datetime.now(UTC)
        return (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(self._name)
            .public_key(key)
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - _BACKDATED)
            .not_valid_after(now + lifetime)
        )


def issue_service_account_key(folder: Path) -> KeyPair:
    """Writes the key that signs service account tokens (`sa.key`) and its public half (`sa.pub`)."""
    key = ec.generate_private_key(ec.SECP256R1())
    public = key.public_key().public_bytes(serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo)
    return KeyPair(
        files.write(folder / "sa.pub", public), files.write(folder / "sa.key", _private_pem(key), mode=0o600)
    )


def _name(common_name: str, groups: Sequence[str]) -> x509.Name:
    organisations = [x509.NameAttribute(NameOID.ORGANIZATION_NAME, group) for group in groups]
    return x509.Name([*organisations, x509.NameAttribute(NameOID.COMMON_NAME, common_name)])


def _host(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        return x509.DNSName(host)


def _pem(certificate: x509.Certificate) -> bytes:
    return certificate.public_bytes(serialization.Encoding.PEM)


def _private_pem(key: ec.EllipticCurvePrivateKey) -> bytes:
    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
