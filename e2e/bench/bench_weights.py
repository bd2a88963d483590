"""Part of `make bench-runtime`: decrypting weights on one core, beside a plain copy of the same file, and its memory.

Both go from memory to memory and are pinned to one core, in turns, so that this machine's noise hits both alike.
"""

import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from gptservice_runtime.weights import encrypting, keys

SIZE = 1 << 30
ROUNDS = 7
GIBIBYTE = 1 << 30
MEBIBYTE = 1 << 20
TARGET = 1.0
"""GiB per second on one core with AES-NI."""

_MEASURED = """
import json, os, resource, sys, time
from pathlib import Path
os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
from gptservice_runtime.weights import decrypting, keys
kind, key, source, target = sys.argv[1], *map(Path, sys.argv[2:])
def copied():
    with source.joinpath("weights").open("rb") as file, target.open("wb", buffering=0) as to:
        while piece := file.read(1 << 18):
            to.write(piece)
def done():
    if kind == "plain copy":
        return copied()
    opened = decrypting.opened(source, keys.read_file(key))
    return opened.verify(opened.names) if kind == "verify" else opened.decrypt(opened.names, target)
wall, cpu = time.perf_counter(), time.process_time()
done()
wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
print(json.dumps({"wall": wall, "cpu": cpu, "peak": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss << 10}))
"""


@dataclass(frozen=True)
class Run:
    """Seconds, seconds of CPU time, and bytes."""

    wall: float
    cpu: float
    peak: int


def measured(kind: str, folder: Path) -> Run:
    """One run in a process of its own."""
    target = folder / "target"
    arguments = [kind, str(folder / "key"), str(folder / "encrypted"), str(target)]
    command = [sys.executable, "-c", _MEASURED, *arguments]
    try:
        return Run(**json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout))
    finally:
        if target.is_dir():
            shutil.rmtree(target)
        target.unlink(missing_ok=True)


def prepare(folder: Path) -> None:
    """A key, and an encrypted model of one file."""
    (folder / "key").write_bytes(subprocess.run(["openssl", "rand", "-base64", "32"], check=True, stdout=-1).stdout)
    (folder / "plain").mkdir()
    with (folder / "plain" / "weights").open("wb") as file:
        for _ in range(SIZE // MEBIBYTE):
            file.write(os.urandom(MEBIBYTE))
    encrypting.encrypt(folder / "plain", folder / "encrypted", keys.read_file(folder / "key"))
    shutil.rmtree(folder / "plain")


def report(kind: str, runs: Sequence[Run]) -> None:
    size = SIZE / GIBIBYTE
    walls, cpus = [size / run.wall for run in runs], [size / run.cpu for run in runs]
    peak = max(run.peak for run in runs) / MEBIBYTE
    figures = (
        f"{statistics.median(walls):8.2f}{max(walls):8.2f}{statistics.median(cpus):14.2f}{max(cpus):8.2f}{peak:12.0f}"
    )
    print(f"{kind:12}{figures}")


def main() -> int:
    with tempfile.TemporaryDirectory(prefix="gptservice-bench-", dir="/dev/shm") as name:
        folder = Path(name)
        prepare(folder)
        runs: dict[str, list[Run]] = {"decrypt": [], "verify": [], "plain copy": []}
        for number in range(ROUNDS):
            print(f"round {number + 1} of {ROUNDS} ...", flush=True)
            for kind, found in runs.items():
                found.append(measured(kind, folder))
    print(f"\nweights of {SIZE / GIBIBYTE:g} GiB, memory to memory, one core; load {os.getloadavg()[0]:.1f}")
    print(f"{'':12}{'GiB/s':>8}{'best':>8}{'GiB/CPU s':>14}{'best':>8}{'peak MiB':>12}")
    for kind, found in runs.items():
        report(kind, found)
    print(f"target of decrypt: {TARGET:g} GiB/s on one core with AES-NI")
    return 0


if __name__ == "__main__":
    sys.exit(main())
