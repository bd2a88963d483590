"""From a GPTService, the catalogue and the configuration to decided values, or to a refusal with its reason."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypeVar

from pydantic import ValidationError

from gptservice_runtime import contract

from . import advice, companions, names, reserved, revisions
from .api import conditions, v1
from .api.access import Auth, Tls
from .api.body import section
from .api.conditions import Reason
from .api.engine import Gpu, Resources
from .api.exposure import ServiceSpec
from .api.rollout import is_zero
from .api.scheduling import Scheduling
from .config import Config
from .parse import explain
from .render.resolved import (
    ApiKeys,
    Exposure,
    Origin,
    PodDetails,
    Refusal,
    Resolved,
    ResolvedGpu,
    ResolvedRollout,
    ServingTls,
    Source,
)

DEFAULT_GPU_RESOURCE = "nvidia.com/gpu"
DEFAULT_PORT = 80
DEFAULT_TLS_PORT = 443
SERVED_SCHEMES = ("pvc://", "file://")

T = TypeVar("T")


class RefusedError(Exception):
    """Carries a refusal out of nested decisions; never leaves this module."""

    def __init__(self, reason: Reason, what: str) -> None:
        super().__init__(what)
        self.refusal = Refusal(reason, reason.message(what))


def resolve(
    body: Mapping[str, Any],
    spec: v1.GPTServiceSpec,
    models: Mapping[str, Mapping[str, Any]],
    config: Config,
    seen: companions.Seen = companions.NOTHING_SEEN,
) -> Resolved | Refusal:
    """Apply the precedence service > catalogue > configuration > built in.

    Args:
        body: the stored object, for its identity.
        spec: its parsed spec.
        models: the catalogue entries that it may refer to, by name.
        config: the operator's configuration.
        seen: what there is in the cluster.
    """
    try:
        return _resolve(body, spec, models, config, seen)
    except RefusedError as refused:
        return refused.refusal


def _resolve(
    body: Mapping[str, Any],
    spec: v1.GPTServiceSpec,
    models: Mapping[str, Mapping[str, Any]],
    config: Config,
    seen: companions.Seen,
) -> Resolved:
    metadata = body["metadata"]
    entry = _catalogue_entry(spec, models)
    uri = entry.uri if entry is not None else str(spec.model)
    env = tuple(spec.engine.env or ()) if spec.engine else ()
    args = _engine_args(spec, entry)
    _refuse(reserved.refused_env([variable.name for variable in env]))
    requests, limits = _resources(spec.resources, config)
    gpu = _gpu(spec.gpu, entry.gpu if entry is not None else None)
    if (conflict := reserved.parallel_conflict(args, gpu.count)) is not None:
        raise RefusedError(conditions.INVALID_ENGINE_ARGUMENT, f"spec.engine.args: {conflict}")
    beside = companions.decide(metadata["name"], metadata["uid"], spec, config, seen)
    return Resolved(
        namespace=metadata["namespace"],
        name=metadata["name"],
        uid=metadata["uid"],
        origin=_origin(body, spec, models),
        source=_source(uri, "spec.model" if entry is None else f"GPTModel {_model_name(spec)}: spec.uri"),
        served_model_names=_served_model_names(metadata["name"], spec, entry),
        replicas=spec.replicas,
        autoscaling=spec.autoscaling if spec.replicas else None,
        guaranteed_replicas=spec.guaranteed_replicas,
        rollout=_rollout(spec),
        max_tokens=spec.max_tokens,
        context_length=_first(spec.context_length, entry.context_length if entry is not None else None),
        max_inflight_requests=spec.max_inflight_requests,
        gpu=gpu,
        requests=requests,
        limits=limits,
        image=(spec.engine and spec.engine.image) or config.runtime_image,
        image_pull_policy=config.runtime_image_pull_policy,
        engine_args=args,
        env=env,
        scheduling=spec.scheduling or Scheduling(),
        pod=_pod_details(metadata["name"], spec),
        exposure=_exposure(spec.service or ServiceSpec(), DEFAULT_PORT if spec.tls is None else DEFAULT_TLS_PORT),
        api_keys=_api_keys(spec.auth, names.key_secret(metadata["name"], metadata["uid"])),
        tls=_tls(metadata["name"], spec.tls),
        companions=beside,
        startup_timeout_seconds=spec.startup_timeout_seconds,
        drain_timeout_seconds=spec.drain_timeout_seconds,
        fs_group=config.fs_group,
        warnings=(*_warnings(body, spec, models), *beside.warnings),
    )


def _origin(body: Mapping[str, Any], spec: v1.GPTServiceSpec, models: Mapping[str, Mapping[str, Any]]) -> Origin:
    name = _model_name(spec)
    model = {"name": name, "spec": section(models[name], "spec")} if name is not None else None
    return Origin(revisions.key(body), revisions.patch(body), model, revisions.rerender(body))


def _warnings(
    body: Mapping[str, Any], spec: v1.GPTServiceSpec, models: Mapping[str, Mapping[str, Any]]
) -> Iterable[str]:
    yield from advice.of_service(body)
    yield from _scaling_warnings(spec)
    yield from _catalogue_warnings(spec, models)


def _rollout(spec: v1.GPTServiceSpec) -> ResolvedRollout:
    """A bound that is absent beside the other is 0, or 1 where both would be 0."""
    surge = spec.rollout.max_surge if spec.rollout is not None else None
    unavailable = spec.rollout.max_unavailable if spec.rollout is not None else None
    if surge is None and unavailable is None:
        one_pod = spec.cache is not None and spec.cache.one_pod_at_a_time
        surge, unavailable = (0, 1) if one_pod else (1, 0)
    if surge is None:
        surge = 1 if is_zero(unavailable) else 0
    if unavailable is None:
        unavailable = 1 if is_zero(surge) else 0
    return ResolvedRollout(spec.upgrade_strategy or "RollingUpdate", surge, unavailable)


def _taken_over(given: Mapping[str, str] | None) -> dict[str, str]:
    return {key: value for key, value in (given or {}).items() if not names.is_reserved(key)}


def _pod_details(name: str, spec: v1.GPTServiceSpec) -> PodDetails:
    priority = {names.PRIORITY_ANNOTATION: spec.priority.lower()} if spec.priority is not None else {}
    return PodDetails(
        labels=_taken_over(spec.pod_labels),
        annotations={**_taken_over(spec.pod_annotations), **priority},
        service_account_name=spec.service_account_name or names.service_account(name),
        image_pull_secrets=tuple(secret.name for secret in spec.image_pull_secrets or ()),
    )


def _exposure(k8s_service: ServiceSpec, default_port: int) -> Exposure:
    annotations = _taken_over(k8s_service.annotations)
    return Exposure(k8s_service.type or "ClusterIP", k8s_service.port or default_port, annotations)


def _scaling_warnings(spec: v1.GPTServiceSpec) -> Iterable[str]:
    """The schema's own 1 cannot be told from one that was written, so that it is never warned of."""
    scaling = spec.autoscaling
    if scaling is None or spec.replicas <= 1 or scaling.least_replicas <= spec.replicas <= scaling.max_replicas:
        return
    bounds = f"{scaling.least_replicas} to {scaling.max_replicas}"
    yield f"spec.replicas: {spec.replicas} is outside of what spec.autoscaling allows ({bounds}) and is ignored"


