"""Command line of the runtime image: `fetch` and `serve` for pods; for people, `inspect` and encrypted weights."""

import argparse
import logging
import os
import re
import signal
import sys
import traceback
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NoReturn

import gptservice_runtime
from gptservice_runtime import addresses, contract, engine, fetch, models, termination, tls
from gptservice_runtime.weights import at_rest

_WEIGHTS_COMMANDS = frozenset({"encrypt", "decrypt", "verify", "rewrap"})
"""Of weights/command_line.py, which alone needs a library for cryptography."""
_INSPECT_COMMAND = "inspect"
_log = logging.getLogger(__name__)
_LOG_FORMAT = f"{contract.COMMAND} %(levelname)s %(message)s"


class _UsageError(Exception):
    """The runtime's own arguments, or the environment that the operator gave it, were refused."""


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise _UsageError(f"{self.prog}: {message}")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; the exit code."""
    logging.basicConfig(level=logging.INFO, format=_LOG_FORMAT, stream=sys.stderr)
    argv = list(sys.argv[1:] if arguments is None else arguments)
    if argv and argv[0] in _WEIGHTS_COMMANDS:
        from gptservice_runtime.weights import command_line

        return command_line.main(argv)
    if argv and argv[0] == _INSPECT_COMMAND:
        from gptservice_runtime import inspecting

        return inspecting.main(argv)
    own, extra = _split(argv)
    try:
        options = _parser().parse_args(own)
        if options.command == contract.SERVE_COMMAND:
            return _serve(options, extra)
        return _fetch(options)
    except _UsageError as error:
        return _refuse(error, argv)
    except Exception as error:
        return _tell_of_bug(error, argv)


def _split(argv: list[str]) -> tuple[list[str], tuple[str, ...]]:
    if contract.ENGINE_ARGS_SEPARATOR not in argv:
        return argv, ()
    at = argv.index(contract.ENGINE_ARGS_SEPARATOR)
    return argv[:at], tuple(argv[at + 1 :])


def _parser() -> argparse.ArgumentParser:
    of_weights = ", ".join(sorted(_WEIGHTS_COMMANDS))
    people = f"For people: {_INSPECT_COMMAND}; for encrypted weights {of_weights}; each with --help."
    parser = _Parser(prog=contract.COMMAND, description=__doc__, epilog=people, allow_abbrev=False)
    commands = parser.add_subparsers(dest="command", required=True, metavar="fetch|serve")
    _add_fetch_flags(commands.add_parser(contract.FETCH_COMMAND, allow_abbrev=False, help="fetch the model"))
    _add_serve_flags(commands.add_parser(contract.SERVE_COMMAND, allow_abbrev=False, help="serve the model"))
    return parser


def _add_fetch_flags(fetching: argparse.ArgumentParser) -> None:
    uris = "hf://, s3://, gs://, oci://, https://, pvc:// or file:///"
    fetching.add_argument(contract.URI_FLAG, required=True, help=uris)
    fetching.add_argument(contract.SOURCE_ROOT_FLAG, type=Path, default=Path(contract.SOURCE_ROOT))
    fetching.add_argument(contract.DIGEST_FLAG, type=_digest, help="sha256:..., demanded of the model's files")
    fetching.add_argument(contract.CACHE_LIMIT_FLAG, type=_positive, help=f"bytes that {contract.CACHE_ROOT} may hold")
    into = f"of encrypted weights, with a key of {contract.DECRYPTION_KEY_DIRECTORY}, into {contract.DECRYPTED_ROOT}"
    fetching.add_argument(contract.DECRYPT_FLAG, action="store_true", help=into)
    fetching.add_argument(contract.MEMORY_LIMIT_FLAG, type=_positive, help="bytes that the weights must fit into")
    trusted = "file of authorities, PEM, that downloads trust beside the system's"
    fetching.add_argument(contract.CA_BUNDLE_FLAG, type=Path, help=trusted)
    _add_termination_log_flag(fetching)
    hidden: dict[str, Any] = {"help": argparse.SUPPRESS}
    unset = fetch.DownloadOptions()
    fetching.add_argument("--cache-root", type=Path, default=unset.cache_root, **hidden)
    fetching.add_argument("--token-directory", type=Path, default=unset.token_directory, **hidden)
    decryption = at_rest.Decryption()
    fetching.add_argument("--decryption-key-directory", type=Path, default=decryption.key_directory, **hidden)
    fetching.add_argument("--decrypted-root", type=Path, default=decryption.root, **hidden)
    fetching.add_argument("--credentials-directory", type=Path, default=unset.credentials_directory, **hidden)
    fetching.add_argument("--link", type=Path, default=unset.link, **hidden)
    fetching.add_argument("--probe-port", type=_positive, default=unset.metrics_port, **hidden)
    fetching.add_argument("--stall", type=float, default=unset.stall, **hidden)
    fetching.add_argument("--pause", type=float, default=unset.pause, **hidden)


def _add_serve_flags(serving: argparse.ArgumentParser) -> None:
    serving.add_argument(contract.MODEL_FLAG, type=Path, required=True)
    serving.add_argument(contract.SERVED_MODEL_NAME_FLAG, action="append", required=True)
    serving.add_argument(contract.TENSOR_PARALLEL_SIZE_FLAG, type=_positive)
    serving.add_argument(contract.MAX_MODEL_LEN_FLAG, type=_positive)
    serving.add_argument(contract.MAX_TOKENS_FLAG, type=_positive)
    serving.add_argument(contract.OTLP_ENDPOINT_FLAG)
    serving.add_argument(contract.STARTUP_TIMEOUT_FLAG, type=_positive, required=True, help="seconds")
    serving.add_argument(contract.DRAIN_TIMEOUT_FLAG, type=_not_negative, required=True, help="seconds")
    serving.add_argument(contract.READY_LATENCY_FLAG, type=_positive, help="of a small request, before it is ready")
    serving.add_argument(contract.REQUIRE_API_KEY_FLAG, action="store_true", help=f"of {contract.KEYS_DIRECTORY}")
    serving.add_argument(
        contract.TLS_FLAG, action="store_true", help=f"with the certificate of {contract.TLS_DIRECTORY}"
    )
    ca = contract.CLIENT_CA_DIRECTORY
    serving.add_argument(contract.REQUIRE_CLIENT_CERTIFICATE_FLAG, action="store_true", help=f"of the CA in {ca}")
    _add_termination_log_flag(serving)
    _add_test_flags(serving)


def _add_termination_log_flag(command: argparse.ArgumentParser) -> None:
    command.add_argument("--termination-log", type=Path, default=contract.TERMINATION_LOG, help=argparse.SUPPRESS)


def _add_test_flags(serving: argparse.ArgumentParser) -> None:
    """What tests outside a container need (runtime-image/README.md); the operator never sets these."""
    hidden: dict[str, Any] = {"help": argparse.SUPPRESS}
    limits = f"{contract.LIMITS_DIRECTORY}/{contract.LIMITS_FILE}"
    run = f"{contract.SHARED_MEMORY_ROOT}/{engine.RUN_FOLDER}"
    serving.add_argument("--engine-port", type=_positive, default=contract.ENGINE_PORT, **hidden)
    serving.add_argument("--probe-port", type=_positive, default=contract.PROBE_PORT, **hidden)
    serving.add_argument("--cache-root", type=Path, default=contract.CACHE_ROOT, **hidden)
    serving.add_argument("--run-directory", type=Path, default=run, **hidden)
    serving.add_argument("--limits-file", type=Path, default=limits, **hidden)
    serving.add_argument("--keys-directory", type=Path, default=contract.KEYS_DIRECTORY, **hidden)
    serving.add_argument("--tls-directory", type=Path, default=contract.TLS_DIRECTORY, **hidden)
    serving.add_argument("--client-ca-directory", type=Path, default=contract.CLIENT_CA_DIRECTORY, **hidden)
    serving.add_argument("--drain-gap", type=float, default=contract.DRAIN_GAP_SECONDS, **hidden)


def _positive(text: str) -> int:
    if (number := int(text)) < 1:
        raise argparse.ArgumentTypeError(f"{text} is not a positive integer")
    return number


def _not_negative(text: str) -> int:
    if (number := int(text)) < 0:
        raise argparse.ArgumentTypeError(f"{text} is negative")
    return number


def _digest(text: str) -> str:
    if re.fullmatch("sha256:[0-9a-f]{64}", text) is None:
        raise argparse.ArgumentTypeError(f"{text} is not sha256: and 64 hexadecimal digits")
    return text


def _serve(options: argparse.Namespace, extra: tuple[str, ...]) -> int:
    engine_options = _engine_options(options, extra)
    # The kernel drops a signal that PID 1 has no handler for yet, unless it is blocked; loading takes a moment.
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM, signal.SIGINT})
    from gptservice_runtime import launch

    serve_options = launch.ServeOptions(
        engine_options=engine_options,
        engine_paths=engine.EnginePaths(
            cache_root=options.cache_root,
            limits_file=options.limits_file,
            keys_directory=options.keys_directory,
            run_directory=options.run_directory,
            package_parent=Path(gptservice_runtime.__file__).parent.parent,
        ),
        probe_port=options.probe_port,
        startup_timeout=options.startup_timeout,
        ready_latency_milliseconds=options.ready_latency_milliseconds,
        drain_gap=options.drain_gap,
        termination_log=options.termination_log,
    )
    return launch.run(serve_options, os.environ)


def _engine_options(options: argparse.Namespace, extra: tuple[str, ...]) -> engine.EngineOptions:
    try:
        max_tokens = engine.tokens_cap(options.max_tokens, os.environ)
    except ValueError as error:
        raise _UsageError(str(error)) from error
    return engine.EngineOptions(
        model=_linked(options.model),
        served_model_names=tuple(options.served_model_name),
        tensor_parallel_size=options.tensor_parallel_size,
        max_model_len=options.max_model_len,
        max_tokens=max_tokens,
        otlp_endpoint=options.otlp_endpoint,
        drain_timeout=options.drain_timeout,
        require_api_key=options.require_api_key,
        tls=_tls(options),
        host=addresses.for_one_socket(),
        port=options.engine_port,
        extra_arguments=extra,
    )


def _linked(model: Path) -> Path:
    """A downloaded model under its own name: the engine's caches tell models apart by their paths."""
    return model.resolve() if model == Path(contract.FETCHED_MODEL) else model


