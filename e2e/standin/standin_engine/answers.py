"""What the stand-in says: deterministic, and never to be taken for a model's answer."""

import itertools
from collections.abc import Iterator
from typing import Any, cast

DEFAULT_COMPLETION_TOKENS = 16
"""vLLM's own default of `max_tokens` for /v1/completions."""
_PREFACE = "This is the stand-in engine, not a model. You said:"


def chat_prompt(messages: list[dict[str, Any]]) -> str:
    """The last user message's text."""
    for message in reversed(messages):
        if message.get("role") == "user":
            return _content_text(message.get("content"))
    return ""


def _content_text(content: object) -> str:
    if isinstance(content, list):
        parts = cast("list[dict[str, Any]]", content)
        return " ".join(str(part["text"]) for part in parts if "text" in part)
    return "" if content is None else str(content)


def prompt_text(prompt: object) -> str:
    """The prompt of /v1/completions: a string, or a list of which the first entry counts."""
    if isinstance(prompt, list):
        entries = cast("list[object]", prompt)
        return str(entries[0]) if entries else ""
    return str(prompt)


def answer_tokens(prompt: str, length: int | None) -> Iterator[str]:
    """Words, each but the first with a space before it; repeated or cut to `length` where it is given."""
    words = f"{_PREFACE} {prompt}".split()
    endless: Iterator[str] = itertools.cycle(words) if length is not None else iter(words)
    for number, word in enumerate(itertools.islice(endless, length)):
        yield word if number == 0 else f" {word}"


def count_tokens(text: str) -> int:
    """A word is a token here."""
    return len(text.split())
