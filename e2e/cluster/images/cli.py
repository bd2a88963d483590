"""`python -m e2e.cluster.images build [NAME...] | seed | model | list | prune`."""

import argparse
import logging
import sys
from collections.abc import Sequence

from e2e.cluster.images import buildah, catalogue, model, seed, store


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs one command and returns its exit status; progress goes to standard error, results to output."""
    options = _parser().parse_args(arguments)
    logging.basicConfig(level=logging.INFO, format="%(message)s", stream=sys.stderr)
    commands = {"build": _build, "seed": _seed, "model": _model, "list": _list, "prune": _prune}
    try:
        return commands[options.command](options)
    except store.BuildError as error:
        print(error, file=sys.stderr)
        return 1


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m e2e.cluster.images", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    build = commands.add_parser("build", help="build images whose inputs changed and print their archives")
    build.add_argument("names", nargs="*", choices=[[], *catalogue.NAMES], metavar="NAME", default=[])
    commands.add_parser("seed", help="import all images into a containerd root and print its folder")
    commands.add_parser("model", help="prepare the test model and print its folder")
    commands.add_parser("list", help="show the images and whether they are built")
    prune = commands.add_parser("prune", help="remove what newer builds replaced")
    prune.add_argument("--steps", action="store_true", help="also forget the steps of earlier builds")
    return parser


def _build(options: argparse.Namespace) -> int:
    for name in options.names or catalogue.DEPLOYED:
        print(catalogue.archive(name))
    return 0


def _seed(_: argparse.Namespace) -> int:
    print(seed.seed())
    return 0


def _model(_: argparse.Namespace) -> int:
    print(model.prepared())
    return 0


def _list(_: argparse.Namespace) -> int:
    for name in catalogue.NAMES:
        path = catalogue.archive_path(name)
        state = f"{path.stat().st_size / 1e6:.1f} MB" if path.exists() else "not built"
        print(f"{catalogue.reference(name):40} {catalogue.key(name)}  {state}")
    return 0


def _prune(options: argparse.Namespace) -> int:
    for entry in seed.prune():
        print(entry)
    if options.steps:
        buildah.reset()
    return 0