def _fetch_options(options: argparse.Namespace) -> fetch.FetchOptions:
    download = fetch.DownloadOptions(
        cache_root=options.cache_root,
        cache_limit=options.cache_limit,
        token_directory=options.token_directory,
        credentials_directory=options.credentials_directory,
        ca_bundle=options.ca_bundle,
        link=options.link,
        metrics_port=options.probe_port,
        stall=options.stall,
        pause=options.pause,
    )
    decryption = at_rest.Decryption(key_directory=options.decryption_key_directory, root=options.decrypted_root)
    return fetch.FetchOptions(
        uri=options.uri,
        source_root=options.source_root,
        digest=options.digest,
        memory_limit=options.memory_limit,
        decryption=decryption if options.decrypt else None,
        download=download,
    )


def _tls(options: argparse.Namespace) -> tls.Directories | None:
    if options.require_client_certificate and not options.tls:
        raise _UsageError(f"{contract.REQUIRE_CLIENT_CERTIFICATE_FLAG} needs {contract.TLS_FLAG}")
    if not options.tls:
        return None
    client_ca = options.client_ca_directory if options.require_client_certificate else None
    return tls.Directories(certificate=options.tls_directory, client_ca=client_ca)


def _fetch(options: argparse.Namespace) -> int:
    try:
        result = fetch.fetch(_fetch_options(options))
    except models.ModelError as error:
        failure: contract.FailureMessage = {
            "reason": error.reason,
            "message": str(error),
            "phase": contract.PHASE_FETCHING,
        }
        termination.write_failure(options.termination_log, failure, os.environ)
        return contract.EXIT_FAILURE
    termination.write_fetched(options.termination_log, result)
    return contract.EXIT_OK


