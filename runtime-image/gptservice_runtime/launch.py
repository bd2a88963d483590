"""The start of the serving container: checks, and the engine's process before all else.

The engine takes long to load its own libraries. The supervisor's, HTTP above all, are loaded meanwhile and not before:
nothing here may import them at its top.
"""

import asyncio
import contextlib
import errno
import logging
import os
import secrets
import shutil
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from gptservice_runtime import cgroup, child, contract, control, engine, models, run_directory
from gptservice_runtime.failures import FailedError
from gptservice_runtime.termination import write_failure

_log = logging.getLogger(__name__)
_NO_ROOM = frozenset({errno.ENOSPC, errno.EDQUOT})


@dataclass(frozen=True, kw_only=True)
class ServeOptions:
    """Everything that `serve` was asked; times are in seconds where they do not say otherwise."""

    engine_options: engine.EngineOptions
    engine_paths: engine.EnginePaths
    probe_port: int
    startup_timeout: int
    ready_latency_milliseconds: int | None
    drain_gap: float
    termination_log: Path


@dataclass(frozen=True, kw_only=True)
class Launched:
    """What the supervisor goes on with."""

    options: ServeOptions
    environment: Mapping[str, str]
    token: str
    """By which the engine's middleware knows the supervisor."""
    control: control.ControlBlock
    reaper: child.Reaper
    oom_kills: int | None
    """Of the container, before the engine was started."""
    process: child.Child | None
    """The engine; None if it has to wait for a certificate."""

    @property
    def own_socket(self) -> Path | None:
        """The way in that needs no client certificate; None where none is demanded."""
        return self.options.engine_paths.own_socket if self.options.engine_options.is_mutual_tls else None

    def start(self) -> child.Child:
        """Start the engine. FailedError."""
        options = self.options.engine_options
        argv = engine.arguments(options)
        environment = {
            **engine.environment(self.environment, self.options.engine_paths, self.token, options.otlp_endpoint),
            **engine.tls_environment(options.tls, self.own_socket),
        }
        _log.info("starting %s", engine.command_line(argv))
        try:
            return child.start(argv, environment, self.reaper)
        except FileNotFoundError as error:
            raise _failed(contract.REASON_INVALID_IMAGE, engine.missing_message(environment.get("PATH", ""))) from error
        except OSError as error:
            raise _failed(contract.REASON_INVALID_IMAGE, f"cannot start {argv[0]}: {error.strerror}") from error


def run(options: ServeOptions, environment: Mapping[str, str]) -> int:
    """Serve until SIGTERM or a failure; the exit code. Needs the main thread, where SIGTERM may be blocked."""
    with contextlib.ExitStack() as stack:
        return asyncio.run(_run(options, environment, stack))


async def _run(options: ServeOptions, environment: Mapping[str, str], stack: contextlib.ExitStack) -> int:
    try:
        launched = _launch(options, environment, stack)
    except FailedError as failed:
        write_failure(options.termination_log, failed.failure, environment)
        return contract.EXIT_FAILURE
    from gptservice_runtime.supervisor import Supervisor

    return await Supervisor(launched).run()


def _launch(options: ServeOptions, environment: Mapping[str, str], stack: contextlib.ExitStack) -> Launched:
    _check_model(options.engine_options.model)
    _make_home(options.engine_paths)
    try:
        paths, block = run_directory.made(options.engine_paths)
    except run_directory.NoRunDirectoryError as error:
        raise _failed(contract.REASON_INVALID_IMAGE, str(error)) from error
    stack.callback(shutil.rmtree, paths.run_directory, ignore_errors=True)
    run_directory.remove_old(paths.cache_root)
    launched = Launched(
        options=replace(options, engine_paths=paths),
        environment=environment,
        token=secrets.token_hex(),
        control=block,
        reaper=child.Reaper(asyncio.get_running_loop()),
        oom_kills=cgroup.oom_kills(),
        process=None,
    )
    if options.engine_options.tls is not None:
        return launched
    return replace(launched, process=launched.start())


def _check_model(model: Path) -> None:
    try:
        models.inspect(model, models.root_of(model))
    except models.ModelError as error:
        raise _failed(error.reason, str(error)) from error


def _make_home(paths: engine.EnginePaths) -> None:
    try:
        paths.home.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        what = f"cannot write to {error.filename} ({error.strerror})"
        if error.errno in _NO_ROOM:
            # The model is there, and an engine needs no caches: what it cannot do without it says itself.
            _log.warning("%s: the engine goes without caches; free the volume, or set a larger spec.cache.size", what)
            return
        message = f"{what}: mount a volume at {paths.cache_root} that UID {os.getuid()} may write to (fsGroup)"
        raise _failed(contract.REASON_INVALID_IMAGE, message) from error


def _failed(reason: contract.TerminationReason, message: str) -> FailedError:
    return FailedError({"reason": reason, "message": message, "phase": contract.PHASE_CHECKING})
