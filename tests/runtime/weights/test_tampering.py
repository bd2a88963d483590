"""Whatever is changed in an encrypted model, by whoever has no key, is refused: a generated set."""

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from gptservice_runtime.weights import chunks, decrypting, seal
from gptservice_runtime.weights.errors import RefusedError
from gptservice_runtime.weights.keys import Key
from tests.runtime.weights import samples
from tests.runtime.weights.samples import CHUNK, KEY, OTHER_KEY

Change = Callable[[Path], None]
SEAL = seal.SEAL_FILE
LONG, WHOLE = "model-00001.safetensors", "model-00002.safetensors"
CLOSED = CHUNK + chunks.TAG_BYTES
HEADER = chunks.HEADER_BYTES


def rejects(folder: Path, *some_keys: Key) -> bool:
    """Whether reading it is refused, as a whole."""
    try:
        opened = decrypting.opened(folder, some_keys or (KEY,))
        opened.verify(opened.names)
    except RefusedError:
        return True
    return False


def flips(path: str, size: int) -> Iterator[tuple[str, Change]]:
    """A bit of every byte of the seal, of headers and of tags, and of every fifth byte of what is encrypted."""
    ends = [*range(HEADER + CLOSED, size, CLOSED), size]
    ours = {*range(HEADER), *(end - back for end in ends for back in range(1, chunks.TAG_BYTES + 1))}
    places = range(size) if path == SEAL else sorted(ours | set(range(HEADER, size, 5)))
    for place in places:
        for bit in range(8) if place in {0, size - 1} else [place % 8]:
            yield f"{path}: bit {bit} of byte {place}", edited(path, lambda b, p=place, n=bit: flipped(b, p, n))


def flipped(content: bytes, place: int, bit: int) -> bytes:
    return content[:place] + bytes([content[place] ^ 1 << bit]) + content[place + 1 :]


def edited(path: str, edit: Callable[[bytes], bytes]) -> Change:
    def change(folder: Path) -> None:
        content = (folder / path).read_bytes()
        new = edit(content)
        assert new != content
        (folder / path).write_bytes(new)

    return change


def cuts(path: str, size: int) -> Iterator[tuple[str, Change]]:
    """At every boundary, beside it, and within."""
    boundaries = [0, len(seal.FORMAT), HEADER, *range(HEADER, size, CLOSED), size]
    places = {place + shift for place in boundaries for shift in (-17, -16, -1, 0, 1)}
    for place in sorted(places & set(range(size))):
        yield f"{path}: cut at {place}", edited(path, lambda b, p=place: b[:p])


def chunk_moves(path: str, content: bytes) -> Iterator[tuple[str, Change]]:
    header, rest = content[:HEADER], content[HEADER:]
    parts = [rest[place : place + CLOSED] for place in range(0, len(rest), CLOSED)]
    for first in range(len(parts)):
        fewer = [*parts[:first], *parts[first + 1 :]]
        yield f"{path}: without chunk {first}", edited(path, lambda _, p=fewer: header + b"".join(p))
        twice = [*parts[: first + 1], *parts[first:]]
        yield f"{path}: chunk {first} twice", edited(path, lambda _, p=twice: header + b"".join(p))
        for second in range(first):
            swapped = list(parts)
            swapped[first], swapped[second] = swapped[second], swapped[first]
            yield (
                f"{path}: chunks {second} and {first} swapped",
                edited(path, lambda _, p=swapped: header + b"".join(p)),
            )


def appended(path: str) -> Iterator[tuple[str, Change]]:
    for what in (b"\0", b"x" * chunks.TAG_BYTES, b"x" * CLOSED):
        yield f"{path}: {len(what)} bytes more", edited(path, lambda b, w=what: b + w)
    yield f"{path}: twice", edited(path, lambda b: b + b)


def of_a_file(folder: Path, path: str) -> Iterator[tuple[str, Change]]:
    content = (folder / path).read_bytes()
    yield from flips(path, len(content))
    yield from cuts(path, len(content))
    yield from appended(path)
    yield f"{path}: empty", edited(path, lambda _: b"")
    yield f"{path}: its plain text", edited(path, lambda _: samples.FILES.get(path, b"{}"))
    yield f"{path}: gone", lambda at: (at / path).unlink()
    yield f"{path}: under another name", lambda at: (at / path).rename(at / f"{path}x")


def of_files(folder: Path, others: dict[str, Path]) -> Iterator[tuple[str, Change]]:
    """What comes from elsewhere: another file, another encryption of the same model, another model of the same key."""
    names = list(samples.FILES)
    for path in names:
        for other in (name for name in names if name != path):
            yield f"{other} in the place of {path}", lambda at, p=path, o=other: shutil.copy(folder / o, at / p)
    for kind, elsewhere in others.items():
        for path in [*names, SEAL]:
            yield f"{path} of {kind}", lambda at, p=path, e=elsewhere: shutil.copy(e / p, at / p)
        yield f"all files of {kind}", lambda at, e=elsewhere: [shutil.copy(e / p, at / p) for p in names]
    yield "a file more", lambda at: (at / "more.json").write_bytes(b"{}")
    yield "a file more in a folder", lambda at: (at / "sub" / "evil.py").write_bytes(b"x")
    yield "a copy of a file", lambda at: shutil.copy(at / LONG, at / "model-00003.safetensors")


