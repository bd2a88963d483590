"""PID 1 of the serving container: starts the engine, warms it up, drains it, and tells why it ended."""

import asyncio
import contextlib
import logging
import os
import secrets
import signal
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from gptservice_runtime import (
    cgroup,
    child,
    contract,
    control,
    draining,
    engine,
    engine_schema,
    failures,
    keys,
    metrics,
    models,
    probes,
    readiness,
    tls,
)
from gptservice_runtime.certificate_wait import until_usable
from gptservice_runtime.failures import FailedError
from gptservice_runtime.reach import NotDemandedError, Reach
from gptservice_runtime.termination import write_failure
from gptservice_runtime.waiting import first
from gptservice_runtime.warm_up import Latency, WarmUpRefusedError, warm_up
from gptservice_runtime.watch import watch

_log = logging.getLogger(__name__)

_STOP_SIGNALS = (signal.SIGTERM, signal.SIGINT)
_HEARTBEAT_SECONDS = 1.0
_ABANDON_SECONDS = 2.0
"""Grace for an engine that is stopped before it has served: nothing can be lost."""
LAST_OUTPUT_SECONDS = 1.5
"""For the threads that pass output on: on a busy node they may come to the last lines late."""


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


def run(options: ServeOptions, environment: Mapping[str, str]) -> int:
    """Serve until SIGTERM or a failure; the exit code. Needs the main thread, where SIGTERM may be blocked."""
    with contextlib.ExitStack() as stack:
        folder = None
        if options.engine_options.is_mutual_tls:
            folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="gptservice-")))
        return asyncio.run(_Supervisor(options, environment, folder).run())


