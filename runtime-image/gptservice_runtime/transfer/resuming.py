"""Whether an answer is of the file that was listed, so that its bytes may follow those that are there already."""

import re
from collections.abc import Mapping
from http import HTTPStatus

import aiohttp

from gptservice_runtime import contract
from gptservice_runtime.transfer import http, retrying
from gptservice_runtime.transfer.source import RemoteFile

_RANGE = re.compile(r"bytes (?P<begin>\d{1,18})-\d+/(?P<total>\d+|\*)", re.ASCII)
_WEAK = "W/"


def is_listed(file: RemoteFile, headers: Mapping[str, str]) -> bool:
    """Whether an answer is of what was listed, by the marks that both have; where none tells, its digest will."""
    if file.marks is None:
        return True
    told = {name: headers[name] for name in file.marks if name in headers}
    if not told:
        return file.digest is not None
    return all(_opaque(told[name]) == _opaque(file.marks[name]) for name in told)


def is_rest(file: RemoteFile, headers: Mapping[str, str], begin: int) -> bool:
    """Whether a partial answer is the rest of what was listed, from a byte on."""
    found = _RANGE.fullmatch(headers.get("Content-Range", "").strip())
    if found is None or int(found["begin"]) != begin:
        return False
    return found["total"] in ("*", str(file.size)) and is_listed(file, headers)


def demand_bytes(file: RemoteFile, response: aiohttp.ClientResponse) -> None:
    """Refuse an answer whose bytes cannot be those that were listed: retrying.PassingError."""
    coding = http.coding_of(response.headers)
    # Of an archive its first bytes tell whether it is compressed; many servers say it of a ``.tar.gz``, too.
    if coding and file.digest is None and not file.is_archive:
        raise http.unasked_coding(file.name, coding)
    length = response.content_length
    if file.marks is not None and response.status == HTTPStatus.OK and length not in (None, file.size):
        said = f"{file.name}: it has {length} bytes, and had {file.size} a moment ago: it was replaced meanwhile"
        raise retrying.PassingError(contract.REASON_MODEL_DOWNLOAD_FAILED, said)


def _opaque(mark: str) -> str:
    """Some servers tell a weak tag in one answer and a strong one in another."""
    return mark.strip().removeprefix(_WEAK)
