"""Files of keys, and what is said of those that are none; a key is never said."""

import base64
from pathlib import Path

import pytest

from gptservice_runtime.weights import keys
from gptservice_runtime.weights.errors import UnusableKeyError
from tests.runtime import mounted
from tests.runtime.weights import samples

TEXT = base64.b64encode(samples.KEY.secret)
OTHER = base64.b64encode(samples.OTHER_KEY.secret)


@pytest.mark.parametrize(
    ("content", "found"),
    [
        pytest.param(TEXT, 1, id="without a line feed"),
        pytest.param(TEXT + b"\n", 1, id="as openssl writes it"),
        pytest.param(b"\r\n  " + TEXT + b" \r\n", 1, id="as an editor writes it"),
        pytest.param(TEXT + b"\n\n" + OTHER + b"\n", 2, id="two"),
        pytest.param(TEXT + b"\n" + TEXT, 1, id="one, twice"),
    ],
)
def test_keys_are_read(tmp_path: Path, content: bytes, found: int) -> None:
    (tmp_path / "keys").write_bytes(content)
    assert keys.read_file(tmp_path / "keys") == (samples.KEY, samples.OTHER_KEY)[:found]


@pytest.mark.parametrize(
    ("content", "said"),
    [
        pytest.param(b"", "is empty", id="empty"),
        pytest.param(b" \n\n", "is empty", id="white space"),
        pytest.param(TEXT + b"\nhello world", "line 2: not base64", id="a word"),
        pytest.param(base64.b64encode(b"1" * 16), "line 1: 16 bytes, and a key has 32", id="a short one"),
        pytest.param(b"1" * 64, "line 1: 48 bytes", id="hexadecimal"),
        pytest.param(samples.KEY.secret, "not base64", id="the bytes themselves"),
        pytest.param(TEXT.replace(b"=", b""), "not base64", id="without padding"),
        pytest.param(b"A" * 70000, "no file of keys", id="a model"),
    ],
)
def test_what_is_no_key_is_refused_and_not_quoted(tmp_path: Path, content: bytes, said: str) -> None:
    (tmp_path / "keys").write_bytes(content)
    with pytest.raises(UnusableKeyError, match=said) as refused:
        keys.read_file(tmp_path / "keys")
    assert "openssl rand -base64 32" in str(refused.value)
    assert "hello" not in str(refused.value)


def test_a_mounted_secret_has_one_key(tmp_path: Path) -> None:
    mounted.mount(tmp_path / "one", key=TEXT)
    assert keys.read_directory(tmp_path / "one") == (samples.KEY,)
    mounted.mount(tmp_path / "two", key=TEXT, other=OTHER)
    with pytest.raises(UnusableKeyError, match=r"2 keys \(key, other\): name one in decryptionKeySecretRef\.key"):
        keys.read_directory(tmp_path / "two")


def test_a_key_shows_its_identifier_alone() -> None:
    assert samples.KEY.name != samples.OTHER_KEY.name
    assert repr(samples.KEY.secret) not in repr(samples.KEY)
    assert samples.KEY.name not in samples.KEY.secret.hex()
