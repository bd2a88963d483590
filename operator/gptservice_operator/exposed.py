"""How the pods are reached after a rollback: as those that run speak, whatever the spec would have them speak."""

import dataclasses
from collections.abc import Iterator

from . import names
from .api.access import SecretKeyRef
from .api.body import Body, entries, first, section
from .api.exposure import DEFAULT_PORT, DEFAULT_TLS_PORT
from .render.resolved import ApiKeys, Resolved, ServingTls


def as_run(resolved: Resolved, template: Body, service: Body) -> Resolved:
    """Return the service with the TLS, the keys and the default port of a template that is run in place of its own.

    Clients of the pods that came back would otherwise find no Service on their port, or another protocol announced.

    Args:
        resolved: what the spec comes to.
        template: the pod template that is run.
        service: the service, which may choose the port.
    """
    tls, client_ca, keys = (secret(template, volume) for volume in ("tls", "client-ca", "keys"))
    generated = names.key_secret(resolved.name, resolved.uid)
    own = names.certificate_secret(resolved.name, resolved.uid)
    issued = own if tls == own else resolved.companions.certificate_secret
    port = section(service, "spec", "service").get("port") or (DEFAULT_PORT if tls is None else DEFAULT_TLS_PORT)
    return dataclasses.replace(
        resolved,
        tls=None if tls is None else ServingTls(tls, None if client_ca is None else SecretKeyRef(name=client_ca)),
        api_keys=None if keys is None else ApiKeys(keys, generated=keys == generated),
        exposure=dataclasses.replace(resolved.exposure, port=port),
        companions=dataclasses.replace(resolved.companions, certificate_secret=issued),
    )


def differences(asked: Resolved, run: Resolved) -> Iterator[str]:
    """Yield the warnings of what clients find otherwise than the spec says, until another revision is rolled out."""
    until = "until another revision is rolled out"
    if _secrets(asked) != _secrets(run):
        mutual = run.tls is not None and run.tls.client_ca is not None
        certificate = "with a certificate of their own" if mutual else "without a certificate of their own"
        yield f"spec.tls: the pods that came back are as before; clients use {run.endpoint} {certificate} {until}"
    before, after = (one.api_keys.secret if one.api_keys is not None else None for one in (asked, run))
    if before != after:
        shown = f"the keys of Secret {after}" if after is not None else "no key"
        yield f"spec.auth: the pods that came back ask for {shown}; clients go on with that {until}"


def _secrets(one: Resolved) -> tuple[str, str | None] | None:
    if one.tls is None:
        return None
    return one.tls.secret, one.tls.client_ca.name if one.tls.client_ca is not None else None


def secret(template: Body, volume: str) -> str | None:
    """Return the name of the Secret that a pod template's volume shows; None if it has no such volume."""
    name = section(first(entries(template, "spec", "volumes"), name=volume), "secret").get("secretName")
    return name if isinstance(name, str) else None
