"""The smallest question for each kind of model: vLLM has the routes of what its model can do, and no others."""

import io
import wave
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import aiohttp

_TEXT = "Hello"
_SILENCE_HERTZ = 16000


@dataclass(frozen=True, kw_only=True)
class Question:
    """One way to ask."""

    path: str
    arguments: Callable[[str], dict[str, Any]]
    """What a POST is sent with, by the name of the model."""


def _generate(model: str) -> dict[str, Any]:
    return {"json": {"model": model, "prompt": _TEXT, "max_tokens": 1, "temperature": 0}}


def _pool(model: str) -> dict[str, Any]:
    """Embed, classify or score, whichever the model does."""
    return {"json": {"model": model, "input": _TEXT}}


def _transcribe(model: str) -> dict[str, Any]:
    """One second of silence."""
    file = io.BytesIO()
    with wave.open(file, "wb") as sound:
        sound.setnchannels(1)
        sound.setsampwidth(2)
        sound.setframerate(_SILENCE_HERTZ)
        sound.writeframes(bytes(2 * _SILENCE_HERTZ))
    form = aiohttp.FormData({"model": model})
    form.add_field("file", file.getvalue(), filename="silence.wav", content_type="audio/wav")
    return {"data": form}


QUESTIONS = (
    Question(path="/v1/completions", arguments=_generate),
    Question(path="/pooling", arguments=_pool),
    Question(path="/v1/audio/transcriptions", arguments=_transcribe),
)
"""In the order in which they are tried; a route that is not there is a 404."""
