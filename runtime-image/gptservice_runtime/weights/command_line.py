"""`gptservice-runtime encrypt|decrypt|verify|rewrap`: for people, before a model is put where pods fetch it."""

import argparse
import signal
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from types import FrameType
from typing import NoReturn

from gptservice_runtime import contract
from gptservice_runtime.units import size
from gptservice_runtime.weights import decrypting, encrypting, keys, seal
from gptservice_runtime.weights.errors import WeightsError
from gptservice_runtime.weights.seal import Seal

_KEY_HELP = "file with the key, 32 bytes in base64 (openssl rand -base64 32); one per line where there are several"
_NEW_KEY_HELP = "file with the keys that open the model from now on; others do not any more"


def main(argv: Sequence[str]) -> int:
    """Run one command; the exit code: 0, 1 with the reason on stderr, or 2 for wrong arguments."""
    options = _parser().parse_args(argv)
    # Ends with what it has begun removed; without a handler it would be left for the next run.
    signal.signal(signal.SIGTERM, _stop)
    try:
        options.run(options)
    except (WeightsError, OSError) as error:
        sys.stderr.write(f"{contract.COMMAND} {options.command}: {_text(error)}\n")
        return contract.EXIT_FAILURE
    except KeyboardInterrupt:
        return 128 + signal.SIGINT
    return contract.EXIT_OK


def _stop(number: int, _frame: FrameType | None) -> NoReturn:
    sys.exit(128 + number)


def _text(error: Exception) -> str:
    if isinstance(error, OSError) and error.strerror:
        return f"{error.filename or 'writing'}: {error.strerror}"
    return str(error)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog=contract.COMMAND, description=__doc__, allow_abbrev=False)
    commands = parser.add_subparsers(dest="command", required=True)
    for name, (run, paths, what) in _COMMANDS.items():
        command = commands.add_parser(name, allow_abbrev=False, help=what, description=what)
        command.add_argument("--key", type=Path, required=True, metavar="FILE", help=_KEY_HELP)
        if run is _rewrap:
            command.add_argument("--new-key", type=Path, required=True, metavar="FILE", help=_NEW_KEY_HELP)
        for path in paths:
            command.add_argument(path, type=Path, metavar=path.upper())
        command.set_defaults(run=run)
    return parser


def _encrypt(options: argparse.Namespace) -> None:
    made = encrypting.encrypt(options.source, options.target, keys.read_file(options.key))
    _tell(f"{options.target}: encrypted", made)


def _decrypt(options: argparse.Namespace) -> None:
    opened = decrypting.opened(options.source, keys.read_file(options.key))
    opened.decrypt(opened.names, options.target)
    _tell(f"{options.target}: decrypted", opened.seal)


def _verify(options: argparse.Namespace) -> None:
    opened = decrypting.opened(options.model, keys.read_file(options.key))
    opened.verify(opened.names)
    _tell(f"{options.model}: as it was encrypted", opened.seal)


def _rewrap(options: argparse.Namespace) -> None:
    made = encrypting.rewrap(options.model, keys.read_file(options.key), keys.read_file(options.new_key))
    _tell(f"{options.model}: rewrapped", made)


def _tell(what: str, of: Seal) -> None:
    total = size(sum(file.size for file in of.files))
    names = ", ".join(key.key_id for key in of.keys)
    sys.stdout.write(f"{what}: {len(of.files)} files, {total}, {seal.FORMAT}, for key {names}\n")


_COMMANDS: dict[str, tuple[Callable[[argparse.Namespace], None], tuple[str, ...], str]] = {
    "encrypt": (_encrypt, ("source", "target"), "a model (a folder or a file) into a new folder with the same names"),
    "decrypt": (_decrypt, ("source", "target"), "an encrypted model into a new folder"),
    "verify": (_verify, ("model",), "read an encrypted model, and say whether it is as it was encrypted"),
    "rewrap": (_rewrap, ("model",), "change the keys that open a model; only its seal is written anew"),
}