def _refuse(error: _UsageError, argv: list[str]) -> int:
    """The operator wrote these arguments, so a refusal means that the image does not belong to it."""
    failure: contract.FailureMessage = {
        "reason": contract.REASON_INVALID_IMAGE,
        "message": f"{error}: image and operator are of different versions; use the operator's own image",
        "phase": _first_phase(argv),
    }
    termination.write_failure(_termination_log(argv), failure, os.environ)
    return contract.EXIT_USAGE


def _tell_of_bug(error: Exception, argv: list[str]) -> int:
    """A container that ends without a word leaves its service without a reason."""
    trace = termination.without_queries("".join(traceback.format_exception(error)))
    _log.error("%s", termination.mask(trace, termination.secret_values(os.environ)))
    what = f"{type(error).__name__}: {error}: {contract.COMMAND} does not expect that; the container's log says where"
    failure: contract.FailureMessage = {
        "reason": contract.REASON_CRASH_LOOP,
        "message": termination.without_queries(what),
        "phase": _first_phase(argv),
    }
    termination.write_failure(_termination_log(argv), failure, os.environ)
    return contract.EXIT_FAILURE


def _first_phase(argv: list[str]) -> contract.Phase:
    return contract.PHASE_FETCHING if argv[:1] == [contract.FETCH_COMMAND] else contract.PHASE_CHECKING


def _termination_log(argv: list[str]) -> Path:
    parser = argparse.ArgumentParser(add_help=False, allow_abbrev=False, exit_on_error=False)
    parser.add_argument("--termination-log", default=contract.TERMINATION_LOG)
    return Path(parser.parse_known_args(argv)[0].termination_log)


if __name__ == "__main__":
    sys.exit(main())
