"""A small custom metrics API behind the API server's aggregation layer, as a metrics adapter is.

It answers for every metric of every pod with the value that a test has set for its namespace; for a namespace without
one it knows no metric, as an adapter whose scrape brought nothing.
"""

from __future__ import annotations

import datetime
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

from e2e.kube import Kube, Object, wait_until
from e2e.proxy.tls import loopback_tls

GROUP, VERSION = "custom.metrics.k8s.io", "v1beta2"
ROOT = f"/apis/{GROUP}/{VERSION}"
_NAME = "custom-metrics"
_NAMESPACE = "kube-system"
_API_SERVICES = "/apis/apiregistration.k8s.io/v1/apiservices"


@dataclass
class MetricsServer:
    """What pods are said to measure."""

    kube: Kube
    values: dict[str, str] = field(default_factory=dict[str, str])
    """Value of each pod, as a quantity, by namespace."""
    asked: set[str] = field(default_factory=set[str])
    """The metrics that somebody has asked for."""

    def answer(self, path: str, query: str) -> tuple[int, Object]:
        """Answer one GET of the API."""
        if path == ROOT:
            return HTTPStatus.OK, {"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": f"{GROUP}/{VERSION}",
                                   "resources": list[Object]()}  # fmt: skip
        parts = [unquote(part) for part in path.removeprefix(ROOT).strip("/").split("/")]
        if len(parts) != 5 or [parts[0], parts[2], parts[3]] != ["namespaces", "pods", "*"]:
            return HTTPStatus.NOT_FOUND, _status(f"no such path: {path}")
        namespace, metric = parts[1], parts[4]
        self.asked.add(metric)
        if namespace not in self.values:
            return HTTPStatus.NOT_FOUND, _status(f"the server could not find the metric {metric} for pods")
        selector = parse_qs(query).get("labelSelector", [""])[0]
        pods = self.kube.all("Pod", namespace, labels=selector)
        items = [self._item(pod["metadata"]["name"], namespace, metric) for pod in pods]
        return HTTPStatus.OK, {"kind": "MetricValueList", "apiVersion": f"{GROUP}/{VERSION}", "items": items}

    def _item(self, pod: str, namespace: str, metric: str) -> Object:
        return {
            "describedObject": {"kind": "Pod", "apiVersion": "v1", "name": pod, "namespace": namespace},
            "metric": {"name": metric},
            "timestamp": datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
            "value": self.values[namespace],
        }


def _status(message: str) -> Object:
    return {"kind": "Status", "apiVersion": "v1", "status": "Failure", "message": message, "code": 404}


@contextmanager
def served(kube: Kube) -> Iterator[MetricsServer]:
    """Run it on loopback and register it; taken out again afterwards."""
    metrics = MetricsServer(kube)
    server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(metrics))
    context, _ = loopback_tls()
    server.socket = context.wrap_socket(server.socket, server_side=True)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        _register(kube, int(server.server_address[1]))
        yield metrics
    finally:
        kube.request("DELETE", f"{_API_SERVICES}/{VERSION}.{GROUP}")
        kube.delete("Service", _NAME, _NAMESPACE)
        server.shutdown()
        server.server_close()


def _handler(metrics: MetricsServer) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            url = urlsplit(self.path)
            code, body = metrics.answer(url.path, url.query)
            content = json.dumps(body).encode()
            self.send_response(code)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, format: str, *args: Any) -> None:
            pass

    return Handler


def _register(kube: Kube, port: int) -> None:
    # The API server runs on this machine: a Service of this type leads it to a name instead of to pods.
    service = {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": _NAME},
        "spec": {"type": "ExternalName", "externalName": "localhost", "ports": [{"port": port}]},
    }
    kube.apply(service, _NAMESPACE)
    spec = {
        "group": GROUP,
        "version": VERSION,
        "service": {"name": _NAME, "namespace": _NAMESPACE, "port": port},
        "insecureSkipTLSVerify": True,
        "groupPriorityMinimum": 100,
        "versionPriority": 100,
    }
    body = {"apiVersion": "apiregistration.k8s.io/v1", "kind": "APIService", "spec": spec}
    kube.request("POST", _API_SERVICES, body={**body, "metadata": {"name": f"{VERSION}.{GROUP}"}})
    wait_until(lambda: _availability(kube), lambda told: told == "True", "the custom metrics API", timeout=60)


def _availability(kube: Kube) -> str:
    """The status of the registration's condition; why, where it is not True."""
    found = kube.request("GET", f"{_API_SERVICES}/{VERSION}.{GROUP}")
    conditions = found.get("status", {}).get("conditions", [])
    available: Object = next((each for each in conditions if each["type"] == "Available"), {})
    return "True" if available.get("status") == "True" else str(available)
