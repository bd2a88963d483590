"""The OpenAI API as far as clients, the runtime and our tests use it, in vLLM's forms."""

import asyncio
import json
import time
from typing import Any

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route

from . import behaviour, metrics
from .core import CoreDiedError
from .engine import Engine, die
from .generation import Chat, Completion, Form, Run

_METHODS = ("DELETE", "GET", "HEAD", "OPTIONS", "PATCH", "POST", "PUT")


def application(engine: Engine) -> Starlette:
    """The app without the middleware of the command line."""

    async def health(_request: Request) -> Response:
        return Response()

    async def version(_request: Request) -> Response:
        return JSONResponse({"version": "standin"})

    async def scrape(_request: Request) -> Response:
        return Response(engine.metrics(), headers={"Content-Type": metrics.CONTENT_TYPE})

    async def models(_request: Request) -> Response:
        return JSONResponse({"object": "list", "data": [_model(engine, name) for name in _names(engine)]})

    async def completions(request: Request) -> Response:
        return await _generate(engine, request, Completion())

    async def chat(request: Request) -> Response:
        return await _generate(engine, request, Chat())

    return Starlette(
        routes=[
            Route("/health", health),
            Route("/version", version),
            # As vLLM mounts them: whatever follows, and for every method.
            Route("/metrics{rest:path}", scrape, methods=_METHODS),
            Route("/v1/models", models),
            Route("/v1/completions", completions, methods=["POST"]),
            Route("/v1/chat/completions", chat, methods=["POST"]),
        ]
    )


def _names(engine: Engine) -> tuple[str, ...]:
    return engine.arguments.served_model_names


def _model(engine: Engine, name: str) -> dict[str, Any]:
    return {
        "id": name,
        "object": "model",
        "created": int(time.time()),
        "owned_by": "vllm",
        "root": engine.arguments.model,
        "parent": None,
        "max_model_len": engine.arguments.max_model_len,
    }


def _error(status: int, kind: str, message: str, parameter: str | None = None) -> Response:
    error = {"message": message, "type": kind, "param": parameter, "code": status}
    return JSONResponse({"error": error}, status_code=status)


async def _generate(engine: Engine, request: Request, form: Form) -> Response:
    try:
        body: dict[str, Any] = await request.json()
        told = behaviour.from_request(body)
        prompt = form.prompt(body)
    except (json.JSONDecodeError, KeyError, TypeError, AttributeError) as error:
        return _error(400, "BadRequestError", f"stand-in: cannot use this request: {error!r}")
    name = body.get("model") or _names(engine)[0]
    if name not in _names(engine):
        return _error(404, "NotFoundError", f"The model `{name}` does not exist.", "model")
    if engine.draining:
        return _error(500, "InternalServerError", "stand-in: shutting down")
    if told.crash:
        die(engine.told)
    if told.status != 200:
        return _error(told.status, "StandInError", "stand-in: this status was asked for")
    answer = asyncio.create_task(_answer(Run(engine, form, body, told, name, prompt)))
    gone = asyncio.create_task(_until_gone(request))
    # As vLLM does: nobody waits for the answer any more, so that nothing is spent on it.
    await asyncio.wait({answer, gone}, return_when=asyncio.FIRST_COMPLETED)
    gone.cancel()
    if answer.done():
        return answer.result()
    answer.cancel()
    return _error(499, "ClientClosedRequest", "stand-in: the client has gone")


async def _until_gone(request: Request) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass


async def _answer(run: Run) -> Response:
    await run.begin()
    if run.streamed:
        return StreamingResponse(run.stream(), media_type="text/event-stream")
    try:
        return JSONResponse(await run.whole())
    except CoreDiedError as error:
        return _error(500, "InternalServerError", f"stand-in: {error}")
