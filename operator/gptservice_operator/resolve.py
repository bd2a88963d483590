"""From a GPTService, the catalogue and the configuration to decided values, or to a refusal with its reason."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypeVar

from pydantic import ValidationError

from gptservice_runtime import contract

from . import names, reserved
from .api import conditions, v1
from .api.conditions import Reason
from .api.engine import Gpu, Resources
from .api.scheduling import Scheduling
from .config import Config
from .render.resolved import Refusal, Resolved, ResolvedGpu, Source

DEFAULT_GPU_RESOURCE = "nvidia.com/gpu"
SERVED_SCHEMES = ("pvc://", "file://")

_UNION_BRANCHES = frozenset({"str", "int", "constrained-str", "constrained-int"})
_MAX_EXPLAINED = 5

T = TypeVar("T")


class RefusedError(Exception):
    """Carries a refusal out of nested decisions; never leaves this module."""

    def __init__(self, reason: Reason, what: str) -> None:
        super().__init__(what)
        self.refusal = Refusal(reason, reason.message(what))


def parse(body: Mapping[str, Any]) -> v1.GPTServiceSpec | Refusal:
    """Parse a stored object's spec; the cluster's CRD may be older than this operator and let more through."""
    if len(body["metadata"]["name"]) > names.MAX_SERVICE_NAME:
        what = f"metadata.name: must be no more than {names.MAX_SERVICE_NAME} characters: it becomes a label"
        return Refusal(conditions.INVALID_SPEC, conditions.INVALID_SPEC.message(what))
    try:
        return v1.GPTServiceSpec.model_validate(body.get("spec") or {})
    except ValidationError as error:
        return Refusal(conditions.INVALID_SPEC, conditions.INVALID_SPEC.message(explain(error, "spec")))


def explain(error: ValidationError, root: str) -> str:
    """Say which fields are wrong and why, for people: ``spec.gpu.count: Input should be ...``."""
    by_path: dict[str, str] = {}
    for issue in error.errors(include_url=False, include_input=False):
        # pydantic adds the name of the union's branch to the path.
        parts = [str(part) for part in issue["loc"] if part not in _UNION_BRANCHES]
        by_path.setdefault(".".join([root, *parts]), issue["msg"].removeprefix("Value error, "))
    return "; ".join(f"{path}: {message}" for path, message in list(by_path.items())[:_MAX_EXPLAINED])


def resolve(
    body: Mapping[str, Any], spec: v1.GPTServiceSpec, models: Mapping[str, Mapping[str, Any]], config: Config
) -> Resolved | Refusal:
    """Apply the precedence service > catalogue > configuration > built in.

    Args:
        body: the stored object, for its identity.
        spec: its parsed spec.
        models: the catalogue entries that it may refer to, by name.
        config: the operator's configuration.
    """
    try:
        return _resolve(body["metadata"], spec, models, config)
    except RefusedError as refused:
        return refused.refusal


def _resolve(
    metadata: Mapping[str, Any],
    spec: v1.GPTServiceSpec,
    models: Mapping[str, Mapping[str, Any]],
    config: Config,
) -> Resolved:
    entry = _catalogue_entry(spec, models)
    uri = entry.uri if entry is not None else str(spec.model)
    env = tuple(spec.engine.env or ()) if spec.engine else ()
    args = _engine_args(spec, entry)
    _refuse(reserved.refused_env([variable.name for variable in env]))
    requests, limits = _resources(spec.resources, config)
    return Resolved(
        namespace=metadata["namespace"],
        name=metadata["name"],
        uid=metadata["uid"],
        source=_source(uri, "spec.model" if entry is None else f"GPTModel {_model_name(spec)}: spec.uri"),
        served_model_names=_served_model_names(metadata["name"], spec, entry),
        replicas=spec.replicas,
        strategy=spec.upgrade_strategy or "RollingUpdate",
        max_tokens=spec.max_tokens,
        context_length=_first(spec.context_length, entry.context_length if entry is not None else None),
        max_inflight_requests=spec.max_inflight_requests,
        gpu=_gpu(spec.gpu, entry.gpu if entry is not None else None),
        requests=requests,
        limits=limits,
        image=(spec.engine and spec.engine.image) or config.runtime_image,
        image_pull_policy=config.runtime_image_pull_policy,
        engine_args=args,
        env=env,
        scheduling=spec.scheduling or Scheduling(),
        startup_timeout_seconds=spec.startup_timeout_seconds,
        drain_timeout_seconds=spec.drain_timeout_seconds,
        fs_group=config.fs_group,
    )


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
