"""Steps into objects in which any part may be absent."""

from typing import Any

import pytest

from gptservice_operator.api.body import entries, first, section

BODY: dict[str, Any] = {
    "spec": {"template": {"metadata": {"labels": {"a": "b"}}}, "list": [{"x": 1}], "nothing": None, "text": "x"}
}


@pytest.mark.parametrize(
    ("path", "found"),
    [
        pytest.param((), BODY, id="the whole"),
        pytest.param(("spec", "template", "metadata"), {"labels": {"a": "b"}}, id="there"),
        pytest.param(("status",), {}, id="absent"),
        pytest.param(("status", "conditions", "x"), {}, id="absent on the way"),
        pytest.param(("spec", "nothing"), {}, id="null"),
        pytest.param(("spec", "nothing", "more"), {}, id="null on the way"),
        pytest.param(("spec", "text"), {}, id="something else"),
        pytest.param(("spec", "list", "more"), {}, id="something else on the way"),
    ],
)
def test_section(path: tuple[str, ...], found: Any) -> None:
    assert section(BODY, *path) == found


@pytest.mark.parametrize(
    ("path", "found"),
    [
        pytest.param(("spec", "list"), [{"x": 1}], id="there"),
        pytest.param(("spec", "other"), [], id="absent"),
        pytest.param(("spec", "nothing"), [], id="null"),
        pytest.param(("status", "list"), [], id="absent on the way"),
        pytest.param(("spec", "text"), [], id="something else"),
        pytest.param(("spec", "template"), [], id="a mapping"),
    ],
)
def test_entries(path: tuple[str, ...], found: Any) -> None:
    assert entries(BODY, *path) == found


def test_first() -> None:
    items = [{"type": "A", "n": "1"}, {"type": "B", "n": "2"}, {"type": "B", "n": "3"}]
    assert first(items, type="B") == {"type": "B", "n": "2"}
    assert first(items, type="B", n="3") == {"type": "B", "n": "3"}
    assert first(items, type="C") == {}
    assert first([], type="A") == {}


def test_entries_are_mappings() -> None:
    assert entries({"list": [{"x": 1}, "text", None, ["y"]]}, "list") == [{"x": 1}]
