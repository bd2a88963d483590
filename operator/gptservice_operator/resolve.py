"""From a GPTService, the catalogue and the configuration to decided values, or to a refusal with its reason."""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from pydantic import ValidationError

from gptservice_runtime import contract

from . import advice, companions, engine_arguments, names, pod_defaults, reserved, revisions, sizing, sources
from .api import conditions, v1
from .api.access import Auth, Tls
from .api.body import section
from .api.conditions import Reason
from .api.engine import EnvVar
from .api.exposure import DEFAULT_PORT, DEFAULT_TLS_PORT, ServiceSpec
from .api.problems import explain
from .api.rollout import SURGE_WAIT_SECONDS, Rollout, is_zero
from .config import Config
from .render.resolved import (
    ApiKeys,
    Companions,
    Decryption,
    Exposure,
    Origin,
    PodDetails,
    Refusal,
    Resolved,
    ResolvedRollout,
    ServingTls,
    Source,
)

Models = Mapping[str, Mapping[str, Any]]
"""Catalogue entries by name."""


class RefusedError(Exception):
    """Carries a refusal out of nested decisions; never leaves this module."""

    def __init__(self, reason: Reason, what: str) -> None:
        super().__init__(what)
        self.refusal = Refusal(reason, reason.message(what))


def resolve(
    body: Mapping[str, Any],
    spec: v1.GPTServiceSpec,
    models: Models,
    config: Config,
    seen: companions.Seen = companions.NOTHING_SEEN,
    *,
    kept: bool = False,
) -> Resolved | Refusal:
    """Apply the precedence service > catalogue > configuration > built in.

    Args:
        body: the stored object, for its identity.
        spec: its parsed spec.
        models: the catalogue entries that it may refer to, by name.
        config: the operator's configuration.
        seen: what there is in the cluster.
        kept: whether the revision is kept or runs. Then its engine need not be the one that this operator knows, and
            has read its arguments itself.
    """
    try:
        return _resolve(body, spec, models, config, seen, kept)
    except RefusedError as refused:
        return refused.refusal


def _resolve(
    body: Mapping[str, Any], spec: v1.GPTServiceSpec, models: Models, config: Config, seen: companions.Seen, kept: bool
) -> Resolved:
    metadata, entry = body["metadata"], _catalogue_entry(spec, models, config)
    source, gpu = _source(spec, entry, config, kept), sizing.gpu(spec.gpu, entry.gpu if entry is not None else None)
    arguments = _engine_arguments(spec, entry, gpu.count, _vllm_version(spec, config, kept))
    beside = companions.decide(metadata["name"], metadata["uid"], spec, config, seen)
    weights = _weights(spec, entry, gpu.count)
    requests, limits = sizing.resources(spec.resources, config, _downloads_to_node(source, beside), weights)
    return Resolved(
        namespace=metadata["namespace"],
        name=metadata["name"],
        uid=metadata["uid"],
        origin=_origin(body, spec, models),
        source=source,
        decryption=_weights_in_memory(spec, limits, weights, kept),
        served_model_names=_served_model_names(metadata["name"], spec, entry),
        replicas=spec.replicas,
        autoscaling=spec.autoscaling if spec.replicas else None,
        guaranteed_replicas=spec.guaranteed_replicas,
        rollout=_rollout(spec),
        max_tokens=spec.max_tokens,
        context_length=_context_length(spec, entry),
        max_inflight_requests=spec.max_inflight_requests,
        otlp_endpoint=spec.tracing.otlp_endpoint if spec.tracing is not None else None,
        gpu=gpu,
        requests=requests,
        limits=limits,
        tensor_parallel_size=arguments.tensor_parallel_size,
        image=pod_defaults.image(spec.engine, gpu, config),
        image_pull_policy=config.runtime_image_pull_policy,
        engine_args=arguments.args,
        env=_env(spec),
        scheduling=pod_defaults.scheduling(spec.scheduling, gpu, config),
        pod=_pod_details(metadata["name"], spec, config),
        exposure=_exposure(spec.service or ServiceSpec(), DEFAULT_PORT if spec.tls is None else DEFAULT_TLS_PORT),
        api_keys=_api_keys(spec.auth, names.key_secret(metadata["name"], metadata["uid"])),
        tls=_tls(spec.tls, beside.certificate_secret),
        companions=beside,
        ca_bundle=config.runtime_ca_bundle,
        cache_size=config.runtime_cache_size,
        startup_timeout_seconds=spec.startup_timeout_seconds,
        drain_timeout_seconds=spec.drain_timeout_seconds,
        fs_group=config.fs_group,
        warnings=(*advice.of_service(body), *advice.of_scaling(spec), *beside.warnings, *arguments.warnings),
    )


