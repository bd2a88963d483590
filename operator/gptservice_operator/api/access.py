"""Keys, certificates and credentials: ``spec.auth``, ``spec.tls`` and the references to Secrets.

Every reference is to the service's own namespace: there is no namespace field.
"""

from typing import Annotated, ClassVar, Literal

from pydantic import Field

from .base import ApiModel, Rule
from .words import DNS_SUBDOMAIN, DataKey, Name


class SecretRef(ApiModel):
    """A Secret in the service's namespace."""

    name: Name
    """Secret's name."""


class SecretKeyRef(ApiModel):
    """A key of a Secret in the service's namespace."""

    name: Name
    """Secret's name."""
    key: DataKey | None = None
    """Key in it; the only one there is if absent."""


class ApiKeys(ApiModel):
    """Where the keys come from that clients must send."""

    rules: ClassVar[tuple[Rule, ...]] = (
        Rule(
            "has(self.generate) != has(self.secretRef)",
            "exactly one of generate and secretRef must be set",
            lambda keys: (keys.generate is None) != (keys.secret_ref is None),
        ),
    )

    generate: Literal[True] | None = None
    """Make a key and keep it in a Secret, which status.authSecret names."""
    secret_ref: SecretRef | None = None
    """Secret whose values hold the keys, one per line."""


class Auth(ApiModel):
    """What a client must show. A generated key if absent."""

    rules: ClassVar[tuple[Rule, ...]] = (
        Rule(
            "has(self.apiKeys) != has(self.disabled)",
            "exactly one of apiKeys and disabled must be set",
            lambda auth: (auth.api_keys is None) != (auth.disabled is None),
        ),
    )

    api_keys: ApiKeys | None = None
    """Clients send one of these keys."""
    disabled: Literal[True] | None = None
    """Anybody who reaches the Service may use it."""


class IssuerRef(ApiModel):
    """A cert-manager issuer."""

    name: Name
    """Issuer's name."""
    kind: Literal["Issuer", "ClusterIssuer"] | None = None
    """Issuer if absent."""
    group: Annotated[str, Field(min_length=1, max_length=253, pattern=rf"^{DNS_SUBDOMAIN}$")] | None = None
    """cert-manager.io if absent."""


class Tls(ApiModel):
    """TLS on the serving port. Certificates are re-read when they change."""

    rules: ClassVar[tuple[Rule, ...]] = (
        Rule(
            "has(self.secretName) != has(self.issuerRef)",
            "exactly one of secretName and issuerRef must be set",
            lambda tls: (tls.secret_name is None) != (tls.issuer_ref is None),
        ),
    )

    secret_name: Name | None = None
    """Secret of type kubernetes.io/tls."""
    issuer_ref: IssuerRef | None = None
    """Have cert-manager issue a certificate."""
    client_ca_secret_ref: SecretKeyRef | None = Field(default=None, alias="clientCASecretRef")
    """CA of client certificates, which are then demanded."""
