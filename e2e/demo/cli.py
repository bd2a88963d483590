"""`python -m e2e.demo [--name NAME] up | ask QUESTION | shell | down`."""

import argparse
import logging
import os
import signal
import subprocess
import sys
from collections.abc import Sequence

import aiohttp
from rich.console import Console

from e2e import client, installation, kubectl
from e2e.cluster import binaries, lifecycle, prerequisites, processes, readiness
from e2e.cluster.images import store
from e2e.demo import say_interrupted, steps
from e2e.demo.timeline import Timeline

NEXT = """[bold]What to try next[/bold]
  make demo-ask Q="Why is the sky blue?"    another question
  make demo-shell                           a shell with kubectl and helm for this cluster, for example:
      kubectl get gptservices -o wide
      kubectl scale gptservice quickstart --replicas 0
      kubectl scale gptservice quickstart --replicas 1
      kubectl describe gptservice quickstart
  make demo-down                            remove the cluster; the next `make demo` is quick
"""

logger = logging.getLogger(__name__)


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs one command and returns the exit status; what went wrong is said in a line or two."""
    options = _parser().parse_args(arguments)
    # What `timeout`, a CI job or a closing terminal sends is to end it as Ctrl-C does.
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.default_int_handler)
    logging.basicConfig(level=logging.INFO, format="    %(message)s", stream=sys.stdout)
    commands = {"up": _up, "ask": _ask, "shell": _shell, "down": _down}
    try:
        return commands[options.command](options)
    except (KeyboardInterrupt, kubectl.Interrupted):
        # An event loop that was cut while it was being made complains when it is collected.
        sys.unraisablehook = lambda _: None
        return say_interrupted()
    except EXPECTED_ERRORS as error:
        print(f"\n{error}", file=sys.stderr)
        return 1


EXPECTED_ERRORS = (
    steps.DemoError,
    prerequisites.MissingPrerequisites,
    binaries.BuildError,
    store.BuildError,
    lifecycle.ClusterError,
    processes.StartError,
    readiness.NotReadyError,
    installation.HelmError,
    kubectl.KubectlError,
    client.NoKeyError,
    client.RefusedError,
    aiohttp.ClientError,
    OSError,
    subprocess.TimeoutExpired,
)


def _up(options: argparse.Namespace) -> int:
    demo = _demo(options)
    demo.prepare()
    cluster = demo.start()
    demo.install(cluster)
    demo.serve(cluster)
    answer = demo.ask(cluster, steps.QUESTION)
    demo.console.print(demo.timeline.table())
    if steps.EXPECTED not in answer.text:
        raise steps.DemoError(f"the answer does not contain {steps.EXPECTED!r}: {answer.text!r}")
    demo.console.print(f"\n{NEXT}", highlight=False)
    return 0


def _ask(options: argparse.Namespace) -> int:
    _demo(options).ask(lifecycle.find(options.name), options.question)
    return 0


def _shell(options: argparse.Namespace) -> int:
    cluster = lifecycle.find(options.name)
    tools = binaries.tools()
    search_path = [str(tools[name].path.parent) for name in ("kubectl", binaries.HELM)]
    environment = {
        **os.environ,
        "KUBECONFIG": str(cluster.kubeconfig),
        "PATH": os.pathsep.join([*search_path, os.environ.get("PATH", os.defpath)]),
    }
    print("kubectl and helm speak to the demo's cluster; leave with exit")
    return subprocess.run([os.environ.get("SHELL", "/bin/sh")], env=environment, check=False).returncode


def _down(options: argparse.Namespace) -> int:
    there = lifecycle.down(options.name)
    print("the demo's cluster is gone; the caches stay" if there else "there is no demo cluster")
    return 0


def _demo(options: argparse.Namespace) -> steps.Demo:
    # Elsewhere than on a terminal, lines stay whole whatever their length.
    console = Console(soft_wrap=True, width=None if sys.stdout.isatty() else 120)
    return steps.Demo(console, Timeline(console), options.name)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m e2e.demo", description=__doc__)
    parser.add_argument("--name", default="demo", help="the cluster's name (demo)")
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("up", help="everything, from nothing to an answer")
    ask = commands.add_parser("ask", help="put a question to the demo's service")
    ask.add_argument("question")
    commands.add_parser("shell", help="a shell with kubectl and helm for the demo's cluster")
    commands.add_parser("down", help="remove the demo's cluster")
    return parser
