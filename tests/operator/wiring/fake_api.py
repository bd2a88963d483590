"""An API server on the loopback: discovery, lists in pages, watches that can be cut, and server-side apply.

A mock library was not enough: applies of objects that do not exist, and label selectors, are needed here.
"""

import asyncio
import json
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from aiohttp import web
from aiohttp.test_utils import TestServer

from gptservice_operator import errors, extract
from gptservice_operator.api import kinds
from gptservice_operator.api.kinds import Kind
from tests.operator import builders
from tests.operator.builders import Body
from tests.operator.fake_cluster import FakeCluster

BY_PATH = {kind.path(): kind for kind in kinds.WATCHED}
IN_A_NAMESPACE = re.compile(r"/namespaces/([^/]+)(?=/[^/]+$)")
"""What the path of a collection has more than that of the same kind everywhere."""
# kopf watches these two to learn of new kinds and namespaces.
SCANNED = (
    Kind("apiextensions.k8s.io/v1", "CustomResourceDefinition", "customresourcedefinitions", namespaced=False),
    Kind("v1", "Namespace", "namespaces", namespaced=False),
)
SCANNED_BY_PATH = {kind.path(): kind for kind in SCANNED}
PAGE = 2
"""Objects in a page of a list, whatever the client asks for."""


@dataclass(frozen=True)
class Request:
    """What arrived."""

    method: str
    path: str
    query: dict[str, str]
    agent: str
    authorization: str

    @property
    def is_kopf_s(self) -> bool:
        return self.agent.startswith("kopf/")

    @property
    def is_watch(self) -> bool:
        return "watch" in self.query

    @property
    def is_list(self) -> bool:
        return self.method == "GET" and self.path in BY_PATH and not self.is_watch


@dataclass(frozen=True)
class Event:
    """A change of an object."""

    version: int
    type: str
    kind: str
    body: Body


