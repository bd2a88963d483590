"""What kopf's requests bring, taken before kopf has it.

Of each event kopf makes a task, and of each object it keeps a memory, for handlers that have nothing to add to what the
store does: a third of the operator's CPU time.
"""

import logging
from collections.abc import AsyncIterator, Callable, Mapping
from typing import Any, cast

import aiohttp
import orjson
from aiohttp.connector import Connection

from .api.body import section
from .scope import Collection

logger = logging.getLogger(__name__)

Event = Mapping[str, Any]
"""As the API server tells it: ``{"type": "ADDED", "object": {...}}``."""
Take = Callable[[Collection, Event], None]

_OF_OBJECTS = ("ADDED", "MODIFIED", "DELETED")


def response_class(by_path: Mapping[str, Collection], take: Take) -> type[aiohttp.ClientResponse]:
    """Return the responses of kopf's session.

    Args:
        by_path: what is watched; all other paths are kopf's own affair.
        take: is called with each event of those watches. In its place kopf gets a bookmark, from which it goes on when
            the watch is cut. Of a list it gets the version alone: ``Listing`` reads the objects.
    """

    class Response(aiohttp.ClientResponse):
        async def start(self, connection: Connection) -> aiohttp.ClientResponse:
            await super().start(connection)
            one = by_path.get(self.url.path)
            if one is not None and "watch" in self.url.query and self.ok:
                self.content = cast(aiohttp.StreamReader, _Stream(self.content, lambda event: take(one, event)))
            return self

        async def json(self, **settings: Any) -> Any:
            document = await super().json(**settings)
            is_list = self.url.path in by_path and self.method == "GET" and self.ok
            return _without_objects(document) if is_list else document

    return Response


def _without_objects(page: Any) -> Any:
    """Return the first page of a list as if it were the whole, and nothing were there."""
    if not isinstance(page, dict):
        return page
    page = cast(dict[str, Any], page)
    return {**page, "metadata": {**section(page, "metadata"), "continue": ""}, "items": []}


class _Stream:
    """A watch's body, of which kopf reads nothing but bookmarks and errors."""

    def __init__(self, content: aiohttp.StreamReader, take: Callable[[Event], None]) -> None:
        self._content = content
        self._take = take

    def __getattr__(self, name: str) -> Any:
        return getattr(self._content, name)

    async def iter_chunked(self, size: int) -> AsyncIterator[bytes]:
        """Yield whole lines; an event that the end of the stream has cut is dropped: the next watch tells it again."""
        rest = b""
        async for chunk in self._content.iter_chunked(size):
            *lines, rest = (rest + chunk).split(b"\n")
            if lines:
                yield b"".join(self._passed_on(line) for line in lines)
        if rest and (_parsed(rest) or not rest.startswith(b"{")):
            # Of what is no event kopf has to know, or it would ask again at once and for ever.
            yield self._passed_on(rest)

    def _passed_on(self, line: bytes) -> bytes:
        event = _parsed(line)
        if event.get("type") not in _OF_OBJECTS:
            return line + b"\n"
        try:
            self._take(event)
        except Exception:
            logger.exception("an event of a watch could not be taken: a fault of the operator itself; please report it")
        version = section(event, "object", "metadata").get("resourceVersion")
        bookmark = {"type": "BOOKMARK", "object": {"metadata": {"resourceVersion": version}}}
        return orjson.dumps(bookmark) + b"\n" if version else b""


def _parsed(line: bytes) -> Event:
    """Return an event; nothing of what is none, about which kopf complains."""
    try:
        event = orjson.loads(line)
    except ValueError:
        return {}
    return cast(Event, event) if isinstance(event, dict) else {}
