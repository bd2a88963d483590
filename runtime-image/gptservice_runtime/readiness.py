"""When the pod may take traffic: a pure state machine."""

from dataclasses import dataclass, replace

from gptservice_runtime import contract


@dataclass(frozen=True, kw_only=True)
class Readiness:
    """What `/readyz` says. Phases go forward only: Checking, Loading, WarmingUp, Serving, Draining."""

    phase: contract.Phase = contract.PHASE_CHECKING
    engine_alive: bool = False
    detail: str = "the engine has not been started yet"
    keys_problem: str = ""
    """Why no request of our own can show an API key, where one is demanded."""
    certificate_problem: str = ""
    """Why the engine cannot be started yet, where TLS is asked for."""
    too_slow: str = ""
    """What a model that answers took for it, where it has not been within the latency that is asked for yet."""
    unresponsive: str = ""
    """Why the engine, once it has served, must get no requests; empty while it may."""
    started_up: bool = False
    """Whether it has ever been ready, or has answered: a kubelet that waits for the start need wait no longer."""

    def started(self) -> "Readiness":
        """The engine's process runs; after SIGTERM that changes nothing for clients."""
        if self.phase != contract.PHASE_CHECKING:
            return replace(self, engine_alive=True)
        return replace(self, phase=contract.PHASE_LOADING, engine_alive=True, detail="the engine is loading the model")

    def listed(self) -> "Readiness":
        """The engine's API lists every served name."""
        if self.phase != contract.PHASE_LOADING:
            return self
        return replace(self, phase=contract.PHASE_WARMING_UP, detail="the model is loaded; the warm-up is running")

    def answered_late(self, too_slow: str) -> "Readiness":
        """A request after the warm-up was answered, and not within the latency that is asked for."""
        if self.phase != contract.PHASE_WARMING_UP:
            return self
        return replace(self, too_slow=too_slow, started_up=True)

    def warmed_up(self) -> "Readiness":
        """The warm-up was answered, in time where that is asked for; an answer after SIGTERM changes nothing."""
        if self.phase != contract.PHASE_WARMING_UP:
            return self
        return replace(self, phase=contract.PHASE_SERVING, detail="serving", too_slow="", started_up=True)

    def with_keys_problem(self, problem: str) -> "Readiness":
        """What is wrong with the API keys; empty when nothing is (any more)."""
        return replace(self, keys_problem=problem)

    def with_certificate_problem(self, problem: str) -> "Readiness":
        """What is wrong with the certificate; empty when nothing is (any more)."""
        return replace(self, certificate_problem=problem)

    def with_health(self, unresponsive: str) -> "Readiness":
        """Why the engine must get no requests; empty when it may (again)."""
        return replace(self, unresponsive=unresponsive)

    def draining(self) -> "Readiness":
        """SIGTERM was received."""
        detail = "SIGTERM was received: running requests are being finished"
        return replace(self, phase=contract.PHASE_DRAINING, detail=detail)

    def engine_died(self) -> "Readiness":
        """The engine's process has ended; the phase stays, since it says when that was."""
        return replace(self, engine_alive=False, detail="the engine's process has ended")

    @property
    def ready(self) -> bool:
        """Whether the pod may take traffic."""
        return self.phase == contract.PHASE_SERVING and self.engine_alive and not self.unresponsive

    def not_ready(self) -> contract.NotReady:
        """Body of the 503."""
        if self.phase == contract.PHASE_DRAINING:
            reason = contract.REASON_DRAINING
        elif self.phase == contract.PHASE_SERVING and self.engine_alive:
            unresponsive = contract.REASON_ENGINE_UNRESPONSIVE
            return {"reason": unresponsive, "message": self.unresponsive, "phase": self.phase}
        elif self.phase == contract.PHASE_SERVING:
            reason = contract.REASON_CRASH_LOOP
        elif self.certificate_problem:
            unusable = contract.REASON_CERTIFICATE_UNUSABLE
            return {"reason": unusable, "message": self.certificate_problem, "phase": self.phase}
        elif self.keys_problem:
            return {"reason": contract.REASON_API_KEYS_UNUSABLE, "message": self.keys_problem, "phase": self.phase}
        elif self.too_slow:
            return {"reason": contract.REASON_READY_LATENCY_EXCEEDED, "message": self.too_slow, "phase": self.phase}
        else:
            reason = contract.REASON_MODEL_LOADING
        return {"reason": reason, "message": self.detail, "phase": self.phase}
