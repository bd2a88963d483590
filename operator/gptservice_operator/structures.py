"""Settings that are more than a word: from the text of a variable to what it means, or to what is wrong with it."""

import json
from typing import Any

from pydantic import ValidationError

from .api import schema
from .api.problems import explain
from .api.scheduling import Scheduling


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
