"""The few calls that the cluster itself makes to its API server, with the standard library only."""

import json
import ssl
import urllib.error
import urllib.parse
import urllib.request
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from e2e.cluster import pki

FIELD_MANAGER = "gptservice-e2e-cluster"

Object = dict[str, Any]


class ApiError(Exception):
    """The API server refused; `status` is the HTTP status."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(f"HTTP {status}: {message}")
        self.status = status


@dataclass(frozen=True)
class ApiClient:
    """Speaks to one API server as one user; every call has a time-out of 10 s and opens its own connection."""

    server: str
    authority: Path
    client: pki.KeyPair

    def get(self, path: str) -> Object:
        """Reads an object or a list; raises ApiError, or OSError when the server does not answer."""
        return cast(Object, json.loads(self._request("GET", path)))

    def text(self, path: str) -> str:
        """Reads something that is not JSON, such as /readyz."""
        return self._request("GET", path).decode(errors="replace")

    def create(self, path: str, manifest: Object) -> None:
        """POSTs an object to its collection's path."""
        self._request("POST", path, manifest)

    def apply(self, path: str, manifest: Object) -> None:
        """Server-side apply of an object to its own path."""
        query = urllib.parse.urlencode({"fieldManager": FIELD_MANAGER, "force": "true"})
        self._request("PATCH", f"{path}?{query}", manifest, content_type="application/apply-patch+yaml")

    def exists(self, path: str) -> bool:
        """Whether there is an object at the path."""
        try:
            self._request("GET", path)
        except ApiError as error:
            if error.status == 404:
                return False
            raise
        return True

    def _request(
        self, method: str, path: str, body: Object | None = None, *, content_type: str = "application/json"
    ) -> bytes:
        request = urllib.request.Request(  # noqa: S310 (the scheme is ours)
            f"{self.server}{path}",
            method=method,
            data=None if body is None else json.dumps(body).encode(),
            headers={"Content-Type": content_type, "User-Agent": FIELD_MANAGER},
        )
        try:
            with self._opener().open(request, timeout=10) as answer:
                return cast(bytes, answer.read())
        except urllib.error.HTTPError as error:
            raise ApiError(error.code, _message(error.read())) from error

    def _opener(self) -> urllib.request.OpenerDirector:
        context = ssl.create_default_context(cafile=str(self.authority))
        context.load_cert_chain(self.client.certificate, self.client.key)
        handler = urllib.request.HTTPSHandler(context=context)
        # Without proxies: an HTTPS_PROXY of the user's is not for addresses of this machine.
        return urllib.request.build_opener(handler, urllib.request.ProxyHandler({}))


def _message(body: bytes) -> str:
    try:
        return str(json.loads(body)["message"])
    except (ValueError, KeyError, TypeError):
        return body.decode(errors="replace")[:500]
