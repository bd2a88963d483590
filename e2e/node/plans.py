"""What engines are asked for while something happens to their pods."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

QUESTION = "Tell me a story."


@dataclass(frozen=True)
class Plan:
    """What is asked: `per_second` short requests, and streams, each begun again as soon as it has ended.

    `short` and each of `streams` are options of the OpenAI API. `ignore_eos` and `max_tokens` must be among them: the
    length of an answer is how one that was cut is told from a whole one.
    """

    streams: tuple[Mapping[str, Any], ...] = ()
    per_second: float = 0.0
    short: Mapping[str, Any] = field(default_factory=dict[str, Any])
    tokens_in: Callable[[str], int] | None = None
    """How many tokens a text is, for an engine of which that can be told without its tokenizer."""


def _stream(seconds: int) -> Mapping[str, Any]:
    """A stream that takes so long: two words a second."""
    return {"max_tokens": 2 * seconds, "ignore_eos": True, "standin": {"token_milliseconds": 500}}


def _standin(*seconds: int) -> Plan:
    """Five requests a second and streams of these lengths. The stand-in's tokens are words."""
    short = {"max_tokens": 5, "ignore_eos": True, "standin": {"token_milliseconds": 10}}
    return Plan(tuple(map(_stream, seconds)), 5, short, lambda text: len(text.split()))


HALF_A_MINUTE = _standin(30, 31, 32, 33, 34, 35, 36, 37)
"""Eight streams of 30 s and more at any time, so that one is begun every four seconds."""
BRIEF = _standin(7, 8, 9, 10)
"""Still longer than the 5 s for which a pod that is told to go takes new requests."""
SHORT_ONES = _standin()

_VLLM_SHORT = {"max_tokens": 5, "ignore_eos": True}
VLLM_SHORT_ONES = Plan(per_second=1, short=_VLLM_SHORT)
VLLM_STREAMS = Plan(({"max_tokens": 200, "ignore_eos": True},) * 3, per_second=1, short=_VLLM_SHORT)
"""Three streams at any time, of half a minute and more where two cores are shared with other requests."""
