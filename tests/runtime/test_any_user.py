"""As in a pod: some UID without a passwd entry, no capabilities, a read-only root file system."""

import os
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from collections.abc import AsyncIterator
from pathlib import Path

import aiohttp
import pytest

from tests.runtime.harness import PACKAGE_PARENT, Runtime, make_model

pytestmark = [
    pytest.mark.wiring,
    pytest.mark.skipif(os.getuid() != 0, reason="only root may become another user"),
    pytest.mark.skipif(not shutil.which("setpriv") or not shutil.which("unshare"), reason="needs util-linux"),
]
UID = 1000770000
PYTHONPATH = f"{PACKAGE_PARENT}:{sysconfig.get_path('purelib')}"


def as_user(gid: int, writable: Path) -> list[str]:
    """A command that runs what follows as UID, with every mount read-only but the folder and /proc."""
    script = 'mount --bind "$1" "$1" && mount -o remount,bind,ro / && shift && exec "$@"'
    mounts = ["unshare", "--mount", "--propagation", "private", "sh", "-c", script, "sh", str(writable)]
    user = ["setpriv", f"--reuid={UID}", f"--regid={gid}", "--clear-groups", "--no-new-privs", "--bounding-set=-all"]
    return [*mounts, *user]


def interpreter(prefix: list[str]) -> str:
    """A Python of our version that this user may run; skips where there is none (it may be in root's home)."""
    check = f"import sys, aiohttp, uvicorn; assert sys.version_info[:2] == {sys.version_info[:2]}"
    for candidate in (sys.executable, "/usr/bin/python3"):
        command = [*prefix, candidate, "-c", check]
        environment = {"PATH": "/usr/bin:/bin", "PYTHONPATH": PYTHONPATH}
        if subprocess.run(command, env=environment, capture_output=True, check=False).returncode == 0:
            return candidate
    pytest.skip(f"UID {UID} may run no Python {sys.version_info.major}.{sys.version_info.minor} here")


@pytest.fixture
async def runtime() -> AsyncIterator[Runtime]:
    # Not tmp_path: pytest's folders are closed to other users.
    async with aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=40)) as session:
        with tempfile.TemporaryDirectory() as folder:
            running = Runtime(Path(folder), session)
            try:
                yield running
            finally:
                running.kill()


@pytest.mark.parametrize(
    ("gid", "owner"),
    [
        pytest.param(0, 0, id="group 0, as on OpenShift"),
        pytest.param(1000770000, UID, id="a group of its own"),
    ],
)
async def test_it_serves_and_drains(runtime: Runtime, gid: int, owner: int) -> None:
    os.chown(runtime.folder, owner, gid)
    runtime.folder.chmod(0o770)
    make_model(runtime.model)
    (runtime.model / "lost+found").mkdir(mode=0o700)
    prefix = as_user(gid, runtime.folder)
    runtime.start(prefix=prefix, python=interpreter(prefix), environment={"PYTHONPATH": PYTHONPATH, "HOME": "/"})
    await runtime.ready()
    assert (await runtime.complete())[0] == 200
    assert os.stat(runtime.cache_root).st_uid == UID, "it ran as somebody else: this test tests nothing"
    runtime.signal(15)
    assert await runtime.ended() == 0


async def test_a_cache_that_belongs_to_somebody_else_is_named(runtime: Runtime) -> None:
    runtime.folder.chmod(0o775)
    runtime.termination_log.touch()
    runtime.termination_log.chmod(0o666)
    prefix = as_user(UID, runtime.folder)
    runtime.start(prefix=prefix, python=interpreter(prefix), environment={"PYTHONPATH": PYTHONPATH})
    assert await runtime.ended() == 1
    assert f"that UID {UID} may write to (fsGroup)" in runtime.message()["message"]


async def test_a_model_that_may_not_be_read_is_named(runtime: Runtime) -> None:
    os.chown(runtime.folder, UID, UID)
    weights = runtime.model / "model.safetensors"
    runtime.model.mkdir()
    (runtime.model / "config.json").write_text("{}")
    weights.write_bytes(b"weights")
    weights.chmod(0o600)
    prefix = as_user(UID, runtime.folder)
    runtime.start(prefix=prefix, python=interpreter(prefix), environment={"PYTHONPATH": PYTHONPATH})
    assert await runtime.ended() == 1
    assert runtime.message()["reason"] == "ModelAccessDenied"
    assert str(weights) in runtime.message()["message"]
