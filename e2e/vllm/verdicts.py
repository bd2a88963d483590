"""Runs with vLLM's Python packages: for each list of arguments on standard input, what its parser says against it.

Input and output are JSON: a list of argument vectors that begin with `serve`; for each a pair, the message (null where
it takes them) and the generation configuration that they come to.
"""

import argparse
import contextlib
import importlib
import io
import json
import sys
from typing import Any


def _parser() -> argparse.ArgumentParser:
    """As vLLM's main program makes it, as far as `serve` goes."""
    flexible = importlib.import_module("vllm.utils.argparse_utils").FlexibleArgumentParser
    parser: argparse.ArgumentParser = flexible(prog="vllm")
    parser.add_argument("-v", "--version", action="version", version="0")
    (serve,) = importlib.import_module("vllm.entrypoints.cli.serve").cmd_init()
    serve.subparser_init(parser.add_subparsers(required=False, dest="subparser"))
    return parser


def _verdict(parser: argparse.ArgumentParser, argv: list[str]) -> tuple[str | None, Any]:
    said = io.StringIO()
    try:
        with contextlib.redirect_stderr(said), contextlib.redirect_stdout(io.StringIO()):
            return None, parser.parse_args(argv).override_generation_config
    except SystemExit as end:
        return said.getvalue() if end.code else "it prints its help and ends", None
    except Exception as error:  # it ends any engine, whatever it is
        return f"{type(error).__name__}: {error}", None


def main() -> None:
    """Answer once."""
    vectors: list[Any] = json.load(sys.stdin)
    # vLLM logs to standard output.
    output, sys.stdout = sys.stdout, sys.stderr
    parser = _parser()
    json.dump([_verdict(parser, vector) for vector in vectors], output)


if __name__ == "__main__":
    main()