def _api_keys(auth: Auth | None, generated: str) -> ApiKeys | None:
    """A key is made unless the user names a Secret or wants none."""
    if auth is not None and auth.disabled:
        return None
    given = auth.api_keys.secret_ref if auth is not None and auth.api_keys is not None else None
    return ApiKeys(generated, generated=True) if given is None else ApiKeys(given.name, generated=False)


def _tls(name: str, wanted: Tls | None) -> ServingTls | None:
    """A certificate that is issued comes by a Secret of its own."""
    if wanted is None:
        return None
    return ServingTls(wanted.secret_name or names.certificate_secret(name), wanted.client_ca_secret_ref)


def _catalogue_warnings(spec: v1.GPTServiceSpec, models: Mapping[str, Mapping[str, Any]]) -> tuple[str, ...]:
    name = _model_name(spec)
    return tuple(advice.of_model(name, models[name])) if name is not None else ()


def _model_name(spec: v1.GPTServiceSpec) -> str | None:
    """Return the catalogue name that the spec refers to: ``modelRef``, or a bare name in ``model``."""
    if spec.model_ref is not None:
        return spec.model_ref
    bare = spec.model is not None and "/" not in spec.model and "://" not in spec.model
    return spec.model if bare else None


def _catalogue_entry(spec: v1.GPTServiceSpec, models: Mapping[str, Mapping[str, Any]]) -> v1.GPTModelSpec | None:
    name = _model_name(spec)
    if name is None:
        return None
    field = "spec.modelRef" if spec.model_ref is not None else "spec.model"
    if name not in models:
        raise RefusedError(conditions.UNKNOWN_MODEL, f"{field}: there is no GPTModel named {name!r}")
    try:
        return v1.GPTModelSpec.model_validate(models[name].get("spec") or {})
    except ValidationError as error:
        what = f"{field}: GPTModel {name!r} is not valid: {explain(error, 'spec')}"
        raise RefusedError(conditions.INVALID_SPEC, what) from error


