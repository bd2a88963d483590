"""What was encrypted comes back, whatever it is; nothing is overwritten, and nothing half is left."""

import os
import stat
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gptservice_runtime.weights import chunks, decrypting, encrypting, seal
from gptservice_runtime.weights.errors import RefusedError, WeightsError
from tests.runtime.weights import samples
from tests.runtime.weights.samples import CHUNK, KEY, OTHER_KEY

PARTS = st.text(st.characters(exclude_categories=("Cs", "Cc"), exclude_characters="/"), min_size=1, max_size=12).filter(
    lambda part: not part.startswith(".") and len(part.encode()) < 200
)
SIZES = st.one_of(st.integers(0, 3 * CHUNK), st.sampled_from([0, 1, CHUNK - 1, CHUNK, CHUNK + 1, 2 * CHUNK, 3 * CHUNK]))


@given(names=st.lists(PARTS, min_size=1, max_size=4, unique_by=str.casefold), sizes=st.lists(SIZES, min_size=4))
def test_every_model_comes_back(tmp_path_factory: pytest.TempPathFactory, names: list[str], sizes: list[int]) -> None:
    files = {name: os.urandom(size) for name, size in zip(names, sizes, strict=False) if name != seal.SEAL_FILE}
    if not files:
        return
    folder = tmp_path_factory.mktemp("trip") / "model"
    samples.encrypted(folder, files=files)
    opened = decrypting.opened(folder, (KEY,))
    opened.verify(opened.names)
    opened.decrypt(opened.names, folder.with_name("back"))
    assert samples.contents(folder.with_name("back")) == files
    for name, content in files.items():
        assert (folder / name).stat().st_size == chunks.encrypted_size(len(content), CHUNK)
        assert len(content) < 8 or content not in (folder / name).read_bytes()


def test_a_single_file_can_be_a_model(tmp_path: Path) -> None:
    (tmp_path / "m.gguf").write_bytes(b"GGUF" + bytes(5000))
    encrypting.encrypt(tmp_path / "m.gguf", tmp_path / "e", (KEY,))
    opened = decrypting.opened(tmp_path / "e", (KEY,))
    opened.decrypt(["m.gguf"], tmp_path / "back")
    assert samples.contents(tmp_path / "back") == {"m.gguf": b"GGUF" + bytes(5000)}


def test_what_is_hidden_is_left_out(tmp_path: Path) -> None:
    plain = samples.write(tmp_path / "plain", {**samples.FILES, ".git/config": b"x", ".key": b"x"})
    assert {file.name for file in encrypting.encrypt(plain, tmp_path / "e", (KEY,)).files} == set(samples.FILES)


def test_two_encryptions_have_nothing_in_common(tmp_path: Path) -> None:
    first, second = (samples.contents(samples.encrypted(tmp_path / name)) for name in ("a", "b"))
    for name in samples.FILES:
        assert first[name][chunks.HEADER_BYTES :] != second[name][chunks.HEADER_BYTES :], name


def test_rewrapping_changes_the_seal_alone_and_who_can_read(tmp_path: Path) -> None:
    model = samples.encrypted(tmp_path / "model", KEY)
    before = samples.contents(model)
    encrypting.rewrap(model, (KEY,), (OTHER_KEY,))
    after = samples.contents(model)
    assert {name for name in before if before[name] != after[name]} == {seal.SEAL_FILE}
    assert seal.read(model).files == seal.decode(before[seal.SEAL_FILE]).files
    decrypting.opened(model, (OTHER_KEY,)).verify(list(samples.FILES))
    with pytest.raises(RefusedError, match=f"encrypted for key {OTHER_KEY.name}.* is key {KEY.name}"):
        decrypting.opened(model, (KEY,))


def test_while_a_key_is_rotated_both_open_it(tmp_path: Path) -> None:
    model = samples.encrypted(tmp_path / "model", KEY)
    encrypting.rewrap(model, (KEY,), (KEY, OTHER_KEY))
    for key in (KEY, OTHER_KEY):
        decrypting.opened(model, (key,)).verify(list(samples.FILES))


