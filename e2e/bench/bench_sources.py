"""What a download costs: `gptservice-runtime fetch` from each kind of server, beside `cp` and two plain clients.

Server, client and disk are this machine's, so that figures are of the code and not of a network. A fetch includes the
libraries' import, the digests of all that comes, and fsync. Of the two clients one is a bare GET into a file, as curl
does it; the other does as much as a fetch does, one pass and one thread: what the server's own client would need to
vouch for the same bytes, and `tar` after it to unpack what is an archive.
"""

import hashlib
import json
import os
import random
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from e2e import peak_memory
from e2e.cluster import paths, pki
from e2e.sources import gcs, programs, registry, s3, web

MEBIBYTE = 1 << 20
SHARDS = 2
SHARD_BYTES = 500 * MEBIBYTE
ROUNDS = 3
PLACE = "bench"


@dataclass(frozen=True)
class Subject:
    """One source: how the runtime fetches from it, and how somebody reads the same bytes without it."""

    uri: str
    secret: Mapping[str, str]
    urls: list[str]
    """Where a plain client finds all weights of it."""
    digests: tuple[str, ...] = ("sha256",)
    """What a fetch computes of every byte."""
    is_archive: bool = False


def make_model(folder: Path) -> Path:
    """Weights that cannot be compressed, in shards."""
    folder.mkdir()
    (folder / "config.json").write_text("{}")
    for number in range(SHARDS):
        with (folder / f"model-{number}.safetensors").open("wb") as file:
            source = random.Random(number)
            for _ in range(SHARD_BYTES // MEBIBYTE):
                file.write(source.randbytes(MEBIBYTE))
    return folder


def plain_get(urls: Sequence[str], target: Path, digests: Sequence[str] = ()) -> None:
    """What `curl -o` does; with digests, and then fsync, what vouches for the bytes as a fetch does."""
    with target.open("wb") as out:
        for url in urls:
            checksums = [hashlib.new(name, usedforsecurity=False) for name in digests]
            with urllib.request.urlopen(url, timeout=60) as answer:
                while piece := answer.read(MEBIBYTE):
                    out.write(piece)
                    for checksum in checksums:
                        checksum.update(piece)
        if digests:
            out.flush()
            os.fsync(out.fileno())


def checked_get(subject: Subject, target: Path) -> None:
    """What leaves the same as a fetch does, with the same digests of it known."""
    if not subject.is_archive:
        plain_get(subject.urls, target, subject.digests)
        return
    plain_get(subject.urls, target)
    folder = target.with_name(f"{target.name}.unpacked")
    folder.mkdir(exist_ok=True)
    subprocess.run(["tar", "-xf", target, "-C", folder], check=True)
    for path in folder.iterdir():
        with path.open("rb") as file:
            for name in subject.digests:
                hashlib.file_digest(file, name)
            os.fsync(file.fileno())
    target.unlink()


def subjects(folder: Path, model: Path, stack: ExitStack) -> dict[str, Subject]:
    """All servers, running, with the model in each."""
    names = [f"model-{number}.safetensors" for number in range(SHARDS)]
    pair = pki.Authority(folder / "pki").issue("server", "localhost", hosts=["127.0.0.1"])
    (folder / "web").mkdir()
    subprocess.run(["tar", "-cf", folder / "web" / "model.tar", "-C", model, "."], check=True)
    store = stack.enter_context(s3.serving(folder / "s3"))
    google = stack.enter_context(gcs.serving(folder / "gcs", {PLACE: model}))
    images = stack.enter_context(registry.serving(folder / "registry"))
    files = stack.enter_context(web.serving(folder / "web", pair))
    store.upload(model, PLACE)
    images.push_files(model, PLACE, "v1")
    host = images.url.removeprefix("http://")
    client = store.client()
    keys = [{"Bucket": s3.BUCKET, "Key": f"{PLACE}/{name}"} for name in names]
    signed = [client.generate_presigned_url("get_object", Params=key) for key in keys]
    media = [f"{google.url}/storage/v1/b/{gcs.BUCKET}/o/{PLACE}%2F{name}?alt=media" for name in names]
    blobs = images.blob_urls(PLACE, "v1", names)
    ca = (folder / "pki" / "ca.crt").read_text()
    os.environ["SSL_CERT_FILE"] = str(folder / "pki" / "ca.crt")
    return {
        "s3": Subject(f"s3://{s3.BUCKET}/{PLACE}", store.credentials(store.url), signed, ("sha256", "md5")),
        "gs": Subject(f"gs://{gcs.BUCKET}/{PLACE}", {"STORAGE_EMULATOR_HOST": google.url}, media, ("sha256", "md5")),
        "oci": Subject(f"oci://{host}/{PLACE}:v1", {}, blobs),
        "https (tar)": Subject(f"{files}/model.tar", {"ca.crt": ca}, [f"{files}/model.tar"], is_archive=True),
    }


def fetch(subject: Subject, folder: Path) -> tuple[float, int]:
    """Seconds by the runtime's own count, and peak memory in bytes, of one fetch into an empty cache."""
    shutil.rmtree(folder, ignore_errors=True)
    (folder / "cache").mkdir(parents=True)
    command = [sys.executable, "-m", "gptservice_runtime", "fetch", "--uri", subject.uri]
    command += ["--cache-root", str(folder / "cache"), "--link", str(folder / "model")]
    command += ["--termination-log", str(folder / "log"), "--probe-port", str(programs.free_port())]
    if subject.secret:
        (folder / "secret").mkdir()
        for key, value in subject.secret.items():
            (folder / "secret" / key).write_text(value)
    command += ["--credentials-directory", str(folder / "secret")]
    variables = {"PATH": "/usr/bin:/bin", "PYTHONPATH": str(paths.REPOSITORY / "runtime-image")}
    measured = [*peak_memory.measuring(folder / "peak"), *command]
    done = subprocess.run(measured, env=variables, stderr=subprocess.PIPE, text=True, check=False)
    if done.returncode:
        raise RuntimeError(done.stderr)
    return json.loads((folder / "log").read_text())["seconds"], peak_memory.measured(folder / "peak")


def timed(act: Callable[[], object]) -> float:
    began = time.perf_counter()
    act()
    return time.perf_counter() - began


def report(folder: Path, model: Path, measured: Mapping[str, Subject]) -> None:
    total, target = SHARDS * SHARD_BYTES / MEBIBYTE, folder / "plain"
    copies = [timed(lambda: shutil.copytree(model, folder / "copy", dirs_exist_ok=True)) for _ in range(ROUNDS)]
    copied = total / statistics.median(copies)
    print(f"\n{total:.0f} MiB, medians of {ROUNDS}, MiB/s; cp: {copied:.0f}; load {os.getloadavg()[0]:.1f}\n")
    print(f"{'source':14}{'fetch':>8}{'GET':>8}{'checked GET':>13}{'x GET':>8}{'x checked':>11}{'peak memory':>14}")
    for name, subject in measured.items():
        rounds = [one_round(subject, folder, target) for _ in range(ROUNDS)]
        fetched, plain, checked = (total / statistics.median(each[at] for each in rounds) for at in range(3))
        memory = max(each[3] for each in rounds) / MEBIBYTE
        print(
            f"{name:14}{fetched:8.0f}{plain:8.0f}{checked:13.0f}{fetched / plain:8.2f}{fetched / checked:11.2f}"
            f"{memory:10.0f} MiB",
            flush=True,
        )
    print("\ntarget: 0.7 x of the client that checks as much")


def one_round(subject: Subject, folder: Path, target: Path) -> tuple[float, float, float, int]:
    """Seconds of a fetch, of a bare GET and of one that checks, in turn; and the fetch's bytes of memory."""
    seconds, memory = fetch(subject, folder / "pod")
    plain = timed(lambda: plain_get(subject.urls, target))
    checked = timed(lambda: checked_get(subject, target))
    return seconds, plain, checked, memory


def main() -> int:
    with tempfile.TemporaryDirectory(prefix="gptservice-bench-") as name, ExitStack() as stack:
        folder = Path(name)
        model = make_model(folder / "model")
        report(folder, model, subjects(folder, model, stack))
    return 0


if __name__ == "__main__":
    sys.exit(main())
