"""How the supervisor reaches the engine's API for its own requests."""

from dataclasses import dataclass

import aiohttp

from gptservice_runtime import guard


@dataclass(frozen=True, kw_only=True)
class Reach:
    """Where the engine answers, and what tells it that it is the supervisor who asks."""

    base_url: str
    token: str

    def session(self, timeout_seconds: float | None = None) -> aiohttp.ClientSession:
        """A session for requests to paths; without a time-out each request needs its own."""
        return aiohttp.ClientSession(
            self.base_url,
            headers={guard.TOKEN_HEADER: self.token},
            # A proxy in the user's engine.env must not stand between us and the engine.
            trust_env=False,
            timeout=aiohttp.ClientTimeout(total=timeout_seconds),
        )
