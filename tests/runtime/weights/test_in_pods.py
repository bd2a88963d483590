"""`gptservice-runtime fetch` of encrypted weights: decrypted into memory, before an engine starts, or refused."""

import json
import os
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from e2e.hub.repository import Repository
from e2e.hub.running import in_thread
from e2e.hub.server import Hub
from gptservice_runtime import __main__ as command
from gptservice_runtime import contract, digest, models
from gptservice_runtime.weights import encrypting, in_memory, seal
from tests.runtime import mounted
from tests.runtime.harness import PACKAGE_PARENT
from tests.runtime.weights import samples
from tests.runtime.weights.samples import KEY, OTHER_KEY

INDEX = json.dumps({"weight_map": {"a": "model-00001.safetensors", "b": "model-00002.safetensors"}}).encode()
MODEL = {
    "config.json": b"{}",
    "model-00001.safetensors": b"1" * 3000,
    "model-00002.safetensors": b"2" * 2000,
    "model.safetensors.index.json": INDEX,
    "README.md": b"not needed to serve it",
}
NEEDED = {name: content for name, content in MODEL.items() if name != "README.md"}


@dataclass
class Pod:
    """One pod's folders."""

    folder: Path
    memory: Path
    key: Any = KEY
    message: dict[str, Any] = field(default_factory=dict[str, Any], init=False)

    @property
    def link(self) -> Path:
        return self.folder / "link"

    def fetch(self, *options: str, uri: str = "pvc://models/m", decrypt: bool = True) -> int:
        mounted.mount(self.folder / "secret", key=samples.key_file(self.folder / "key", self.key).read_bytes())
        log = self.folder / "termination-log"
        own = ["--uri", uri, "--source-root", str(self.folder / "claim"), "--termination-log", str(log)]
        own += ["--decryption-key-directory", str(self.folder / "secret"), "--decrypted-root", str(self.memory)]
        own += ["--link", str(self.link), *(["--decrypt"] if decrypt else []), *options]
        code = command.main(["fetch", *own])
        self.message = json.loads(log.read_bytes())
        return code

    def refused(self, *options: str, **more: Any) -> tuple[str, str]:
        assert self.fetch(*options, **more) == contract.EXIT_FAILURE
        assert self.message["phase"] == "Fetching"
        assert not list(self.memory.iterdir()), "nothing that was decrypted is left"
        assert not self.link.exists()
        return self.message["reason"], self.message["message"]


@pytest.fixture
def pod(tmp_path: Path, memory: Path) -> Pod:
    return Pod(tmp_path, memory)


@pytest.fixture
def model(tmp_path: Path) -> Path:
    """In the claim, encrypted."""
    (tmp_path / "claim").mkdir()
    encrypting.encrypt(samples.write(tmp_path / "plain", MODEL), tmp_path / "claim" / "m", (KEY,), samples.CHUNK)
    return tmp_path / "claim" / "m"


def test_a_model_of_a_claim_is_decrypted_into_memory(pod: Pod, model: Path) -> None:
    assert pod.fetch() == contract.EXIT_OK
    assert samples.contents(pod.link.resolve()) == NEEDED
    assert pod.link.resolve() == pod.memory / seal.read(model).model_id.hex()
    assert pod.message["bytes"] == sum(map(len, NEEDED.values()))


def test_a_container_that_runs_again_begins_anew(pod: Pod, model: Path) -> None:
    assert pod.fetch() == contract.EXIT_OK
    (pod.memory / ".half.x.partial").mkdir()
    (pod.memory / "another").mkdir()
    assert pod.fetch() == contract.EXIT_OK
    assert [path.name for path in pod.memory.iterdir()] == [seal.read(model).model_id.hex()]


def test_a_single_file_of_an_encrypted_folder_is_decrypted(pod: Pod, tmp_path: Path) -> None:
    (tmp_path / "claim").mkdir()
    (tmp_path / "m.gguf").write_bytes(b"GGUF" + bytes(5000))
    encrypting.encrypt(tmp_path / "m.gguf", tmp_path / "claim" / "m", (KEY,))
    assert pod.fetch(uri="pvc://models/m/m.gguf") == contract.EXIT_OK
    assert pod.link.read_bytes() == b"GGUF" + bytes(5000)
    assert pod.link.resolve().suffix == ".gguf"


def test_the_digest_is_that_of_the_files_as_they_lie_in_the_source(pod: Pod, model: Path) -> None:
    wanted = digest.of_path(model)
    assert pod.fetch("--digest", wanted) == contract.EXIT_OK
    assert pod.message["digest"] == wanted


def test_a_wrong_digest_is_told_before_anything_is_decrypted(pod: Pod, model: Path) -> None:
    assert pod.refused("--digest", f"sha256:{'0' * 64}")[0] == "ChecksumMismatch"


def test_a_wrong_key_is_told_with_both_identifiers(pod: Pod, model: Path) -> None:
    pod.key = OTHER_KEY
    reason, message = pod.refused()
    assert reason == "ChecksumMismatch"
    assert KEY.name in message
    assert OTHER_KEY.name in message