def test_rewrapping_needs_a_key(tmp_path: Path) -> None:
    model = samples.encrypted(tmp_path / "model", KEY)
    before = samples.contents(model)
    with pytest.raises(RefusedError):
        encrypting.rewrap(model, (OTHER_KEY,), (OTHER_KEY,))
    assert samples.contents(model) == before


def test_nothing_is_overwritten(tmp_path: Path) -> None:
    model = samples.encrypted(tmp_path / "model")
    there = samples.write(tmp_path / "there", {"precious": b"1"})
    opened = decrypting.opened(model, (KEY,))
    with pytest.raises(WeightsError, match="is there already"):
        opened.decrypt(opened.names, there)
    with pytest.raises(WeightsError, match="is there already"):
        encrypting.encrypt(tmp_path / "model-plain", there, (KEY,))
    assert samples.contents(there) == {"precious": b"1"}


def test_a_wrong_byte_at_the_very_end_leaves_nothing(tmp_path: Path) -> None:
    model = samples.encrypted(tmp_path / "model")
    last = model / "sub/more.json"
    last.write_bytes(last.read_bytes()[:-1] + b"\0")
    opened = decrypting.opened(model, (KEY,))
    with pytest.raises(RefusedError, match=r"sub/more\.json: chunk 2 is not the one that was encrypted"):
        opened.decrypt(opened.names, tmp_path / "back")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["model", "model-plain"]


def test_what_is_encrypted_is_not_encrypted_again(tmp_path: Path) -> None:
    with pytest.raises(WeightsError, match="encrypted already"):
        encrypting.encrypt(samples.encrypted(tmp_path / "model"), tmp_path / "twice", (KEY,))


@pytest.mark.parametrize(
    "name", ["a\nb", "tab\there", b"\xff".decode(errors="surrogateescape"), "x" * 200 + "/" + "/".join(["y" * 200] * 5)]
)
def test_names_that_the_seal_cannot_hold_are_refused(tmp_path: Path, name: str) -> None:
    plain = samples.write(tmp_path / "plain", {name: b"1"})
    with pytest.raises(WeightsError, match="rename it"):
        encrypting.encrypt(plain, tmp_path / "e", (KEY,))
    assert not (tmp_path / "e").exists()


def test_what_is_no_file_is_refused_and_does_not_hang(tmp_path: Path) -> None:
    plain = samples.write(tmp_path / "plain")
    os.mkfifo(plain / "pipe")
    with pytest.raises(WeightsError, match="neither a file nor a folder"):
        encrypting.encrypt(plain, tmp_path / "e", (KEY,))


def test_links_to_files_are_followed(tmp_path: Path) -> None:
    plain = samples.write(tmp_path / "plain")
    (plain / "link.json").symlink_to("config.json")
    encrypting.encrypt(plain, tmp_path / "e", (KEY,))
    opened = decrypting.opened(tmp_path / "e", (KEY,))
    opened.decrypt(["link.json"], tmp_path / "back")
    assert samples.contents(tmp_path / "back") == {"link.json": b"{}"}


def test_an_empty_folder_is_no_model(tmp_path: Path) -> None:
    (tmp_path / "plain").mkdir()
    with pytest.raises(WeightsError, match="no files"):
        encrypting.encrypt(tmp_path / "plain", tmp_path / "e", (KEY,))


def test_the_mode_is_that_of_other_new_folders(tmp_path: Path) -> None:
    mask = os.umask(0o027)
    try:
        model = samples.encrypted(tmp_path / "model")
        encrypting.rewrap(model, (KEY,), (KEY,))
    finally:
        os.umask(mask)
    assert stat.S_IMODE(model.stat().st_mode) == 0o750
    assert stat.S_IMODE((model / seal.SEAL_FILE).stat().st_mode) == 0o640
