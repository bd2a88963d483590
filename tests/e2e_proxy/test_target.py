from __future__ import annotations

import pytest

from e2e.proxy.target import Target, classify

APPLY = "application/apply-patch+yaml"
DEPLOYMENT = "/apis/apps/v1/namespaces/ns/deployments/gpt"
SERVICES = "/apis/ai.example.com/v1/namespaces/ns/gptservices"


@pytest.mark.parametrize(
    ("method", "path", "query", "content_type", "expected"),
    [
        pytest.param("GET", "/api/v1/pods", {}, "", ("list", "pods", "", "", ""), id="list all namespaces"),
        pytest.param("GET", "/api/v1/pods", {"watch": "true"}, "", ("watch", "pods", "", "", ""), id="watch"),
        pytest.param("GET", "/api/v1/pods", {"watch": "1"}, "", ("watch", "pods", "", "", ""), id="watch=1"),
        pytest.param("GET", "/api/v1/pods", {"watch": "false"}, "", ("list", "pods", "", "", ""), id="watch=false"),
        pytest.param("GET", DEPLOYMENT, {}, "", ("get", "deployments", "ns", "gpt", ""), id="get"),
        pytest.param("PATCH", DEPLOYMENT, {}, APPLY, ("apply", "deployments", "ns", "gpt", ""), id="apply"),
        pytest.param(
            "PATCH",
            DEPLOYMENT,
            {},
            "application/merge-patch+json",
            ("patch", "deployments", "ns", "gpt", ""),
            id="merge patch",
        ),
        pytest.param(
            "PATCH",
            f"{SERVICES}/gpt/status",
            {},
            APPLY,
            ("status", "gptservices", "ns", "gpt", "status"),
            id="status",
        ),
        pytest.param("PUT", f"{DEPLOYMENT}/scale", {}, "", ("update", "deployments", "ns", "gpt", "scale"), id="scale"),
        pytest.param("POST", SERVICES, {}, "", ("create", "gptservices", "ns", "", ""), id="create"),
        pytest.param("DELETE", DEPLOYMENT, {}, "", ("delete", "deployments", "ns", "gpt", ""), id="delete"),
        pytest.param("DELETE", SERVICES, {}, "", ("deletecollection", "gptservices", "ns", "", ""), id="collection"),
        pytest.param("GET", "/api/v1/namespaces", {}, "", ("list", "namespaces", "", "", ""), id="namespaces"),
        pytest.param("GET", "/api/v1/namespaces/ns", {}, "", ("get", "namespaces", "", "ns", ""), id="namespace"),
        pytest.param(
            "PUT",
            "/api/v1/namespaces/ns/finalize",
            {},
            "",
            ("update", "namespaces", "", "ns", "finalize"),
            id="finalize",
        ),
        pytest.param("GET", "/apis", {}, "", ("list", "", "", "", ""), id="discovery"),
        pytest.param("GET", "/apis/apps/v1", {}, "", ("list", "", "", "", ""), id="group discovery"),
        pytest.param("GET", "/healthz", {}, "", ("list", "", "", "", ""), id="not an object"),
    ],
)
def test_reads_a_request_line(
    method: str, path: str, query: dict[str, str], content_type: str, expected: tuple[str, ...]
) -> None:
    target = classify(method=method, path=path, query=query, content_type=content_type)
    assert (target.verb, target.resource, target.namespace, target.name, target.subresource) == expected


def test_reads_group_and_version() -> None:
    target = classify(method="GET", path=SERVICES, query={})
    assert (target.group, target.version) == ("ai.example.com", "v1")


@pytest.mark.parametrize("verb", ["apply", "patch", "create", "update", "delete", "deletecollection", "status"])
def test_writes_are_writes(verb: str) -> None:
    assert Target(verb=verb).is_write


@pytest.mark.parametrize("verb", ["get", "list", "watch"])
def test_reads_are_not(verb: str) -> None:
    assert not Target(verb=verb).is_write
