"""Frozen settings of the operator; the only reader of the environment."""

import math
import os
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from gptservice_runtime import contract

from . import logs, structures
from .api.scheduling import Scheduling
from .api.words import DNS_LABEL, DNS_SUBDOMAIN, QUANTITY_PATTERN

PREFIX = "GPTSERVICE_"
_BOOLEANS = {"true": True, "false": False}
LOG_LEVELS = ("DEBUG", "INFO", "WARNING", "ERROR")
LEAST_LEASE_SECONDS = 3
"""A shorter Lease would be lost to one slow request."""
PULL_POLICIES = ("Always", "IfNotPresent", "Never")


class ConfigError(ValueError):
    """An environment variable is missing or has a value that cannot be used."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Config:
    """What an administrator can set, each by the environment variable ``GPTSERVICE_<FIELD>``.

    Periods are seconds. They are settings so that tests can run them faster.
    """

    namespace: str = "gptservice-system"
    """The operator's own namespace: from there the pods' metrics can be reached unless a service names others."""
    namespaces: tuple[str, ...] = ()
    """The namespaces that are looked after, separated by commas; all if empty."""
    catalogue: bool = True
    """Whether the catalogue of GPTModels is read, which lies in no namespace: ``true`` or ``false``."""
    runtime_image: str
    """Runtime image of pods whose service names none."""
    runtime_cpu_image: str = ""
    """The same for replicas without a GPU; ``runtime_image`` if empty. It has the same vLLM, built for CPUs."""
    runtime_image_pull_policy: str = "IfNotPresent"
    """Kubernetes' imagePullPolicy of the runtime image."""
    runtime_image_pull_secrets: tuple[str, ...] = ()
    """Secrets, in the namespace of each service, with which these images are pulled, separated by commas; a service
    that names some has those alone."""
    runtime_vllm_version: str = contract.VLLM_VERSION
    """Version of vLLM in the runtime image. Engine arguments are checked in advance only for the operator's own."""
    runtime_cpu: str = "1"
    """CPU request of a replica that asks for nothing itself."""
    runtime_memory: str = "8Gi"
    """Memory request and limit of a replica that asks for nothing itself."""
    runtime_cache_size: str = "4Gi"
    """Size of the cache of a service that names none, on the node's disk: models of a hub land there."""
    runtime_scheduling: Scheduling = field(default_factory=Scheduling)
    """Where pods run, in the fields of ``spec.scheduling``, as JSON; a field of a service takes the place of the same
    field here, and its tolerations add to those."""
    runtime_http_proxy: str = ""
    """URL of the proxy through which models are downloaded from ``http://`` addresses; none if empty."""
    runtime_https_proxy: str = ""
    """The same for ``https://`` addresses."""
    runtime_no_proxy: tuple[str, ...] = ()
    """Hosts, and ends of their names, that are reached without it, separated by commas."""
    runtime_ca_bundle: str = ""
    """Authorities in PEM that every download trusts beside the system's."""
    hub_endpoint: str = ""
    """URL of the hub of ``hf://`` models, such as a mirror's; Hugging Face's own if empty."""
    fs_group: int | None = 65532
    """fsGroup of the pods; empty leaves it to the platform (OpenShift)."""
    resync_seconds: float = 600.0
    """Period after which everything is listed and looked at again."""
    backoff_base_seconds: float = 0.25
    """First wait after a failed pass; doubles with each further failure."""
    backoff_max_seconds: float = 60.0
    """Longest wait after a failed pass."""
    status_interval_seconds: float = 1.0
    """Shortest time between two passes of one service, so that a burst of events is one write."""
    stable_seconds: float = 120.0
    """How long every pod of a revision must have been ready until it counts as stable."""
    workers: int = 16
    """Passes at a time, over all services."""
    request_timeout_seconds: float = 30.0
    """Longest time for one API request."""
    log_level: str = "INFO"
    """Python's name of the log level."""
    log_format: str = "text"
    """``text`` for people, ``json`` for one object per line."""
    lease_seconds: int = 15
    """Duration of the Lease by which replicas agree on who writes; 0 for a single one that needs none."""
    pod_name: str = ""
    """The operator's own pod, for the Lease; the host's name if empty."""
    pod_uid: str = ""
    """UID of that pod: a container that was started again in it takes its own Lease back at once."""
    health_port: int = 8080
    """Port of /healthz; 0 switches it off."""
    metrics_port: int = 9090
    """Port of /metrics; 0 switches it off."""
    debug_port: int = 6060
    """Port of /debug on the loopback: `kubectl port-forward` reaches it; 0 switches it off."""


def _listed(text: str) -> tuple[str, ...]:
    return tuple(dict.fromkeys(part.strip() for part in text.split(",") if part.strip()))


