"""The client against a small server that answers as an endpoint does."""

import base64
from collections.abc import AsyncIterator
from typing import Any

import aiohttp
import pytest

from e2e import client
from tests.e2e.endpoint import PIECES, Endpoint, a_service, cluster_with, delta, serving


@pytest.fixture
async def endpoint() -> AsyncIterator[Endpoint]:
    async with serving() as served:
        yield served


async def test_a_streamed_answer_is_put_together(endpoint: Endpoint) -> None:
    endpoint.events = [*map(delta, PIECES), delta("", "stop"), "[DONE]"]
    answer = client.Answer()
    async with client.connect(cluster_with(a_service()), endpoint, "demo") as chat:
        pieces = [piece async for piece in chat.stream("What is the capital of France?", into=answer)]
    assert pieces == PIECES
    assert (answer.text, answer.pieces, answer.finish_reason) == (
        "The capital of France is Paris.",
        3,
        "stop",
    )
    assert 0 < answer.first_piece_seconds <= answer.seconds


async def test_a_stream_that_is_cut_is_an_error_not_a_short_answer(endpoint: Endpoint) -> None:
    endpoint.events = [delta(PIECES[0])]
    async with client.connect(cluster_with(a_service()), endpoint, "demo") as chat:
        with pytest.raises(aiohttp.ClientPayloadError, match="DONE"):
            assert [piece async for piece in chat.stream("?")] == PIECES


async def test_an_error_in_the_middle_of_a_stream_is_an_error(endpoint: Endpoint) -> None:
    endpoint.events = [delta(PIECES[0]), '{"error": {"message": "engine died"}}', "[DONE]"]
    async with client.connect(cluster_with(a_service()), endpoint, "demo") as chat:
        with pytest.raises(client.RefusedError, match="engine died"):
            assert [piece async for piece in chat.stream("?")] == PIECES


async def test_the_served_name_comes_from_the_status_and_can_be_chosen(endpoint: Endpoint) -> None:
    service = a_service(effective={"servedModelNames": ["gpt-4-turbo", "demo"]})
    async with client.connect(cluster_with(service), endpoint, "demo") as chat:
        await chat.chat("?")
        await chat.chat("?", model="demo", max_tokens=5)
    (_, first), (_, second) = endpoint.asked
    assert first["model"] == "gpt-4-turbo"
    assert (second["model"], second["max_tokens"]) == ("demo", 5)


@pytest.mark.parametrize(
    ("status", "sent"),
    [
        pytest.param({}, None, id="no keys asked for"),
        pytest.param({"authSecret": "demo-key"}, "Bearer first", id="the first key of the secret"),
    ],
)
async def test_a_key_is_sent_when_the_status_names_a_secret(
    endpoint: Endpoint, status: dict[str, Any], sent: str | None
) -> None:
    stored = cluster_with(a_service(**status), **{"demo-key": "first\nsecond\n"})
    async with client.connect(stored, endpoint, "demo") as chat:
        await chat.chat("?")
    ((request, _),) = endpoint.asked
    assert request.headers.get("Authorization") == sent


@pytest.mark.parametrize(
    ("data", "keys"),
    [
        pytest.param({"api-key": "sk-one"}, ["sk-one"], id="as the operator makes it"),
        pytest.param({"a": "one\n\n two \r\n"}, ["one", "two"], id="several lines"),
        pytest.param({"a": "", "b": "one"}, ["one"], id="several values"),
        pytest.param({}, [], id="none"),
        pytest.param(None, [], id="no data at all"),
    ],
)
def test_keys_are_read_as_the_runtime_does(data: dict[str, str] | None, keys: list[str]) -> None:
    encoded = data and {name: base64.b64encode(value.encode()).decode() for name, value in data.items()}
    assert client.api_keys({"data": encoded}) == keys


async def test_a_secret_without_a_key_is_said_and_not_a_refusal_by_the_endpoint(endpoint: Endpoint) -> None:
    stored = cluster_with(a_service(authSecret="demo-key"), **{"demo-key": " \n"})
    with pytest.raises(client.NoKeyError, match="default/demo-key holds no API key"):
        async with client.connect(stored, endpoint, "demo"):
            pass
    assert endpoint.asked == []


async def test_a_refusal_keeps_status_body_and_headers(endpoint: Endpoint) -> None:
    endpoint.status = 429
    async with client.connect(cluster_with(a_service()), endpoint, "demo") as chat:
        with pytest.raises(client.RefusedError) as caught:
            await chat.chat("?")
    assert (caught.value.status, caught.value.headers["Retry-After"]) == (429, "1")
    assert "busy" in caught.value.body


@pytest.mark.parametrize(
    ("status", "expected"),
    [
        pytest.param(
            {"endpoint": "http://prod-gpt-35-1a2b.team.svc:80"},
            "team/prod-gpt-35-1a2b",
            id="from the endpoint",
        ),
        pytest.param({}, "team/demo", id="no endpoint yet"),
    ],
)
async def test_the_service_that_is_asked(endpoint: Endpoint, status: dict[str, Any], expected: str) -> None:
    async with client.connect(cluster_with(a_service(**status)), endpoint, "demo", namespace="team"):
        assert endpoint.k8s_service == expected
