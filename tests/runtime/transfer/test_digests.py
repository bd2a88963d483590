"""The digests that sources announce, piece by piece, against the ones that their makers compute."""

import hashlib

import google_crc32c
import pytest

from gptservice_runtime.transfer.digests import Digest, Hashes

CONTENT = bytes(range(256)) * 50
PART = 5000
PARTS = [CONTENT[at : at + PART] for at in range(0, len(CONTENT), PART)]
MD5_OF_PARTS = hashlib.md5(b"".join(hashlib.md5(part).digest() for part in PARTS)).hexdigest() + f"-{len(PARTS)}"

DIGESTS = [
    Digest(algorithm="sha256", value=hashlib.sha256(CONTENT).hexdigest()),
    Digest(algorithm="git-sha1", value=hashlib.sha1(b"blob %d\0" % len(CONTENT) + CONTENT).hexdigest()),
    Digest(algorithm="md5", value=hashlib.md5(CONTENT).hexdigest()),
    Digest(algorithm="md5-of-parts", value=MD5_OF_PARTS, part_size=PART),
    Digest(algorithm="crc32c", value=f"{google_crc32c.value(CONTENT):08x}"),
]


@pytest.mark.parametrize("announced", DIGESTS, ids=lambda one: one.algorithm)
@pytest.mark.parametrize("step", [1 << 20, 4999, 5000, 7])
def test_the_right_bytes_are_right_however_they_come(announced: Digest, step: int) -> None:
    hashes = Hashes(len(CONTENT), announced)
    for at in range(0, len(CONTENT), step):
        hashes.update(CONTENT[at : at + step])
    assert hashes.are_right()
    assert hashes.sha256 == hashlib.sha256(CONTENT).hexdigest()


@pytest.mark.parametrize("announced", DIGESTS, ids=lambda one: one.algorithm)
@pytest.mark.parametrize("at", [0, 4999, 5000, len(CONTENT) - 1])
def test_a_flipped_bit_is_wrong(announced: Digest, at: int) -> None:
    wrong = bytearray(CONTENT)
    wrong[at] ^= 1
    hashes = Hashes(len(CONTENT), announced)
    hashes.update(bytes(wrong))
    assert not hashes.are_right()


def test_parts_that_end_with_the_file_are_no_part_more() -> None:
    content = CONTENT[: 2 * PART]
    value = hashlib.md5(b"".join(hashlib.md5(part).digest() for part in PARTS[:2])).hexdigest() + "-2"
    hashes = Hashes(len(content), Digest(algorithm="md5-of-parts", value=value, part_size=PART))
    hashes.update(content)
    assert hashes.are_right()


@pytest.mark.parametrize("announced", [None, *DIGESTS], ids=lambda one: one.algorithm if one else "none")
@pytest.mark.parametrize("is_right", [True, False])
def test_of_an_archive_only_what_was_announced_is_computed(announced: Digest | None, is_right: bool) -> None:
    hashes = Hashes(len(CONTENT), announced, of_model=False)
    hashes.update(CONTENT if is_right else CONTENT[:-1] + b"x")
    assert hashes.are_needed == (announced is not None)
    assert hashes.are_right() == (is_right or announced is None)
    assert bool(hashes.sha256) == (announced is not None and announced.algorithm == "sha256")
