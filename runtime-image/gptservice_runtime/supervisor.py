"""PID 1 of the serving container: warms the engine up, watches it, drains it, and tells why it ended."""

import asyncio
import contextlib
import logging
import signal

from gptservice_runtime import (
    cgroup,
    child,
    contract,
    draining,
    engine,
    engine_schema,
    failures,
    keys,
    metrics,
    probes,
    readiness,
    tls,
)
from gptservice_runtime.certificate_wait import until_usable
from gptservice_runtime.failures import FailedError
from gptservice_runtime.launch import Launched
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


class Supervisor:
    """Goes on with what was launched."""

    def __init__(self, launched: Launched) -> None:
        self._launched = launched
        self._options = options = launched.options
        self._environment = launched.environment
        self._state = readiness.Readiness()
        self._stop = asyncio.Event()
        self._heartbeat = 0.0
        self._control = launched.control
        self._reach = Reach(
            base_url=f"http{'s' if options.engine_options.tls else ''}://127.0.0.1:{options.engine_options.port}",
            token=launched.token,
            own_socket=launched.own_socket,
        )
        keys_directory = options.engine_paths.keys_directory if options.engine_options.require_api_key else None
        self._engine_metrics = metrics.EngineMetrics(self._reach, keys_directory)
        self._start_seconds: float | None = None

    async def run(self) -> int:
        """Serve until SIGTERM or a failure; the exit code."""
        loop = asyncio.get_running_loop()
        for number in _STOP_SIGNALS:
            loop.add_signal_handler(number, self._on_stop_signal, number)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, _STOP_SIGNALS)
        beating = asyncio.create_task(self._beat())
        try:
            return await self._serve()
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

    async def _serve(self) -> int:
        loop = asyncio.get_running_loop()
        began, process = loop.time(), self._launched.process
        app = probes.application(lambda: self._state, lambda: loop.time() - self._heartbeat, self._metrics)
        async with contextlib.AsyncExitStack() as stack:
            if process is not None:
                stack.callback(_end, process)
            try:
                await stack.enter_async_context(probes.serving(app, self._options.probe_port))
            except OSError as error:
                raise self._failed(
                    contract.REASON_CRASH_LOOP,
                    f"cannot serve probes on port {self._options.probe_port}: {error}",
                ) from error
            if process is None:
                if not await self._has_certificate(began + self._options.startup_timeout):
                    return contract.EXIT_OK
                process = self._launched.start()
                stack.callback(_end, process)
            self._state = self._state.started()
            return await self._live(process, began)

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

    async def _has_certificate(self, deadline: float) -> bool:
        """Wait for one that can be served, where TLS is asked for; False when SIGTERM came first."""
        directories = self._options.engine_options.tls
        try:
            return directories is None or await until_usable(directories, self._stop, deadline, self._on_certificate)
        except tls.UnusableCertificateError as error:
            raise self._failed(contract.REASON_CERTIFICATE_UNUSABLE, str(error)) from error

    def _on_certificate(self, problem: str) -> None:
        self._state = self._state.with_certificate_problem(problem)

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
        return 0 if now is None or self._launched.oom_kills is None else now - self._launched.oom_kills

    def _failed(self, reason: contract.TerminationReason, message: str) -> FailedError:
        return FailedError({"reason": reason, "message": message, "phase": self._state.phase})


def _end(process: child.Child) -> None:
    process.kill_group()
    process.drain_output(LAST_OUTPUT_SECONDS)
