"""Requests to a source: one session, one way to tell what went wrong on the way."""

import asyncio
import ssl
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from urllib.parse import quote

import aiohttp
import yarl

from gptservice_runtime import contract, models
from gptservice_runtime.transfer import retrying
from gptservice_runtime.transfer.pace import Pace, window
from gptservice_runtime.transfer.source import Refusal, Request, Source

_BUFFER = 1 << 20
"""Bytes of a file that wait to be written, at most twice that; each piece costs a change of threads."""
_LONGEST_REFUSAL = 1 << 12
LONGEST_ANSWER = 16 << 20
"""Bytes of an answer that is held in memory: lists and manifests. What is longer is none."""
_AS_IT_IS = {"Accept-Encoding": "identity"}
"""Nothing here unpacks: digests, sizes and ranges are of the bytes as they lie at the source."""
_NO_CODING = frozenset({"", "identity", "aws-chunked"})
"""Of S3: how something was once uploaded; the bytes are not changed by it."""
_IN_ADDRESSES = "!#$%&'()*+,/:;=?@[]~"


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
        with self._faults_of_the_way(what):
            async with self._asked("GET", request, part, what) as response:
                yield response

    async def read(self, request: Request, what: str, method: str = "GET") -> Answer:
        """A small answer; retrying.PassingError for whatever goes wrong on the way."""
        with self._faults_of_the_way(what):
            async with self._asked(method, request, {}, what) as response:
                body = await _at_most(response, LONGEST_ANSWER, Pace(what, self.stall))
                if len(body) > LONGEST_ANSWER:
                    raise retrying.PassingError(
                        contract.REASON_MODEL_DOWNLOAD_FAILED,
                        f"{what}: it answers with too many bytes",
                    )
                if response.ok and body and (coding := coding_of(response.headers)):
                    raise unasked_coding(what, coding)
                return Answer(status=response.status, headers=response.headers, body=body)

    @asynccontextmanager
    async def _asked(
        self, method: str, request: Request, more: Mapping[str, str], what: str
    ) -> AsyncIterator[aiohttp.ClientResponse]:
        # As long as its head comes byte by byte, no time-out of the socket ends it.
        async with asyncio.timeout(window(self.stall)):
            response = await self.session.request(
                method, _url(request, what), headers={**_AS_IT_IS, **request.headers, **more}
            )
        async with response:
            _refuse_plain(response, what)
            yield response

    @contextmanager
    def _faults_of_the_way(self, what: str) -> Iterator[None]:
        try:
            yield
        except aiohttp.ClientConnectorCertificateError as error:
            said = f"{what}: its certificate is not trusted: {self._ca_remedy}"
            raise models.ModelError(contract.REASON_MODEL_DOWNLOAD_FAILED, said) from error
        except TimeoutError as error:
            stall, silent = self.stall, isinstance(error, aiohttp.ServerTimeoutError)
            said = f"{what}: no byte came for {stall:g} s" if silent else f"{what}: no answer in {window(stall):g} s"
            raise retrying.PassingError(contract.REASON_MODEL_DOWNLOAD_STALLED, said) from error
        except (aiohttp.InvalidURL, UnicodeError) as error:
            raise _no_address(what) from error
        except aiohttp.ClientError as error:
            # Its text may hold the address of a redirect, which is signed; the type says what happened.
            said = f"{what}: the connection failed ({type(error).__name__})"
            raise retrying.PassingError(contract.REASON_MODEL_DOWNLOAD_FAILED, said) from error


def coding_of(headers: Mapping[str, str]) -> str:
    """The ``Content-Encoding`` that changes an answer's bytes; empty for none."""
    codings = (coding.strip().lower() for coding in headers.get("Content-Encoding", "").split(","))
    return ", ".join(coding for coding in codings if coding not in _NO_CODING)


def unasked_coding(what: str, coding: str) -> retrying.PassingError:
    """The fault of who compresses what nobody asked to be compressed."""
    said = f"{what}: it comes with Content-Encoding {coding}, which nobody asked for: have it served as it is"
    return retrying.PassingError(contract.REASON_MODEL_DOWNLOAD_FAILED, said)


async def refusal(response: aiohttp.ClientResponse, what: str, stall: float) -> Refusal:
    """An answer that is no success, with the beginning of what it says."""
    body = await _at_most(response, _LONGEST_REFUSAL, Pace(what, stall))
    return Refusal(status=response.status, headers=response.headers, body=body[:_LONGEST_REFUSAL])


@asynccontextmanager
async def connected(source: Source, stall: float) -> AsyncIterator[Http]:
    """Have a session while the context is open."""
    timeout = aiohttp.ClientTimeout(total=None, sock_connect=stall, sock_read=stall)
    connector = aiohttp.TCPConnector(ssl=source.tls or _trusting())
    # trust_env: the libraries of hubs and clouds obey the proxy's variables, too.
    # Redirects as they are: an address that was signed is another one as soon as its %2F is a slash.
    async with aiohttp.ClientSession(
        timeout=timeout,
        trust_env=True,
        auto_decompress=False,
        read_bufsize=_BUFFER,
        connector=connector,
        requote_redirect_url=False,
        middlewares=(_quoted,),
    ) as session:
        yield Http(session, stall, source.ca_remedy)


def _trusting() -> ssl.SSLContext:
    """As the library's own, which is as old as its import and knows of no authority that came later."""
    context = ssl.create_default_context()
    context.set_alpn_protocols(["http/1.1"])
    return context


async def _quoted(request: aiohttp.ClientRequest, handler: aiohttp.ClientHandlerType) -> aiohttp.ClientResponse:
    """Quote what no address may hold, as it stands in the redirects of careless servers, and nothing else."""
    if (fixed := quote(str(request.url), safe=_IN_ADDRESSES)) != str(request.url):
        request.url = yarl.URL(fixed, encoded=True)
    return await handler(request)


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


async def _at_most(response: aiohttp.ClientResponse, limit: int, pace: Pace) -> bytes:
    """What it says, and no more than one piece beyond the limit."""
    read = bytearray()
    async for piece in response.content.iter_chunked(1 << 16):
        pace.arrived(len(piece))
        read += piece
        if len(read) > limit:
            break
    return bytes(read)
