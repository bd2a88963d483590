"""A containerd for filling a root folder with images: without pods, in a mount namespace of its own."""

import shlex
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from e2e.cluster import binaries
from e2e.cluster.images import store

NAMESPACE = "k8s.io"  # the one that the kubelet's images live in
SNAPSHOTTER = "overlayfs"
START_SECONDS = 60
STOP_SECONDS = 30
CONFIGURATION = """\
version = 3
root = {root}
state = {state}
disabled_plugins = [
  "io.containerd.cri.v1.images", "io.containerd.cri.v1.runtime", "io.containerd.grpc.v1.cri",
  "io.containerd.nri.v1.nri", "io.containerd.internal.v1.tracing",
]
[grpc]
  address = {address}
"""


@dataclass(frozen=True)
class Containerd:
    """A running containerd, by the command line of its ctr, namespace included."""

    ctr_command: tuple[str, ...]

    def ctr(self, *arguments: str | Path, what: str) -> str:
        """Runs ctr and returns what it printed. Raises store.BuildError."""
        return store.run(*self.ctr_command, *arguments, what=what)

    def import_image(self, archive: Path) -> None:
        """Brings in the image of an OCI archive, unpacked, under the name that it carries."""
        self.ctr("images", "import", archive, what=f"importing {archive.name} into containerd")

    def snapshots(self) -> set[str]:
        """The names of all snapshots."""
        listed = self._snapshots("list")
        return {line.split()[0] for line in listed.splitlines()[1:]}

    @contextmanager
    def new_snapshot(self, name: str, *, parent: str) -> Iterator[Path]:
        """Yields the folder for the files that the snapshot adds to its parent; it exists when the block ends well.

        containerd keeps it, whether an image needs it or not: ctr marks it so.
        """
        active = f"{name}-new"
        if active in self.snapshots():
            self._snapshots("remove", active)
        self._snapshots("prepare", active, parent)
        yield upper_folder(self._snapshots("mounts", "/unused", active))
        self._snapshots("commit", name, active)

    def _snapshots(self, *arguments: str) -> str:
        options = ("--snapshotter", SNAPSHOTTER)
        return self.ctr("snapshots", *options, *arguments, what=f"ctr snapshots {arguments[0]}")


def upper_folder(mount_command: str) -> Path:
    """The folder that takes the writes of the overlay mount that `ctr snapshots mounts` printed."""
    options = shlex.split(mount_command)[-1].split(",")
    for option in options:
        if option.startswith("upperdir="):
            return Path(option.removeprefix("upperdir="))
    raise store.BuildError(
        f"containerd did not answer with an overlay mount but with {mount_command.strip()!r}: "
        "the cache must be on a file system that overlayfs accepts, such as ext4 or xfs"
    )


@contextmanager
def running(root: Path) -> Iterator[Containerd]:
    """Runs containerd on `root`, which it fills; it has ended when the block is left."""
    programs = binaries.ensure(("containerd", "ctr"))
    # Not in the cache: a unix socket's path has at most 107 characters.
    with tempfile.TemporaryDirectory(prefix="gptservice-containerd-") as scratch:
        state = Path(scratch)
        config, log = state / "config.toml", state / "log"
        config.write_text(configuration(root, state))
        alone = (*store.DIES_WITH_US, "unshare", "--mount", "--propagation=private")
        command = (*alone, programs["containerd"], "--config", config)
        with log.open("wb") as output:
            process = subprocess.Popen(command, stdout=output, stderr=subprocess.STDOUT, start_new_session=True)
        try:
            ctr = (str(programs["ctr"]), f"--address={state / 'socket'}", f"--namespace={NAMESPACE}")
            yield _connected(process, ctr, log)
        finally:
            _stop(process)


def configuration(root: Path, state: Path) -> str:
    """containerd's configuration file."""
    quoted = {"root": root, "state": state / "state", "address": state / "socket"}
    return CONFIGURATION.format(**{name: f'"{path}"' for name, path in quoted.items()})


def _connected(process: subprocess.Popen[bytes], ctr_command: tuple[str, ...], log: Path) -> Containerd:
    deadline = time.monotonic() + START_SECONDS
    while time.monotonic() < deadline:
        if process.poll() is not None:
            raise store.BuildError(f"containerd ended with {process.returncode}:\n{_tail(log)}")
        if subprocess.run((*ctr_command, "version"), capture_output=True, check=False).returncode == 0:
            return Containerd(ctr_command)
        time.sleep(0.05)
    raise store.BuildError(f"containerd does not answer after {START_SECONDS} s:\n{_tail(log)}")


def _tail(log: Path) -> str:
    return "\n".join(log.read_text(errors="replace").splitlines()[-15:])


def _stop(process: subprocess.Popen[bytes]) -> None:
    process.terminate()
    try:
        process.wait(STOP_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