def _downloads_to_node(source: Source, beside: Companions) -> bool:
    return source.download is not None and beside.cache_claim_name is None


def _vllm_version(spec: v1.GPTServiceSpec, config: Config, kept: bool) -> str | None:
    """Return that of the engine that would start; None for one that runs, and for an image that only users know."""
    has_own_image = spec.engine is not None and spec.engine.image is not None
    return None if kept or has_own_image else config.runtime_vllm_version


def _env(spec: v1.GPTServiceSpec) -> tuple[EnvVar, ...]:
    env = tuple(spec.engine.env or ()) if spec.engine else ()
    _refuse(reserved.refused_env([variable.name for variable in env]))
    return env


def _origin(body: Mapping[str, Any], spec: v1.GPTServiceSpec, models: Models) -> Origin:
    name = _model_name(spec)
    model = {"name": name, "spec": section(models[name], "spec")} if name is not None else None
    return Origin(revisions.key(body), revisions.patch(body), model, revisions.rerender(body))


def _rollout(spec: v1.GPTServiceSpec) -> ResolvedRollout:
    """A bound that is absent beside the other is 0, or 1 where both would be 0."""
    rollout = spec.rollout or Rollout()
    surge, unavailable = rollout.max_surge, rollout.max_unavailable
    one_pod = spec.cache is not None and spec.cache.one_pod_at_a_time
    is_chosen = one_pod or any(choice is not None for choice in (spec.upgrade_strategy, surge, unavailable))
    if surge is None and unavailable is None:
        surge, unavailable = (0, 1) if one_pod else (1, 0)
    if surge is None:
        surge = 1 if is_zero(unavailable) else 0
    if unavailable is None:
        unavailable = 1 if is_zero(surge) else 0
    return ResolvedRollout(
        spec.upgrade_strategy or "RollingUpdate",
        surge,
        unavailable,
        is_chosen=is_chosen,
        surge_wait_seconds=SURGE_WAIT_SECONDS if rollout.surge_wait_seconds is None else rollout.surge_wait_seconds,
        auto_rollback=rollout.auto_rollback is not False,
        ready_latency_milliseconds=rollout.ready_latency_milliseconds,
    )


def _taken_over(given: Mapping[str, str] | None) -> dict[str, str]:
    return {key: value for key, value in (given or {}).items() if not names.is_reserved(key)}


def _pod_details(name: str, spec: v1.GPTServiceSpec, config: Config) -> PodDetails:
    priority = {names.PRIORITY_ANNOTATION: spec.priority.lower()} if spec.priority is not None else {}
    return PodDetails(
        labels=_taken_over(spec.pod_labels),
        annotations={**_taken_over(spec.pod_annotations), **priority},
        service_account_name=spec.service_account_name or names.service_account(name),
        image_pull_secrets=pod_defaults.pull_secrets(spec.image_pull_secrets, config),
    )


def _exposure(k8s_service: ServiceSpec, default_port: int) -> Exposure:
    annotations = _taken_over(k8s_service.annotations)
    return Exposure(k8s_service.type or "ClusterIP", k8s_service.port or default_port, annotations)


def _api_keys(auth: Auth | None, generated: str) -> ApiKeys | None:
    """A key is made unless the user names a Secret or wants none."""
    if auth is not None and auth.disabled:
        return None
    given = auth.api_keys.secret_ref if auth is not None and auth.api_keys is not None else None
    return ApiKeys(generated, generated=True) if given is None else ApiKeys(given.name, generated=False)


def _tls(wanted: Tls | None, issued: str) -> ServingTls | None:
    """A certificate that is issued comes by a Secret of its own."""
    if wanted is None:
        return None
    return ServingTls(wanted.secret_name or issued, wanted.client_ca_secret_ref)


