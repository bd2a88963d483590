"""What a seal may say, even one whose writer holds the key; changes by others are in test_tampering.py."""

import dataclasses
from pathlib import Path

import pytest

from gptservice_runtime.weights import decrypting, keys, seal
from gptservice_runtime.weights.errors import RefusedError
from gptservice_runtime.weights.seal import Seal, SealedFile
from tests.runtime.weights import samples


@pytest.fixture(scope="module")
def good(tmp_path_factory: pytest.TempPathFactory) -> Seal:
    return seal.read(samples.encrypted(tmp_path_factory.mktemp("seal") / "model"))


def named(name: str, number: int = 0, size: int = 0) -> SealedFile:
    return SealedFile(file_id=bytes([number]) * seal.ID_BYTES, size=size, name=name)


def test_it_reads_what_it_writes(good: Seal) -> None:
    assert seal.decode(good.encode()) == good


@pytest.mark.parametrize(
    "name",
    ["/etc/passwd", "../up", "a/../../b", "a//b", "a/", "./a", ".", "..", seal.SEAL_FILE, "a\x7fb", "x" * 1025],
)
def test_a_name_that_leads_elsewhere_is_refused_even_from_who_has_the_key(good: Seal, name: str) -> None:
    with pytest.raises(RefusedError):
        seal.decode(dataclasses.replace(good, files=(named(name),)).encode())


@pytest.mark.parametrize("name", ["a", "a b", "größe", "..a", "a..b", "-", "sub/model-weights.txt", "x" * 1024])
def test_other_names_are_taken(good: Seal, name: str) -> None:
    made = dataclasses.replace(good, files=(named(name),))
    assert seal.decode(made.encode()) == made


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        pytest.param({"chunk": 1 << 9}, "chunk", id="chunks that are too small"),
        pytest.param({"chunk": 1 << 25}, "chunk", id="chunks that are too large"),
        pytest.param({"chunk": 1025}, "power of two", id="no power of two"),
        pytest.param({"keys": ()}, "no key", id="no key"),
        pytest.param({"files": ()}, "no file", id="no file"),
        pytest.param({"files": (named("b"), named("a", 1))}, "in order", id="unsorted"),
        pytest.param({"files": (named("a"), named("a", 1))}, "twice", id="a name twice"),
        pytest.param({"files": (named("a"), named("b"))}, "one identifier", id="an identifier twice"),
        pytest.param({"files": (named("a", size=1 << 53),)}, "too large", id="a size without end"),
    ],
)
def test_other_nonsense_is_refused(good: Seal, changes: dict[str, object], said: str) -> None:
    with pytest.raises(RefusedError, match=said):
        seal.decode(dataclasses.replace(good, **changes).encode())  # type: ignore[arg-type]


def test_a_seal_without_end_is_not_read(tmp_path: Path) -> None:
    with (tmp_path / seal.SEAL_FILE).open("wb") as file:
        file.truncate(seal.LARGEST_SEAL + 1)
    with pytest.raises(RefusedError, match="it is no seal"):
        seal.read(tmp_path)


def test_a_key_entry_that_wraps_something_else_is_refused(tmp_path: Path) -> None:
    """Somebody with the user's key could have wrapped another data key: then the last line does not fit."""
    model = samples.encrypted(tmp_path / "model")
    found = seal.read(model)
    other = dataclasses.replace(found, keys=keys.wrap(bytes(32), found.model_id, (samples.KEY,)))
    (model / seal.SEAL_FILE).write_bytes(other.encode())
    with pytest.raises(RefusedError, match="mixed from two"):
        decrypting.opened(model, (samples.KEY,))
