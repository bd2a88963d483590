"""The Kubernetes API: the only module that imports the client, and the only one whose calls leave the process."""

import asyncio
import ssl
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from urllib import request
from urllib.parse import urlencode, urlsplit

import aiohttp
from kubernetes.aio import client
from kubernetes.aio import config as untyped_config

from . import errors, metrics, replies
from .api import kinds
from .api.body import entries, section

STATUS_MANAGER = "gptservice-operator-status"
"""Field manager of status, apart from the children's so that neither apply prunes the other."""

PAGE_SIZE = 250
"""Objects in one reply to a list. All kinds are read at once at a start: larger pages are its peak of memory."""

# With a parameter behind it, the client sends the text as it is; what has "json" in it, it encodes itself.
_APPLY_PATCH = "application/apply-patch+yaml; charset=utf-8"
_MERGE_PATCH = "application/merge-patch+json"

_NO_VERSION = "1"
"""A resourceVersion that no object ever has, as etcd counts from 1 when it is empty. An apply with it makes an object
and never changes one: server-side apply has no other way to say so."""

Body = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Page:
    """A part of a list."""

    items: list[Body]
    as_of: int
    """The resourceVersion of the whole list: it shows everything that has happened up to it."""


# The generated client carries no types below its classes.
_client_config: Any = untyped_config


