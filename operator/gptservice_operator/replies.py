"""The form of what goes to the API server, and the meaning of what comes back."""

import re
from collections.abc import Mapping
from typing import Any, cast

import orjson

from . import errors
from .api import kinds
from .api.body import entries

_NOT_TYPED = "failed to create typed"
"""The API server's words, with status 500, for an apply to an object whose stored types are not those of its schema."""

_DENIED = re.compile(r"admission webhook \S+ denied the request|ValidatingAdmissionPolicy '\S+' .*denied request")
"""The API server's words for a policy's refusal. Its status is the policy's own choice, such as 400, or 422 for an
object in which no field is at fault."""

_KIND_IS_GOING = "while custom resource definition is terminating"
"""In the API server's words; it gives no code for it."""

_TO_ESCAPE = re.compile("[\x7f-\uffff]")

Body = dict[str, Any]


def encoded(body: Mapping[str, Any]) -> str:
    """Return the JSON of an object in the form that the API server's YAML parser reads, too.

    It knows no surrogate pairs, as JSON escapes an emoji, and takes no control characters that are not escaped.
    """
    text = orjson.dumps(body).decode()
    return _TO_ESCAPE.sub(lambda match: f"\\u{ord(match[0]):04x}", text)


def parsed(text: bytes, status: int) -> Body:
    """Return the JSON object of a reply; something between us and the API server may have answered in its place."""
    try:
        reply = orjson.loads(text)
    except ValueError:
        reply = None
    if isinstance(reply, dict):
        return cast("Body", reply)
    if status < 300:
        raise errors.Transient(f"the API server's reply is not a JSON object: {text[:100]!r}")
    return {}


def error(verb: str, kind: kinds.Kind, status: int, reply: Body, retry_after: str | None) -> errors.OperatorError:
    """Map the API server's answer to one of our kinds of error."""
    what = f"{verb} {kind.name}: {reply.get('message') or f'HTTP {status}'}"
    if any(cause.get("reason") == "NamespaceTerminating" for cause in entries(reply, "details", "causes")):
        return errors.Absent(what)
    if status != 429 and _DENIED.search(what):
        return errors.Waiting(what)
    if status == 403 and _KIND_IS_GOING in what:
        return errors.Absent(what)
    by_status: dict[int, type[errors.OperatorError]] = {
        400: errors.Invalid,
        401: errors.Waiting,
        403: errors.Forbidden,
        404: errors.Absent,
        409: errors.Conflict,
        413: errors.Invalid,
        422: errors.Invalid,
    }
    if status == 500 and _NOT_TYPED in what:
        return errors.Invalid(what)
    if status == 409 and reply.get("reason") != "AlreadyExists" and verb == "create":
        return errors.Transient(what)  # of the quota's counter, not of the object
    if status in by_status:
        return by_status[status](what)
    return errors.Transient(what, float(retry_after) if retry_after and retry_after.isdigit() else None)
