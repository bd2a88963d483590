"""A cluster that has been started: what tests, the demo and the commands do with it."""

import os
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from e2e.cluster import (
    audit,
    binaries,
    containerd,
    controlplane,
    credentials,
    namespaces,
    network,
    processes,
    records,
    rest,
)
from e2e.cluster.images import daemon, load


@dataclass(frozen=True)
class Cluster:
    """One cluster, by its record; nothing is checked by making one."""

    record: records.Record

    @property
    def name(self) -> str:
        """The cluster's name."""
        return self.record.spec.name

    @property
    def folder(self) -> Path:
        """The cluster's state folder."""
        return self.record.folder

    @property
    def kubeconfig(self) -> Path:
        """The administrator's kubeconfig."""
        return self.credentials.kubeconfig("admin")

    @property
    def credentials(self) -> credentials.Credentials:
        """Keys, certificates and kubeconfigs."""
        return credentials.Credentials(self.folder)

    @property
    def addresses(self) -> controlplane.Addresses:
        """Where the control plane listens, as seen from this machine."""
        if self.record.spec.profile == "node":
            return network.addresses(self.record.number)
        return controlplane.Addresses("127.0.0.1", "127.0.0.1", "10.244.0.0/16", self.record.ports)

    @property
    def api(self) -> rest.ApiClient:
        """The API server, as administrator."""
        own = self.credentials
        return rest.ApiClient(self.addresses.server, own.authority.certificate, own.pair("admin"))

    @property
    def audit(self) -> audit.AuditLog:
        """The API server's audit log."""
        return audit.AuditLog(self.folder / "logs" / "audit.jsonl")

    @property
    def kubectl(self) -> Path:
        """The kubectl binary of the cluster's version."""
        return binaries.tools()["kubectl"].path

    def components(self) -> Mapping[str, processes.Process]:
        """The components that were started, alive or not, by name."""
        return {process.component: process for process in processes.recorded(self.folder)}

    @property
    def init(self) -> processes.Process:
        """Process 1 of a node cluster; raises ValueError for one of profile api, which has no namespaces."""
        found = self.components().get(namespaces.INIT)
        if found is None:
            raise ValueError(
                f"cluster {self.name} has profile {self.record.spec.profile}: it has no namespaces to enter"
            )
        return found

    @property
    def network(self) -> Path:
        """The network namespace's file; profile api uses the machine's own network."""
        return Path("/proc/self/ns/net") if self.record.spec.profile == "api" else namespaces.network_of(self.init.pid)

    def run(self, command: Sequence[str]) -> int:
        """Runs a command where the cluster's names and addresses work, with its KUBECONFIG; returns its status."""
        environment = {**os.environ, "KUBECONFIG": str(self.kubeconfig)}
        return subprocess.run(self._where(command), env=environment, check=False).returncode

    def load_image(self, archive: Path) -> None:
        """Imports an OCI or Docker archive into the node; raises store.BuildError when containerd refuses it."""
        load.load_image(self._containerd, archive.absolute())

    def tag_image(self, reference: str, another: str) -> None:
        """Gives an image of the node one more name; raises store.BuildError when it is not there."""
        self._containerd.ctr("images", "tag", "--force", reference, another, what=f"tagging {reference} as {another}")

    @property
    def _containerd(self) -> daemon.Containerd:
        ctr = binaries.tools()["ctr"].path
        command = [str(ctr), f"--address={containerd.SOCKET}", f"--namespace={containerd.NAMESPACE}"]
        return daemon.Containerd((*namespaces.entering(self.init.pid), *command))

    def _where(self, command: Sequence[str]) -> list[str]:
        if self.record.spec.profile == "api":
            return list(command)
        return namespaces.entering_from(self.init.pid, Path.cwd(), command)