@dataclass
class FakeApi(FakeCluster):
    """The server's objects are those of the fake cluster; a test changes them and the watches tell."""

    requests: list[Request] = field(default_factory=list[Request])
    history: list[Event] = field(default_factory=list[Event])
    oldest: int = 0
    """Watches from before this version are answered 410."""
    hangs: bool = False
    """Whether writes are left without an answer, until the watches are cut."""
    lists_hang: bool = False
    """Whether lists are."""
    forbidden: set[str] = field(default_factory=set[str])
    """Paths of collections that may not be watched."""
    closed: set[str] = field(default_factory=set[str])
    """Namespaces in which nothing is granted."""
    expired: set[str] = field(default_factory=set[str])
    """Tokens with which nothing can be watched any more."""
    silent: bool = False
    """Whether changes are kept from the watches, as during a network partition."""
    url: str = ""
    _changed: asyncio.Condition = field(default_factory=asyncio.Condition)
    _cuts: int = 0

    # --- what a test does -----------------------------------------------------------------------

    def add(self, body: Body) -> Body:
        known = extract.key_of(builders.KINDS[body["kind"]], body["metadata"]) in self.objects
        stored = super().add(body)
        self._record("MODIFIED" if known else "ADDED", stored)
        return stored

    def remove(self, kind: str, name: str) -> None:
        body = self.objects[kind, builders.NAMESPACE, name]
        super().remove(kind, name)
        self._record("DELETED", {**body, "metadata": {**body["metadata"], "resourceVersion": str(self.version)}})

    def _record(self, change: str, body: Body) -> None:
        if not self.silent:
            self.history.append(Event(self.version, change, body["kind"], body))

    async def tell(self) -> None:
        """Send the watches what has changed."""
        async with self._changed:
            self._changed.notify_all()

    async def cut_watches(self, *, expired: bool = False) -> None:
        """End every watch; with ``expired`` none can be continued: the next one is answered 410."""
        if expired:
            self.version += 1
            self.oldest = self.version
        self._cuts += 1
        await self.tell()

    async def _cut(self) -> None:
        """Wait until the watches are cut."""
        cuts = self._cuts
        async with self._changed:
            await self._changed.wait_for(lambda: self._cuts > cuts)

    async def install(self, kind: Kind) -> None:
        """Bring a kind to the cluster, as a CRD that is applied does."""
        self.served.add(kind)
        await self.tell_of_crd("ADDED", kind)

    def drop(self, kind: Kind) -> None:
        """Serve a kind and all its objects no more, as when its CRD is deleted; that is told by `tell_of_crd`."""
        self.served.discard(kind)
        for key in [key for key in self.objects if key[0] == kind.name]:
            self.remove(kind.name, key[2])

    async def tell_of_crd(self, change: str, kind: Kind) -> None:
        """Tell the watch of CRDs, and the others, what has changed."""
        self.version += 1
        group = kind.api_version.partition("/")[0]
        metadata = {"name": f"{kind.plural}.{group}", "uid": kind.plural, "resourceVersion": str(self.version)}
        body: Body = {"metadata": metadata, "spec": {"group": group}}
        self.history.append(Event(self.version, change, SCANNED[0].name, body))
        await self.tell()

    def has(self, kind: Kind) -> bool:
        return kind in self.served or kind not in kinds.OPTIONAL

    # --- what clients see -----------------------------------------------------------------------

    @asynccontextmanager
    async def serving(self) -> AsyncIterator["FakeApi"]:
        app = web.Application()
        app.router.add_get("/api", self._discovery)
        app.router.add_get("/apis", self._discovery)
        app.router.add_get("/api/{version}", self._resources)
        app.router.add_get("/apis/{group}/{version}", self._resources)
        app.router.add_route("*", "/{path:.*}", self._object)
        app.middlewares.append(self._recorded)
        async with TestServer(app, host="127.0.0.1", shutdown_timeout=0.1) as server:
            self.url = str(server.make_url("")).rstrip("/")
            yield self
            await self.cut_watches()

    @web.middleware
    async def _recorded(self, request: web.Request, handler: Any) -> web.StreamResponse:
        headers = request.headers
        self.requests.append(
            Request(
                request.method,
                request.path,
                dict(request.query),
                headers.get("User-Agent", ""),
                headers.get("Authorization", ""),
            )
        )
        if self.requests[-1].is_kopf_s and self.requests[-1].authorization.removeprefix("Bearer ") in self.expired:
            return _json({"kind": "Status", "code": 401, "message": "Unauthorized"}, 401)
        response: web.StreamResponse = await handler(request)
        return response

    async def _discovery(self, request: web.Request) -> web.Response:
        return _json({"kind": "APIVersions", "versions": ["v1"]} if request.path == "/api" else self._groups())

    def _groups(self) -> Body:
        served = {kind.api_version for kind in (*kinds.WATCHED, *SCANNED) if "/" in kind.api_version and self.has(kind)}
        pairs = [(name, *name.split("/")) for name in sorted(served)]
        versions = [(group, {"groupVersion": name, "version": version}) for name, group, version in pairs]
        groups = [{"name": group, "versions": [version], "preferredVersion": version} for group, version in versions]
        return {"kind": "APIGroupList", "apiVersion": "v1", "groups": groups}

    async def _resources(self, request: web.Request) -> web.Response:
        version = request.path.removeprefix("/apis/").removeprefix("/api/")
        found = [_resource(k) for k in (*kinds.WATCHED, *SCANNED) if k.api_version == version and self.has(k)]
        if not found:
            return _json({"kind": "Status", "code": 404, "message": "the server could not find the resource"}, 404)
        return _json({"kind": "APIResourceList", "groupVersion": version, "resources": found})

    async def _object(self, request: web.Request) -> web.StreamResponse:
        if (why := self._forbidden(request)) is not None:
            return _json({"kind": "Status", "code": 403, "message": f"forbidden: {why}"}, 403)
        path = IN_A_NAMESPACE.sub("", request.path)
        unknown = path in BY_PATH and not self.has(BY_PATH[path])
        if unknown or request.path.startswith("/openapi/"):
            return _json({"kind": "Status", "code": 404, "message": "the server could not find the resource"}, 404)
        if request.method == "GET" and (path in BY_PATH or path in SCANNED_BY_PATH):
            return await (self._watch(request) if "watch" in request.query else self._list(request))
        made_of = {kind.path(): kind for kind in (kinds.SECRET, kinds.EVENT)}
        if request.method == "POST" and path in made_of:
            made = await self.create(await request.json(), made_of[path])
            taken = {"kind": "Status", "code": 409, "reason": "AlreadyExists", "message": "already exists"}
            return _json({}, 201) if made else _json(taken, 409)
        if request.method == "GET" and path == kinds.EVENT.path():
            uid = request.query["fieldSelector"].removeprefix("involvedObject.uid=")
            return _json({"kind": "EventList", "items": await self.events(_namespace(request) or "", uid)})
        try:
            return _json(await self._one(request))
        except errors.Absent as error:
            return _json({"kind": "Status", "code": 404, "message": str(error)}, 404)
        except errors.Conflict as error:
            return _json({"kind": "Status", "code": 409, "message": str(error)}, 409)

    def _forbidden(self, request: web.Request) -> str | None:
        if "watch" in request.query and request.path in self.forbidden:
            return request.path
        namespace, user = _namespace(request), "system:serviceaccount:system:gptservice-operator"
        if namespace not in self.closed:
            return None
        return f'User "{user}" cannot {request.method} {request.path} in the namespace "{namespace}"'

    async def _one(self, request: web.Request) -> Body:
        *_, namespace, plural, name = request.path.removesuffix("/status").split("/")
        (kind,) = [kind for kind in kinds.WATCHED if kind.plural == plural]
        if request.method == "GET":
            body = self.objects.get((kind.name, namespace, name))
            if body is None:
                raise errors.Absent(f"{plural} {name!r} not found")
            return body
        if request.method != "PATCH" or request.content_type != "application/apply-patch+yaml":
            raise AssertionError(f"{request.method} {request.path}: the operator never writes so")
        if self.hangs:
            await self._cut()
        wanted = await request.json()
        uid = wanted["metadata"].pop("uid", None)
        if request.path.endswith("/status"):
            written = await self.apply_status(namespace=namespace, name=name, uid=uid, status=wanted["status"])
        else:
            written = await self.apply(wanted, manager=request.query["fieldManager"], uid=uid)
        await self.tell()
        return written

    async def _list(self, request: web.Request) -> web.Response:
        if self.lists_hang:
            await self._cut()
        kind, selector = BY_PATH.get(IN_A_NAMESPACE.sub("", request.path)), request.query.get("labelSelector")
        namespace = _namespace(request)
        found = [
            body
            for key, body in self.objects.items()
            if kind and key[0] == kind.name and namespace in (None, key[1]) and _matches(body, selector)
        ]
        start = int(request.query.get("continue", "0"))
        metadata = {"resourceVersion": str(self.version)}
        if start + PAGE < len(found):
            metadata["continue"] = str(start + PAGE)
        page = [_as_item(kind, body) for body in found[start : start + PAGE] if kind]
        header = {"kind": f"{kind.name}List", "apiVersion": kind.api_version} if kind else {"kind": "List"}
        return _json({**header, "metadata": metadata, "items": page})

    async def _watch(self, request: web.Request) -> web.StreamResponse:
        path = IN_A_NAMESPACE.sub("", request.path)
        kind = BY_PATH.get(path) or SCANNED_BY_PATH.get(path)
        selector, namespace = request.query.get("labelSelector"), _namespace(request)
        seen, cuts = int(request.query["resourceVersion"]), self._cuts
        response = web.StreamResponse()
        await response.prepare(request)
        if seen < self.oldest:
            await _send(response, "ERROR", {"kind": "Status", "code": 410, "reason": "Expired", "message": "too old"})
            return response
        while self._cuts == cuts:
            for event in [event for event in self.history if event.version > seen and kind and event.kind == kind.name]:
                seen = event.version
                if namespace not in (None, event.body["metadata"].get("namespace")):
                    continue
                # An object that no longer has the label has left, as far as this watch is concerned.
                await _send(response, event.type if _matches(event.body, selector) else "DELETED", event.body)
            async with self._changed:
                await self._changed.wait()
        return response


def _namespace(request: web.Request) -> str | None:
    found = re.search("/namespaces/([^/]+)/", request.path)
    return found[1] if found else None


async def _send(response: web.StreamResponse, change: str, body: Body) -> None:
    await response.write(json.dumps({"type": change, "object": body}).encode() + b"\n")


def _matches(body: Body, selector: str | None) -> bool:
    if selector is None:
        return True
    key, _, value = selector.partition("=")
    return bool(body["metadata"].get("labels", {}).get(key) == value)


def _as_item(kind: Kind, body: Body) -> Body:
    """Items of a built-in kind's list come without apiVersion and kind."""
    return body if kind in kinds.OWN else {key: body[key] for key in body if key not in ("apiVersion", "kind")}


def _resource(kind: Kind) -> Body:
    return {
        "name": kind.plural,
        "singularName": kind.name.lower(),
        "kind": kind.name,
        "namespaced": kind.namespaced,
        "verbs": ["get", "list", "watch", "patch", "create"],
    }


def _json(body: Any, status: int = 200) -> web.Response:
    return web.json_response(body, status=status)
