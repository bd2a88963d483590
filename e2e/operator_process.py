"""The operator as a process of its own, always as the chart's ServiceAccount, never as an administrator."""

import base64
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

import yaml

from e2e.kube import Kube, Object

ROOT = Path(__file__).resolve().parent.parent
CHART = ROOT / "charts" / "gptservice-operator"
CRDS = ROOT / "crds"
NAMESPACE = "gptservice-system"
RELEASE = "gptservice-operator"

# What the chart is asked for: who the operator is and what it may do. It runs as a process, not as a pod.
_RBAC = ("ServiceAccount", "ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding")
_READY_SECONDS = 60.0
_STOP_SECONDS = 15.0
_LOG_TAIL = 8000

# Periods up to 100 times shorter than in production; no ports, as several test runs may share a machine.
FAST = {
    "GPTSERVICE_RUNTIME_IMAGE": "localhost/gptservice-standin:dev",
    "GPTSERVICE_RESYNC_SECONDS": "5",
    "GPTSERVICE_BACKOFF_BASE_SECONDS": "0.2",
    "GPTSERVICE_BACKOFF_MAX_SECONDS": "2",
    "GPTSERVICE_STATUS_INTERVAL_SECONDS": "0.2",
    # Not while a test looks: a status that is written because time has passed would disturb counts.
    "GPTSERVICE_STABLE_SECONDS": "3600",
    "GPTSERVICE_HEALTH_PORT": "0",
    "GPTSERVICE_METRICS_PORT": "0",
    "GPTSERVICE_DEBUG_PORT": "0",
    # One process is enough for most tests, and a Lease that it does not give back would hold up the next.
    "GPTSERVICE_LEASE_SECONDS": "0",
}


@dataclass(frozen=True)
class Access:
    """How the operator reaches an API server: its address, the authority to trust (PEM), its token."""

    server: str
    authority: str | None
    token: str

    def through(self, url: str, authority: str | None = None) -> "Access":
        """The same user by another way, such as a proxy's URL."""
        return Access(url, authority, self.token)

    def write(self, path: Path) -> Path:
        """Write a kubeconfig that only the owner can read."""
        cluster: Object = {"server": self.server}
        if self.authority is not None:
            cluster["certificate-authority-data"] = base64.b64encode(self.authority.encode()).decode()
        name = "operator"
        config = {
            "apiVersion": "v1",
            "kind": "Config",
            "current-context": name,
            "clusters": [{"name": name, "cluster": cluster}],
            "users": [{"name": name, "user": {"token": self.token}}],
            "contexts": [{"name": name, "context": {"cluster": name, "user": name}}],
        }
        path.touch(mode=0o600)
        path.write_text(json.dumps(config, indent=1))  # JSON is YAML
        return path


def install(kube: Kube, helm: Path, *, namespace: str = NAMESPACE) -> str:
    """Apply the CRDs and the chart's RBAC, wait for the CRDs, and return the ServiceAccount's name.

    Raises subprocess.CalledProcessError when the chart cannot be rendered.
    """
    for file in sorted(CRDS.glob("*.yaml")):
        kube.apply_file(file)
    if kube.find("Namespace", namespace) is None:
        kube.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}})
    account = grant(kube, helm, namespace=namespace)
    for name in (yaml.safe_load(file.read_text())["metadata"]["name"] for file in CRDS.glob("*.yaml")):
        _await_established(kube, name)
    return account


def grant(kube: Kube, helm: Path, *, namespace: str = NAMESPACE, values: Mapping[str, Any] | None = None) -> str:
    """Apply the chart's ServiceAccount and its rights; return the account's name."""
    account = ""
    for manifest in chart(helm, namespace, values):
        if manifest["kind"] in _RBAC:
            kube.apply(manifest)
            account = manifest["metadata"]["name"] if manifest["kind"] == "ServiceAccount" else account
    return account


def chart(helm: Path, namespace: str, values: Mapping[str, Any] | None = None) -> list[Object]:
    """The chart's manifests, with its default values if none are given."""
    command = [str(helm), "template", RELEASE, str(CHART), "--namespace", namespace, "--values", "-"]
    given = json.dumps(values or {})
    text = subprocess.run(command, input=given, capture_output=True, text=True, check=True).stdout
    return [document for document in cast(Any, yaml).safe_load_all(text) if document]


def access(kube: Kube, kubeconfig: Path, account: str, *, namespace: str = NAMESPACE) -> Access:
    """A token of the ServiceAccount, with the server and authority of an administrator's kubeconfig."""
    cluster = yaml.safe_load(kubeconfig.read_text())["clusters"][0]["cluster"]
    data = cluster.get("certificate-authority-data")
    file = cluster.get("certificate-authority")
    authority = base64.b64decode(data).decode() if data else None
    if authority is None and file:
        authority = (kubeconfig.parent / file).read_text()
    return Access(cluster["server"], authority, kube.token(account, namespace))


