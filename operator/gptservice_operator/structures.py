"""Settings that are more than a word: from the text of a variable to what it means, or to what is wrong with it."""

import json
import re
import ssl
from typing import Any

from pydantic import ValidationError

from .api import schema
from .api.problems import explain
from .api.scheduling import Scheduling

MOST_CA_BYTES = 64 << 10
"""Of a bundle of authorities: it is in a ConfigMap of every service."""
_PEM_BLOCK = re.compile(r"-----BEGIN CERTIFICATE-----\s.*?-----END CERTIFICATE-----", re.DOTALL)


class UnusableError(ValueError):
    """What is wrong, with the chart's value and the field in it."""


def scheduling(text: str, value: str) -> Scheduling:
    """Parse the JSON of a ``spec.scheduling`` as strictly as kubectl does: a field that is not known is a mistake.

    Args:
        text: the JSON; empty for no field at all.
        value: the chart's value that it comes from.
    """
    try:
        given: Any = json.loads(text or "{}")
    except ValueError as error:
        raise UnusableError(f"{value}: is no JSON: {error}") from None
    known = schema.spec_schemas()["GPTService"]["properties"]["scheduling"]
    if unknown := list(schema.unknown(known, given, value)):
        raise UnusableError("; ".join(f"{path}: there is no such field" for path in unknown))
    try:
        return Scheduling.model_validate(given)
    except ValidationError as error:
        raise UnusableError(explain(error, value)) from None


def authorities(text: str, value: str) -> str:
    """Return the certificates of a bundle in PEM, without what is between them; empty for an empty text.

    Args:
        text: the bundle.
        value: the chart's value that it comes from.
    """
    if "PRIVATE KEY-----" in text:
        raise UnusableError(f"{value}: holds a private key, which pods could read: leave the certificates alone in it")
    if (size := len(text.encode())) > MOST_CA_BYTES:
        raise UnusableError(
            f"{value}: is {size} bytes, and no more than {MOST_CA_BYTES} go to the pods of every service: leave your "
            "own authorities alone in it, those of the system are trusted anyway"
        )
    certificates = _PEM_BLOCK.findall(text)
    if text.strip() and not certificates:
        raise UnusableError(f"{value}: holds no certificate in PEM (-----BEGIN CERTIFICATE-----)")
    for number, certificate in enumerate(certificates, start=1):
        try:
            ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT).load_verify_locations(cadata=certificate)
        except (ValueError, TypeError, ssl.SSLError):
            raise UnusableError(f"{value}: certificate {number} of {len(certificates)} cannot be read") from None
    return "".join(f"{certificate}\n" for certificate in certificates)
