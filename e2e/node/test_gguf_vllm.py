"""Why the operator refuses GGUF files: the bundled vLLM, asked itself. When this fails, the refusal has to go."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from e2e.cluster.images import model
from e2e.vllm import environment
from gptservice_runtime import contract

pytestmark = [pytest.mark.vllm, pytest.mark.long]

ARGUMENTS = ("--dtype=float32", "--enforce-eager", "--kv-cache-memory-bytes=1G", "--max-model-len=512", "--port=0")


def test_the_bundled_vllm_reads_no_gguf(tmp_path: Path) -> None:
    (packages := tmp_path / "packages").mkdir()
    gguf = model.quantised(packages)
    assert gguf.read_bytes()[:4] == b"GGUF"
    search = f"{environment.executable(tmp_path / 'bin')}{os.pathsep}/usr/bin:/bin"
    variables = environment.variables() | {"PATH": search, "HOME": str(tmp_path), "VLLM_CPU_OMP_THREADS_BIND": "nobind"}
    command = ["vllm", "serve", str(gguf), *ARGUMENTS]
    done = subprocess.run(command, env=variables, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode != 0, f"vLLM {contract.VLLM_VERSION} serves {gguf.name}"
    assert f"{gguf.name}' is not a valid JSON file" in done.stderr, done.stderr[-2000:]
