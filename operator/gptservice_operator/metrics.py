"""Prometheus metrics of the operator itself."""

from prometheus_client import Counter, Gauge, Histogram

PASSES = Counter("gptservice_operator_passes_total", "Reconcile passes by outcome.", ["outcome"])
PASS_SECONDS = Histogram("gptservice_operator_pass_seconds", "Duration of a reconcile pass.")
REQUESTS = Counter("gptservice_operator_api_requests_total", "API requests of the passes.", ["verb", "kind", "code"])
QUEUE_LENGTH = Gauge("gptservice_operator_queue_length", "Services that wait for a pass.")
STORE_OBJECTS = Gauge("gptservice_operator_store_objects", "Objects in the store.", ["kind"])
STORE_FILLED = Gauge("gptservice_operator_store_filled_seconds", "Seconds from start until the store was filled.")
LAST_PASS = Gauge("gptservice_operator_last_pass_timestamp_seconds", "When the last pass ended, in Unix time.")
SCHEMA_MISSING = Gauge(
    "gptservice_operator_schema_missing_fields",
    "Fields of this version that the cluster's CRD does not have.",
    ["kind"],
)
