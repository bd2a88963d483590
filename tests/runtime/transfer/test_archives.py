"""What gets out of an archive, and what never does."""

import gzip
import io
import random
import tarfile
import tracemalloc
from pathlib import Path

import pytest

from e2e.sources.registry import packed
from gptservice_runtime import digest, models
from gptservice_runtime.transfer import archives

MODEL: dict[str, bytes | tarfile.TarInfo] = {
    "config.json": b"{}",
    "model.safetensors": b"weights",
    "tokenizer.json": b"[]",
    "README.md": b"not needed",
}


def header(name: str, kind: bytes, target: str = "", size: int = 0) -> tarfile.TarInfo:
    entry = tarfile.TarInfo(name)
    entry.type, entry.linkname, entry.size = kind, target, size
    return entry


def written(folder: Path, *contents: bytes) -> list[Path]:
    paths = [folder / f"layer-{number}.tar" for number, _ in enumerate(contents)]
    for path, content in zip(paths, contents, strict=True):
        path.write_bytes(content)
    return paths


def unpacked(folder: Path, *contents: bytes) -> dict[str, bytes]:
    content = archives.look_into(written(folder, *contents), "oci://r/m")
    files = archives.unpack(content, folder / "out", folder / "parts")
    assert all(digest.of_file(folder / "out", file.path) == file for file in files)
    assert content.sizes == {file.path: file.size for file in files}
    return {file.path: (folder / "out" / file.path).read_bytes() for file in files}


@pytest.mark.parametrize("below", ["", "./", "model/", "./a/b/"])
@pytest.mark.parametrize("mode", ["w", "w:gz"])
def test_the_model_s_folder_is_found(tmp_path: Path, below: str, mode: str) -> None:
    found = unpacked(tmp_path, packed({below + name: content for name, content in MODEL.items()}, mode))
    assert found == {name: content for name, content in MODEL.items() if name != "README.md"}


def test_later_layers_win(tmp_path: Path) -> None:
    system = packed({"etc/config.json": b"{}", "models/config.json": b"old", "models/model.safetensors": b"old"})
    found = unpacked(tmp_path, system, packed({f"models/{name}": content for name, content in MODEL.items()}))
    assert found["config.json"] == b"{}"
    assert found["model.safetensors"] == b"weights"


def test_what_a_later_layer_removes_is_not_there(tmp_path: Path) -> None:
    lower = packed({f"{folder}/{name}": content for folder in ("old", "new") for name, content in MODEL.items()})
    upper = packed({"./.wh.old": b"", "new/.wh.tokenizer.json": b""})
    assert unpacked(tmp_path, lower, upper).keys() == {"config.json", "model.safetensors"}


def test_a_name_that_comes_twice_is_its_last(tmp_path: Path) -> None:
    buffer = io.BytesIO(packed(MODEL))
    with tarfile.open(fileobj=buffer, mode="a") as tar:
        again = tarfile.TarInfo("config.json")
        again.size = 5
        tar.addfile(again, io.BytesIO(b"[1,2]"))
    assert unpacked(tmp_path, buffer.getvalue())["config.json"] == b"[1,2]"


def test_a_single_gguf_file_is_a_model(tmp_path: Path) -> None:
    assert unpacked(tmp_path, packed({"a/model.gguf": b"GGUF"})) == {"model.gguf": b"GGUF"}


@pytest.mark.parametrize(
    ("name", "entry"),
    [
        pytest.param("../x", b"", id="above"),
        pytest.param("a/../../x", b"", id="above, later"),
        pytest.param("/etc/passwd", b"", id="absolute"),
        pytest.param("model.safetensors", header("model.safetensors", tarfile.SYMTYPE, "/etc/passwd"), id="symlink"),
        pytest.param("model.safetensors", header("model.safetensors", tarfile.LNKTYPE, "config.json"), id="hard link"),
        pytest.param("config.json", header("config.json", tarfile.FIFOTYPE), id="pipe"),
        pytest.param("config.json", header("config.json", tarfile.CHRTYPE), id="device"),
    ],
)
def test_what_leads_elsewhere_is_refused(tmp_path: Path, name: str, entry: bytes | tarfile.TarInfo) -> None:
    with pytest.raises(models.ModelError) as refused:
        archives.look_into(written(tmp_path, packed({**MODEL, name: entry})), "oci://r/m")
    assert refused.value.reason == "ModelAccessDenied"


def test_a_link_that_is_none_of_the_model_s_is_passed_over(tmp_path: Path) -> None:
    link = header("bin/sh", tarfile.SYMTYPE, "/bin/dash")
    assert "config.json" in unpacked(tmp_path, packed({**MODEL, "bin/sh": link}))
    assert not (tmp_path / "out" / "bin").exists()


@pytest.mark.parametrize("size", [1 << 60, 100_000])
@pytest.mark.parametrize("mode", ["plain", "gzip"])
def test_an_absurd_size_is_refused_unread(tmp_path: Path, size: int, mode: str) -> None:
    absurd = header("model.safetensors", tarfile.REGTYPE, size=size).tobuf(tarfile.PAX_FORMAT)
    content = packed({"config.json": b"{}"})[:1024] + absurd
    with pytest.raises(models.ModelError) as refused:
        archives.look_into(written(tmp_path, gzip.compress(content) if mode == "gzip" else content), "oci://r/m")
    assert refused.value.reason == "ModelLoadFailed"


