from __future__ import annotations

import pytest

from e2e.kube import KINDS, KubeError, NotFoundError, show, stays, wait_until


@pytest.mark.parametrize(
    ("kind", "arguments", "expected"),
    [
        pytest.param("Pod", (), "/api/v1/pods", id="core, all namespaces"),
        pytest.param("Pod", ("ns",), "/api/v1/namespaces/ns/pods", id="core, one namespace"),
        pytest.param(
            "GPTService",
            ("ns", "gpt", "scale"),
            "/apis/ai.example.com/v1/namespaces/ns/gptservices/gpt/scale",
            id="subresource",
        ),
        pytest.param("Namespace", ("ns", "ns"), "/api/v1/namespaces/ns", id="cluster-scoped"),
        pytest.param("GPTModel", ("", "m"), "/apis/ai.example.com/v1/gptmodels/m", id="cluster-scoped group"),
    ],
)
def test_paths(kind: str, arguments: tuple[str, ...], expected: str) -> None:
    assert KINDS[kind].path(*arguments) == expected


def test_wait_until_returns_the_first_value_that_is_accepted() -> None:
    values = iter([1, 2, 3])
    assert wait_until(lambda: next(values), lambda value: value > 1, "more than one", every=0) == 2


def test_wait_until_says_what_it_waited_for_and_what_it_saw() -> None:
    seen = {"metadata": {"name": "gpt", "managedFields": ["noise"]}, "status": {"phase": "Pending"}}
    with pytest.raises(AssertionError) as failure:
        wait_until(lambda: seen, lambda _: False, "gpt to be Ready", timeout=0.01, every=0.001)
    text = str(failure.value)
    assert "gpt to be Ready" in text
    assert "phase: Pending" in text
    assert "noise" not in text


def test_stays_fails_at_the_first_other_value() -> None:
    values = iter([0, 0, 7, 0])
    with pytest.raises(AssertionError, match="7"):
        stays(lambda: next(values), lambda value: value == 0, "zero", seconds=5, every=0)


def test_stays_looks_all_the_time() -> None:
    seen: list[int] = []
    stays(lambda: seen.append(1), lambda _: True, "anything", seconds=0.02, every=0.001)
    assert len(seen) > 1


@pytest.mark.parametrize(
    ("body", "message"),
    [
        pytest.param('{"message": "spec.replicas: Invalid value"}', "spec.replicas: Invalid value", id="status"),
        pytest.param("<html>", "<html>", id="not JSON"),
        pytest.param("[]", "[]", id="other JSON"),
    ],
)
def test_an_error_keeps_the_servers_words(body: str, message: str) -> None:
    error = NotFoundError("GET /x", 404, body)
    assert isinstance(error, KubeError)
    assert (error.status, error.message) == (404, message)
    assert str(error) == f"GET /x: HTTP 404: {message}"


def test_shows_what_yaml_cannot() -> None:
    assert "object at" in show([object()])
