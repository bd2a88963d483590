"""`gptservice-runtime encrypt|decrypt|verify|rewrap` as real processes: exit codes, what they say, and being killed."""

import resource
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from e2e import peak_memory
from gptservice_runtime.weights import seal
from tests.runtime.harness import PACKAGE_PARENT
from tests.runtime.weights import samples
from tests.runtime.weights.samples import KEY, OTHER_KEY

ENVIRONMENT = {"PATH": "/usr/bin:/bin", "PYTHONPATH": str(PACKAGE_PARENT)}
COMMAND = (sys.executable, "-m", "gptservice_runtime")
LARGE = 1 << 30
MEMORY_BOUND = 300 << 20
"""Generous: the interpreter and its libraries are most of what is used."""


def run(*arguments: str | Path) -> "subprocess.CompletedProcess[str]":
    return subprocess.run([*COMMAND, *arguments], env=ENVIRONMENT, capture_output=True, text=True, check=False)


@pytest.fixture
def key(tmp_path: Path) -> Path:
    return samples.key_file(tmp_path / "key", KEY)


@pytest.fixture
def other_key(tmp_path: Path) -> Path:
    return samples.key_file(tmp_path / "other-key", OTHER_KEY)


def test_the_whole_way(tmp_path: Path, key: Path, other_key: Path) -> None:
    plain, model, back = samples.write(tmp_path / "plain"), tmp_path / "model", tmp_path / "back"
    steps = (
        ("encrypt", "--key", key, plain, model),
        ("verify", "--key", key, model),
        ("rewrap", "--key", key, "--new-key", other_key, model),
        ("decrypt", "--key", other_key, model, back),
    )
    for step in steps:
        done = run(*step)
        assert done.returncode == 0, done.stderr
        assert f"{len(samples.FILES)} files" in done.stdout
        assert key.read_text().strip() not in done.stdout + done.stderr
    assert samples.contents(back) == samples.FILES


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        pytest.param(["verify", "--key", "other-key", "model"], 1, "wrong key", id="another key"),
        pytest.param(["verify", "--key", "gone", "model"], 1, "gone: No such file", id="no such key file"),
        pytest.param(["verify", "--key", "model", "model"], 1, "Is a directory", id="a folder for a key file"),
        pytest.param(["verify", "--key", "key", "plain"], 1, "is not encrypted", id="nothing encrypted"),
        pytest.param(["verify", "--key", "plain/config.json", "model"], 1, "not base64", id="no key"),
        pytest.param(["encrypt", "--key", "key", "gone", "new"], 1, "gone", id="no such model"),
        pytest.param(["encrypt", "--key", "key", "plain", "model"], 1, "is there already", id="nothing is overwritten"),
        pytest.param(["encrypt", "--key", "key", "plain", "plain/new"], 1, "would lie within", id="into what it reads"),
        pytest.param(
            ["decrypt", "--key", "key", "model", "model/new"], 1, "would lie within", id="into what it decrypts"
        ),
        pytest.param(["encrypt", "--key", "key", "model", "new"], 1, "encrypted already", id="encrypted twice"),
        pytest.param(["decrypt", "--key", "key", "model", "no/such/folder"], 1, "No such file", id="no place"),
        pytest.param(["decrypt", "--key", "key", "model"], 2, "TARGET", id="no target"),
        pytest.param(["encrypt", "plain", "new"], 2, "--key", id="no key named"),
        pytest.param(["rewrap", "--key", "key", "model"], 2, "--new-key", id="no new key"),
    ],
)
def test_a_refusal_says_why_and_leaves_nothing(
    tmp_path: Path, key: Path, other_key: Path, arguments: list[str], code: int, said: str
) -> None:
    samples.write(tmp_path / "plain")
    samples.encrypted(tmp_path / "model", KEY)
    before = samples.contents(tmp_path)
    done = run(*(part if part.startswith("--") or at == 0 else tmp_path / part for at, part in enumerate(arguments)))
    assert done.returncode == code, done.stderr
    assert said in done.stderr
    assert "Traceback" not in done.stderr
    assert samples.contents(tmp_path) == before


def sparse(path: Path, size: int) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("wb") as file:
        file.truncate(size)
    return path


