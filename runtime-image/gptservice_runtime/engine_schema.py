"""What the engine's own argument parser takes, as a file: SCHEMA_FILE beside this module.

    python3 -m gptservice_runtime.engine_schema > engine_arguments.json

writes it anew, where vLLM can be imported. The operator reads the committed one, which is that of the pinned vLLM; an
image with another vLLM writes its own while it is built. Of a type that cannot be told from outside, nothing is said:
then any value may be right.
"""

import argparse
import dataclasses
import importlib
import inspect
import json
import sys
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, Final

from gptservice_runtime import contract

_TYPES: Final = {
    None: "text",
    "str": "text",
    "int": "integer",
    "float": "number",
    "human_readable_int": "size",
    "human_readable_int_or_auto": "sizeOrAuto",
    "loads": "json",
    "parse_dataclass": "config",
}
"""By the name of argparse's ``type`` function; those that vLLM wraps are looked into first."""
_WRAPPERS: Final = ("_parse_type", "_optional_type")
_SCALARS = (str, int, float, bool, type(None))


def path() -> Path:
    """Where this image's schema is."""
    return Path(__file__).with_name(contract.ENGINE_SCHEMA_FILE)


def names(schema: Path) -> tuple[str, ...]:
    """Every spelling of every flag; none if there is no such file or it cannot be read."""
    try:
        flags = json.loads(schema.read_text())["flags"]
        return tuple(_spellings(flags))
    except (OSError, ValueError, KeyError, TypeError):
        return ()


def _spellings(flags: Iterable[dict[str, Any]]) -> Iterator[str]:
    for flag in flags:
        yield from flag["names"]
        if flag.get("kind") == "boolean":
            yield from (f"--no-{name[2:]}" for name in flag["names"] if name.startswith("--"))


def describe(parser: argparse.ArgumentParser, version: str, deprecated: Iterable[argparse.Action] = ()) -> str:
    """The schema of a parser's flags as JSON, one flag in a line, in alphabetical order."""
    marked = [*deprecated]
    flags: list[dict[str, Any]] = [
        {**_flag(action), **({"deprecated": True} if _is_deprecated(action, marked) else {})}
        for action in parser._actions
        if action.option_strings
    ]
    lines = [json.dumps(flag) for flag in sorted(flags, key=_called)]
    return f'{{"vllm": {json.dumps(version)}, "flags": [\n' + ",\n".join(lines) + "\n]}\n"


def _called(flag: dict[str, Any]) -> str:
    return str(flag["names"][0])


def _is_deprecated(action: argparse.Action, marked: list[argparse.Action]) -> bool:
    named = type(action).__name__.startswith("Deprecated")
    return action in marked or named or getattr(action, "deprecated", False) is True


def _flag(action: argparse.Action) -> dict[str, Any]:
    boolean = isinstance(action, argparse.BooleanOptionalAction)
    spellings = [name for name in action.option_strings if not (boolean and name.startswith("--no-"))]
    # The long one first: it is what the flag is called.
    spellings.sort(key=lambda name: not name.startswith("--"))
    default = {"default": action.default} if _is_plain(action.default) else {}
    if boolean:
        return {"names": spellings, "kind": "boolean", **default}
    if action.nargs == 0:
        return {"names": spellings, "kind": "switch"}
    return {"names": spellings, "kind": "value", **_value(action), **default}


def _value(action: argparse.Action) -> dict[str, Any]:
    function, optional = _unwrapped(action.type)
    kind = _TYPES.get(getattr(function, "__name__", None), "any")
    if type(action).__module__ != "argparse":
        # An action of vLLM's own reads the text itself.
        kind = "any"
    described: dict[str, Any] = {"type": kind}
    if optional:
        described["optional"] = True
    if action.nargs is not None:
        described["nargs"] = action.nargs
    if action.choices is not None:
        described["choices"] = [choice for choice in action.choices if choice is not None]
    if kind == "config" and (keys := _keys(function)):
        described["keys"] = keys
    return described


def _unwrapped(function: Any) -> tuple[Any, bool]:
    """The innermost type function, and whether the empty text and "None" stand for no value."""
    optional = False
    while getattr(function, "__name__", None) in _WRAPPERS:
        optional = optional or function.__name__ == "_optional_type"
        function = inspect.getclosurevars(function).nonlocals["return_type"]
    return function, optional


def _keys(parse_dataclass: Callable[..., Any]) -> list[str]:
    """Names of a configuration's fields; none if it may take others too."""
    config = inspect.signature(parse_dataclass).parameters["cls"].default
    validators = config.__pydantic_decorators__.model_validators.values()
    if any(validator.info.mode != "after" for validator in validators):
        return []
    if config.__pydantic_config__.get("extra") != "forbid":
        return []
    return sorted(field.name for field in dataclasses.fields(config))


def _is_plain(value: object) -> bool:
    return value != argparse.SUPPRESS and type(value) in _SCALARS


def _of_vllm() -> str:
    """The schema of the vLLM that can be imported here."""
    platforms = importlib.import_module("vllm.platforms")
    if platforms.current_platform.is_unspecified():
        # A machine that builds images has no GPU; vLLM's own benchmarks do the same.
        vars(platforms)["current_platform"] = importlib.import_module("vllm.platforms.cpu").CpuPlatform()
    flexible = importlib.import_module("vllm.utils.argparse_utils").FlexibleArgumentParser
    (serve,) = importlib.import_module("vllm.entrypoints.cli.serve").cmd_init()
    parser = serve.subparser_init(flexible(prog="vllm").add_subparsers())
    marked = getattr(flexible, "_deprecated", ())
    return describe(parser, importlib.import_module("vllm.version").__version__, marked)


if __name__ == "__main__":
    # vLLM logs to standard output.
    output, sys.stdout = sys.stdout, sys.stderr
    output.write(_of_vllm())
