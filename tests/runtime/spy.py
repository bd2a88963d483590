"""ASGI middleware inside of all of the runtime's: notes which requests come through to the engine."""

import os
from pathlib import Path

from gptservice_runtime import asgi

FILE_ENV = "SPY_FILE"
NAME = "spy.Spy"


class Spy:
    def __init__(self, app: asgi.Application) -> None:
        self._app = app
        self._file = Path(os.environ[FILE_ENV])

    async def __call__(self, scope: asgi.Message, receive: asgi.Receive, send: asgi.Send) -> None:
        if scope["type"] in ("http", "websocket"):
            with self._file.open("a") as file:
                file.write(f"{scope.get('method', 'WS')} {scope['path']}\n")
        await self._app(scope, receive, send)