class Cluster:
    """One pooled session with the API server. Objects go in and come out as plain dicts."""

    def __init__(self, api: client.ApiClient, request_timeout: float, may_write: Callable[[], bool]) -> None:
        self._api: Any = api
        self._timeout = request_timeout
        self._may_write = may_write

    @classmethod
    async def connect(
        cls, *, user_agent: str, request_timeout: float, may_write: Callable[[], bool] = lambda: True
    ) -> "Cluster":
        """Log in as the pod's service account, or by KUBECONFIG outside of a cluster.

        Args:
            user_agent: by which the API server's audit log knows us.
            request_timeout: longest time for one request, in seconds.
            may_write: asked before each write, which is refused if it says no: somebody else may be writing.

        Raises:
            errors.Waiting: neither a service account nor a usable kubeconfig is there.
        """
        configuration = client.Configuration()
        # The session would read the user's ~/.netrc, in a thread, and the environment for each request.
        configuration.client_session_kwargs = {"trust_env": False}
        try:
            _client_config.load_incluster_config(client_configuration=configuration)
        except _client_config.ConfigException:
            try:
                await _client_config.load_kube_config(client_configuration=configuration)
            except _client_config.ConfigException as error:
                raise errors.Waiting(f"no access to a cluster: no service account, and KUBECONFIG: {error}") from error
        configuration.proxy = configuration.proxy or _proxy_of(configuration.host)
        api = client.ApiClient(configuration)
        api.user_agent = user_agent
        return cls(api, request_timeout, may_write)

    async def close(self) -> None:
        """Close the session."""
        await self._api.close()

    async def get(self, kind: kinds.Kind, namespace: str, name: str) -> Body | None:
        """Return an object, or None if it does not exist."""
        try:
            return await self._call("GET", kind, kind.path(namespace, name), verb="get")
        except errors.Absent:
            return None

    async def openapi(self) -> Body:
        """Return the OpenAPI document of our group, as the API server publishes it to every user.

        Raises:
            errors.Absent: no CRD of the group is there.
        """
        return await self._call("GET", kinds.GPT_SERVICE, f"/openapi/v3/apis/{kinds.API_VERSION}", verb="openapi")

    async def serves(self, kind: kinds.Kind) -> bool:
        """Return whether the API server has a kind, which it tells to every user."""
        try:
            found = await self._call("GET", kind, kind.version_path, verb="discover")
        except errors.Absent:
            return False
        return any(resource.get("name") == kind.plural for resource in entries(found, "resources"))

    async def list(
        self, kind: kinds.Kind, label_selector: str | None = None, namespace: str | None = None
    ) -> AsyncIterator[Page]:
        """Yield all objects of a kind, in one namespace or in all, page by page, from one consistent view.

        Raises:
            errors.Transient: also when the view expired half-way; the list must then be begun again.
        """
        query: dict[str, str] = {"limit": str(PAGE_SIZE)}
        if label_selector is not None:
            query["labelSelector"] = label_selector
        while True:
            page = await self._call("GET", kind, kind.path(namespace), query=query, verb="list")
            if not isinstance(page.get("items"), list):
                # Never taken for an empty list: everything stored would be dropped.
                raise errors.Transient(f"list {kind.name}: the reply is a {page.get('kind')!r}, not a list")
            # The items of a built-in kind's list come without these two.
            header = {"apiVersion": kind.api_version, "kind": kind.name}
            metadata = section(page, "metadata")
            version = str(metadata.get("resourceVersion"))
            yield Page([{**header, **item} for item in page["items"]], int(version) if version.isdigit() else -1)
            token = metadata.get("continue")
            if not token:
                return
            query["continue"] = token

    async def apply(self, manifest: Mapping[str, Any], *, manager: str, uid: str | None = None) -> Body:
        """Apply a whole manifest by server-side apply, taking over fields that others own.

        Args:
            manifest: the object.
            manager: field manager; what it applied before and leaves out now is removed.
            uid: the live object's UID, so that one made in the meantime under the same name is not touched; None to
                make the object only if there is none of its name.

        Raises:
            errors.Conflict: the live object has another UID, or there is one where none should be.
        """
        kind = kinds.BY_NAME[manifest["kind"]]
        metadata = manifest["metadata"]
        precondition = {"resourceVersion": _NO_VERSION} if uid is None else {"uid": uid}
        body = {**manifest, "metadata": {**metadata, **precondition}}
        path = kind.path(metadata["namespace"], metadata["name"])
        return await self._apply(kind, path, body, manager)

    async def delete(self, kind: kinds.Kind, namespace: str, name: str, uid: str) -> None:
        """Delete the object of that UID; that it is gone already, or replaced by another, is as good."""
        body = {
            "apiVersion": "v1",
            "kind": "DeleteOptions",
            "preconditions": {"uid": uid},
            "propagationPolicy": "Background",
        }
        try:
            await self._call("DELETE", kind, kind.path(namespace, name), body=body, verb="delete")
        except (errors.Absent, errors.Conflict):
            return

    async def set_managed_fields(
        self, kind: kinds.Kind, namespace: str, name: str, resource_version: str, managed: Sequence[Mapping[str, Any]]
    ) -> None:
        """Say anew which manager owns which field; nothing else of the object changes.

        Raises:
            errors.Conflict: the object is no more at that version.
        """
        metadata = {"resourceVersion": resource_version, "managedFields": list(managed)}
        query = {"fieldManager": STATUS_MANAGER}
        path = kind.path(namespace, name)
        await self._call("PATCH", kind, path, query=query, body={"metadata": metadata}, verb="patch", merge=True)

    async def create(self, manifest: Mapping[str, Any], kind: kinds.Kind = kinds.SECRET) -> bool:
        """Make an object; return whether it was made, False if one of that name is there. The reply is thrown away.

        Raises:
            errors.OperatorError: it is neither made nor there.
        """
        try:
            await self._call("POST", kind, kind.path(manifest["metadata"]["namespace"]), verb="create", body=manifest)
        except errors.Conflict:
            return False
        return True

    async def replace(self, manifest: Mapping[str, Any], kind: kinds.Kind) -> Body:
        """Replace an object that is still at the resourceVersion of the manifest.

        Raises:
            errors.Conflict: it is not.
        """
        metadata = manifest["metadata"]
        path = kind.path(metadata["namespace"], metadata["name"])
        return await self._call("PUT", kind, path, body=manifest, verb="update")

    async def events(self, namespace: str, uid: str) -> Sequence[Body]:
        """Return the Events of one object, up to PAGE_SIZE of them, in no order."""
        query = {"fieldSelector": f"involvedObject.uid={uid}", "limit": str(PAGE_SIZE)}
        page = await self._call("GET", kinds.EVENT, kinds.EVENT.path(namespace), query=query, verb="list")
        return entries(page, "items")

    async def patch_event(self, namespace: str, name: str, change: Mapping[str, Any]) -> None:
        """Change an Event."""
        path = kinds.EVENT.path(namespace, name)
        await self._call("PATCH", kinds.EVENT, path, body=change, verb="patch", merge=True)

    async def apply_status(self, *, namespace: str, name: str, uid: str, status: Mapping[str, Any]) -> Body:
        """Apply a GPTService's status.

        An object that was stored under a laxer CRD, with a text where a map belongs, cannot be applied to at all. It
        takes a merge patch: what is as it was is not judged again.
        """
        kind = kinds.GPT_SERVICE
        metadata = {"name": name, "namespace": namespace, "uid": uid}
        body = {"apiVersion": kind.api_version, "kind": kind.name, "metadata": metadata, "status": status}
        path = kind.path(namespace, name, "status")
        try:
            return await self._apply(kind, path, body, STATUS_MANAGER)
        except errors.Invalid:
            query = {"fieldManager": STATUS_MANAGER}
            return await self._call("PATCH", kind, path, query=query, body=body, verb="patch", merge=True)

    async def _apply(self, kind: kinds.Kind, path: str, body: Mapping[str, Any], manager: str) -> Body:
        query = {"fieldManager": manager, "force": "true"}
        return await self._call("PATCH", kind, path, query=query, body=body, verb="apply")

    async def _call(
        self,
        method: str,
        kind: kinds.Kind,
        path: str,
        *,
        verb: str,
        query: Mapping[str, str] | None = None,
        body: Mapping[str, Any] | None = None,
        merge: bool = False,
    ) -> Body:
        if method != "GET" and not self._may_write():
            raise errors.Transient(f"{verb} {kind.name}: not sent, for the lease has run out")
        code = "error"
        try:
            status, reply, retry_after = await self._send(method, path, query, body, merge=merge)
            code = str(status)
        except (TimeoutError, aiohttp.ClientError, ssl.SSLError, OSError) as error:
            raise errors.Transient(f"{verb} {kind.name}: the API server did not answer: {error!r}") from error
        finally:
            metrics.REQUESTS.labels(verb, kind.name, code).inc()
        if status >= 300:
            raise replies.error(verb, kind, status, reply, retry_after)
        return reply

    async def _send(
        self, method: str, path: str, query: Mapping[str, str] | None, body: Mapping[str, Any] | None, *, merge: bool
    ) -> tuple[int, Body, str | None]:
        applies = method == "PATCH" and not merge
        content_type = _APPLY_PATCH if applies else _MERGE_PATCH if merge else "application/json"
        content = replies.encoded(body) if applies and body is not None else body
        headers = {"Accept": "application/json", "Content-Type": content_type}
        _, url, headers, _, _ = await self._api.param_serialize(
            method, path, header_params=headers, auth_settings=["BearerToken"]
        )
        if query:
            url += "?" + urlencode(query)
        async with asyncio.timeout(self._timeout):
            response = await self._api.call_api(method, url, headers, content)
            text = await response.read()
        return response.status, replies.parsed(text, response.status), response.headers.get("Retry-After")


def _proxy_of(server: str) -> str | None:
    """Return the proxy on the way to the API server that HTTPS_PROXY and NO_PROXY ask for."""
    url = urlsplit(server)
    if url.hostname is None or request.proxy_bypass(url.hostname):
        return None
    return request.getproxies().get(url.scheme)
