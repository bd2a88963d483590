"""A reader of the documents, who copies shell blocks into a terminal and puts names of their own into them."""

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path

from e2e import documents
from e2e.cluster import paths

# What commands name, relative to the checkout.
_COPIED = ("charts", "crds", "examples", "gitops", "policy", "tests/runtime/weights/vectors")
_SECONDS = 180.0


class BlockError(Exception):
    """A command of a block failed; the message has what ran, and what it said."""


class Reader:
    """Has a copy of the checkout in `folder` as the current one, and these programs on PATH."""

    def __init__(
        self, folder: Path, programs: Mapping[str, Path], kubeconfig: Path | None = None, *, namespace: str = ""
    ) -> None:
        self.folder, self._programs, self._kubeconfig, self._namespace = folder, folder / ".bin", kubeconfig, namespace
        for name in _COPIED:
            shutil.copytree(paths.REPOSITORY / name, folder / name)
        self._programs.mkdir()
        for name, program in programs.items():
            (self._programs / name).symlink_to(program)

    def run(self, *names: str, without: Iterable[str] = (), **instead: str) -> str:
        """Runs blocks one after the other in one shell; returns what they printed.

        Lines that contain a text of `without` are left out, with the lines that they go on in. `instead` has the
        reader's own words for those in capitals. Raises BlockError when a command fails, KeyError for an unknown block.
        """
        text = "".join(documents.block(name).text for name in names)
        for word, own in instead.items():
            text = text.replace(word, own)
        return self.shell(_left_out(text, tuple(without)))

    def shell(self, script: str) -> str:
        """Runs a script in bash, which ends at the first failure."""
        log = self.folder / ".output"
        with log.open("w") as stream:
            shell = subprocess.Popen(
                ["bash", "-euo", "pipefail", "-c", script],
                cwd=self.folder, env=self._environment(), stdin=subprocess.DEVNULL, stdout=stream,
                stderr=subprocess.STDOUT, start_new_session=True,
            )  # fmt: skip
            try:
                status = shell.wait(_SECONDS)
            finally:
                _end(shell)
        if status:
            raise BlockError(f"status {status} of\n{script}\n{log.read_text()}")
        return log.read_text()

    def _environment(self) -> dict[str, str]:
        own = {"PATH": f"{self._programs}:{Path(sys.executable).parent}:{os.environ['PATH']}", "EDITOR": "true"}
        if self._kubeconfig is not None:
            own["KUBECONFIG"] = str(self._with_namespace(self._kubeconfig))
        return {**os.environ, **own}

    def _with_namespace(self, kubeconfig: Path) -> Path:
        """A copy in which the reader's namespace is the current one."""
        if not self._namespace:
            return kubeconfig
        copy = self.folder / ".kubeconfig"
        if not copy.exists():
            copy.touch(mode=0o600)
            copy.write_bytes(kubeconfig.read_bytes())
            kubectl = self._programs / "kubectl"
            command = [str(kubectl), "config", "set-context", "--current", f"--namespace={self._namespace}"]
            environment = {**os.environ, "KUBECONFIG": str(copy)}
            subprocess.run(command, env=environment, check=True, capture_output=True)
        return copy


def _left_out(script: str, texts: tuple[str, ...]) -> str:
    commands = script.replace("\\\n", "\0").splitlines(keepends=True)
    kept = [command for command in commands if not any(text in command for text in texts)]
    return "".join(kept).replace("\0", "\\\n")


def _end(shell: "subprocess.Popen[bytes]") -> None:
    """Ends what the script has left in the background, and the script itself if it still runs."""
    try:
        os.killpg(shell.pid, signal.SIGKILL)
    except ProcessLookupError:
        return
    finally:
        shell.wait()
