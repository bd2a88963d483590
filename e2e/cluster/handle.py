"""A cluster that has been started: what tests, the demo and the commands do with it."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from e2e.cluster import audit, binaries, controlplane, credentials, network, processes, records, rest


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

    def processes(self) -> Mapping[str, processes.Process]:
        """The components that were started, alive or not, by name."""
        return {process.component: process for process in processes.recorded(self.folder)}
