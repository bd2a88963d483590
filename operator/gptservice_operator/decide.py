"""What one pass is to bring about, from its snapshot alone: the children as they should be, and what to say of them."""

import dataclasses
import datetime
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from . import (
    added_containers,
    child,
    companions,
    exposed,
    gpu_health,
    names,
    parse,
    pod_state,
    replicas,
    resolve,
    revisions,
)
from .actions import Chain, ChildKey, Delete, Manifest
from .api import kinds
from .api.body import entries, section
from .case import Case
from .cause import Complaint
from .config import Config
from .fate import Fate, judge
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
    effective: Mapping[str, Any] | None = None
    """What the layers came to when the revision was made that is run."""
    fate: Fate = field(default_factory=Fate)
    """What becomes of the revision of the spec."""
    replacement: gpu_health.Replacement = field(default_factory=gpu_health.Replacement)
    """Which pod is deleted for its GPU."""
    in_use: frozenset[ChildKey] = frozenset()
    """What pods of the stable revision refer to, which they need when it has to come back."""
    warnings: tuple[str, ...] = ()


def decide(
    snapshot: Snapshot,
    config: Config,
    now: datetime.datetime,
    served: frozenset[kinds.Kind] = frozenset(),
    complaints: Mapping[str, Complaint] | None = None,
) -> Decision:
    """Return what the snapshot comes to.

    A service whose revision is kept runs on what that keeps: neither the catalogue nor this operator's configuration is
    asked again.

    Args:
        snapshot: what there is of the service.
        config: the operator's configuration.
        now: the wall clock, with a time zone.
        served: those of the optional kinds that the API server knows.
        complaints: what Events said lately of pods that do not start, by pod UID.
    """
    service = snapshot.service
    spec, stop = parse.parse(service), _stop(snapshot)
    if isinstance(spec, Refusal):
        return Decision(resolved=spec, stop=stop)
    known, key = revisions.kept(snapshot.children, service["metadata"]["uid"]), revisions.key(service)
    current = known.get(key)
    is_kept = current is not None or _running_key(snapshot) == key
    catalogue, mounted = revisions.catalogue(snapshot.models, current), _mounted_certificate(snapshot, current, key)
    seen = companions.Seen(snapshot.children, served, mounted)
    resolved = resolve.resolve(service, spec, catalogue, config, seen, kept=is_kept)
    if isinstance(resolved, Refusal):
        return Decision(resolved=resolved, stop=stop)
    fresh = controller_revision.render_data(resolved)
    data = current.data if current is not None else _recovered(resolved, fresh, snapshot) or fresh
    replacement = _replacement(snapshot, known, now)
    decided = judge(_case(snapshot, resolved, known, data, complaints or {}), now).remembering(replacement.mark)
    back_to = decided.back_to
    run = resolved if back_to is None else exposed.as_run(resolved, back_to.data["template"], service)
    manifests = _manifests(run, data, known, decided, _wanted(resolved, snapshot))
    differing = (*exposed.differences(resolved, run), *_in_the_way(manifests, snapshot.deployment))
    return Decision(
        resolved=run,
        stop=stop,
        desired=(*manifests, *_other_revisions(run, known, back_to)),
        expired=tuple(_expired(known, _referred(resolved, snapshot, known))),
        effective=(back_to.data if back_to is not None else data)["effective"],
        fate=decided,
        replacement=replacement,
        in_use=_in_use(resolved, _stable(snapshot, known, key)),
        warnings=(*_warnings(snapshot, current, fresh, data), *differing),
    )


def _mounted_certificate(snapshot: Snapshot, current: revisions.Kept | None, key: str) -> str | None:
    """Return the Secret with the certificate in the template of the spec that is kept, or that runs."""
    if current is not None:
        return exposed.secret(section(current.data, "template"), "tls")
    live = snapshot.deployment
    if live is None or _running_key(snapshot) != key:
        return None
    return exposed.secret(section(live.body, "spec", "template"), "tls")


def _replacement(
    snapshot: Snapshot, known: Mapping[str, revisions.Kept], now: datetime.datetime
) -> gpu_health.Replacement:
    """Another spec does not make it forgotten when a pod was deleted last."""
    live = snapshot.deployment
    kept = [mark for one in known.values() if (mark := one.marks.get(names.GPU_UNHEALTHY)) is not None]
    last = max(kept, key=lambda mark: mark.partition("/")[2], default=None)
    return gpu_health.decide(snapshot.pods, live.body if live is not None else None, last, now)


def _manifests(
    resolved: Resolved, data: Mapping[str, Any], known: Mapping[str, revisions.Kept], decided: Fate, wanted: int
) -> list[Manifest]:
    rollout = resolved.rollout
    if decided.takes_old_first and rollout.strategy == "RollingUpdate":
        rollout = dataclasses.replace(rollout, max_surge=0, max_unavailable=decided.max_unavailable(wanted))
    return render(
        dataclasses.replace(resolved, rollout=rollout),
        data,
        revisions.number(known, resolved.origin.key),
        marks=decided.marks.annotations,
        runs=decided.back_to.data if decided.back_to is not None else None,
    )


def _wanted(resolved: Resolved, snapshot: Snapshot) -> int:
    """Return how many pods the Deployment is to have once it is written: an autoscaler's count is not ours."""
    live = section(snapshot.deployment.body, "spec").get("replicas") if snapshot.deployment is not None else None
    is_scaled = resolved.autoscaling is not None and isinstance(live, int)
    return live if is_scaled and isinstance(live, int) else resolved.replicas