@pytest.mark.parametrize(
    ("contents", "reason"),
    [
        pytest.param([b"not a tar" * 200], "ModelLoadFailed", id="no tar"),
        pytest.param([packed(MODEL, "w:gz")[:-20]], "ModelLoadFailed", id="cut short"),
        pytest.param([packed({"README.md": b"x"})], "ModelNotFound", id="no model"),
        pytest.param(
            [packed({f"{root}/{name}": content for root in "ab" for name, content in MODEL.items()})],
            "ModelNotFound",
            id="two models",
        ),
    ],
)
def test_what_is_no_model_is_refused(tmp_path: Path, contents: list[bytes], reason: str) -> None:
    with pytest.raises(models.ModelError) as refused:
        archives.look_into(written(tmp_path, *contents), "oci://r/m")
    assert refused.value.reason == reason


def refusal(folder: Path, content: bytes) -> str:
    with pytest.raises(models.ModelError) as refused:
        archives.look_into(written(folder, content), "oci://r/m")
    assert refused.value.reason == "ModelLoadFailed"
    assert "layer-0.tar: " in str(refused.value)
    return str(refused.value)


def extended(fields: dict[str, str]) -> bytes:
    """Headers that extend those of the entry that follows."""
    entry = tarfile.TarInfo("x")
    entry.pax_headers = fields
    return entry.tobuf(tarfile.PAX_FORMAT)[:-512]


def flipped(content: bytes, at: int) -> bytes:
    changed = bytearray(content)
    changed[at] ^= 1
    return bytes(changed)


PACKED = gzip.compress(packed({**MODEL, "model.safetensors": random.Random(1).randbytes(300_000)}), mtime=0)


@pytest.mark.parametrize(
    "content",
    [
        pytest.param(flipped(PACKED, 150_000), id="a byte of the content"),
        pytest.param(flipped(PACKED, -6), id="the checksum"),
        pytest.param(flipped(PACKED, -2), id="the length"),
        pytest.param(PACKED[:-5], id="cut in its checksum"),
        pytest.param(PACKED + b"garbage", id="something behind its end"),
    ],
)
def test_what_gzip_s_checksum_does_not_vouch_for_is_refused(tmp_path: Path, content: bytes) -> None:
    assert "it is no tar, plain or with gzip" in refusal(tmp_path, content)


def test_zeros_behind_its_end_and_a_second_member_are_gzip_s_own(tmp_path: Path) -> None:
    whole = packed(MODEL)
    in_two = gzip.compress(whole[:700]) + gzip.compress(whole[700:])
    for folder, content in (("zeros", PACKED + bytes(1000)), ("two", in_two)):
        (tmp_path / folder).mkdir()
        assert "config.json" in unpacked(tmp_path / folder, content)


@pytest.mark.parametrize("mode", ["plain", "gzip"])
@pytest.mark.parametrize(
    ("headers", "words"),
    [
        pytest.param(extended({"comment": "a"}) * 1000, "too many headers", id="many headers"),
        pytest.param(extended({"comment": "a" * (2 << 20)}), "headers of an entry are too long", id="a long one"),
        pytest.param(extended({"comment": "a" * (9 << 15)}) * 4, "headers of an entry are too long", id="long ones"),
        pytest.param(extended({"GNU.sparse.map": "a,b", "GNU.sparse.major": "0"}), "no tar", id="no map"),
        pytest.param(extended({"path": "n" * 5000}), "is too long", id="a long name"),
        pytest.param(extended({"GNU.sparse.map": "0,1", "GNU.sparse.size": "3145728"}), "sparse", id="a sparse file"),
    ],
)
def test_headers_that_nobody_writes_are_refused(tmp_path: Path, headers: bytes, words: str, mode: str) -> None:
    content = headers + packed(MODEL)
    assert words in refusal(tmp_path, gzip.compress(content) if mode == "gzip" else content)


def test_headers_of_all_entries_do_not_add_up(tmp_path: Path) -> None:
    common = [
        tarfile.TarInfo.create_pax_global_header({f"comment{number}": "a" * (9 << 16)}) + packed({"x": b""})[:512]
        for number in range(3)
    ]
    assert "common headers are too long" in refusal(tmp_path, b"".join(common) + packed(MODEL))


def test_a_long_header_is_not_read_into_the_memory(tmp_path: Path) -> None:
    content = gzip.compress(extended({"comment": "a" * (32 << 20)}) + packed(MODEL), 1)
    tracemalloc.start()
    try:
        refusal(tmp_path, content)
        assert tracemalloc.get_traced_memory()[1] < 8 << 20
    finally:
        tracemalloc.stop()


def test_a_damaged_header_does_not_end_the_archive_without_a_word(tmp_path: Path) -> None:
    whole = packed(MODEL)
    assert "header of an entry is damaged" in refusal(tmp_path, flipped(whole, 1024 + 3))


def test_an_archive_may_end_without_its_last_blocks(tmp_path: Path) -> None:
    whole = packed(MODEL)
    assert "config.json" in unpacked(tmp_path, whole[: len(whole.rstrip(b"\0")) // 512 * 512 + 512])
