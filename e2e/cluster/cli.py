"""The command `python -m e2e.cluster`: reads arguments, prints answers, turns errors into one message and a status."""

import argparse
import logging
import os
import signal
import sys
from collections.abc import Callable, Sequence
from typing import cast

from e2e.cluster import (
    binaries,
    lifecycle,
    paths,
    prerequisites,
    processes,
    providers,
    readiness,
    records,
    report,
)
from e2e.cluster.images import store

_EXPECTED_ERRORS = (
    binaries.BuildError,
    store.BuildError,
    lifecycle.ClusterError,
    prerequisites.MissingPrerequisites,
    processes.StartError,
    providers.Unsupported,
    readiness.NotReadyError,
    OSError,
    RuntimeError,
    ValueError,
)


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs one command and returns its exit status."""
    options = _parser().parse_args(arguments)
    logging.basicConfig(level=logging.INFO, format="%(message)s", stream=sys.stderr)
    # A command that `timeout`, a CI job or a closing terminal ends must clean up as after Ctrl-C.
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.default_int_handler)
    try:
        return cast(int, options.run(options))
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        return 130
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except _EXPECTED_ERRORS as error:
        print(f"error: {error}", file=sys.stderr)
        return 1


def _up(options: argparse.Namespace) -> int:
    spec = records.Spec(
        name=options.name,
        profile=options.profile,
        nodes=options.nodes or (3 if options.profile == "api" else 1),
        gpus=options.gpus,
        audit_mode=options.audit_mode,
    )
    print(providers.chosen().up(spec))
    return 0


def _down(options: argparse.Namespace) -> int:
    if providers.chosen().down(options.name):
        print(f"cluster {options.name} is gone")
    else:
        print(f"there is no cluster {options.name}")
    return 0


def _status(options: argparse.Namespace) -> int:
    text, healthy = providers.chosen().status(options.name)
    print(text)
    return 0 if healthy else 1


def _kubeconfig(options: argparse.Namespace) -> int:
    print(providers.chosen().kubeconfig(options.name))
    return 0


def _load_image(options: argparse.Namespace) -> int:
    for image in options.image:
        providers.chosen().load_image(options.name, image)
        print(f"loaded {image}")
    return 0


def _logs(options: argparse.Namespace) -> int:
    sys.stdout.write(report.logs(paths.cluster(options.name), options.component, lines=options.lines))
    return 0


def _exec(options: argparse.Namespace) -> int:
    command = options.command[1:] if options.command[:1] == ["--"] else options.command
    if not command:
        raise ValueError("exec needs a command, as in: exec --name demo -- ip addr")
    return lifecycle.find(options.name).run(command)


def _prerequisites(options: argparse.Namespace) -> int:
    missing = prerequisites.missing(options.profile)
    if missing and options.install:
        prerequisites.install(missing)
        missing = prerequisites.missing(options.profile)
    print(prerequisites.describe(missing, options.profile))
    return 1 if missing else 0


def _build(options: argparse.Namespace) -> int:
    wanted = [*binaries.of_profile(options.profile), binaries.HELM]
    prerequisites.require("build")
    for name, path in binaries.ensure(wanted).items():
        print(f"{name:24} {path}")
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m e2e.cluster", description="the embedded Kubernetes")
    add_parser = parser.add_subparsers(required=True, metavar="COMMAND").add_parser

    up = _command(add_parser, "up", _up, "start a cluster, or say that it runs")
    _profile(up)
    up.add_argument("--nodes", type=Count(1, 1000), default=None, help="simulated nodes of profile api (3)")
    up.add_argument("--gpus", type=Count(0, 128), default=0, help="nvidia.com/gpu on each GPU node (0)")
    up.add_argument("--audit-mode", choices=records.AUDIT_MODES, default="batch")
    _command(add_parser, "down", _down, "end a cluster and remove every trace of it")
    _command(add_parser, "status", _status, "what runs, with CPU, memory and readiness")
    _command(add_parser, "kubeconfig", _kubeconfig, "print the path of the administrator's kubeconfig")
    load = _command(add_parser, "load-image", _load_image, "put images into the node")
    load.add_argument("image", nargs="+", help="an image's name or the path of an OCI or Docker archive")
    logs = _command(add_parser, "logs", _logs, "print a component's log, or name the components")
    logs.add_argument("component", nargs="?", default="")
    logs.add_argument("--lines", type=Count(1, 10**9), default=None, help="only the last so many")
    inside = _command(add_parser, "exec", _exec, "run a command inside a node cluster's namespaces")
    inside.add_argument("command", nargs=argparse.REMAINDER, metavar="-- CMD")

    needs = add_parser("prerequisites", help="name what this machine lacks")
    needs.set_defaults(run=_prerequisites)
    _profile(needs)
    needs.add_argument("--install", action="store_true", help="install it with apt-get (as root)")
    build = add_parser("build", help="build the Go programs into the cache")
    build.set_defaults(run=_build)
    _profile(build)
    return parser


def _command(
    add_parser: Callable[..., argparse.ArgumentParser], name: str, run: object, text: str
) -> argparse.ArgumentParser:
    parser = add_parser(name, help=text)
    parser.set_defaults(run=run)
    parser.add_argument("--name", required=True, help="the cluster's name")
    return parser


def _profile(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--profile", choices=records.PROFILES, default="api")


class Count:
    """An argument type: a whole number within bounds."""

    def __init__(self, low: int, high: int) -> None:
        self._low, self._high = low, high

    def __call__(self, text: str) -> int:
        if not text.isdigit() or not self._low <= int(text) <= self._high:
            raise argparse.ArgumentTypeError(f"{text!r} is not a whole number from {self._low} to {self._high}")
        return int(text)