def _expired(known: Mapping[str, revisions.Kept], referred: set[str]) -> Iterator[Delete]:
    for one in revisions.expired(known, referred):
        yield Delete(kinds.CONTROLLER_REVISION.name, one.name, one.uid)


def _other_revisions(
    resolved: Resolved, known: Mapping[str, revisions.Kept], back_to: revisions.Kept | None
) -> Iterator[Manifest]:
    """Yield the revisions that the spec has left, without what was known of them: who comes back begins anew.

    The one that is rolled back to is always among them, so that it is made again if somebody deletes it: without it the
    next failure would find no way back.
    """
    kept = known if back_to is None else {**known, back_to.key: back_to}
    for key, one in kept.items():
        if key != resolved.origin.key and (one.marks or one is back_to) and not one.is_leaving:
            yield controller_revision.render_controller_revision(resolved, one.data, one.number, key=key)


def _case(
    snapshot: Snapshot,
    resolved: Resolved,
    known: Mapping[str, revisions.Kept],
    data: dict[str, Any],
    complaints: Mapping[str, Complaint],
) -> Case:
    key, live = resolved.origin.key, snapshot.deployment
    new = revisions.Kept(key, names.controller_revision(resolved.name, key), "", 0, data)
    return Case(
        service=snapshot.service,
        current=known.get(key, new),
        known=known,
        stable=_stable(snapshot, known, key),
        deployment=live.body if live is not None else None,
        pods=snapshot.pods,
        rollout=resolved.rollout,
        replicas=resolved.replicas,
        startup_timeout=resolved.startup_timeout_seconds,
        complaints=complaints,
        waiting=snapshot.waiting,
    )


def _stable(snapshot: Snapshot, known: Mapping[str, revisions.Kept], key: str) -> revisions.Kept | None:
    """Return the stable revision; one that is rolled back to also if somebody deleted it, as the Deployment has it."""
    stable = section(snapshot.service, "status").get("stableRevision")
    kept = next((one for one in known.values() if one.name == stable), None)
    if kept is not None:
        return kept
    current, live = known.get(key), snapshot.deployment
    if current is None or names.FAILED not in current.marks or live is None:
        return None
    template = section(live.body, "spec", "template")
    running = revisions.key_of_template(template)
    if running is None or running == current.key:
        return None
    effective = section(snapshot.service, "status", "effective")
    template = revisions.unowned(template)
    data = {"template": template, "effective": effective, "references": controller_revision.references(template)}
    name = names.controller_revision(snapshot.service["metadata"]["name"], running)
    return revisions.Kept(running, name, "", 0, data)


def _in_use(resolved: Resolved, stable: revisions.Kept | None) -> frozenset[ChildKey]:
    listed = entries(stable.data, "references") if stable is not None else []
    keys = {(str(one.get("kind")), str(one.get("name"))) for one in listed}
    issued = (names.certificate_secret(resolved.name, resolved.uid), names.former_certificate_secret(resolved.name))
    if keys & {(kinds.SECRET.name, name) for name in issued}:
        keys.add((kinds.CERTIFICATE.name, names.certificate(resolved.name)))
    return frozenset(keys)


def is_to_stop(service: Mapping[str, Any]) -> bool:
    """Return whether nothing is to run. A spec that is refused may hold anything; only a count of 0 says so."""
    asked = section(service, "spec").get("replicas")
    return asked is not False and asked == 0


def _stop(snapshot: Snapshot) -> Chain:
    live = snapshot.deployment
    if live is None or not is_to_stop(snapshot.service):
        return ()
    return replicas.stop(names.deployment(snapshot.service["metadata"]["name"]), live)


def _running_key(snapshot: Snapshot) -> str | None:
    live = snapshot.deployment
    return revisions.key_of_template(section(live.body, "spec", "template")) if live is not None else None


def _recovered(resolved: Resolved, fresh: Mapping[str, Any], snapshot: Snapshot) -> dict[str, Any] | None:
    """Return what a ControllerRevision kept that somebody deleted, from the Deployment that still runs it.

    None if it does not run it, or if what was applied is exactly what would be rendered now.
    """
    live = snapshot.deployment
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
    live = snapshot.deployment
    pods = [pod for pod in snapshot.pods if not pod_state.has_failed(pod)]
    templates = [*pods, *([section(live.body, "spec", "template")] if live is not None else [])]
    stable = section(snapshot.service, "status").get("stableRevision")
    keys = {key for template in templates if (key := revisions.key_of_template(template)) is not None}
    return {resolved.origin.key, *keys, *(one.key for one in known.values() if one.name == stable)}


def _in_the_way(manifests: list[Manifest], live: Observed | None) -> Iterator[str]:
    ours = next(manifest for manifest in manifests if manifest["kind"] == kinds.DEPLOYMENT.name)
    return added_containers.warnings(ours, live.body if live is not None else None)


def _warnings(
    snapshot: Snapshot, current: revisions.Kept | None, fresh: Mapping[str, Any], data: Mapping[str, Any]
) -> tuple[str, ...]:
    changed = revisions.model_changed(snapshot.models, current) if current is not None else None
    outdated = revisions.renderer_outdated() if fresh["template"] != data["template"] else None
    return tuple(warning for warning in (changed, outdated) if warning is not None)