_WORDED: dict[object, tuple[Callable[[str], object], str]] = {
    str: (str, "a text"),
    int: (int, "a whole number"),
    float: (float, "a number"),
    int | None: (lambda text: int(text) if text else None, "a whole number"),
    bool: (lambda text: _BOOLEANS[text.lower()], "true or false"),
    tuple[str, ...]: (_listed, "a list"),
}
"""How a field of this type is read, and how what it takes is called."""
_STRUCTURED: dict[str, tuple[Callable[[str, str], object], str]] = {
    "runtime_scheduling": (structures.scheduling, "runtime.scheduling"),
    "runtime_ca_bundle": (structures.authorities, "runtime.caBundle"),
}
"""How a field of more than a word is read, and the chart's value that a message names."""


def _parse(name: str, text: str) -> object:
    """Parse one variable as its field's type."""
    if name in _STRUCTURED:
        read, value = _STRUCTURED[name]
        try:
            return read(text, value)
        except structures.UnusableError as error:
            raise ConfigError(f"{PREFIX}{name.upper()}: {error}; correct it in the chart's values") from None
    parse, wanted = _WORDED[Config.__annotations__[name]]
    try:
        return parse(text)
    except (ValueError, KeyError):
        raise ConfigError(
            f"{PREFIX}{name.upper()}={text!r} is not {wanted}; correct it in the chart's values"
        ) from None


def load(environment: Mapping[str, str] | None = None) -> Config:
    """Read the settings.

    Raises:
        ConfigError: a variable cannot be parsed, is out of range, or the runtime image is not set.
    """
    source = os.environ if environment is None else environment
    values = {
        name: _parse(name, source[PREFIX + name.upper()])
        for name in Config.__annotations__
        if PREFIX + name.upper() in source
    }
    if not values.get("runtime_image"):
        raise ConfigError(f"{PREFIX}RUNTIME_IMAGE is not set; it names the image that serves models")
    config = Config(**values)  # type: ignore[arg-type]  # parsed per annotation above
    _check_ranges(config)
    _check_words(config)
    return config


_QUANTITY = (QUANTITY_PATTERN, "a Kubernetes quantity such as 500m or 8Gi")
_PROXY = (
    r"(http://[!-?A-~]+)?",
    "a URL such as http://proxy.example.com:3128, without user and password, which all who see pods would see",
)
_SECRET = (DNS_SUBDOMAIN, "the name of a Secret")
_NAMESPACE = (DNS_LABEL, "the name of a namespace")
_WORDS: dict[str, tuple[str, str]] = {
    "namespace": _NAMESPACE,
    "namespaces": _NAMESPACE,
    "hub_endpoint": (r"(https?://[!-~]+)?", "a URL such as https://hub.example.com"),
    "runtime_http_proxy": _PROXY,
    "runtime_https_proxy": _PROXY,
    "runtime_no_proxy": (r"\.?[A-Za-z0-9_.:-]+", "a host, an address or the end of a name such as .example.com"),
    "log_level": (f"(?i:{'|'.join(LOG_LEVELS)})", f"one of {', '.join(LOG_LEVELS)}"),
    "log_format": ("|".join(logs.FORMATS), f"one of {', '.join(logs.FORMATS)}"),
    "runtime_image_pull_policy": ("|".join(PULL_POLICIES), f"one of {', '.join(PULL_POLICIES)}"),
    "runtime_image_pull_secrets": _SECRET,
    "runtime_cpu": _QUANTITY,
    "runtime_memory": _QUANTITY,
    "runtime_cache_size": _QUANTITY,
}
"""What a text, or each of several, has to match as a whole, and how that is called."""

_MAY_BE_ZERO = (
    "fs_group",
    "health_port",
    "metrics_port",
    "debug_port",
    "status_interval_seconds",
    "lease_seconds",
)


def _check_ranges(config: Config) -> None:
    for name in Config.__annotations__:
        value = getattr(config, name)
        least = 0 if name in _MAY_BE_ZERO else 1e-3
        if isinstance(value, (int, float)) and not isinstance(value, bool) and not least <= value < math.inf:
            raise _unusable(name, value, f"a number from {least:g} on")
    if 0 < config.lease_seconds < LEAST_LEASE_SECONDS:
        raise _unusable("lease_seconds", config.lease_seconds, f"0 or a number from {LEAST_LEASE_SECONDS} on")


def _check_words(config: Config) -> None:
    for name, (pattern, wanted) in _WORDS.items():
        value: str | tuple[str, ...] = getattr(config, name)
        for word in (value,) if isinstance(value, str) else value:
            if not re.fullmatch(pattern, word):
                raise _unusable(name, word, wanted)


def _unusable(name: str, value: object, wanted: str) -> ConfigError:
    return ConfigError(f"{PREFIX}{name.upper()}={value} is not {wanted}; correct it in the chart's values")
