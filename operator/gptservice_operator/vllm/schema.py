"""The flags that a version of vLLM takes, as argparse's own parser of them.

argparse does the work, since vLLM's parser is one: beginnings of names, short names, lists and its words are then the
same. Of what the schema cannot say, everything is accepted.
"""

import argparse
import difflib
import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import Any, NoReturn, cast

from gptservice_runtime import contract

_SIZE = re.compile(r"\d+(\.\d+)?[kmgt]|\d+[KMGT]")
_SIZE_IN_JSON = re.compile(r'("(?:[^"\\]|\\.)*")|(?<![.\w])(?:\d+(?:\.\d+)?[kmgt]|\d+[KMGT])\b')


class RefusedError(Exception):
    """argparse's own words."""


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise RefusedError(message)


@dataclass(frozen=True, slots=True, eq=False)
class Schema:
    """The flags of one version of vLLM. A flag is called by its long name, with both hyphens."""

    version: str
    deprecated: frozenset[str]
    spellings: Mapping[str, str]
    """The flag by every name that is taken for it."""
    parser: argparse.ArgumentParser
    """Raises RefusedError; its namespace has the flags' values by the flags, and only those that were given."""

    def meant(self, written: str) -> frozenset[str]:
        """Return the flags that an argument may begin with; none if it begins with no flag.

        As in argparse: the whole name, else whatever begins so, and a value right behind a one-letter name.
        """
        name = written.partition("=")[0]
        if (exact := self.spellings.get(written) or self.spellings.get(name)) is not None:
            return frozenset({exact})
        begun = frozenset(flag for spelling, flag in self.spellings.items() if spelling.startswith(name))
        letter = self.spellings.get(written[:2]) if not written.startswith("--") else None
        return begun if letter is None else begun | {letter}


@cache
def bundled() -> Schema:
    """Return the schema of the vLLM in our own runtime images."""
    return read(resources.files("gptservice_runtime").joinpath(contract.ENGINE_SCHEMA_FILE).read_text())


def read(text: str) -> Schema:
    """Read a schema as ``gptservice_runtime.engine_schema`` writes it."""
    content: dict[str, Any] = json.loads(text)
    parser = _Parser(prog="vllm serve", add_help=False, argument_default=argparse.SUPPRESS)
    spellings: dict[str, str] = {}
    for flag in content["flags"]:
        name: str = flag["names"][0]
        action = parser.add_argument(*flag["names"], dest=name, **_options(name, flag))
        spellings |= {spelling: name for spelling in action.option_strings}
    deprecated = frozenset(flag["names"][0] for flag in content["flags"] if flag.get("deprecated"))
    return Schema(content["vllm"], deprecated, spellings, parser)


def _options(name: str, flag: Mapping[str, Any]) -> dict[str, Any]:
    if flag["kind"] == "boolean":
        return {"action": argparse.BooleanOptionalAction}
    if flag["kind"] == "switch":
        return {"action": "store_true"}
    options: dict[str, Any] = {"type": _reader(name, flag)}
    if "nargs" in flag:
        options["nargs"] = flag["nargs"]
    # What a reader of vLLM's own makes of the text is not known, so that it cannot be compared.
    if "choices" in flag and flag["type"] != "any":
        options["choices"] = [*flag["choices"], *([None] if flag.get("optional") else [])]
    return options


def _reader(name: str, flag: Mapping[str, Any]) -> Callable[[str], Any]:
    convert, called = _READERS[flag["type"]]
    keys: Sequence[str] = flag.get("keys", ())

    def reader(text: str) -> Any:
        if flag.get("optional") and text in ("", "None"):
            return None
        try:
            value = convert(text)
        except (ValueError, RecursionError) as error:
            raise argparse.ArgumentTypeError(f"invalid {called}: {text!r}") from error
        for key in _keys(value) if keys else ():
            _check_key(name, key, keys)
        return value

    return reader


def _keys(value: object) -> list[str]:
    return [*cast("dict[str, Any]", value)] if isinstance(value, dict) else []


def _check_key(flag: str, key: str, keys: Sequence[str]) -> None:
    if key in keys:
        return
    near = difflib.get_close_matches(key, keys, n=1)
    raise argparse.ArgumentTypeError(f"{flag} has no key {key!r}" + (f"; did you mean {near[0]!r}?" if near else ""))


def _size(text: str) -> int | str:
    text = text.strip()
    return text if _SIZE.fullmatch(text) else int(text)


def _size_or_auto(text: str) -> int | str:
    return -1 if text.strip().lower() == "auto" else _size(text)


def _config(text: str) -> Any:
    return json.loads(_SIZE_IN_JSON.sub(lambda found: found[1] or "0", text))


_READERS: Mapping[str, tuple[Callable[[str], Any], str]] = {
    "any": (str, "value"),
    "text": (str, "value"),
    "integer": (int, "int value"),
    "number": (float, "float value"),
    "size": (_size, "number (such as 2048, 2k or 2K)"),
    "sizeOrAuto": (_size_or_auto, "number (such as 2048, 2k, 2K or auto)"),
    "json": (json.loads, "JSON"),
    "config": (_config, "JSON"),
}
"""By the schema's type: how it is read, and what argparse calls it. Whatever size it is does not matter here."""
