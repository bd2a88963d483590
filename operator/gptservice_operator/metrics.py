"""Prometheus metrics of the operator itself."""

import platform

from prometheus_client import Counter, Gauge, Histogram

from gptservice_runtime import contract

from . import __version__

_MINUTES = (1.0, 5.0, 15.0, 30.0, 60.0, 120.0, 300.0, 600.0, 1200.0, 1800.0, 3600.0)
"""Buckets in seconds of what takes as long as a model loads."""

PASSES = Counter("gptservice_operator_passes_total", "Reconcile passes by outcome.", ["outcome"])
PASS_SECONDS = Histogram("gptservice_operator_pass_seconds", "Duration of a reconcile pass.")
REQUESTS = Counter("gptservice_operator_api_requests_total", "API requests of the passes.", ["verb", "kind", "code"])
QUEUE_LENGTH = Gauge("gptservice_operator_queue_length", "Services that wait for a pass.")
QUEUE_AGE = Gauge("gptservice_operator_queue_oldest_seconds", "For how long the pass that is due longest has waited.")
CONDITIONS = Gauge(
    "gptservice_operator_conditions", "Services by what their conditions say.", ["type", "status", "reason"]
)
DOWN = Gauge(
    "gptservice_operator_services_down",
    "Services that have served and of which no replica answers, though they are neither stopped nor on their way.",
)
ROLLOUT_SECONDS = Histogram("gptservice_operator_rollout_seconds", "Durations of rollouts.", buckets=_MINUTES)
READY_SECONDS = Histogram(
    "gptservice_operator_ready_seconds", "Times from a change of a spec until the service was Ready.", buckets=_MINUTES
)
LEADER = Gauge("gptservice_operator_leader", "1 while this replica is the one that writes.")
STORE_OBJECTS = Gauge("gptservice_operator_store_objects", "Objects in the store.", ["kind"])
STORE_FILLED = Gauge("gptservice_operator_store_filled_seconds", "Seconds from start until the store was filled.")
REFUSED_NAMESPACES = Gauge(
    "gptservice_operator_refused_namespaces", "Namespaces that are left out, as something in them may not be read."
)
LAST_PASS = Gauge("gptservice_operator_last_pass_timestamp_seconds", "When the last pass ended, in Unix time.")
SCHEMA_MISSING = Gauge(
    "gptservice_operator_schema_missing_fields",
    "Fields of this version that the cluster's CRD does not have.",
    ["kind"],
)

BUILD = Gauge("gptservice_operator_build_info", "What runs; always 1.", ["version", "vllm_version", "python_version"])
BUILD.labels(__version__, contract.VLLM_VERSION, platform.python_version()).set(1)
