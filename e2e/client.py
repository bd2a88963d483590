"""Talks to a GPTService as its users do: through its Service, with an API key where it asks for one.

python -m e2e.client NAME QUESTION [--namespace NAMESPACE] [--cluster NAME]
"""

import base64
import json
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, cast
from urllib.parse import urlsplit

import aiohttp

from e2e.kubectl import Kubectl, Object
from e2e.reach import Reach

# Long enough for a slow CPU to read a long prompt before its first token.
READ_TIMEOUT_SECONDS = 300.0


class RefusedError(Exception):
    """The endpoint answered something else than 200."""

    def __init__(self, status: int, body: str, headers: Mapping[str, str]) -> None:
        super().__init__(f"HTTP {status}: {body[:500]}")
        self.status = status
        self.body = body
        self.headers = dict(headers)


class NoKeyError(Exception):
    """The service asks for an API key, and the Secret that it names holds none."""


@dataclass
class Answer:
    """What came back for one question, and when."""

    text: str = ""
    pieces: int = 0
    finish_reason: str = ""
    usage: dict[str, int] = field(default_factory=dict[str, int])
    first_piece_seconds: float = 0.0
    seconds: float = 0.0


@dataclass(frozen=True)
class GPTClient:
    """An open connection to one GPTService."""

    session: aiohttp.ClientSession
    model: str
    """The name that goes into `model` when the caller gives none: the first that the service has."""

    async def models(self) -> list[str]:
        """The names that the endpoint serves."""
        async with self.session.get("/v1/models") as response:
            return [model["id"] for model in (await _json(response))["data"]]

    async def chat(self, question: str, **options: Any) -> Answer:
        """Asks and waits for the whole answer; `options` are the OpenAI API's: `max_tokens`, `model`..."""
        started = time.monotonic()
        async with self.session.post("/v1/chat/completions", json=self._body(question, options)) as response:
            content = await _json(response)
        choice = content["choices"][0]
        return Answer(
            text=choice["message"]["content"],
            pieces=1,
            finish_reason=choice["finish_reason"],
            usage=content["usage"],
            seconds=time.monotonic() - started,
        )

    async def stream(self, question: str, *, into: Answer | None = None, **options: Any) -> AsyncIterator[str]:
        """Asks and yields the answer's pieces as they come; `into` is filled on the way."""
        answer = into if into is not None else Answer()
        started = time.monotonic()
        body = {**self._body(question, options), "stream": True}
        async with self.session.post("/v1/chat/completions", json=body) as response:
            await _refuse_unless_ok(response)
            async for event in _events(response):
                answer.seconds = time.monotonic() - started
                if text := _take(event, answer):
                    answer.pieces += 1
                    answer.first_piece_seconds = answer.first_piece_seconds or answer.seconds
                    answer.text += text
                    yield text

    def _body(self, question: str, options: Mapping[str, Any]) -> Object:
        messages = [{"role": "user", "content": question}]
        return {"model": self.model, "messages": messages, "temperature": 0, **options}


@asynccontextmanager
async def connect(
    kubectl: Kubectl, reach: Reach, name: str, *, namespace: str = "default", keep_alive: bool = True
) -> AsyncIterator[GPTClient]:
    """A client of a GPTService, through its Service; without `keep_alive` each request has a connection of its own.

    Raises NotFoundError when the GPTService, its Service or its key's Secret is not there, NoKeyError for an empty one.
    """
    service = kubectl.get("gptservice", name, namespace=namespace)
    status = cast(Object, service.get("status") or {})
    models = cast(list[str], status.get("effective", {}).get("servedModelNames") or [name])
    headers = _authorization(kubectl, namespace, status.get("authSecret"))
    async with AsyncExitStack() as stack:
        route = stack.enter_context(reach.route(namespace, k8s_service_name(service)))
        session = aiohttp.ClientSession(
            route.url,
            connector=aiohttp.TCPConnector(socket_factory=route.socket_factory, force_close=not keep_alive),
            headers=headers,
            timeout=aiohttp.ClientTimeout(total=None, sock_connect=10, sock_read=READ_TIMEOUT_SECONDS),
        )
        yield GPTClient(await stack.enter_async_context(session), models[0])


def k8s_service_name(service: Object) -> str:
    """The Service of a GPTService: the first label of the endpoint's host, else the object's own name."""
    status = cast(Object, service.get("status") or {})
    host = urlsplit(str(status.get("endpoint", ""))).hostname
    return host.split(".")[0] if host else str(service["metadata"]["name"])


def _authorization(kubectl: Kubectl, namespace: str, secret: str | None) -> dict[str, str]:
    """The header with the first key of the Secret; empty for a service without keys."""
    if not secret:
        return {}
    keys = api_keys(kubectl.get("secret", secret, namespace=namespace))
    if not keys:
        raise NoKeyError(f"Secret {namespace}/{secret} holds no API key: put one into it, one key per line")
    return {"Authorization": f"Bearer {keys[0]}"}


def api_keys(secret: Object) -> list[str]:
    """The keys that a Secret holds, as the runtime reads them: every value, one key per line."""
    data = cast(dict[str, str], secret.get("data") or {})
    values = [base64.b64decode(value).decode() for value in data.values()]
    return [line.strip() for value in values for line in value.splitlines() if line.strip()]


async def _json(response: aiohttp.ClientResponse) -> Object:
    await _refuse_unless_ok(response)
    return cast(Object, await response.json())


async def _refuse_unless_ok(response: aiohttp.ClientResponse) -> None:
    if response.status != 200:
        raise RefusedError(response.status, await response.text(), response.headers)


async def _events(response: aiohttp.ClientResponse) -> AsyncIterator[Object]:
    """Server-sent events, up to [DONE]; a stream that ends before that raises ClientPayloadError."""
    async for line in response.content:
        text = line.decode().strip()
        if text == "data: [DONE]":
            return
        if text.startswith("data:"):
            yield json.loads(text[len("data:") :])
    raise aiohttp.ClientPayloadError("the stream ended without [DONE]")


def _take(event: Object, answer: Answer) -> str:
    """One event's text; what else it says goes into the answer."""
    if error := event.get("error"):
        raise RefusedError(200, json.dumps(error), {})
    answer.usage = event.get("usage") or answer.usage
    for choice in event.get("choices") or ():
        answer.finish_reason = choice.get("finish_reason") or answer.finish_reason
        return str(choice["delta"].get("content") or "")
    return ""
