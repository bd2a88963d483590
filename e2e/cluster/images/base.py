"""The images that come from no Containerfile: Debian with Python, the pause program, and uv for build stages.

No registry is asked: Debian's archive gives the first, the C compiler the second, this machine the third.
"""

import os
import shutil
from collections.abc import Callable
from pathlib import Path

from e2e.cluster.images import keys, oci, store

SUITE = "bookworm"
PACKAGES = ("ca-certificates", "libnuma1", "python3")  # vLLM's CPU kernels are linked with libnuma
MIRROR_ENV = "GPTSERVICE_DEBIAN_MIRROR"
PUBLIC_MIRROR = "http://deb.debian.org/debian"
# Emptied, not removed: programs expect the folders.
EMPTIED = (
    "dev", "usr/share/doc", "usr/share/info", "usr/share/lintian", "usr/share/locale", "usr/share/man",
    "var/cache/apt", "var/cache/debconf", "var/lib/apt/lists", "var/log",
)  # fmt: skip
FROM_THE_HOST = ("etc/hostname", "etc/resolv.conf")  # debootstrap copies these in

PAUSE_SOURCE = Path(__file__).parent / "pause" / "pause.c"


def base_key() -> str:
    """Changes with anything that goes into the base image but the state of Debian's archive."""
    return keys.of(SUITE, *PACKAGES, *EMPTIED, *FROM_THE_HOST)


def build_base(archive: Path, reference: str) -> None:
    """Debian's smallest system with Python 3.11, as one layer."""
    mirror = os.environ.get(MIRROR_ENV, PUBLIC_MIRROR)

    def fill(root: Path) -> None:
        include = f"--include={','.join(PACKAGES)}"
        # Contained: it mounts /proc below `root`, and may be killed before it unmounts.
        command = (*store.CONTAINED, "debootstrap", "--variant=minbase", include)
        what = f"fetching Debian {SUITE} from {mirror} (${MIRROR_ENV} names another)"
        store.run(*command, SUITE, root, mirror, what=what)
        slim(root)

    _build_from_tree(archive, reference, fill, oci.ImageConfig())


def slim(root: Path) -> None:
    """Takes out what no container needs: documentation, caches, and what debootstrap copied from this machine."""
    for folder in EMPTIED:
        for entry in (root / folder).iterdir():
            store.remove(entry)
    for name in FROM_THE_HOST:
        store.remove(root / name)


def pause_key() -> str:
    """Changes with the source of the pause program."""
    return keys.of(PAUSE_SOURCE.read_text())


def build_pause(archive: Path, reference: str) -> None:
    """The program that holds a pod's namespaces, alone in an image."""

    def fill(root: Path) -> None:
        root.mkdir()
        flags = ("-Os", "-static", "-s", "-Wall", "-Wextra", "-Werror")
        store.run("gcc", *flags, "-o", root / "pause", PAUSE_SOURCE, what="compiling the pause program")

    _build_from_tree(archive, reference, fill, oci.ImageConfig(entrypoint=["/pause"], user="65535:65535"))


def uv_program() -> Path:
    """The uv that runs this project (`uv run` names itself in $UV). Raises BuildError when there is none."""
    found = os.environ.get("UV") or shutil.which("uv")
    if not found:
        raise store.BuildError("building images needs uv on the PATH: see https://docs.astral.sh/uv/")
    return Path(found).resolve()


def uv_key() -> str:
    """Changes with uv's version."""
    return keys.of(store.run(uv_program(), "--version", what="asking uv for its version"))


def build_uv(archive: Path, reference: str) -> None:
    """uv alone in an image, where its makers' image has it too."""

    def fill(root: Path) -> None:
        root.mkdir()
        shutil.copy(uv_program(), root / "uv")

    _build_from_tree(archive, reference, fill, oci.ImageConfig())


def _build_from_tree(archive: Path, reference: str, fill: Callable[[Path], None], config: oci.ImageConfig) -> None:
    root = archive.with_name("root")
    fill(root)
    layer = oci.write_layer(root, archive.with_name("layer.tar"))
    oci.write_archive(archive, reference, [layer], config)