@pytest.mark.parametrize("name", [*NEEDED, seal.SEAL_FILE])
def test_a_flipped_bit_anywhere_is_told(pod: Pod, model: Path, name: str) -> None:
    content = bytearray((model / name).read_bytes())
    content[len(content) // 2] ^= 1
    (model / name).write_bytes(content)
    assert pod.refused()[0] == "ChecksumMismatch"


@pytest.mark.parametrize("name", NEEDED)
def test_a_missing_file_is_told(pod: Pod, model: Path, name: str) -> None:
    (model / name).unlink()
    reason, message = pod.refused()
    assert (reason, name in message) == ("ChecksumMismatch", True)


def test_a_file_that_serving_does_not_need_may_be_missing(pod: Pod, model: Path) -> None:
    """A hub's download leaves it out."""
    (model / "README.md").unlink()
    assert pod.fetch() == contract.EXIT_OK


def test_an_added_file_is_told(pod: Pod, model: Path) -> None:
    (model / "modeling.py").write_text("import os")
    assert pod.refused() == ("ChecksumMismatch", pod.message["message"])
    assert "modeling.py was added" in pod.message["message"]


def test_weights_that_are_not_encrypted_are_not_served_with_a_key(pod: Pod, tmp_path: Path) -> None:
    samples.write(tmp_path / "claim" / "m", MODEL)
    reason, message = pod.refused()
    assert reason == "ChecksumMismatch"
    assert "is not encrypted, and spec.decryptionKeySecretRef says" in message


def test_encrypted_weights_are_not_served_without_a_key(pod: Pod, model: Path) -> None:
    reason, message = pod.refused(decrypt=False)
    assert reason == "ModelAccessDenied"
    assert "spec.decryptionKeySecretRef" in message
    (model / seal.SEAL_FILE).unlink()
    assert pod.refused(decrypt=False)[0] == "ModelAccessDenied"


def test_plain_weights_without_a_key_are_served_where_they_are(pod: Pod, tmp_path: Path) -> None:
    samples.write(tmp_path / "claim" / "m", MODEL)
    assert pod.fetch(decrypt=False) == contract.EXIT_OK
    assert not pod.link.exists()


def test_a_model_that_is_not_there_is_not_called_unencrypted(pod: Pod, tmp_path: Path) -> None:
    (tmp_path / "claim").mkdir()
    assert pod.refused()[0] == "ModelNotFound"


@pytest.mark.parametrize(
    ("content", "said"), [(b"", "is empty"), (b"no key", "not base64")], ids=["an empty one", "nonsense"]
)
def test_an_unusable_key_is_told(pod: Pod, model: Path, memory: Path, content: bytes, said: str) -> None:
    mounted.mount(pod.folder / "bad", key=content)
    with pytest.raises(models.ModelError, match=f"decryptionKeySecretRef: .*{said}") as refused:
        in_memory.decrypt(model, pod.folder / "bad", memory)
    assert refused.value.reason == "ModelAccessDenied"


def test_decrypted_weights_never_go_to_a_disk(pod: Pod, model: Path, tmp_path: Path) -> None:
    if not (kind := on_disk(tmp_path)):
        pytest.skip("this machine has no folder on a disk")
    pod.memory = tmp_path / "decrypted"
    pod.memory.mkdir()
    reason, message = pod.refused()
    assert reason == "InvalidImage"
    assert f"is on {kind}, not in memory" in message


def on_disk(folder: Path) -> str:
    found = subprocess.run(
        ["stat", "-f", "-c", "%T", folder], capture_output=True, text=True, check=True
    ).stdout.strip()
    return "" if found == "tmpfs" else {"ext2/ext3": "ext4", "overlayfs": "overlay"}.get(found, found)


def test_a_model_that_is_larger_than_its_volume_says_what_to_set(
    pod: Pod, model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = os.statvfs(pod.memory)
    small = os.statvfs_result([real.f_bsize, 4096, 1, 1, 1, *list(real)[5:10]])
    monkeypatch.setattr(os, "statvfs", lambda _: small)
    reason, message = pod.refused()
    assert reason == "OutOfMemory"
    assert "need 16.4 kB of memory, and their volume holds 4.1 kB" in message
    assert "spec.resources.limits.memory by at least 12.3 kB" in message


def test_a_link_that_leads_out_of_the_claim_is_refused(pod: Pod, model: Path) -> None:
    (model / "config.json").unlink()
    (model / "config.json").symlink_to(pod.folder / "plain" / "config.json")
    assert pod.refused()[0] == "ModelAccessDenied"


def test_a_model_of_a_hub_stays_encrypted_in_the_cache(pod: Pod, model: Path, tmp_path: Path) -> None:
    cache = tmp_path / "cache"
    with in_thread(Hub({"org/name": Repository(model)})) as hub:
        environment = {"PATH": "/usr/bin:/bin", "PYTHONPATH": str(PACKAGE_PARENT), "HF_ENDPOINT": hub.endpoint}
        mounted.mount(tmp_path / "secret", key=samples.key_file(tmp_path / "key", KEY).read_bytes())
        arguments = ["--uri", "hf://org/name", "--cache-root", cache, "--link", pod.link, "--decrypt"]
        arguments += ["--decryption-key-directory", tmp_path / "secret", "--decrypted-root", pod.memory]
        arguments += ["--termination-log", tmp_path / "log", "--probe-port", "1"]
        cache.mkdir()
        done = subprocess.run(
            [sys.executable, "-m", "gptservice_runtime", "fetch", *arguments],
            env=environment,
            capture_output=True,
            text=True,
            check=False,
        )
    assert done.returncode == 0, done.stderr
    assert samples.contents(pod.link.resolve()) == NEEDED
    there = samples.contents(cache)
    assert any(name.endswith(seal.SEAL_FILE) for name in there)
    for name, content in there.items():
        assert MODEL["model-00001.safetensors"][:64] not in content, name
