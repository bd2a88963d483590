"""Rules of the house that no linter checks: sizes, names, and what must never be in a committed file."""

import ast
import re
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
MODULE_LINES = 300
FUNCTION_LINES = 50
BANNED_NAMES = re.compile(r"^(utils?|helpers?|commons?|managers?|misc)$|_(utils?|helpers?|manager)$")
# Places that exist only on the machine somebody worked on.
PRIVATE_PATH = re.compile(r"(?<![\w./{}$-])/(?:root|home/[a-z]+|work|Users/[a-z]+|tmp/boot)/")

# Places inside an image, which are the same everywhere.
IN_IMAGES = ("/root/.cache/uv",)


def tracked(*patterns: str) -> list[Path]:
    if not (shutil.which("git") and (ROOT / ".git").exists()):
        pytest.skip("not a git checkout, or no git: nothing says which files are committed")
    listed = subprocess.run(["git", "ls-files", "-z", *patterns], cwd=ROOT, check=True, capture_output=True, text=True)
    return [ROOT / name for name in listed.stdout.split("\0") if name and (ROOT / name).is_file()]


def packages() -> list[Path]:
    return [
        path
        for path in tracked("operator/*.py", "runtime-image/*.py", "e2e/*.py", "release/*.py")
        if "tests" not in path.parts
    ]


def functions(tree: ast.AST) -> list[ast.FunctionDef | ast.AsyncFunctionDef]:
    return [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)]


def test_modules_and_functions_are_small() -> None:
    too_long: list[str] = []
    for path in packages():
        text = path.read_text()
        if (lines := text.count("\n")) > MODULE_LINES:
            too_long.append(f"{path.relative_to(ROOT)}: {lines} lines, at most {MODULE_LINES}: split it by question")
        for node in functions(ast.parse(text)):
            if (size := (node.end_lineno or node.lineno) - node.lineno + 1) > FUNCTION_LINES:
                too_long.append(f"{path.relative_to(ROOT)}:{node.lineno} {node.name}: {size} lines, at most 50")
    assert not too_long, "\n".join(too_long)


def test_modules_are_named_after_what_they_hold() -> None:
    assert not [str(path.relative_to(ROOT)) for path in packages() if BANNED_NAMES.search(path.stem)]


def test_no_committed_file_names_a_place_on_somebodys_machine() -> None:
    found: list[str] = []
    for path in tracked():
        if path == Path(__file__) or path.suffix in {".lock", ".sum"}:
            continue
        for number, line in enumerate(path.read_text(errors="replace").splitlines(), start=1):
            if PRIVATE_PATH.search(line) and not any(place in line for place in IN_IMAGES):
                found.append(f"{path.relative_to(ROOT)}:{number}: {line.strip()[:100]}")
    assert not found, "\n".join(found)


@pytest.mark.parametrize(
    ("line", "private"),
    [
        pytest.param("cache = '/root/.cache/x'", True, id="root's home"),
        pytest.param("see /home/ada/src", True, id="a user's home"),
        pytest.param("{root}/work/snapshots", False, id="a folder called work below another"),
        pytest.param("mountPath: /models/source", False, id="a path in a container"),
    ],
)
def test_what_counts_as_a_private_path(line: str, private: bool) -> None:
    assert bool(PRIVATE_PATH.search(line)) is private
