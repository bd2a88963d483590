"""Keys, certificates and credentials: ``spec.auth``, ``spec.tls`` and the references to Secrets.

Every reference is to the service's own namespace: there is no namespace field.
"""

from typing import Annotated, Literal

from pydantic import ConfigDict, Field, model_validator

from .base import ApiModel, Name, cel, rules
from .engine import DataKey

_ONE_SOURCE = "exactly one of generate and secretRef must be set"
_ONE_WAY = "exactly one of apiKeys and disabled must be set"
_ONE_CERTIFICATE = "exactly one of secretName and issuerRef must be set"


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

    model_config = ConfigDict(json_schema_extra=rules(cel("has(self.generate) != has(self.secretRef)", _ONE_SOURCE)))

    generate: Literal[True] | None = None
    """Make a key and keep it in a Secret, which status.authSecret names."""
    secret_ref: SecretRef | None = None
    """Secret whose values hold the keys, one per line."""

    @model_validator(mode="after")
    def _one_source(self) -> "ApiKeys":
        if (self.generate is None) == (self.secret_ref is None):
            raise ValueError(_ONE_SOURCE)
        return self


class Auth(ApiModel):
    """What a client must show. A generated key if absent."""

    model_config = ConfigDict(json_schema_extra=rules(cel("has(self.apiKeys) != has(self.disabled)", _ONE_WAY)))

    api_keys: ApiKeys | None = None
    """Clients send one of these keys."""
    disabled: Literal[True] | None = None
    """Anybody who reaches the Service may use it."""

    @model_validator(mode="after")
    def _one_way(self) -> "Auth":
        if (self.api_keys is None) == (self.disabled is None):
            raise ValueError(_ONE_WAY)
        return self


class IssuerRef(ApiModel):
    """A cert-manager issuer."""

    name: Name
    """Issuer's name."""
    kind: Literal["Issuer", "ClusterIssuer"] | None = None
    """Issuer if absent."""
    group: Annotated[str, Field(min_length=1, max_length=253)] | None = None
    """cert-manager.io if absent."""


class Tls(ApiModel):
    """TLS on the serving port. Certificates are re-read when they change."""

    model_config = ConfigDict(
        json_schema_extra=rules(cel("has(self.secretName) != has(self.issuerRef)", _ONE_CERTIFICATE))
    )

    secret_name: Name | None = None
    """Secret of type kubernetes.io/tls."""
    issuer_ref: IssuerRef | None = None
    """Have cert-manager issue a certificate."""
    client_ca_secret_ref: SecretKeyRef | None = Field(default=None, alias="clientCASecretRef")
    """CA of client certificates, which are then demanded."""

    @model_validator(mode="after")
    def _one_certificate(self) -> "Tls":
        if (self.secret_name is None) == (self.issuer_ref is None):
            raise ValueError(_ONE_CERTIFICATE)
        return self
