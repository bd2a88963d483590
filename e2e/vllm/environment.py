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
RUNTIME = paths.REPOSITORY / "runtime-image"


def run(*arguments: str | Path, what: str, stdin: str | None = None) -> str:
    """Standard output of Python with these arguments. Raises store.BuildError if it fails."""
    # The environment's own Python is a link that leads somewhere in the image only.
    version = ("--no-project", "--system", vllm.PYTHON_VERSION)
    python = store.run(base.uv_program(), "python", "find", *version, what="looking for Python").strip()
    packages = f"{RUNTIME}{os.pathsep}{vllm.site_packages(vllm.environment())}"
    variables = (f"PYTHONPATH={packages}", "VLLM_NO_USAGE_STATS=1", "HF_HUB_OFFLINE=1")
    return store.run("env", *variables, python, "-P", *arguments, what=what, stdin=stdin)


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


if __name__ == "__main__":
    logging.basicConfig(level=logging.INFO, format="%(message)s")
    engine_schema.path().write_text(schema())
