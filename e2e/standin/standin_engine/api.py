"""The OpenAI API as far as clients, the runtime and our tests use it, in vLLM's forms."""

import asyncio
import contextlib
import itertools
import json
import os
import signal
import sys
import time
from collections.abc import AsyncIterator, Iterator
from typing import Any, NoReturn

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route

from . import answers, behaviour, metrics
from .arguments import Arguments

_METHODS = ("DELETE", "GET", "HEAD", "OPTIONS", "PATCH", "POST", "PUT")


class Engine:
    """State of the process: what it was asked to do and how many requests it has answered."""

    def __init__(self, arguments: Arguments, told: behaviour.Behaviour) -> None:
        self.arguments = arguments
        self.told = told
        self.answered = 0
        self.draining = False
        self.idle = asyncio.Event()
        """Set while nothing is being generated."""
        self.idle.set()
        self._running = 0
        self._waiting = 0
        self._ids = itertools.count(1)

    def next_id(self, prefix: str) -> str:
        """Identifier of one answer."""
        return f"{prefix}-standin-{next(self._ids)}"

    @contextlib.contextmanager
    def running(self) -> Iterator[None]:
        """One request is being generated."""
        self._running += 1
        self.idle.clear()
        try:
            yield
        finally:
            self._running -= 1
            if self._running == 0:
                self.idle.set()

    @contextlib.contextmanager
    def waiting(self) -> Iterator[None]:
        """One request has come and is not being generated yet."""
        self._waiting += 1
        try:
            yield
        finally:
            self._waiting -= 1

    def metrics(self) -> str:
        """Text of `/metrics`."""
        return metrics.text(self.arguments.served_model_names[0], running=self._running, waiting=self._waiting)

    def finished(self) -> None:
        """One generation request was answered."""
        self.answered += 1
        if self.answered == self.told.crash_after_requests:
            die(self.told)

    @property
    def hangs(self) -> bool:
        """Whether requests are no longer answered."""
        return 0 < self.told.hang_after_requests <= self.answered


def die(told: behaviour.Behaviour) -> NoReturn:
    """End the process at once, as a crash would."""
    if told.last_words:
        print(told.last_words, file=sys.stderr, flush=True)
    if told.crash_exit_code < 0:
        os.kill(os.getpid(), -told.crash_exit_code)
        signal.pause()
    os._exit(told.crash_exit_code)


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
        return await _generate(engine, request, _Completion())

    async def chat(request: Request) -> Response:
        return await _generate(engine, request, _Chat())

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


class _Completion:
    """Forms of /v1/completions."""

    prefix = "cmpl"
    whole = "text_completion"
    chunk = "text_completion"
    default_tokens: int | None = answers.DEFAULT_COMPLETION_TOKENS

    def prompt(self, body: dict[str, Any]) -> str:
        return answers.prompt_text(body["prompt"])

    def choice(self, text: str, finish: str | None, *, streamed: bool, first: bool) -> dict[str, Any]:
        return {"index": 0, "text": text, "logprobs": None, "finish_reason": finish}


class _Chat:
    """Forms of /v1/chat/completions."""

    prefix = "chatcmpl"
    whole = "chat.completion"
    chunk = "chat.completion.chunk"
    default_tokens: int | None = None

    def prompt(self, body: dict[str, Any]) -> str:
        return answers.chat_prompt(body["messages"])

    def choice(self, text: str, finish: str | None, *, streamed: bool, first: bool) -> dict[str, Any]:
        if streamed:
            delta = {"role": "assistant", "content": text} if first else {"content": text}
            return {"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish}
        message = {"role": "assistant", "content": text}
        return {"index": 0, "message": message, "logprobs": None, "finish_reason": finish}


_Form = _Completion | _Chat


def _error(status: int, kind: str, message: str, parameter: str | None = None) -> Response:
    error = {"message": message, "type": kind, "param": parameter, "code": status}
    return JSONResponse({"error": error}, status_code=status)


async def _generate(engine: Engine, request: Request, form: _Form) -> Response:
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
    with engine.waiting():
        if engine.hangs:
            await asyncio.Event().wait()
        await asyncio.sleep(told.delay_milliseconds / 1000)
    run = _Run(engine, form, body, told, name, prompt)
    if body.get("stream"):
        return StreamingResponse(run.stream(), media_type="text/event-stream")
    return JSONResponse(await run.whole())


class _Run:
    """One answer being generated."""

    def __init__(
        self,
        engine: Engine,
        form: _Form,
        body: dict[str, Any],
        told: behaviour.RequestBehaviour,
        name: str,
        prompt: str,
    ) -> None:
        self._engine, self._form, self._body, self._told = engine, form, body, told
        self._name, self._prompt = name, prompt
        self._id = engine.next_id(form.prefix)
        self._created = int(time.time())
        self._count = 0

    def _cap(self) -> int | None:
        body = self._body
        asked = body.get("max_completion_tokens") or body.get("max_tokens") or self._form.default_tokens
        caps = [cap for cap in (asked, self._engine.arguments.max_new_tokens) if cap is not None]
        return min(caps, default=None)

    def _words(self) -> Iterator[tuple[str, str | None]]:
        """Each token with the finish reason, which only the last one has."""
        cap = self._cap()
        length = cap if self._told.tokens is None and self._body.get("ignore_eos") else self._told.tokens
        full = list(answers.answer_tokens(self._prompt, length))
        given = full if cap is None else full[:cap]
        for number, token in enumerate(given, start=1):
            finish = ("length" if len(given) == cap else "stop") if number == len(given) else None
            yield token, finish

    async def _tokens(self) -> AsyncIterator[tuple[str, str | None]]:
        each = self._told.token_milliseconds
        delay = (self._engine.told.token_milliseconds if each is None else each) / 1000
        with self._engine.running():
            for token, finish in self._words():
                await asyncio.sleep(delay)
                self._count += 1
                yield token, finish

    def _usage(self) -> dict[str, int]:
        prompt = answers.count_tokens(self._prompt)
        total = prompt + self._count
        return {"prompt_tokens": prompt, "completion_tokens": self._count, "total_tokens": total}

    def _envelope(self, kind: str, choices: list[dict[str, Any]]) -> dict[str, Any]:
        common = {"id": self._id, "created": self._created, "model": _names(self._engine)[0]}
        return {**common, "object": kind, "choices": choices}

    async def whole(self) -> dict[str, Any]:
        """The answer in one piece."""
        text, finish = "", "stop"
        async for token, reason in self._tokens():
            text, finish = text + token, reason or finish
        self._engine.finished()
        choice = self._form.choice(text, finish, streamed=False, first=True)
        return {**self._envelope(self._form.whole, [choice]), "usage": self._usage()}

    async def stream(self) -> AsyncIterator[str]:
        """Server-sent events, with usage where `stream_options.include_usage` asks for it."""
        options: dict[str, Any] = self._body.get("stream_options") or {}
        async for token, finish in self._tokens():
            choice = self._form.choice(token, finish, streamed=True, first=self._count == 1)
            yield _event(self._envelope(self._form.chunk, [choice]))
            if self._count == self._told.break_after_tokens:
                raise ConnectionAbortedError("stand-in: this break was asked for")
        if options.get("include_usage"):
            yield _event({**self._envelope(self._form.chunk, []), "usage": self._usage()})
        yield "data: [DONE]\n\n"
        self._engine.finished()


def _event(content: dict[str, Any]) -> str:
    return f"data: {json.dumps(content)}\n\n"
