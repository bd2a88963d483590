"""Process 1 of a node cluster: arranges the cluster's private view of the file system, then reaps orphans.

Run as `python -m e2e.cluster.node_init FOLDER` by `unshare` in new mount, network and process namespaces. The root
becomes a small tmpfs into which everything of the machine is bound, so that a mount point can be made anywhere and
none of it is ever seen, or left behind, outside. FOLDER/node holds what must survive no longer than the cluster.
"""

import os
import signal
import sys
from collections.abc import Collection
from pathlib import Path

from e2e.cluster import contents, linux, paths

READY = "node/ready"

# Folders of the cluster that appear at places which flags do not move. Two clusters, or the machine's own kubelet,
# would otherwise share device plugins, address leases and logs.
_PRIVATE = {
    "kubelet": "/var/lib/kubelet",
    "cni": "/var/lib/cni",
    "pod-logs": "/var/log/pods",
    "container-logs": "/var/log/containers",
}

# The kubelet insists on these values and would set them for the whole machine; it is shown files that hold them.
_KERNEL_SETTINGS = {
    "vm/overcommit_memory": "1",
    "vm/panic_on_oom": "0",
    "kernel/panic": "10",
    "kernel/panic_on_oops": "1",
    "kernel/keys/root_maxkeys": "1000000",
    "kernel/keys/root_maxbytes": "25000000",
}


def main(folder: Path) -> None:
    """Arranges the mounts, says so in FOLDER/node/ready, and never returns."""
    _arrange(folder)
    (folder / READY).write_text("")
    _reap_for_ever()


def _arrange(folder: Path) -> None:
    # /run is hidden first: what is mounted below it from here on is not bound into the new root again.
    linux.mount("tmpfs", "/run", "tmpfs", data="mode=755")
    root = Path("/run/root")
    root.mkdir()
    linux.mount("tmpfs", root, "tmpfs", data="mode=755")
    _mirror(Path("/"), root, leave_out={"run", "sys"})
    _mirror_over(root / "var/lib", leave_out={"kubelet", "cni"})
    _mirror_over(root / "var/log", leave_out={"pods", "containers"})
    _own_system_folders(root)
    for name, target in _PRIVATE.items():
        _bind_new(folder / "node" / name, root / target.removeprefix("/"))
    for snapshot, place in contents.mounts(folder).items():
        linux.bind(snapshot, root / str(place).removeprefix("/"), read_only=True)
    _bind_new(paths.models(), root / str(paths.NODE_MODELS).removeprefix("/"), read_only=True)
    _hide_kernel_settings(root)
    _name_servers(root, folder / "resolv.conf")
    _enter(root)


def _own_system_folders(root: Path) -> None:
    """/run of its own (sockets, locks, shims), and a /sys that shows the cluster's network namespace."""
    for name in ("run", "sys"):
        (root / name).mkdir()
    linux.mount("tmpfs", root / "run", "tmpfs", data="mode=755")
    linux.mount("sysfs", root / "sys", "sysfs")
    # A fresh sysfs has an empty /sys/fs/cgroup; without the machine's trees there no container starts.
    linux.bind("/sys/fs/cgroup", root / "sys/fs/cgroup")


def _mirror_over(folder: Path, *, leave_out: Collection[str]) -> None:
    """Covers a folder by a tmpfs with the same content, in which new mount points can be made."""
    descriptor = os.open(folder, os.O_PATH | os.O_DIRECTORY)
    linux.mount("tmpfs", folder, "tmpfs", data="mode=755")
    _mirror(Path(f"/proc/self/fd/{descriptor}"), folder, leave_out=leave_out)
    os.close(descriptor)


def _mirror(source: Path, target: Path, *, leave_out: Collection[str]) -> None:
    """Binds everything in `source` into the empty folder `target`; links are made anew."""
    for entry in os.scandir(source):
        if entry.name in leave_out:
            continue
        place = target / entry.name
        if entry.is_symlink():
            place.symlink_to(os.readlink(entry.path))
        elif entry.is_dir(follow_symlinks=False):
            _bind_new(Path(entry.path), place)
        elif entry.is_file(follow_symlinks=False):
            place.touch()
            linux.bind(entry.path, place)


def _bind_new(source: Path, target: Path, *, read_only: bool = False) -> None:
    target.mkdir(parents=True, exist_ok=True)
    linux.bind(source, target, read_only=read_only)


def _hide_kernel_settings(root: Path) -> None:
    held = root / "run/kernel-settings"
    held.mkdir()
    for name, value in _KERNEL_SETTINGS.items():
        file = held / name.replace("/", ".")
        file.write_text(value + "\n")
        if (root / "proc/sys" / name).exists():
            linux.bind(file, root / "proc/sys" / name)


def _name_servers(root: Path, content: Path) -> None:
    """Names inside are the cluster's; /etc/resolv.conf may be a link into /run, which is empty here."""
    link = root / "etc/resolv.conf"
    target = Path(os.readlink(link)) if link.is_symlink() else Path("resolv.conf")
    place = root / str(Path("/etc") / target).removeprefix("/")
    place = Path(os.path.normpath(place))
    if not place.exists():
        place.parent.mkdir(parents=True, exist_ok=True)
        place.touch()
    linux.bind(content, place)


def _enter(root: Path) -> None:
    old = root / ".machine"
    old.mkdir()
    linux.pivot_root(root, old)
    os.chdir("/")
    linux.detach("/.machine")
    os.rmdir("/.machine")
    # Containers' mounts must reach the kubelet and the other way round.
    linux.mount("none", "/", flags=linux.MS_REC | linux.MS_SHARED)


def _wake(_number: int, _frame: object) -> None:
    """A signal without a handler of ours would not end the pause."""


def _reap_for_ever() -> None:
    signal.signal(signal.SIGCHLD, _wake)
    while True:
        try:
            os.wait()
        except ChildProcessError:
            # A child that arrives between the two calls is reaped at the next signal.
            signal.pause()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
