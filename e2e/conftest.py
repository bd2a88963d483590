"""What api and node tests share: the logs of whatever a test ran are shown when it fails."""

from collections.abc import Callable, Generator

import pytest

LogSource = Callable[[], str]
LOG_SOURCES = pytest.StashKey[dict[str, LogSource]]()


@pytest.fixture(scope="session")
def show_log_on_failure(request: pytest.FixtureRequest) -> Callable[[str, LogSource], None]:
    """Register a log by name; its text becomes a section in the report of every test that fails from then on."""
    sources = request.config.stash.setdefault(LOG_SOURCES, {})

    def register(name: str, source: LogSource) -> None:
        sources[name] = source

    return register


@pytest.fixture
def tell(capsys: pytest.CaptureFixture[str], record_property: Callable[[str, object], None]) -> Callable[[str], None]:
    """Say something that a person is to read of a run that passes too: it is printed at once, and goes into reports."""

    def say(text: str) -> None:
        with capsys.disabled():
            print(f"\n{text}")
        record_property("told", text)

    return say


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    if report.failed:
        for name, source in item.config.stash.get(LOG_SOURCES, dict[str, LogSource]()).items():
            report.sections.append((name, source()))
    return report
