"""Runs with vLLM's Python packages: prints the paths of all routes of its API server, for every task, as JSON."""

import contextlib
import importlib
import json
import sys
from typing import Any, get_args


def paths() -> list[str]:
    """Every path, with its parameters as ``{name}``."""
    tasks = importlib.import_module("vllm.tasks")
    flexible = importlib.import_module("vllm.utils.argparse_utils").FlexibleArgumentParser
    parser: Any = importlib.import_module("vllm.entrypoints.launchers.cli_args").make_arg_parser(flexible())
    kinds = (tasks.GenerationTask, tasks.PoolingTask, tasks.FrontendTask)
    every = tuple(task for kind in kinds for task in get_args(kind))
    build_app = importlib.import_module("vllm.entrypoints.launchers.app").build_app
    app = build_app(parser.parse_args(["--model", "none"]), supported_tasks=every)
    return sorted({str(route.path) for route in app.routes})


if __name__ == "__main__":
    with contextlib.redirect_stdout(sys.stderr):
        found = paths()
    json.dump(found, sys.stdout)