@dataclass
class OperatorProcess:
    """`python -m gptservice_operator` under a kubeconfig; one process at a time, one log for all of them.

    Or another operator, with another command.
    """

    kubeconfig: Path
    log: Path
    settings: Mapping[str, str] = field(default_factory=dict[str, str])
    """Environment variables that differ from FAST."""
    on_start: Callable[[int], None] | None = None
    """Called with each new process id."""
    command: Sequence[str] = (sys.executable, "-m", "gptservice_operator")
    filled: bytes = b"store filled"
    """What it logs when it has listed everything once."""
    _process: "subprocess.Popen[bytes] | None" = field(default=None, init=False)
    _log_start: int = field(default=0, init=False)

    @property
    def running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    @property
    def pid(self) -> int:
        """The process id; raises RuntimeError when it is not running."""
        if self._process is None or not self.running:
            raise RuntimeError(f"the operator is not running; its log is {self.log}")
        return self._process.pid

    @property
    def cpu_seconds(self) -> float:
        """CPU time that the running process has used, in seconds; says more than the clock on a busy machine."""
        fields = Path(f"/proc/{self.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")  # utime and stime

    def resident_bytes(self, *, peak: bool = False) -> int:
        """Resident memory of the running process, now or the most that it has had."""
        wanted = "VmHWM:" if peak else "VmRSS:"
        lines = Path(f"/proc/{self.pid}/status").read_text().splitlines()
        return next(int(line.split()[1]) << 10 for line in lines if line.startswith(wanted))

    def start(self, *, wait: bool = True) -> None:
        """Start it; with `wait`, return when its store is filled. RuntimeError when it ends instead."""
        if self.running:
            return
        self.log.parent.mkdir(parents=True, exist_ok=True)
        with self.log.open("ab") as stream:
            stream.write(f"--- started at {time.strftime('%H:%M:%S')}\n".encode())
            self._log_start = stream.tell()
            self._process = subprocess.Popen(
                self.command,
                env=self._environment(),
                stdin=subprocess.DEVNULL,
                stdout=stream,
                stderr=subprocess.STDOUT,
                cwd=ROOT,
                start_new_session=True,  # a Ctrl-C is for the test run, which then stops it
            )
        if self.on_start is not None:
            self.on_start(self._process.pid)
        if wait:
            self.wait_filled()

    def wait_filled(self) -> None:
        """Wait until this process has listed everything once."""
        deadline = time.monotonic() + _READY_SECONDS
        while self.filled not in self.output():
            if not self.running:
                raise RuntimeError(f"the operator ended at its start:\n{self.tail()}")
            if time.monotonic() > deadline:
                raise RuntimeError(f"the operator did not fill its store in {_READY_SECONDS:.0f} s:\n{self.tail()}")
            time.sleep(0.05)

    def terminate(self) -> None:
        """SIGTERM, without waiting."""
        self.signal(signal.SIGTERM)

    def stop(self) -> int:
        """SIGTERM, then SIGKILL when it does not end; returns the exit status."""
        if self._process is None:
            return 0
        self._process.terminate()
        try:
            return self._process.wait(_STOP_SECONDS)
        except subprocess.TimeoutExpired:
            return self.kill()

    def kill(self) -> int:
        """kill -9."""
        if self._process is None:
            return 0
        self._process.kill()
        return self._process.wait()

    def wait_ended(self, timeout: float = 30) -> int:
        """Wait until something else has ended it; returns the exit status, raises TimeoutExpired."""
        if self._process is None:
            return 0
        return self._process.wait(timeout)

    def restart(self) -> None:
        """Stop in an orderly way and start again."""
        self.stop()
        self.start()

    def signal(self, number: signal.Signals) -> None:
        """Send a signal such as SIGSTOP."""
        os.kill(self.pid, number)

    def output(self) -> bytes:
        """What the current (or last) process has logged."""
        with self.log.open("rb") as stream:
            stream.seek(self._log_start)
            return stream.read()

    def tail(self) -> str:
        """The log's end, over all processes, for people."""
        if not self.log.exists():
            return "(no log)"
        return self.log.read_bytes()[-_LOG_TAIL:].decode(errors="replace")

    def _environment(self) -> dict[str, str]:
        inherited = {key: value for key, value in os.environ.items() if not key.startswith("GPTSERVICE_")}
        own = {"KUBECONFIG": str(self.kubeconfig), "PYTHONUNBUFFERED": "1"}
        return {**inherited, **FAST, **self.settings, **own}


def _await_established(kube: Kube, name: str, *, timeout: float = 30) -> None:
    deadline = time.monotonic() + timeout
    while True:
        crd = kube.get("CustomResourceDefinition", name)
        conditions = {c["type"]: c["status"] for c in crd.get("status", {}).get("conditions", [])}
        if conditions.get("Established") == "True":
            return
        if time.monotonic() > deadline:
            raise TimeoutError(f"the CRD {name} is not established after {timeout:.0f} s: {conditions}")
        time.sleep(0.1)