def _source(uri: str, field: str) -> Source:
    scheme, separator, rest = uri.partition("://")
    if (separator and f"{scheme}://" not in SERVED_SCHEMES) or not separator:
        served = " and ".join(SERVED_SCHEMES)
        raise RefusedError(
            conditions.INVALID_SPEC,
            f"{field}: this version serves models from {served} only, not from {uri!r}",
        )
    if scheme == "file":
        if not rest.startswith("/"):
            raise RefusedError(conditions.INVALID_SPEC, f"{field}: {uri!r} must be file:///absolute/path")
        return Source(uri=uri, path=rest)
    claim, _, path = rest.partition("/")
    if not claim:
        raise RefusedError(conditions.INVALID_SPEC, f"{field}: {uri!r} must be pvc://claim/path")
    return Source(uri=uri, path=f"{contract.SOURCE_ROOT}/{path}".rstrip("/"), claim=claim)


def _served_model_names(name: str, spec: v1.GPTServiceSpec, entry: v1.GPTModelSpec | None) -> tuple[str, ...]:
    chosen = spec.served_model_names or (entry.served_model_names if entry is not None else None)
    return tuple(dict.fromkeys(chosen or (str(spec.model_ref or spec.model), name)))


def _engine_args(spec: v1.GPTServiceSpec, entry: v1.GPTModelSpec | None) -> tuple[str, ...]:
    catalogue: Sequence[str] = (entry.engine.args or ()) if entry is not None and entry.engine is not None else ()
    own: Sequence[str] = (spec.engine.args or ()) if spec.engine is not None else ()
    _refuse(reserved.refused_args(catalogue, f"GPTModel {_model_name(spec)}: spec.engine.args"))
    _refuse(reserved.refused_args(own, "spec.engine.args"))
    return (*catalogue, *own)


def _refuse(problems: Iterable[str]) -> None:
    if listed := list(problems):
        raise RefusedError(conditions.INVALID_SPEC, "; ".join(listed))


def _gpu(own: Gpu | None, catalogue: Gpu | None) -> ResolvedGpu:
    layers = [layer for layer in (own, catalogue) if layer is not None]
    count = _first(*(layer.count for layer in layers))
    return ResolvedGpu(
        count=1 if count is None else count,
        resource_name=_first(*(layer.resource_name for layer in layers)) or DEFAULT_GPU_RESOURCE,
        product=_first(*(layer.product for layer in layers)),
    )


def _resources(own: Resources | None, config: Config) -> tuple[dict[str, str], dict[str, str]]:
    """Return requests and limits: CPU and memory are always requested, memory is always limited."""
    requests = {name: str(value) for name, value in ((own and own.requests) or {}).items()}
    limits = {name: str(value) for name, value in ((own and own.limits) or {}).items()}
    requests.setdefault("cpu", limits.get("cpu", config.runtime_cpu))
    memory = requests.get("memory") or limits.get("memory") or config.runtime_memory
    requests["memory"] = memory
    limits.setdefault("memory", memory)
    return requests, limits


def _first(*values: T | None) -> T | None:
    return next((value for value in values if value is not None), None)
