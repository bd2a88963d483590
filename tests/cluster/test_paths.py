from pathlib import Path

import pytest

from e2e.cluster import paths


@pytest.mark.parametrize(
    ("environment", "expected"),
    [
        ({"GPTSERVICE_CACHE": "/a/own", "XDG_CACHE_HOME": "/b"}, Path("/a/own")),
        ({"XDG_CACHE_HOME": "/b"}, Path("/b/gptservice")),
        ({"HOME": "/somewhere"}, Path("/somewhere/.cache/gptservice")),
    ],
    ids=["own variable first", "then the XDG folder", "then the home folder"],
)
def test_cache_is_where_the_environment_says(
    environment: dict[str, str], expected: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("GPTSERVICE_CACHE", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    assert paths.cache() == expected


def test_cache_is_absolute_even_if_the_variable_is_not(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("GPTSERVICE_CACHE", "here")
    assert paths.cache() == tmp_path / "here"


@pytest.mark.parametrize("name", ["", ".", "..", "../x", "a/b", "Upper", "-a", "a-", "a" * 41, "a b", "a\n"])
def test_names_that_could_escape_or_confuse_are_refused(name: str) -> None:
    with pytest.raises(ValueError, match="lower-case letters, digits and inner hyphens"):
        paths.cluster(name)


@pytest.mark.parametrize("name", ["a", "demo", "test-1-2", "a" * 40])
def test_plain_names_are_folders_below_the_clusters(name: str) -> None:
    assert paths.cluster(name).parent == paths.clusters()
