"""Gives every test its level, and every level its time limit."""

import signal
from pathlib import Path

import pytest

# A runner may have been started in the background of a shell, which then ignores Ctrl-C for it and all its children.
signal.signal(signal.SIGINT, signal.default_int_handler)

ROOT = Path(__file__).parent
LEVELS = ("unit", "wiring", "api", "node")
FOLDER_LEVELS = {Path("e2e/api"): "api", Path("e2e/node"): "node"}
# Seconds for one test, with the fixtures it is the first to need: starting a cluster counts, building its
# parts does not (`make test` does that before). Hang detection, not a statement about speed.
TIMEOUTS = {"api": 300, "node": 900}


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--update-golden", action="store_true", help="write the golden files anew")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        level = _level_of(item)
        item.add_marker(level)
        if level in TIMEOUTS and item.get_closest_marker("timeout") is None:
            item.add_marker(pytest.mark.timeout(TIMEOUTS[level]))


def _level_of(item: pytest.Item) -> str:
    """The level named by the test's own marker, else by its folder, else `unit`."""
    named = [level for level in LEVELS if item.get_closest_marker(level)]
    if len(named) > 1:
        raise pytest.UsageError(f"{item.nodeid} is marked {' and '.join(named)}: a test has one level, keep one marker")
    if named:
        return named[0]
    relative = item.path.relative_to(ROOT)
    return next((level for folder, level in FOLDER_LEVELS.items() if relative.is_relative_to(folder)), "unit")
