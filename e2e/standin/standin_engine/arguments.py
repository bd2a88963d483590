"""The part of `vllm serve`'s command line that the runtime, our examples and our tests use."""

import argparse
import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

_DTYPES = ("auto", "bfloat16", "float", "float16", "float32", "half")


@dataclass(frozen=True, kw_only=True)
class Arguments:
    """What was asked on the command line."""

    model: str
    served_model_names: tuple[str, ...]
    host: str
    port: int
    middleware: tuple[str, ...]
    shutdown_timeout: int
    max_model_len: int | None
    max_new_tokens: int | None
    """Cap from ``--override-generation-config``; its single key wins over a whole value."""
    tls: dict[str, Any]
    """What of uvicorn's options has to do with TLS."""


def parse(argv: Sequence[str]) -> Arguments:
    """Parse as vLLM does: anything unknown ends the process with argparse's usage error, exit code 2."""
    options = _parser().parse_args(argv)
    whole = options.override_generation_config.get("max_new_tokens")
    cap = options.max_new_tokens if options.max_new_tokens is not None else whole
    return Arguments(
        model=options.model_tag,
        served_model_names=tuple(options.served_model_name or [options.model_tag]),
        host=options.host or "0.0.0.0",
        port=options.port,
        middleware=tuple(options.middleware),
        shutdown_timeout=options.shutdown_timeout,
        max_model_len=options.max_model_len,
        max_new_tokens=cap,
        tls={name: value for name, value in vars(options).items() if name.startswith("ssl_") and value is not None},
    )


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="vllm")
    commands = parser.add_subparsers(dest="command", required=True)
    serve = commands.add_parser("serve", help="the OpenAI-compatible API")
    serve.add_argument("model_tag")
    serve.add_argument("--served-model-name", nargs="+")
    serve.add_argument("--host")
    serve.add_argument("--port", type=int, default=8000)
    serve.add_argument("--middleware", action="append", default=[])
    serve.add_argument("--shutdown-timeout", type=int, default=0)
    serve.add_argument("--max-model-len", type=int)
    serve.add_argument("--override-generation-config", type=json.loads, default={})
    serve.add_argument("--override-generation-config.max_new_tokens", dest="max_new_tokens", type=int)
    serve.add_argument("--ssl-certfile")
    serve.add_argument("--ssl-keyfile")
    serve.add_argument("--ssl-cert-reqs", type=int)
    _add_ignored(serve)
    return parser


def _add_ignored(serve: argparse.ArgumentParser) -> None:
    """Accepted and checked, without any effect here."""
    serve.add_argument("--dtype", choices=_DTYPES, default="auto")
    serve.add_argument("--tensor-parallel-size", "-tp", type=int, default=1)
    serve.add_argument("--pipeline-parallel-size", "-pp", type=int, default=1)
    serve.add_argument("--max-num-seqs", type=int)
    serve.add_argument("--max-num-batched-tokens", type=int)
    serve.add_argument("--gpu-memory-utilization", type=float)
    serve.add_argument("--block-size", type=int)
    serve.add_argument("--seed", type=int, default=0)
    serve.add_argument("--kv-cache-dtype", default="auto")
    serve.add_argument("--kv-cache-memory-bytes")
    serve.add_argument("--quantization", "-q")
    serve.add_argument("--chat-template")
    serve.add_argument("--tokenizer")
    serve.add_argument("--uvicorn-log-level", default="info")
    serve.add_argument("--disable-uvicorn-access-log", action="store_true")
    serve.add_argument("--scheduling-policy", choices=("fcfs", "priority"), default="fcfs")
    for name in ("enforce-eager", "enable-prefix-caching", "trust-remote-code", "enable-chunked-prefill"):
        serve.add_argument(f"--{name}", action=argparse.BooleanOptionalAction)
