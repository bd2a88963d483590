"""kubectl as a program: the one interface that every provider's cluster has."""

import json
import os
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

Object = dict[str, Any]


class KubectlError(Exception):
    """A command failed; the message is the command and what kubectl said."""


class NotFoundError(KubectlError):
    """The object, or its kind, is not there."""


@dataclass(frozen=True)
class Kubectl:
    """Runs kubectl against one cluster."""

    program: Path
    kubeconfig: Path

    def run(self, *arguments: str, stdin: str | None = None, timeout: float = 60) -> str:
        """Returns what the command printed; raises NotFoundError, KubectlError, or TimeoutExpired."""
        done = subprocess.run(
            self.command(*arguments),
            env=self.environment(),
            input=stdin,
            capture_output=True,
            text=True,
            check=False,
            timeout=timeout,
        )
        if done.returncode == -signal.SIGINT:
            # A Ctrl-C reached the child first, or inside asyncio, which holds it back from us.
            raise KeyboardInterrupt
        if done.returncode:
            kind = NotFoundError if "(NotFound)" in done.stderr else KubectlError
            raise kind(f"kubectl {' '.join(arguments)}: {done.stderr.strip()}")
        return done.stdout

    def get(self, kind: str, name: str = "", *, namespace: str = "", selector: str = "") -> Object:
        """Reads one object, or the List of all; raises as `run`."""
        narrowed = [*([name] if name else []), *(["--selector", selector] if selector else [])]
        return cast(
            Object, json.loads(self.run("get", kind, *narrowed, *_namespace(namespace), "-o", "json"))
        )

    def find(self, kind: str, name: str, *, namespace: str = "") -> Object | None:
        """Reads one object, None where there is none."""
        try:
            return self.get(kind, name, namespace=namespace)
        except NotFoundError:
            return None

    def apply(self, *manifests: Object) -> str:
        """Server-side apply of manifests made in Python; returns what kubectl said of each."""
        content = {"apiVersion": "v1", "kind": "List", "items": manifests}
        return self.run("apply", "--server-side", "-f", "-", stdin=json.dumps(content))

    def apply_file(self, path: Path, *, namespace: str = "") -> str:
        """`kubectl apply -f FILE`, as a user does it."""
        return self.run("apply", "-f", str(path), *_namespace(namespace))

    @contextmanager
    def background(self, *arguments: str) -> Iterator["subprocess.Popen[str]"]:
        """Runs a command that goes on by itself, such as a watch, until the block ends."""
        # In a session of its own: a Ctrl-C is for whoever holds this block, which then ends the child.
        child = subprocess.Popen(
            self.command(*arguments),
            env=self.environment(),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        with child:
            try:
                yield child
            finally:
                child.kill()

    def command(self, *arguments: str) -> list[str]:
        """The command line."""
        return [str(self.program), *arguments]

    def environment(self) -> dict[str, str]:
        """The environment it runs in."""
        return {**os.environ, "KUBECONFIG": str(self.kubeconfig)}


def _namespace(namespace: str) -> list[str]:
    return ["--namespace", namespace] if namespace else []
