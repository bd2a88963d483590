"""Runs programs with the Python packages of the CPU runtime image, which are in the cache.

python -m e2e.vllm.environment    writes the schema of vLLM's arguments anew: make engine-arguments
"""

import json
import logging
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from e2e.cluster import paths
from e2e.cluster.images import base, store, vllm
from gptservice_runtime import engine_schema

VERDICTS = Path(__file__).with_name("verdicts.py")
ROUTES = Path(__file__).with_name("routes.py")
_ENTRY = """#!{python}
import sys
from vllm.entrypoints.cli.main import main
if __name__ == "__main__":
    sys.exit(main())
"""
RUNTIME = paths.REPOSITORY / "runtime-image"


def python() -> str:
    """A Python here of the version that the packages are for: their own is a link into the image."""
    version = ("--no-project", "--system", vllm.PYTHON_VERSION)
    return store.run(base.uv_program(), "python", "find", *version, what="looking for Python").strip()


def variables() -> dict[str, str]:
    """What Python needs to find the packages, and the runtime's."""
    packages = f"{RUNTIME}{os.pathsep}{vllm.site_packages(vllm.environment())}"
    return {"PYTHONPATH": packages, "VLLM_NO_USAGE_STATS": "1", "HF_HUB_OFFLINE": "1"}


def run(*arguments: str | Path, what: str, stdin: str | None = None) -> str:
    """Standard output of Python with these arguments. Raises store.BuildError if it fails."""
    given = (f"{name}={value}" for name, value in variables().items())
    return store.run("env", *given, python(), "-P", *arguments, what=what, stdin=stdin)


def executable(folder: Path) -> Path:
    """Makes the folder, with the program `vllm` of the image in a form that runs here; returns it for a PATH."""
    folder.mkdir()
    program = folder / "vllm"
    program.write_text(_ENTRY.format(python=python()))
    program.chmod(0o755)
    return folder


def schema() -> str:
    """The schema of its vLLM's arguments, made anew."""
    return run("-m", "gptservice_runtime.engine_schema", what="reading vLLM's arguments")


class Verdict(NamedTuple):
    """What vLLM's parser makes of an argument vector."""

    said: str | None
    """Its words against it; None where it takes it."""
    generation: dict[str, Any] | None
    """Value of `--override-generation-config`."""


def verdicts(vectors: Sequence[Sequence[str]]) -> list[Verdict]:
    """What vLLM's parser makes of argument vectors that begin with `serve`."""
    told = run(VERDICTS, what="asking vLLM's parser", stdin=json.dumps([[*vector] for vector in vectors]))
    return [Verdict(*pair) for pair in json.loads(told)]


def routes() -> list[str]:
    """Paths of all routes of vLLM's API server, for every task."""
    found: list[str] = json.loads(run(ROUTES, what="listing vLLM's routes"))
    return found


if __name__ == "__main__":
    logging.basicConfig(level=logging.INFO, format="%(message)s")
    engine_schema.path().write_text(schema())
