"""What is made beside the pods: which of it a service wants, and what it comes to with what there is already."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from . import names
from .api import kinds, v1
from .api.body import section
from .api.cache import Cache
from .api.quantity import quantity
from .config import Config
from .render.resolved import CacheClaim, Companions, Issuer
from .store import Observed

DEFAULT_ISSUER_KIND = "Issuer"
DEFAULT_ISSUER_GROUP = "cert-manager.io"
DEFAULT_ACCESS_MODES = ("ReadWriteOnce",)
LEAST_GUARANTEED = 2
"""From so many replicas on a disruption budget helps; for one it would only block every drain of its node."""


@dataclass(frozen=True, slots=True)
class Seen:
    """What there is in the cluster."""

    children: Mapping[tuple[str, str], Observed] = field(default_factory=dict[tuple[str, str], Observed])
    """The service's children by kind and name."""
    served: frozenset[kinds.Kind] = frozenset()
    """Those of the optional kinds that the API server says it has."""
    mounted_certificate: str | None = None
    """The Secret with the certificate in the pod template that is kept of the spec; None if there is neither."""

    def can_have(self, kind: kinds.Kind, name: str) -> bool:
        """Return whether a child of an optional kind can be made, or is there.

        A child that is there weighs more than an answer of the API server's, which may fail for a moment: what is left
        out of the rendered children is deleted.
        """
        return kind in self.served or (kind.name, name) in self.children


NOTHING_SEEN = Seen()


def decide(name: str, uid: str, spec: v1.GPTServiceSpec, config: Config, seen: Seen) -> Companions:
    """Return what a service has beside its pods.

    Args:
        name: the service's name.
        uid: its UID.
        spec: its spec.
        config: the operator's configuration.
        seen: what there is in the cluster.
    """
    claim_name, claim, about_cache = _cache_claim(name, uid, spec.cache or Cache(), seen)
    issuer, about_issuer = _issuer(name, spec, seen)
    has_pod_monitor, about_pod_monitor = _has_pod_monitor(name, spec, seen)
    return Companions(
        makes_service_account=spec.service_account_name is None,
        has_disruption_budget=_has_disruption_budget(spec),
        scrapers=_scrapers(spec, config),
        cache_claim_name=claim_name,
        cache_claim=claim,
        issuer=issuer,
        certificate_secret=_certificate_secret(name, uid, seen),
        has_pod_monitor=has_pod_monitor,
        warnings=(*about_cache, *about_issuer, *about_pod_monitor),
    )


def _has_disruption_budget(spec: v1.GPTServiceSpec) -> bool:
    if spec.disruption_budget is not None and spec.disruption_budget.disabled:
        return False
    return spec.guaranteed_replicas >= LEAST_GUARANTEED


def _scrapers(spec: v1.GPTServiceSpec, config: Config) -> tuple[str, ...] | None:
    if spec.network_policy is not None and spec.network_policy.disabled:
        return None
    named = spec.monitoring.namespaces if spec.monitoring is not None else None
    return tuple(named or (config.namespace,))


def _cache_claim(
    name: str, uid: str, cache: Cache, seen: Seen
) -> tuple[str | None, CacheClaim | None, tuple[str, ...]]:
    """Return the claim at the cache's path, the one to make, and what has to be said about it."""
    if cache.persistent_volume_claim is not None:
        return cache.persistent_volume_claim.claim_name, None, ()
    if cache.size is None:
        return None, None, ()
    modes = tuple(sorted(cache.access_modes or DEFAULT_ACCESS_MODES))
    claim_name = names.cache_claim(name, cache.storage_class_name, modes)
    size, warnings = _never_shrunk(str(cache.size), _live_size(claim_name, uid, seen))
    claim = CacheClaim(size=size, storage_class_name=cache.storage_class_name, access_modes=modes)
    return claim_name, claim, warnings


def _live_size(claim_name: str, uid: str, seen: Seen) -> str | None:
    live = seen.children.get((kinds.PERSISTENT_VOLUME_CLAIM.name, claim_name))
    if live is None or live.controller_uid != uid:
        return None
    return section(live.body, "spec", "resources", "requests").get("storage")


def _never_shrunk(wanted: str, live: str | None) -> tuple[str, tuple[str, ...]]:
    """Return the size to apply. Kubernetes refuses to make a claim smaller."""
    asked, there = quantity(wanted), quantity(live)
    if live is None or asked is None or there is None or asked >= there:
        return wanted, ()
    return live, (f"spec.cache.size {wanted} is less than the {live} of the claim, which cannot shrink: it stays",)


def _issuer(name: str, spec: v1.GPTServiceSpec, seen: Seen) -> tuple[Issuer | None, tuple[str, ...]]:
    reference = spec.tls.issuer_ref if spec.tls is not None else None
    if reference is None:
        return None, ()
    kind = kinds.CERTIFICATE
    if not seen.can_have(kind, names.certificate(name)):
        return None, (
            f"spec.tls.issuerRef: nothing issues the certificate: the cluster has no {kind.name} ({kind.api_version})",
        )
    issuer = Issuer(reference.name, reference.kind or DEFAULT_ISSUER_KIND, reference.group or DEFAULT_ISSUER_GROUP)
    return issuer, ()


def _certificate_secret(name: str, uid: str, seen: Seen) -> str:
    """Return where the certificate is issued to.

    Pods of version 0.1 mount a Secret of another name. It stays, once there is a Certificate that names it: in another
    one, theirs would not be renewed any more.
    """
    own, former = names.certificate_secret(name, uid), names.former_certificate_secret(name)
    if seen.mounted_certificate in (own, former):
        return seen.mounted_certificate
    live = seen.children.get((kinds.CERTIFICATE.name, names.certificate(name)))
    if live is None or live.controller_uid != uid:
        return own
    return former if section(live.body, "spec").get("secretName") == former else own


def _has_pod_monitor(name: str, spec: v1.GPTServiceSpec, seen: Seen) -> tuple[bool, tuple[str, ...]]:
    """Where it was not asked for, a cluster without Prometheus operator is nothing to complain about."""
    wish = spec.monitoring.pod_monitor if spec.monitoring is not None else None
    kind = kinds.POD_MONITOR
    if seen.can_have(kind, names.pod_monitor(name)):
        return wish != "Disabled", ()
    if wish == "Enabled":
        return False, (f"spec.monitoring.podMonitor: no {kind.name} CRD: the cluster does not have {kind.api_version}",)
    return False, ()