class _Supervisor:
    def __init__(self, options: ServeOptions, environment: Mapping[str, str], own_folder: Path | None) -> None:
        """`own_folder` is for the way in that needs no client certificate: nobody but this user may enter it."""
        self._options = options
        self._environment = environment
        self._state = readiness.Readiness()
        self._stop = asyncio.Event()
        self._heartbeat = 0.0
        self._control = control.ControlBlock.private()
        self._oom_kills_before = cgroup.oom_kills()
        self._reach = Reach(
            base_url=f"http{'s' if options.engine_options.tls else ''}://127.0.0.1:{options.engine_options.port}",
            token=secrets.token_hex(),
            own_socket=own_folder and own_folder / "engine.sock",
        )
        keys_directory = options.engine_paths.keys_directory if options.engine_options.require_api_key else None
        self._engine_metrics = metrics.EngineMetrics(self._reach, keys_directory)
        self._start_seconds: float | None = None

    async def run(self) -> int:
        loop = asyncio.get_running_loop()
        for number in _STOP_SIGNALS:
            loop.add_signal_handler(number, self._on_stop_signal, number)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, _STOP_SIGNALS)
        reaper = child.Reaper(loop)
        beating = asyncio.create_task(self._beat())
        try:
            return await self._serve(reaper)
        except FailedError as failed:
            write_failure(self._options.termination_log, failed.failure, self._environment)
            return contract.EXIT_FAILURE
        finally:
            beating.cancel()

    def _on_stop_signal(self, number: int) -> None:
        name = signal.Signals(number).name
        if self._stop.is_set():
            # A restarted kubelet repeats SIGTERM: the streams that are being finished must not pay for that.
            _log.info("%s again: already draining", name)
            return
        _log.info("%s: no longer ready", name)
        self._state = self._state.draining()
        self._control.stop()
        self._stop.set()

    async def _beat(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            self._heartbeat = loop.time()
            await asyncio.sleep(_HEARTBEAT_SECONDS)

    async def _serve(self, reaper: child.Reaper) -> int:
        loop = asyncio.get_running_loop()
        began = loop.time()
        app = probes.application(lambda: self._state, lambda: loop.time() - self._heartbeat, self._metrics)
        async with contextlib.AsyncExitStack() as stack:
            try:
                await stack.enter_async_context(probes.serving(app, self._options.probe_port))
            except OSError as error:
                raise self._failed(
                    contract.REASON_CRASH_LOOP,
                    f"cannot serve probes on port {self._options.probe_port}: {error}",
                ) from error
            self._check()
            if not await self._has_certificate(began + self._options.startup_timeout):
                return contract.EXIT_OK
            process = self._start(reaper)
            try:
                return await self._live(process, began)
            finally:
                process.kill_group()
                process.drain_output(LAST_OUTPUT_SECONDS)

    async def _metrics(self) -> bytes:
        theirs = await self._engine_metrics.fetch() if self._state.engine_alive else None
        return metrics.page(theirs, self._state, self._control, self._start_seconds)

    async def _live(self, process: child.Child, began: float) -> int:
        if not await self._get_ready(process, began + self._options.startup_timeout):
            return await self._abandon(process)
        self._start_seconds = asyncio.get_running_loop().time() - began
        _log.info("ready")
        on_cpu = engine.is_on_cpu(self._environment)
        watching = asyncio.create_task(watch(process, self._control, self._on_health, on_cpu=on_cpu))
        try:
            await first(process.ended, self._stop.wait(), watching)
            if watching.done():
                watching.result()
        finally:
            watching.cancel()
        if process.ended.done():
            raise self._engine_died(process)
        return await self._drain(process)

    def _on_health(self, problem: str) -> None:
        self._state = self._state.with_health(problem)

    def _check(self) -> None:
        try:
            models.inspect(self._options.engine_options.model, models.root_of(self._options.engine_options.model))
        except models.ModelError as error:
            raise self._failed(error.reason, str(error)) from error
        paths = self._options.engine_paths
        try:
            for folder in paths.folders:
                folder.mkdir(parents=True, exist_ok=True)
            self._control = control.ControlBlock.create(paths.control_file)
        except OSError as error:
            what = f"cannot write to {error.filename} ({error.strerror})"
            message = f"{what}: mount a volume at {paths.cache_root} that UID {os.getuid()} may write to (fsGroup)"
            raise self._failed(contract.REASON_INVALID_IMAGE, message) from error

    async def _has_certificate(self, deadline: float) -> bool:
        """Wait for one that can be served, where TLS is asked for; False when SIGTERM came first."""
        directories = self._options.engine_options.tls
        try:
            return directories is None or await until_usable(directories, self._stop, deadline, self._on_certificate)
        except tls.UnusableCertificateError as error:
            raise self._failed(contract.REASON_CERTIFICATE_UNUSABLE, str(error)) from error

    def _on_certificate(self, problem: str) -> None:
        self._state = self._state.with_certificate_problem(problem)

    def _start(self, reaper: child.Reaper) -> child.Child:
        options, paths = self._options.engine_options, self._options.engine_paths
        argv = engine.arguments(options)
        environment = {
            **engine.environment(self._environment, paths, self._reach.token, options.otlp_endpoint),
            **engine.tls_environment(options.tls, self._reach.own_socket),
        }
        _log.info("starting %s", engine.command_line(argv))
        try:
            process = child.start(argv, environment, reaper)
        except FileNotFoundError as error:
            message = engine.missing_message(environment.get("PATH", ""))
            raise self._failed(contract.REASON_INVALID_IMAGE, message) from error
        except OSError as error:
            raise self._failed(contract.REASON_INVALID_IMAGE, f"cannot start {argv[0]}: {error.strerror}") from error
        self._state = self._state.started()
        return process

    async def _get_ready(self, process: child.Child, deadline: float) -> bool:
        """Whether the engine serves; False when SIGTERM came first."""
        key = self._key if self._options.engine_options.require_api_key else None
        names, asked = self._options.engine_options.served_model_names, self._options.ready_latency_milliseconds
        latency = None if asked is None else Latency(milliseconds=asked, on_late=self._on_late)
        warming = asyncio.create_task(warm_up(self._reach, names, self._on_listed, key, latency))
        try:
            budget = deadline - asyncio.get_running_loop().time()
            await first(warming, process.ended, self._stop.wait(), within=budget)
            if self._stop.is_set():
                return False
            if process.ended.done():
                raise self._engine_died(process)
            if not warming.done():
                raise self._start_up_failed(process)
            warming.result()
        except WarmUpRefusedError as error:
            raise self._failed(contract.REASON_MODEL_LOAD_FAILED, str(error)) from error
        except NotDemandedError as error:
            message = f"{error}: use an image derived from the GPTService runtime image"
            raise self._failed(contract.REASON_INVALID_IMAGE, message) from error
        finally:
            warming.cancel()
        self._state = self._state.warmed_up()
        return True

    def _key(self) -> str | None:
        """A key for the warm-up; without one the pod is not ready and says why."""
        try:
            key, problem = keys.first_key(self._options.engine_paths.keys_directory), ""
        except keys.UnusableKeysError as error:
            key, problem = None, str(error)
        if problem and problem != self._state.keys_problem:
            _log.warning("not ready: %s", problem)
        self._state = self._state.with_keys_problem(problem)
        return key

    def _on_listed(self) -> None:
        self._state = self._state.listed()
        _log.info("model loaded, warming up")

    def _on_late(self, too_slow: str) -> None:
        _log.warning("not ready: %s", too_slow)
        self._state = self._state.answered_late(too_slow)

    async def _abandon(self, process: child.Child) -> int:
        _log.info("stopping the engine before it has served")
        process.terminate()
        await first(process.ended, within=_ABANDON_SECONDS)
        return contract.EXIT_OK

    async def _drain(self, process: child.Child) -> int:
        drain_timeout = self._options.engine_options.drain_timeout
        times = draining.Times(gap=self._options.drain_gap, timeout=drain_timeout)
        try:
            await draining.drain(process, self._control, times)
        except draining.EngineEndedError as error:
            raise self._engine_died(process) from error
        except draining.DrainTimeoutError as error:
            raise self._failed(contract.REASON_DRAIN_TIMEOUT, str(error)) from error
        return contract.EXIT_OK

    def _engine_died(self, process: child.Child) -> FailedError:
        self._state = self._state.engine_died()
        process.kill_group()
        process.drain_output(LAST_OUTPUT_SECONDS)
        evidence = failures.Evidence(
            ended=process.ended.result(),
            phase=self._state.phase,
            arguments=engine.chosen_arguments(self._options.engine_options),
            flags=engine_schema.names(engine_schema.path()),
            last_output=process.tail.text(),
            oom_kills=self._oom_kills(),
        )
        return FailedError(failures.classify(evidence))

    def _start_up_failed(self, process: child.Child) -> FailedError:
        budget = self._options.startup_timeout
        if self._state.keys_problem:
            message = f"not serving after {budget} s (startupTimeoutSeconds): {self._state.keys_problem}"
            return self._failed(contract.REASON_API_KEYS_UNUSABLE, message)
        phase, too_slow = self._state.phase, self._state.too_slow
        return FailedError(failures.start_up_budget_used_up(phase, budget, process.tail.text(), too_slow))

    def _oom_kills(self) -> int:
        now = cgroup.oom_kills()
        return 0 if now is None or self._oom_kills_before is None else now - self._oom_kills_before

    def _failed(self, reason: contract.TerminationReason, message: str) -> FailedError:
        return FailedError({"reason": reason, "message": message, "phase": self._state.phase})
