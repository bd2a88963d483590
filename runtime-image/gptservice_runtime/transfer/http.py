"""Requests to a source: one session, one way to tell what went wrong on the way."""

import ssl
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass

import aiohttp
import yarl

from gptservice_runtime import contract, models
from gptservice_runtime.transfer import retrying
from gptservice_runtime.transfer.source import Refusal, Request, Source

_BUFFER = 1 << 20
"""Bytes of a file that wait to be written, at most twice that; each piece costs a change of threads."""
_LONGEST_REFUSAL = 1 << 12
LONGEST_ANSWER = 16 << 20
"""Bytes of an answer that is held in memory: lists and manifests. What is longer is none."""


@dataclass(frozen=True, kw_only=True)
class Answer:
    """A whole answer, whatever its status."""

    status: int
    headers: Mapping[str, str]
    body: bytes


class Http:
    """What all requests of a fetch share."""

    def __init__(self, session: aiohttp.ClientSession, stall: float, ca_remedy: str) -> None:
        """`stall`: seconds without a byte; `ca_remedy`: what to do about a certificate of nobody known."""
        self.session = session
        self.stall = stall
        self._ca_remedy = ca_remedy

    @asynccontextmanager
    async def get(self, request: Request, what: str, begin: int = 0) -> AsyncIterator[aiohttp.ClientResponse]:
        """Ask for a file from a byte on; retrying.PassingError for whatever goes wrong on the way."""
        part = {"Range": f"bytes={begin}-"} if begin else {}
        headers = {**request.headers, "Accept-Encoding": "identity", **part}
        with self._faults_of_the_way(what):
            async with self.session.get(_url(request, what), headers=headers) as response:
                _refuse_plain(response, what)
                yield response

    async def read(self, request: Request, what: str, method: str = "GET") -> Answer:
        """A small answer; retrying.PassingError for whatever goes wrong on the way."""
        with self._faults_of_the_way(what):
            url = _url(request, what)
            async with self.session.request(method, url, headers=request.headers) as response:
                _refuse_plain(response, what)
                body = await _at_most(response, LONGEST_ANSWER)
                if len(body) > LONGEST_ANSWER:
                    raise retrying.PassingError(
                        contract.REASON_MODEL_DOWNLOAD_FAILED,
                        f"{what}: it answers with too many bytes",
                    )
                return Answer(status=response.status, headers=response.headers, body=body)

    @contextmanager
    def _faults_of_the_way(self, what: str) -> Iterator[None]:
        try:
            yield
        except aiohttp.ClientConnectorCertificateError as error:
            said = f"{what}: its certificate is not trusted: {self._ca_remedy}"
            raise models.ModelError(contract.REASON_MODEL_DOWNLOAD_FAILED, said) from error
        except TimeoutError as error:
            said = f"{what}: no byte came for {self.stall:g} s"
            raise retrying.PassingError(contract.REASON_MODEL_DOWNLOAD_STALLED, said) from error
        except (aiohttp.InvalidURL, UnicodeError) as error:
            raise _no_address(what) from error
        except aiohttp.ClientError as error:
            # Its text may hold the address of a redirect, which is signed; the type says what happened.
            said = f"{what}: the connection failed ({type(error).__name__})"
            raise retrying.PassingError(contract.REASON_MODEL_DOWNLOAD_FAILED, said) from error


async def refusal(response: aiohttp.ClientResponse) -> Refusal:
    """An answer that is no success, with the beginning of what it says."""
    body = await _at_most(response, _LONGEST_REFUSAL)
    return Refusal(status=response.status, headers=response.headers, body=body[:_LONGEST_REFUSAL])


@asynccontextmanager
async def connected(source: Source, stall: float) -> AsyncIterator[Http]:
    """Have a session while the context is open."""
    timeout = aiohttp.ClientTimeout(total=None, sock_connect=stall, sock_read=stall)
    connector = aiohttp.TCPConnector(ssl=source.tls or _trusting())
    # trust_env: the libraries of hubs and clouds obey the proxy's variables, too.
    async with aiohttp.ClientSession(
        timeout=timeout, trust_env=True, auto_decompress=False, read_bufsize=_BUFFER, connector=connector
    ) as session:
        yield Http(session, stall, source.ca_remedy)


def _trusting() -> ssl.SSLContext:
    """As the library's own, which is as old as its import and knows of no authority that came later."""
    context = ssl.create_default_context()
    context.set_alpn_protocols(["http/1.1"])
    return context


def _url(request: Request, what: str) -> yarl.URL:
    try:
        url = yarl.URL(request.url, encoded=True)
        # Both are looked at when they are asked for.
        _ = url.raw_host, url.explicit_port
    except ValueError as error:
        raise _no_address(what) from error
    return url


def _no_address(what: str) -> models.ModelError:
    """Without the words of the library, which may repeat a signature."""
    return models.ModelError(
        contract.REASON_INVALID_SPEC, f"{what}: there is no such address: look at its host and its port"
    )


def _refuse_plain(response: aiohttp.ClientResponse, what: str) -> None:
    """A source that was asked with TLS must not send elsewhere without: anybody could answer there.

    Not even on the way: whoever answers there may send on to an address with a certificate of their own.
    """
    asked, *others = [each.url for each in (*response.history, response)]
    plain = next((url for url in others if url.scheme != "https"), None)
    if asked.scheme == "https" and plain is not None:
        raise models.ModelError(
            contract.REASON_MODEL_DOWNLOAD_FAILED, f"{what}: it redirects to {plain.origin()}, without TLS"
        )


async def _at_most(response: aiohttp.ClientResponse, limit: int) -> bytes:
    """What it says, and no more than one piece beyond the limit."""
    read = bytearray()
    async for piece in response.content.iter_chunked(1 << 16):
        read += piece
        if len(read) > limit:
            break
    return bytes(read)
