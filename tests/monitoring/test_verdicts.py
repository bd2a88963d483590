"""Queries before a real Prometheus, which scrapes the operator's and the runtime's own metrics, but none of vLLM's.

So what the operator or the runtime renames is noticed here, and that something is noticed at all is seen by vLLM's.
"""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import prometheus_client
import pytest

from e2e.monitoring import prometheus, queries, verdicts
from e2e.monitoring.prometheus import Target
from gptservice_operator import metrics as operator_metrics
from gptservice_runtime import control, metrics, readiness

pytestmark = pytest.mark.api  # needs a Go binary, no cluster

CHOSEN = {"namespace": "team", "service": "chat"}
VARIABLES = {"operator.json": {"namespace": "system"}, "fleet.json": CHOSEN, "service.json": CHOSEN}
OF_VLLM = ("vllm:", "http_requests_total")


def operator_page() -> bytes:
    """After a pass."""
    operator_metrics.PASSES.labels("ok").inc()
    operator_metrics.REQUESTS.labels("apply", "Deployment", "200").inc()
    operator_metrics.STORE_OBJECTS.labels("GPTService").set(1)
    operator_metrics.CONDITIONS.labels("Ready", "True", "AllReplicasReady").inc()
    return prometheus_client.generate_latest()


def runtime_page() -> bytes:
    state = readiness.Readiness().started().listed().warmed_up()
    return metrics.page(None, state, control.ControlBlock.private(), 12.0)


@contextmanager
def served(page: bytes) -> Iterator[str]:
    """Its host and port."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.send_header("Content-Type", metrics.CONTENT_TYPE)
            self.end_headers()
            self.wfile.write(page)

        def log_message(self, format: str, *args: object) -> None:
            """Nothing: it would be among the test's output."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


def test_what_is_not_there_is_named_and_nothing_else(tmp_path: Path) -> None:
    with served(operator_page()) as operator, served(runtime_page()) as pod:
        targets = [
            Target(operator, {"namespace": "system", "pod": "operator-1"}),
            Target(pod, {"namespace": "team", "pod": "chat-1", "gptservice_name": "chat"}),
        ]
        with prometheus.scraping(targets, tmp_path) as asked:
            asked.wait_scraped_twice(len(targets))
            found = verdicts.faults(asked, VARIABLES)
            assert asked.rule_errors() == {}
    absent = [fault for fault in found if "there is no metric" in fault]
    assert all(fault.rpartition(" ")[2].startswith(OF_VLLM) for fault in absent)
    asking = {str(query) for query in queries.all_of_them() if any(name in query.text for name in OF_VLLM)}
    assert {fault.partition(": there is no metric")[0] for fault in absent} == asking
    # Labels of vLLM's own: nothing but what asks for its metrics names them.
    assert all(any(fault.startswith(each) for each in asking) for fault in found)
