"""The log: lines for people, or one JSON object per line for programs; each says of which object and pass it is."""

import contextlib
import itertools
import json
import logging
import re
from collections.abc import Iterator
from contextvars import ContextVar
from typing import Any

TEXT, JSON = "text", "json"
FORMATS = (TEXT, JSON)

_pass: ContextVar[tuple[str, int] | None] = ContextVar("pass", default=None)
_numbers = itertools.count(1)

# A line for each event taken and each probe answered: they say nothing, and cost more than what they report.
_CHATTY = ("kopf.objects", "kopf.activities.probe", "aiohttp.access")

_RETRYING = "kopf._cogs.clients.watching"
_ATTEMPT = re.compile(r"Request attempt #(\d+)\b.* will retry")
SELDOM = 120
"""Of the tries of a watch that fails, every 5 s in the end, so many are one line after the first: where a namespace may
not be read, each of its watches fails for as long as that lasts."""


def _is_told(record: logging.LogRecord) -> bool:
    attempt = _ATTEMPT.match(record.getMessage())
    return attempt is None or int(attempt[1]) % SELDOM == 1


def configure(level: str, form: str) -> None:
    """Log from this level on, in one of FORMATS."""
    logging.basicConfig(level=level.upper(), format="%(asctime)s %(levelname)-7s %(name)s: %(message)s")
    if form == JSON:
        for handler in logging.getLogger().handlers:
            handler.setFormatter(JsonFormatter())
    for name in _CHATTY:
        logging.getLogger(name).setLevel(logging.WARNING)
    logging.getLogger(_RETRYING).addFilter(_is_told)


@contextlib.contextmanager
def in_pass(namespace: str, name: str) -> Iterator[int]:
    """Have all lines of the task name an object and the number of the pass, which is given."""
    number = next(_numbers)
    token = _pass.set((f"{namespace}/{name}", number))
    try:
        yield number
    finally:
        _pass.reset(token)


class JsonFormatter(logging.Formatter):
    """One object per line: time, level, logger, message; object, pass and error where there are."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the line."""
        line: dict[str, Any] = {
            "time": self.formatTime(record, "%Y-%m-%dT%H:%M:%S") + f".{int(record.msecs):03}",
            "level": record.levelname,
            "logger": record.name,
            "message": record.getMessage(),
        }
        if (current := _pass.get()) is not None:
            line["object"], line["pass"] = current
        if record.exc_info:
            line["error"] = self.formatException(record.exc_info)
        return json.dumps(line, ensure_ascii=False)
