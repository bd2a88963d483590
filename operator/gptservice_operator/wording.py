"""Other people's words in a condition: without what differs each time, without secrets, and not too long."""

import re
from collections.abc import Iterable

from gptservice_runtime import contract

from .api.body import Body, entries

_VARYING: tuple[tuple[re.Pattern[str], str], ...] = (
    # Who reads a status has not asked for other colours, nor for a bell.
    (re.compile(rf"{contract.TERMINAL_CONTROL}|[\x00-\x08\x0b-\x1f\x7f\x80-\x9f]"), ""),
    (re.compile(r"\b[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}\b"), "<id>"),
    (re.compile(r"\d{4}-\d{2}-\d{2}[T ]\d{2}:\d{2}:\d{2}([.,]\d+)?\s?(Z|UTC|[+-]\d{2}:?\d{2})?"), "<time>"),
    (
        re.compile(r"(?i)(\b(?:x-)?(?:request|trace|correlation|audit)[-_ ]?id\b[\"']?\s*[:=]?\s*[\"']?)[^\s\"',;)]+"),
        r"\1<id>",
    ),
    (re.compile(r"(?i)\b(back-off) [0-9hms.]+"), r"\1"),
    # Of a connection, our own port.
    (re.compile(r"(\d{1,3}(?:\.\d{1,3}){3}):\d+->"), r"\1->"),
    (re.compile(r"\b0x[0-9a-f]{6,}\b"), "<address>"),
    # The API server compares two Go values field by field where one line before has said what is wrong.
    (re.compile(r"(?s)\n\s*[&*]?[a-z][a-z0-9]*\.[A-Z]\w*\{\n.*"), ""),
)
_SHORTEST_SECRET = 4
_SHORTEST_WITHIN_WORDS = 8
"""Characters of a value that is hidden within a word, too: `node` would take half of what we say along."""


def settled(text: str) -> str:
    """Return a text without times, request ids and the like: a steady fault must give a steady message."""
    for pattern, stands_for in _VARYING:
        text = pattern.sub(stands_for, text)
    return text


def bounded(text: str, longest: int) -> str:
    """Return a text of at most so many characters: its beginning and, where engines say what happened, its end."""
    if len(text) <= longest:
        return text
    end = longest // 2
    return f"{text[: longest - end - 1]}…{text[-end:]}"


def env_values(service: Body) -> list[str]:
    """Return the values of a service's environment variables: people put secrets there."""
    values = [variable.get("value") for variable in entries(service, "spec", "engine", "env")]
    return [value for value in values if isinstance(value, str) and len(value) >= _SHORTEST_SECRET]


def without(text: str, hidden: Iterable[str]) -> str:
    """Return a text in which nothing of ``hidden`` is to be read, the longest first."""
    for value in sorted(hidden, key=len, reverse=True):
        alone = re.escape(value)
        text = re.sub(alone if len(value) >= _SHORTEST_WITHIN_WORDS else rf"(?<!\w){alone}(?!\w)", "***", text)
    return text
