"""How a registry lets in: the credentials of Docker's configuration, and the token that a challenge asks for."""

import base64
import json
import re
import time
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any
from urllib.parse import urlencode, urlsplit

from gptservice_runtime import contract, models
from gptservice_runtime.sources.credentials import Credentials
from gptservice_runtime.transfer import answers, http, retrying
from gptservice_runtime.transfer.source import Refusal, Request

CONFIGURATION = ".dockerconfigjson"
KEYS = (CONFIGURATION, "username", "password")
_DOCKER_HUB = frozenset({"docker.io", "index.docker.io", "registry-1.docker.io"})
_PARAMETER = re.compile(r'(\w+)="([^"]*)"')
_USUAL_SECONDS = 60.0
"""A token's life where the registry does not tell, by the specification."""
_MARGIN_SECONDS = 10.0
"""Before its end a token is not used any more; at most half of its life."""


@dataclass(frozen=True, kw_only=True)
class Login:
    """What opens one registry."""

    username: str
    password: str

    @classmethod
    def of(cls, registry: str, given: Credentials) -> "Login | None":
        """What the Secret has for a registry; models.ModelError for a Secret that has nothing for it."""
        if (pair := given.together("username", "password")) is not None:
            return cls(username=pair["username"], password=pair["password"])
        if (text := given.text(CONFIGURATION)) is None:
            return None
        try:
            entries = json.loads(text)["auths"]
            entry = next((entry for host, entry in entries.items() if _is(host, registry)), None)
            if entry is not None:
                return _login(entry)
        except (ValueError, KeyError, TypeError, AttributeError):
            # Its text may hold a part of the password.
            raise given.unusable(
                f"key {CONFIGURATION} is no configuration of Docker's with auth, or username and password, in auths"
            ) from None
        hosts = ", ".join(entries) or "none"
        raise given.unusable(f"key {CONFIGURATION} has credentials for {hosts}, and none for {registry}")

    @property
    def basic(self) -> str:
        """The header's value."""
        return f"Basic {base64.b64encode(f'{self.username}:{self.password}'.encode()).decode()}"


class Door:
    """What is shown to a registry, once it has said what it wants to see."""

    def __init__(self, uri: str, scope: str, login: Login | None) -> None:
        """`scope`: what is wanted of it, where its challenge does not say."""
        self._uri = uri
        self._scope = scope
        self._login = login
        self._challenge: str | None = None
        self._header: str | None = None
        self._until = 0.0

    @property
    def remedy(self) -> str:
        """What to do if it stays shut."""
        if self._login is None:
            return (
                "it is private, or does not exist, and nothing was sent that opens it: name a Secret with "
                f"{CONFIGURATION}, or username and password, in modelCredentialsSecretRef"
            )
        return "the credentials of modelCredentialsSecretRef are not valid, or may not pull from this repository"

    def close(self, challenge: str | None) -> bool:
        """Forget what was refused, with this challenge if with any; whether there is a token to ask for instead."""
        self._challenge = challenge or self._challenge
        self._header = None
        return self._challenge is not None and self._challenge.lower().startswith("bearer ")

    async def headers(self, connection: http.Http) -> dict[str, str]:
        """What to send now; nothing before the first challenge."""
        if self._challenge is not None and (self._header is None or time.monotonic() > self._until):
            await self.open(connection, self._challenge)
        return {"Authorization": self._header} if self._header is not None else {}

    async def open(self, connection: http.Http, challenge: str) -> None:
        """Answer a challenge; models.ModelError or retrying.PassingError."""
        self._challenge = challenge
        kind, _, rest = challenge.partition(" ")
        if kind.lower() == "basic":
            self._header, self._until = self._login.basic if self._login is not None else None, float("inf")
            return
        parameters: dict[str, str] = dict(_PARAMETER.findall(rest))
        realm = parameters.get("realm", "")
        if kind.lower() != "bearer" or urlsplit(realm).scheme not in ("https", "http"):
            raise models.ModelError(
                contract.REASON_MODEL_ACCESS_DENIED, f"{self._uri}: the registry asks for {kind!r}, which is not known"
            )
        await self._ask(connection, realm, parameters)

    async def _ask(self, connection: http.Http, realm: str, parameters: dict[str, str]) -> None:
        what = f"{self._uri} ({urlsplit(realm).hostname}, for a token)"
        query = {"scope": parameters.get("scope", self._scope)}
        if "service" in parameters:
            query["service"] = parameters["service"]
        at = urlsplit(realm)
        if self._login is not None and at.scheme == "http" and at.hostname not in _LOCAL:
            raise models.ModelError(
                contract.REASON_MODEL_ACCESS_DENIED, f"{what}: credentials are not sent without TLS"
            )
        sent = {"Authorization": self._login.basic} if self._login is not None else {}
        url = f"{realm}{'&' if '?' in realm else '?'}{urlencode(query)}"
        answer = await connection.read(Request(url=url, headers=sent), what)
        if answer.status != HTTPStatus.OK:
            refusal = Refusal(status=answer.status, headers=answer.headers)
            said = f"{what}: answered {answer.status}"
            raise answers.fault(refusal, said, denied=self.remedy, missing="the registry's own challenge names it")
        self._take(answer.body, what)

    def _take(self, body: bytes, what: str) -> None:
        try:
            told: dict[str, Any] = json.loads(body)
            token = told.get("token") or told["access_token"]
            seconds = float(told.get("expires_in") or _USUAL_SECONDS)
        except (ValueError, KeyError, TypeError, AttributeError):
            raise retrying.PassingError(contract.REASON_MODEL_DOWNLOAD_FAILED, f"{what}: no token came") from None
        self._header, self._until = f"Bearer {token}", time.monotonic() + seconds - min(_MARGIN_SECONDS, seconds / 2)


_LOCAL = frozenset({"localhost", "127.0.0.1"})


def _is(host: str, registry: str) -> bool:
    """Docker's configuration knows registries by their names, and some by addresses with ``https://`` and a path."""
    name = host.partition("://")[2].partition("/")[0] if "://" in host else host.partition("/")[0]
    return name == registry or {name, registry} <= _DOCKER_HUB


def _login(entry: dict[str, str]) -> Login:
    pair = base64.b64decode(entry["auth"]).decode().partition(":") if entry.get("auth") else ("", "", "")
    username, password = entry.get("username") or pair[0], entry.get("password") or pair[2]
    if not username or not password:
        # What helpers of clouds write instead: a token that only they can use.
        raise KeyError("password")
    return Login(username=username, password=password)
