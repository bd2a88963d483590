"""From a list of engine arguments to flags and values, or to what vLLM would say against them."""

import difflib
import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from .schema import RefusedError, Schema

_NEGATIVE_NUMBER = re.compile(r"-\.?\d")
_OPTIMIZATION_LEVEL = "--optimization-level"
_OPTIMIZATION_LEVELS = ("0", "1", "2", "3")


@dataclass(frozen=True, slots=True)
class Given:
    """A flag as it was given."""

    where: str
    """The argument's place, as in ``spec.engine.args[3]``."""
    flag: str
    """By its long name, however it was written."""
    value: Any
    key: str | None = None
    """The path in its JSON value, where only that was given: ``--flag.key value``."""


@dataclass(frozen=True, slots=True)
class Problem:
    """What vLLM would refuse."""

    where: str
    what: str


@dataclass(frozen=True, slots=True)
class Parsed:
    """What a list of arguments comes to. Flags are in the order in which they count: the last one wins."""

    given: tuple[Given, ...]
    problems: tuple[Problem, ...]


@dataclass(frozen=True, slots=True)
class _Word:
    where: str
    text: str


def parse(args: Sequence[str], field: str, schema: Schema) -> Parsed:
    """Read the list of arguments at ``field`` as vLLM does; every problem is told, not only the first."""
    plain, keyed, found = _apart(_prepared(args, field))
    for group in _groups(plain, schema):
        found.append(_read_group(group, schema))
    found += [_read_keyed(name, value, schema) for name, value in keyed]
    return Parsed(
        tuple(one for one in found if isinstance(one, Given)), tuple(one for one in found if isinstance(one, Problem))
    )


def spelled(arg: str) -> str:
    """Return an argument with hyphens for the underscores in its flag's name."""
    if not arg.startswith("--"):
        return arg
    name, equals, value = arg.partition("=")
    flag, dot, key = name.partition(".")
    return f"{flag.replace('_', '-')}{dot}{key}{equals}{value}"


def _prepared(args: Sequence[str], field: str) -> list[_Word]:
    """What vLLM does first: hyphens for underscores, and ``-O3`` for the optimization level."""
    words: list[_Word] = []
    for position, arg in enumerate(args):
        where = f"{field}[{position}]"
        if arg.startswith("-O") and arg != "-O":
            words += [_Word(where, _OPTIMIZATION_LEVEL), _Word(where, arg[2:].removeprefix("="))]
        elif arg == "-O" and "".join(args[position + 1 : position + 2]) in _OPTIMIZATION_LEVELS:
            words.append(_Word(where, _OPTIMIZATION_LEVEL))
        else:
            words.append(_Word(where, spelled(arg)))
    return words


def _apart(words: Sequence[_Word]) -> tuple[list[_Word], list[tuple[_Word, str]], list[Given | Problem]]:
    """What vLLM does next: ``--flag.key value`` is taken out, wherever it is and whatever its value looks like."""
    plain: list[_Word] = []
    keyed: list[tuple[_Word, str]] = []
    problems: list[Given | Problem] = []
    rest = iter(words)
    for word in rest:
        name, equals, value = word.text.partition("=")
        if not (name.startswith("-") and "." in name):
            plain.append(word)
        elif equals:
            keyed.append((_Word(word.where, name), value))
        elif (following := next(rest, None)) is not None:
            keyed.append((word, following.text))
        else:
            problems.append(Problem(word.where, _without_value(name)))
    return plain, keyed, problems


def _without_value(name: str) -> str:
    if _NEGATIVE_NUMBER.match(name) is None:
        return f"argument {name}: expected one argument"
    return f"vLLM takes {name} for a nested key: give it as --flag={name}"


def _groups(words: Sequence[_Word], schema: Schema) -> Iterator[list[_Word]]:
    """Yield each flag with the values behind it; flags do not depend on each other."""
    group: list[_Word] = []
    for word in words:
        if group and _is_flag(word.text, schema):
            yield group
            group = []
        group.append(word)
    if group:
        yield group


def _is_flag(text: str, schema: Schema) -> bool:
    if not text.startswith("-") or text == "-":
        return False
    return bool(schema.meant(text)) or (" " not in text and _NEGATIVE_NUMBER.match(text) is None)


def _read_group(group: Sequence[_Word], schema: Schema) -> Given | Problem:
    first = group[0]
    if not _is_flag(first.text, schema):
        return Problem(first.where, "unrecognized argument: a value that belongs to no flag")
    if first.text == "--":
        return Problem(first.where, "'--' would end the flags, and those of the runtime come after it")
    try:
        namespace, left = schema.parser.parse_known_args([word.text for word in group])
    except RefusedError as error:
        return Problem(first.where, str(error))
    given: dict[str, Any] = vars(namespace)
    if not given:
        return Problem(first.where, _unrecognized(first.text, schema))
    ((flag, value),) = given.items()
    if left:
        # A value may be a secret whose flag is wrong, so that only its place is told.
        return Problem(group[len(group) - len(left)].where, f"unrecognized argument: {flag} does not take this value")
    return Given(first.where, flag, value)


def _read_keyed(name: _Word, value: str, schema: Schema) -> Given | Problem:
    flag, _, key = name.text.partition(".")
    try:
        # The value itself is checked by vLLM's configuration classes, and is not told apart here.
        namespace, left = schema.parser.parse_known_args([flag, json.dumps({key.partition(".")[0].rstrip("+"): None})])
    except RefusedError as error:
        return Problem(name.where, str(error))
    if left:
        return Problem(name.where, _unrecognized(flag, schema))
    (known,) = vars(namespace)
    return Given(name.where, known, value, key.rstrip("+"))


def _unrecognized(written: str, schema: Schema) -> str:
    """Without the value: it may be a secret."""
    name = written.partition("=")[0]
    nearest = _nearest(name, schema)
    return f"unrecognized argument: {name}" + (f"; did you mean {nearest}?" if nearest is not None else "")


# Each takes some milliseconds, and a refused service is looked at again and again.
@lru_cache(maxsize=1024)
def _nearest(written: str, schema: Schema) -> str | None:
    return next(iter(difflib.get_close_matches(written, schema.spellings, n=1)), None)