def _model_name(spec: v1.GPTServiceSpec) -> str | None:
    """Return the catalogue name that the spec refers to: ``modelRef``, or a bare name in ``model``."""
    if spec.model_ref is not None:
        return spec.model_ref
    bare = spec.model is not None and "/" not in spec.model and "://" not in spec.model
    return spec.model if bare else None


def _catalogue_entry(spec: v1.GPTServiceSpec, models: Models, config: Config) -> v1.GPTModelSpec | None:
    name = _model_name(spec)
    if name is None:
        return None
    field = "spec.modelRef" if spec.model_ref is not None else "spec.model"
    if name not in models and not config.catalogue:
        raise RefusedError(conditions.CATALOGUE_DISABLED, f"{field}: {name!r} would be a GPTModel")
    if name not in models:
        raise RefusedError(conditions.UNKNOWN_MODEL, f"{field}: there is no GPTModel named {name!r}")
    try:
        return v1.GPTModelSpec.model_validate(models[name].get("spec") or {})
    except ValidationError as error:
        what = f"{field}: GPTModel {name!r} is not valid: {explain(error, 'spec')}"
        raise RefusedError(conditions.INVALID_SPEC, what) from error


def _source(spec: v1.GPTServiceSpec, entry: v1.GPTModelSpec | None, config: Config, kept: bool) -> Source:
    uri, field = str(spec.model), "spec.model"
    if entry is not None:
        uri, field = entry.uri, f"GPTModel {_model_name(spec)}: spec.uri"
    decided = sources.decide(
        sources.Written(uri, field), spec, entry, config, vllm_version=_vllm_version(spec, config, kept)
    )
    if isinstance(decided, str):
        raise RefusedError(conditions.INVALID_SPEC, decided)
    # What was decrypted lies where only the init container knows.
    return decided if spec.decryption_key_secret_ref is None else replace(decided, path=contract.FETCHED_MODEL)


def _weights(spec: v1.GPTServiceSpec, entry: v1.GPTModelSpec | None, gpus: int) -> sizing.Weights:
    size = entry.weights_size if entry is not None else None
    return sizing.Weights(size, spec.decryption_key_secret_ref is not None, gpus)


def _weights_in_memory(
    spec: v1.GPTServiceSpec, limits: Mapping[str, str], weights: sizing.Weights, kept: bool
) -> Decryption | None:
    decided = sizing.decryption(spec.decryption_key_secret_ref, limits, weights.gpus)
    wrong = sizing.lack_of_memory(spec.resources, limits, weights) or (decided if isinstance(decided, str) else None)
    # What is kept was made under other rules, and its template is applied as it is.
    if wrong is not None and not kept:
        raise RefusedError(conditions.INVALID_SPEC, wrong)
    return None if isinstance(decided, str) else decided


def _served_model_names(name: str, spec: v1.GPTServiceSpec, entry: v1.GPTModelSpec | None) -> tuple[str, ...]:
    chosen = spec.served_model_names or (entry.served_model_names if entry is not None else None)
    return tuple(dict.fromkeys(chosen or (str(spec.model_ref or spec.model), name)))


def _context_length(spec: v1.GPTServiceSpec, entry: v1.GPTModelSpec | None) -> int | None:
    return spec.context_length or (entry.context_length if entry is not None else None)


def _engine_arguments(
    spec: v1.GPTServiceSpec, entry: v1.GPTModelSpec | None, gpus: int, vllm_version: str | None
) -> engine_arguments.EngineArguments:
    engines = (
        (f"GPTModel {_model_name(spec)}: spec.engine.args", entry.engine if entry is not None else None),
        ("spec.engine.args", spec.engine),
    )
    lists = {field: engine.args or () for field, engine in engines if engine is not None}
    fields = engine_arguments.Fields(
        gpu_count=gpus, context_length=_context_length(spec, entry), max_tokens=spec.max_tokens
    )
    try:
        return engine_arguments.decide(lists, fields, vllm_version=vllm_version)
    except engine_arguments.RefusedError as error:
        raise RefusedError(conditions.INVALID_ENGINE_ARGUMENT, str(error)) from error


def _refuse(problems: Iterable[str]) -> None:
    if listed := list(problems):
        raise RefusedError(conditions.INVALID_SPEC, "; ".join(listed))
