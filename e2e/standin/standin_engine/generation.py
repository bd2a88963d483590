"""One answer, token by token, in the forms of the OpenAI API."""

import asyncio
import json
import time
from collections.abc import AsyncIterator, Iterator
from typing import Any

from . import answers, behaviour
from .core import CoreDiedError
from .engine import Engine


class Completion:
    """Forms of /v1/completions."""

    prefix = "cmpl"
    whole = "text_completion"
    chunk = "text_completion"
    default_tokens: int | None = answers.DEFAULT_COMPLETION_TOKENS

    def prompt(self, body: dict[str, Any]) -> str:
        return answers.prompt_text(body["prompt"])

    def choice(self, text: str, finish: str | None, *, streamed: bool, first: bool) -> dict[str, Any]:
        return {"index": 0, "text": text, "logprobs": None, "finish_reason": finish}


class Chat:
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


Form = Completion | Chat


class Run:
    """One answer being generated."""

    def __init__(
        self,
        engine: Engine,
        form: Form,
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

    @property
    def streamed(self) -> bool:
        return bool(self._body.get("stream"))

    async def begin(self) -> None:
        """What comes before the first byte of the answer."""
        with self._engine.waiting():
            if self._engine.hangs:
                await asyncio.Event().wait()
            await asyncio.sleep(self._told.delay_milliseconds / 1000)

    async def _read_prompt(self) -> None:
        for _ in range(self._told.prefill_steps):
            await self._engine.core.step(self._told.prefill_milliseconds)
            self._engine.steps += 1

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
            await self._read_prompt()
            for token, finish in self._words():
                await asyncio.sleep(delay)
                await self._engine.core.step()
                self._engine.tokens += 1
                self._count += 1
                yield token, finish

    def _usage(self) -> dict[str, int]:
        prompt = answers.count_tokens(self._prompt)
        total = prompt + self._count
        return {"prompt_tokens": prompt, "completion_tokens": self._count, "total_tokens": total}

    def _envelope(self, kind: str, choices: list[dict[str, Any]]) -> dict[str, Any]:
        common = {"id": self._id, "created": self._created, "model": self._engine.arguments.served_model_names[0]}
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
        try:
            async for token, finish in self._tokens():
                choice = self._form.choice(token, finish, streamed=True, first=self._count == 1)
                yield _event(self._envelope(self._form.chunk, [choice]))
                if self._count == self._told.break_after_tokens:
                    raise ConnectionAbortedError("stand-in: this break was asked for")
        except CoreDiedError as error:
            # As vLLM: the error is an event of the stream.
            yield _event({"error": {"message": f"stand-in: {error}", "type": "InternalServerError", "code": 500}})
        else:
            if options.get("include_usage"):
                yield _event({**self._envelope(self._form.chunk, []), "usage": self._usage()})
            self._engine.finished()
        yield "data: [DONE]\n\n"


def _event(content: dict[str, Any]) -> str:
    return f"data: {json.dumps(content)}\n\n"