def of_the_seal(text: bytes, other: bytes) -> Iterator[tuple[str, Change]]:
    """Line by line: gone, twice, moved; and lines of another encryption with the same key."""
    lines, foreign = text.splitlines(keepends=True), other.splitlines(keepends=True)
    for place, line in enumerate(lines):
        yield f"line {place} gone", edited(SEAL, lambda _, p=place: b"".join([*lines[:p], *lines[p + 1 :]]))
        yield f"line {place} twice", edited(SEAL, lambda _, p=place: b"".join([*lines[: p + 1], *lines[p:]]))
        if foreign[place] != line:
            new = [*lines[:place], foreign[place], *lines[place + 1 :]]
            yield f"line {place} of another encryption", edited(SEAL, lambda _, n=new: b"".join(n))
    for place in range(len(lines) - 1):
        new = [*lines[:place], lines[place + 1], lines[place], *lines[place + 2 :]]
        yield f"lines {place} and {place + 1} swapped", edited(SEAL, lambda _, n=new: b"".join(n))
    for old, new_text in REWRITTEN.items():
        assert old in text
        yield f"{old!r} becomes {new_text!r}", edited(SEAL, lambda b, o=old, n=new_text: b.replace(o, n, 1))


REWRITTEN = {
    b"model-weights-v1\n": b"model-weights-v2\n",
    b"model-weights-v1": b"model-weights-v0",
    b"model-weights-v1\nmodel": b"model-weights-v1 \nmodel",
    b"chunk 1024": b"chunk 2048",
    b"chunk 102": b"chunk 0102",
    b" 2 config": b" 02 config",
    b"sub/more.json": b"../more.json",
    b" config.json": b" /config.json",
    b"empty.txt": b"empty.tx\xff",
    b"\nmac ": b"\nMAC ",
    b"\n": b"\r\n",
}


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return samples.encrypted(tmp_path_factory.mktemp("weights") / "model")


@pytest.fixture(scope="module")
def others(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("others")
    changed = {**samples.FILES, **{name: bytes(len(samples.FILES[name])) for name in (LONG, WHOLE, "config.json")}}
    return {
        "another encryption": samples.encrypted(folder / "again"),
        "another model with the same key": samples.encrypted(folder / "other", files=changed),
        "another encryption with another key": samples.encrypted(folder / "theirs", OTHER_KEY),
    }


def test_every_change_is_refused(model: Path, others: dict[str, Path], tmp_path: Path) -> None:
    changes = [
        *of_a_file(model, SEAL),
        *of_the_seal((model / SEAL).read_bytes(), (others["another encryption"] / SEAL).read_bytes()),
        *(change for path in samples.FILES for change in of_a_file(model, path)),
        *(change for path in samples.FILES for change in chunk_moves(path, (model / path).read_bytes())),
        *of_files(model, others),
    ]
    at, right = tmp_path / "changed", samples.contents(model)
    shutil.copytree(model, at)
    assert not rejects(at), "what was not changed has to be read"
    taken: list[str] = []
    for what, change in changes:
        change(at)
        if not rejects(at):
            taken.append(what)
        restore(right, at)
    print(f"tampering: {len(changes)} changes, {len(changes) - len(taken)} refused")
    assert taken == []
    assert not rejects(at)


def restore(right: dict[str, bytes], at: Path) -> None:
    for path, content in samples.contents(at).items():
        if right.get(path) != content:
            (at / path).unlink()
    for path, content in right.items():
        if not (at / path).exists():
            (at / path).write_bytes(content)


def test_another_key_is_refused(model: Path) -> None:
    assert rejects(model, OTHER_KEY)
    assert not rejects(model, OTHER_KEY, KEY)


def test_a_seal_that_leads_to_a_secret_does_not_show_it(model: Path, tmp_path: Path) -> None:
    """Whoever may write to a volume must not read by it what the pod may read."""
    shutil.copytree(model, tmp_path / "model")
    secret = tmp_path / "secret"
    for text in (
        "c2VjcmV0",
        f"{seal.FORMAT}\nmodel c2VjcmV0\n",
        f"{seal.FORMAT}\nmodel {'0' * 32}\nchunk 1024\nc2VjcmV0",
    ):
        secret.write_text(text)
        (tmp_path / "model" / SEAL).unlink()
        (tmp_path / "model" / SEAL).symlink_to(secret)
        with pytest.raises(RefusedError) as refused:
            decrypting.opened(tmp_path / "model", (KEY,))
        assert "c2VjcmV0" not in str(refused.value)
