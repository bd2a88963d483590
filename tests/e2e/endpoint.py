"""A small server that answers as an endpoint does, and the cluster that leads to it."""

import base64
import json
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

from aiohttp import web

from e2e.kubectl import Kubectl, Object
from e2e.reach import Route

PIECES = ["The capital of France", " is", " Paris."]
TOKENS = 6
"""Words of the whole answer."""


class StoredObjects(Kubectl):
    """A kubectl whose cluster is a dict."""

    objects: dict[tuple[str, str], Object]

    def get(self, kind: str, name: str = "", *, namespace: str = "", selector: str = "") -> Object:
        return self.objects[kind, name]


def cluster_with(service: Object, **secrets: str) -> Kubectl:
    stored = StoredObjects(Path("kubectl"), Path("kubeconfig"))
    data = {name: {"data": {"keys": base64.b64encode(keys.encode()).decode()}} for name, keys in secrets.items()}
    objects = {("gptservice", "demo"): service} | {("secret", name): secret for name, secret in data.items()}
    object.__setattr__(stored, "objects", objects)
    return stored


def a_service(**status: Any) -> Object:
    return {"metadata": {"name": "demo"}, "status": status}


class Endpoint:
    """A server on this machine, the Service that leads to it, and what was asked of it."""

    def __init__(self) -> None:
        self.asked: list[tuple[web.Request, Any]] = []
        self.events: list[str] = []
        self.status = 200
        self.finish_reason = "stop"
        self.url = ""
        self.k8s_service = ""

    @contextmanager
    def route(self, namespace: str, name: str, *, port: int | None = None) -> Iterator[Route]:
        self.k8s_service = f"{namespace}/{name}"
        yield Route(self.url)

    async def models(self, request: web.Request) -> web.StreamResponse:
        return web.json_response({"data": [{"id": "demo"}]})

    async def chat(self, request: web.Request) -> web.StreamResponse:
        self.asked.append((request, await request.json()))
        if self.status != 200:
            return web.json_response({"error": {"message": "busy"}}, status=self.status, headers={"Retry-After": "1"})
        if not self.asked[-1][1].get("stream"):
            choice = {"message": {"content": "".join(PIECES)}, "finish_reason": self.finish_reason}
            return web.json_response({"choices": [choice], "usage": {"completion_tokens": TOKENS}})
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        await response.prepare(request)
        for event in self.events:
            await response.write(f"data: {event}\n\n".encode())
        return response


@asynccontextmanager
async def serving() -> AsyncIterator[Endpoint]:
    served = Endpoint()
    application = web.Application()
    application.router.add_post("/v1/chat/completions", served.chat)
    application.router.add_get("/v1/models", served.models)
    runner = web.AppRunner(application)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    host, port = runner.addresses[0]
    served.url = f"http://{host}:{port}"
    yield served
    await runner.cleanup()


def delta(text: str, finish_reason: str | None = None) -> str:
    return json.dumps({"choices": [{"delta": {"content": text}, "finish_reason": finish_reason}]})
