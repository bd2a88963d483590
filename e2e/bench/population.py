"""The services of a benchmark: made, edited and looked at as their users would."""

import itertools
import threading
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from e2e.api.state import service
from e2e.kube import THREADS, Kube, Object, wait_until

NAMESPACES = 10
FAILING = "bench-failing"
CHILDREN = 5
"""What each has: a Deployment, two Services, a ConfigMap and a ControllerRevision."""
FAILING_EDITS_PER_SECOND = 20

Change = Callable[[int], Mapping[str, Any]]
"""What an edit of a service sets in its spec, by the service's number."""


@dataclass
class Population:
    """So many services, spread over some namespaces."""

    kube: Kube
    services: int
    replicas: int
    _limits: Iterator[int] = field(default_factory=lambda: itertools.count(1000))

    def prepare(self) -> None:
        """Make the namespaces; returns when they can be used."""
        for number in range(NAMESPACES):
            self._make_namespace(namespace(number))

    def create(self) -> None:
        """Make all services, as fast as that goes."""
        self.kube.create_many(map(self._service, range(self.services)))

    def another_limit(self) -> dict[str, Any]:
        """A change that no service has had: it touches no pod, and changes one child, a ConfigMap."""
        return {"maxInflightRequests": next(self._limits)}

    def edit(self, number: int, change: Mapping[str, Any]) -> None:
        """Edit one."""
        self.kube.merge("GPTService", f"gpt-{number}", namespace(number), {"spec": change})

    def edit_many(self, change: Mapping[str, Any], services: int) -> None:
        """Edit the first so many, as fast as that goes."""
        with ThreadPoolExecutor(THREADS) as pool:
            list(pool.map(lambda number: self.edit(number, change), range(services)))

    def check_converged(self) -> None:
        """Every service has to say of its newest generation that all is as asked for; RuntimeError otherwise."""
        phase = "Ready" if self.replicas else "Stopped"
        for one in self.kube.all("GPTService"):
            status, metadata = one.get("status") or {}, one["metadata"]
            if (status.get("phase"), status.get("observedGeneration")) != (phase, metadata["generation"]):
                raise RuntimeError(f"{metadata['namespace']}/{metadata['name']} is not {phase}: {status}")

    @contextmanager
    def failing(self) -> Iterator[None]:
        """A service whose passes all fail, as its namespace has no room for its ConfigMap; its edits never cease."""
        self._make_namespace(FAILING)
        quota = {"kind": "ResourceQuota", "metadata": {"name": "none"}, "spec": {"hard": {"count/configmaps": "1"}}}
        self.kube.create({"apiVersion": "v1", **quota}, FAILING)
        self.kube.create({**self._service(0), "metadata": {"name": "failing", "namespace": FAILING}})
        over = threading.Event()

        def edit() -> None:
            while not over.wait(1 / FAILING_EDITS_PER_SECOND):
                self.kube.merge("GPTService", "failing", FAILING, {"spec": self.another_limit()})

        with ThreadPoolExecutor(1) as pool:
            edits = pool.submit(edit)
            try:
                yield
            finally:
                over.set()
            edits.result()
        self.kube.delete("GPTService", "failing", FAILING)

    def add_secrets(self, count: int, size: int) -> None:
        """Make Secrets that are none of the operator's business, of so many bytes each."""
        data = {"data": {"blob": "A" * (size // 3 * 4)}}
        for number in range(count):
            metadata = {"name": f"foreign-{number}", "namespace": namespace(number)}
            self.kube.create({"apiVersion": "v1", "kind": "Secret", "metadata": metadata, **data})

    def _make_namespace(self, name: str) -> None:
        self.kube.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
        account = lambda: self.kube.find("ServiceAccount", "default", name)  # noqa: E731
        wait_until(account, lambda found: found is not None, f"the ServiceAccount of {name}")

    def _service(self, number: int) -> Object:
        return bare_service(f"gpt-{number}", namespace(number), replicas=self.replicas)


def bare_service(name: str, namespace: str, *, replicas: int) -> Object:
    """A service of as few children as the operator can be told to make."""
    made = service(
        name,
        replicas=replicas,
        maxInflightRequests=16,
        auth={"disabled": True},
        networkPolicy={"disabled": True},
        serviceAccountName="default",
    )
    return {**made, "metadata": {**made["metadata"], "namespace": namespace}}


def namespace(number: int) -> str:
    """The namespace of a service, by its number."""
    return f"bench-{number % NAMESPACES}"
