"""The control port: the switchboard's methods as small HTTP calls, for tests in another process.

- `GET /`: the commands
- `GET /requests?since=N`: the log from entry N on
- `POST /COMMAND` with its arguments as a JSON object; the answer is `{"value": ...}` or `{"error": ...}`
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable, Mapping
from typing import Any

from aiohttp import web

from e2e.proxy.faults import event_rule_from_json, rule_from_json
from e2e.proxy.switchboard import Switchboard

Command = Callable[..., Any]


class ControlServer:
    """Serves one switchboard's controls on loopback."""

    def __init__(self, board: Switchboard) -> None:
        self._board = board
        self._runner: web.AppRunner | None = None
        self._commands: Mapping[str, Command] = {
            "add": self._add,
            "add_event_rule": self._add_event_rule,
            "cut_watches": board.cut_watches,
            "mute_watches": board.mute_watches,
            "hold_watches": board.hold_watches,
            "release_watches": board.release_watches,
            "pause_connections": board.pause_connections,
            "resume_connections": board.resume_connections,
            "delay_connections": board.delay_connections,
            "answer_gone": board.answer_gone,
            "record_lists": board.record_lists,
            "set_victim": self._set_victim,
            "open_watches": board.open_watches,
            "pending_gone": board.pending_gone,
            "clear": board.clear,
        }

    async def start(self, *, port: int = 0) -> int:
        """Listen on loopback and return the port."""
        app = web.Application()
        app.router.add_get("/", self._list_commands)
        app.router.add_get("/requests", self._requests)
        app.router.add_post("/{command}", self._call)
        self._runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.5)
        await self._runner.setup()
        site = web.TCPSite(self._runner, "127.0.0.1", port)
        await site.start()
        return int(self._runner.addresses[0][1])

    async def stop(self) -> None:
        if self._runner is not None:
            await self._runner.cleanup()

    async def _list_commands(self, _request: web.Request) -> web.Response:
        return web.json_response(sorted(self._commands))

    async def _requests(self, request: web.Request) -> web.Response:
        try:
            since = int(request.query.get("since", "0"))
        except ValueError:
            return web.json_response({"error": "since must be a whole number"}, status=400)
        return web.json_response([dataclasses.asdict(entry) for entry in self._board.log.since(since)])

    async def _call(self, request: web.Request) -> web.Response:
        name = request.match_info["command"]
        command = self._commands.get(name)
        if command is None:
            return web.json_response({"error": f"no command {name}; GET / lists them"}, status=404)
        try:
            arguments = json.loads(await request.read() or b"{}")
            value = command(**arguments)
        except (TypeError, ValueError, KeyError) as error:
            return web.json_response({"error": f"{name}: {error!r}"}, status=400)
        return web.json_response({"value": value})

    def _add(self, **data: Any) -> None:
        self._board.add(rule_from_json(data))

    def _add_event_rule(self, **data: Any) -> None:
        self._board.add_event_rule(event_rule_from_json(data))

    def _set_victim(self, pid: int) -> None:
        self._board.victim_pid = pid