STOPPING = """
import sys, time
from gptservice_runtime.__main__ import main
from gptservice_runtime.weights.progress import Progress
Progress.advance = lambda self, count: (print("begun", flush=True), time.sleep(600))
sys.exit(main())
"""
"""The same command, but for that it stands still once the first chunk is written."""


@pytest.fixture
def model(tmp_path: Path) -> Path:
    return samples.encrypted(tmp_path / "model", KEY, files={"a": bytes(3 << 20)}, chunk=seal.CHUNK_BYTES)


@contextmanager
def begun(key: Path, model: Path, back: Path) -> "Iterator[subprocess.Popen[str]]":
    command = (sys.executable, "-c", STOPPING, "decrypt", "--key", key, model, back)
    with subprocess.Popen(command, env=ENVIRONMENT, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == "begun\n"
            (written,) = partial(back.parent)
            assert written.stat().st_size > 0
            yield process
        finally:
            process.kill()


def partial(folder: Path) -> list[Path]:
    """The files of what is on its way."""
    return list(folder.glob(".back.*.partial/*"))


def test_killed_in_the_middle_nothing_looks_whole(tmp_path: Path, key: Path, model: Path) -> None:
    back = tmp_path / "back"
    with begun(key, model, back) as process:
        process.kill()
        process.wait()
    assert not back.exists()
    assert partial(tmp_path)
    # The next run takes away what that one has left, and is whole.
    assert run("decrypt", "--key", key, model, back).returncode == 0
    assert samples.contents(back) == {"a": bytes(3 << 20)}
    assert not partial(tmp_path)


def test_sigterm_ends_it_and_leaves_nothing(tmp_path: Path, key: Path, model: Path) -> None:
    with begun(key, model, tmp_path / "back") as process:
        process.send_signal(signal.SIGTERM)
        assert process.wait() == 128 + signal.SIGTERM
    assert not list(tmp_path.glob("*back*"))


def test_two_at_a_time_do_not_take_each_other_s_files(tmp_path: Path, key: Path, model: Path) -> None:
    with begun(key, model, tmp_path / "back"):
        assert run("decrypt", "--key", key, model, tmp_path / "back").returncode == 0
        assert partial(tmp_path)
    assert samples.contents(tmp_path / "back") == {"a": bytes(3 << 20)}


@pytest.fixture
def large(tmp_path: Path, key: Path) -> Path:
    """Encrypted, as large as LARGE says."""
    (tmp_path / "plain").mkdir()
    with (tmp_path / "plain" / "model.safetensors").open("wb") as file:
        file.truncate(LARGE)
    done = run("encrypt", "--key", key, tmp_path / "plain", tmp_path / "model")
    assert done.returncode == 0, done.stderr
    return tmp_path / "model"


def test_memory_does_not_grow_with_the_model(large: Path, key: Path, tmp_path: Path) -> None:
    for command in (("verify",), ("decrypt", tmp_path / "back")):
        whole = [*peak_memory.measuring(tmp_path / "peak"), *COMMAND, command[0], "--key", key, large, *command[1:]]
        done = subprocess.run(whole, env=ENVIRONMENT, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        peak = peak_memory.measured(tmp_path / "peak")
        print(f"{command[0]} of a file of {LARGE >> 20} MiB: peak memory {peak >> 20} MiB")
        assert peak < MEMORY_BOUND


def test_a_full_disk_leaves_nothing(tmp_path: Path, key: Path) -> None:
    """A limit on files stands for the disk: the kernel says EFBIG where it would say ENOSPC."""
    model = samples.encrypted(tmp_path / "model", KEY, files={"a": bytes(1 << 20)})
    done = subprocess.run(
        [*COMMAND, "decrypt", "--key", key, model, tmp_path / "back"],
        env=ENVIRONMENT,
        capture_output=True,
        text=True,
        check=False,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 19, 1 << 19)),
    )
    assert done.returncode == 1, done.stderr
    assert "File too large" in done.stderr
    assert not list(tmp_path.glob("*back*"))


def test_help_tells_of_them() -> None:
    done = run("--help")
    assert done.returncode == 0
    for command in ("encrypt", "decrypt", "verify", "rewrap"):
        assert command in done.stdout
        assert "32 bytes in base64" in " ".join(run(command, "--help").stdout.split())
    assert seal.SEAL_FILE not in done.stderr
