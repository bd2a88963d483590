"""How the supervisor reaches the engine's API for its own requests."""

from dataclasses import dataclass
from pathlib import Path

import aiohttp

from gptservice_runtime import guard

_STRANGER_SECONDS = 5


class NotDemandedError(Exception):
    """The engine answers a request that shows no API key or no client certificate, though it has to refuse it."""


@dataclass(frozen=True, kw_only=True)
class Reach:
    """Where the engine answers, and what tells it that it is the supervisor who asks."""

    base_url: str
    token: str
    own_socket: Path | None = None
    """The way in without a client certificate, where `base_url` demands one."""

    def session(self, timeout_seconds: float | None = None) -> aiohttp.ClientSession:
        """A session for requests to paths; without a time-out each request needs its own."""
        own = self.own_socket
        return aiohttp.ClientSession(
            self.base_url if own is None else "http://engine",
            connector=_unverified() if own is None else aiohttp.UnixConnector(str(own)),
            headers={guard.TOKEN_HEADER: self.token},
            # A proxy in the user's engine.env must not stand between us and the engine.
            trust_env=False,
            timeout=aiohttp.ClientTimeout(total=timeout_seconds),
        )

    async def turns_strangers_away(self) -> bool:
        """Whether a connection without a client certificate was refused, where it has to be.

        False when nothing can be said: the engine is not reached. NotDemandedError when it was answered.
        """
        if self.own_socket is None:
            return True
        timeout = aiohttp.ClientTimeout(total=_STRANGER_SECONDS)
        try:
            async with (
                aiohttp.ClientSession(connector=_unverified(), trust_env=False, timeout=timeout) as session,
                session.get(self.base_url) as response,
            ):
                what = f"the engine answered a client without a certificate (HTTP {response.status})"
                raise NotDemandedError(what)
        except (aiohttp.ClientConnectorSSLError, aiohttp.ClientConnectorCertificateError):
            return True
        except (aiohttp.ClientConnectorError, TimeoutError):
            return False
        except aiohttp.ClientError:
            return True  # With TLS 1.3 the refusal comes when the client believes itself connected.


def _unverified() -> aiohttp.TCPConnector:
    """The certificate is for the Service's names. That it is our engine, loopback alone says, as without TLS."""
    return aiohttp.TCPConnector(ssl=False)
