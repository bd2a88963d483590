"""What one pass is to bring about, from its snapshot alone: the children as they should be, and what to say of them."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from . import child, companions, names, parse, replicas, resolve, revisions
from .actions import Chain, Delete, Manifest
from .api import kinds
from .api.body import section
from .config import Config
from .render import controller_revision, deployment, render
from .render.resolved import Refusal, Resolved
from .store import Observed, Snapshot


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """The outcome for one service."""

    resolved: Resolved | Refusal
    stop: Chain = ()
    """What comes before anything else, and even if the service is refused."""
    desired: tuple[Manifest, ...] = ()
    """Every child's manifest, in the order in which they are written; none if the service is refused."""
    expired: tuple[Delete, ...] = ()
    """Revisions that leave the history."""
    revision: tuple[str, str] = kinds.CONTROLLER_REVISION.name, ""
    """Kind and name of the ControllerRevision that keeps the Deployment's pod template."""
    effective: Mapping[str, Any] | None = None
    """What the layers came to when the revision was made."""
    warnings: tuple[str, ...] = ()


def decide(snapshot: Snapshot, config: Config, served: frozenset[kinds.Kind] = frozenset()) -> Decision:
    """Return what the snapshot comes to.

    A service whose revision is kept runs on what that keeps: neither the catalogue nor this operator's configuration is
    asked again.

    Args:
        snapshot: what there is of the service.
        config: the operator's configuration.
        served: those of the optional kinds that the API server knows.
    """
    service = snapshot.service
    spec, stop = parse.parse(service), _stop(snapshot)
    if isinstance(spec, Refusal):
        return Decision(resolved=spec, stop=stop)
    known = revisions.kept(snapshot.children, service["metadata"]["uid"])
    current = known.get(revisions.key(service))
    resolved = resolve.resolve(
        service,
        spec,
        revisions.catalogue(snapshot.models, current),
        config,
        companions.Seen(snapshot.children, served),
        kept=current is not None or _running_key(snapshot) == revisions.key(service),
    )
    if isinstance(resolved, Refusal):
        return Decision(resolved=resolved, stop=stop)
    fresh = controller_revision.render_data(resolved)
    data = current.data if current is not None else _recovered(resolved, fresh, snapshot) or fresh
    return Decision(
        resolved=resolved,
        stop=stop,
        desired=tuple(render(resolved, data, revisions.number(known, resolved.origin.key))),
        expired=tuple(
            Delete(kinds.CONTROLLER_REVISION.name, one.name, one.uid)
            for one in revisions.expired(known, _referred(resolved, snapshot, known))
        ),
        revision=(kinds.CONTROLLER_REVISION.name, names.controller_revision(resolved.name, resolved.origin.key)),
        effective=data["effective"],
        warnings=_warnings(snapshot, current, fresh["template"], data["template"]),
    )


def _stop(snapshot: Snapshot) -> Chain:
    """A spec that is refused may hold anything; only a count of 0 says that nothing is to run."""
    live = _deployment(snapshot)
    asked = section(snapshot.service, "spec").get("replicas")
    if live is None or isinstance(asked, bool) or asked != 0:
        return ()
    return replicas.stop(names.deployment(snapshot.service["metadata"]["name"]), live)


def _deployment(snapshot: Snapshot) -> Observed | None:
    """Return the live Deployment, if it is the service's."""
    metadata = snapshot.service["metadata"]
    found = snapshot.children.get((kinds.DEPLOYMENT.name, names.deployment(metadata["name"])))
    return found if found is not None and found.controller_uid == metadata["uid"] else None


def _running_key(snapshot: Snapshot) -> str | None:
    live = _deployment(snapshot)
    return revisions.key_of_template(section(live.body, "spec", "template")) if live is not None else None


def _recovered(resolved: Resolved, fresh: Mapping[str, Any], snapshot: Snapshot) -> dict[str, Any] | None:
    """Return what a ControllerRevision kept that somebody deleted, from the Deployment that still runs it.

    None if it does not run it, or if what was applied is exactly what would be rendered now.
    """
    live = _deployment(snapshot)
    template = section(live.body, "spec", "template") if live is not None else {}
    if live is None or revisions.key_of_template(template) != resolved.origin.key:
        return None
    if child.was_applied(deployment.render_deployment(resolved, fresh["template"]), live.body):
        return None
    template = revisions.unowned(template)
    effective = section(snapshot.service, "status", "effective") or fresh["effective"]
    return {
        **fresh,
        "template": template,
        "effective": effective,
        "image": effective.get("image", resolved.image),
        "references": controller_revision.references(template),
    }


def _referred(resolved: Resolved, snapshot: Snapshot, known: Mapping[str, revisions.Kept]) -> set[str]:
    """Return the keys that are in use: of the spec, of the Deployment, of live pods, and the stable one."""
    live = _deployment(snapshot)
    templates = [*snapshot.pods, *([section(live.body, "spec", "template")] if live is not None else [])]
    stable = section(snapshot.service, "status").get("stableRevision")
    keys = {key for template in templates if (key := revisions.key_of_template(template)) is not None}
    return {resolved.origin.key, *keys, *(one.key for one in known.values() if one.name == stable)}


def _warnings(
    snapshot: Snapshot, current: revisions.Kept | None, fresh: Mapping[str, Any], template: Mapping[str, Any]
) -> tuple[str, ...]:
    changed = revisions.model_changed(snapshot.models, current) if current is not None else None
    outdated = revisions.renderer_outdated() if fresh != template else None
    return tuple(warning for warning in (changed, outdated) if warning is not None)
