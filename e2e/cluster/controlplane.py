"""The command lines of etcd, the API server, the controller manager and the scheduler."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from e2e.cluster import credentials, paths, records

SERVICE_RANGE = "10.96.0.0/16"
API_SERVICE_ADDRESS = "10.96.0.1"

# The default rates (20 requests a second) make the first pod wait 11 s, 1,000 Deployments four minutes.
_FAST = ("--kube-api-qps=500", "--kube-api-burst=1000")


@dataclass(frozen=True)
class Addresses:
    """Where a control plane listens: `host` is the address that clients use, `ports` one for each component."""

    host: str
    bind: str
    pod_range: str
    ports: Mapping[str, int]

    @property
    def server(self) -> str:
        """The API server's URL."""
        return f"https://{self.host}:{self.ports['kube-apiserver']}"


API_PROFILE_PORTS = ("kube-apiserver", "etcd", "etcd-peer", "kube-controller-manager", "kube-scheduler")
DEFAULT_PORTS = {
    "kube-apiserver": 6443, "etcd": 2379, "etcd-peer": 2380,
    "kube-controller-manager": 10257, "kube-scheduler": 10259,
}  # fmt: skip


@dataclass(frozen=True)
class ControlPlane:
    """One cluster's control plane, ready to be turned into command lines."""

    folder: Path
    addresses: Addresses
    binaries: Mapping[str, Path]
    spec: records.Spec

    @property
    def audit_log(self) -> Path:
        """Where the API server writes its audit events."""
        return self.folder / "logs" / "audit.jsonl"

    def storage(self) -> list[str]:
        """etcd, without fsync: the data lives no longer than the cluster."""
        ports = self.addresses.ports
        client, peer = (f"https://127.0.0.1:{ports[name]}" for name in ("etcd", "etcd-peer"))
        pair = self._credentials.pair("etcd")
        tls = {"cert-file": pair.certificate, "key-file": pair.key, "trusted-ca-file": self._authority}
        peer_tls = {f"peer-{key}": value for key, value in tls.items()}
        return self._command(
            "etcd",
            {
                "data-dir": self.folder / "etcd",
                "listen-client-urls": client,
                "advertise-client-urls": client,
                "listen-peer-urls": peer,
                "initial-advertise-peer-urls": peer,
                "initial-cluster": f"default={peer}",
                "client-cert-auth": "true",
                "peer-client-cert-auth": "true",
                "unsafe-no-fsync": "true",
                "log-level": "warn",
            }
            | tls
            | peer_tls,
        )

    def server(self) -> list[str]:
        """kube-apiserver."""
        options = self._serving() | self._authentication() | self._service_accounts() | self._audit()
        options |= {
            "authorization-mode": "Node,RBAC",
            "enable-admission-plugins": "NodeRestriction",
            "allow-privileged": "true",
            "service-cluster-ip-range": SERVICE_RANGE,
            "profiling": "false",
        }
        if self.spec.profile == "api":
            # An endpoint on the loopback is refused, and nothing could reach it.
            options["endpoint-reconciler-type"] = "none"
        else:
            # Reaches an APIService by its endpoints; without it, a Service of type ExternalName may lead to loopback.
            options["enable-aggregator-routing"] = "true"
        return self._command("kube-apiserver", options)

    def controllers(self) -> dict[str, list[str]]:
        """kube-controller-manager and kube-scheduler."""
        manager = self._component("kube-controller-manager") | self._node_addresses() | self._timings()
        manager |= {
            "use-service-account-credentials": "true",
            "service-account-private-key-file": self._credentials.service_account.key,
            "root-ca-file": self._authority,
            "cluster-signing-cert-file": self._authority,
            "cluster-signing-key-file": self._credentials.authority.key,
            "concurrent-deployment-syncs": "20",
            "concurrent-replicaset-syncs": "20",
        }
        scheduler = self._component("kube-scheduler")
        return {
            name: [*self._command(name, options), *_FAST]
            for name, options in (("kube-controller-manager", manager), ("kube-scheduler", scheduler))
        }

    @property
    def _credentials(self) -> credentials.Credentials:
        return credentials.Credentials(self.folder)

    @property
    def _authority(self) -> Path:
        return self._credentials.authority.certificate

    def _command(self, name: str, options: Mapping[str, object]) -> list[str]:
        return [str(self.binaries[name]), *(f"--{key}={value}" for key, value in options.items())]

    def _serving(self) -> dict[str, object]:
        own, etcd = self._credentials.pair("apiserver"), self._credentials.pair("etcd")
        return {
            "bind-address": self.addresses.bind,
            "secure-port": self.addresses.ports["kube-apiserver"],
            "advertise-address": self.addresses.host,
            "tls-cert-file": own.certificate,
            "tls-private-key-file": own.key,
            "etcd-servers": f"https://127.0.0.1:{self.addresses.ports['etcd']}",
            "etcd-cafile": self._authority,
            "etcd-certfile": etcd.certificate,
            "etcd-keyfile": etcd.key,
        }

    def _authentication(self) -> dict[str, object]:
        kubelet = self._credentials.pair("apiserver-kubelet-client")
        proxy = self._credentials.pair(credentials.FRONT_PROXY)
        return {
            "client-ca-file": self._authority,
            "kubelet-client-certificate": kubelet.certificate,
            "kubelet-client-key": kubelet.key,
            "kubelet-certificate-authority": self._authority,
            # The default begins with the host name, which nothing here resolves.
            "kubelet-preferred-address-types": "InternalIP",
            "proxy-client-cert-file": proxy.certificate,
            "proxy-client-key-file": proxy.key,
            "requestheader-client-ca-file": self._authority,
            # One authority signs everything, so without a name every client could impersonate any other.
            "requestheader-allowed-names": credentials.FRONT_PROXY,
            "requestheader-username-headers": "X-Remote-User",
            "requestheader-group-headers": "X-Remote-Group",
            "requestheader-extra-headers-prefix": "X-Remote-Extra-",
        }

    def _service_accounts(self) -> dict[str, object]:
        pair = self._credentials.service_account
        return {
            "service-account-issuer": "https://kubernetes.default.svc.cluster.local",
            "service-account-key-file": pair.certificate,
            "service-account-signing-key-file": pair.key,
        }

    def _audit(self) -> dict[str, object]:
        return {
            "audit-policy-file": paths.ASSETS / f"audit-policy-{self.spec.audit_policy}.yaml",
            "audit-log-path": self.audit_log,
            "audit-log-mode": self.spec.audit_mode,
            "audit-log-maxsize": "1000",
        }

    def _component(self, name: str) -> dict[str, object]:
        kubeconfig = self._credentials.kubeconfig(name)
        return {
            "kubeconfig": kubeconfig,
            "authentication-kubeconfig": kubeconfig,
            "authorization-kubeconfig": kubeconfig,
            "bind-address": "127.0.0.1",
            "secure-port": self.addresses.ports[name],
            "leader-elect": "false",
            "profiling": "false",
        }

    def _node_addresses(self) -> dict[str, object]:
        return {
            "allocate-node-cidrs": "true",
            "cluster-cidr": self.addresses.pod_range,
            "service-cluster-ip-range": SERVICE_RANGE,
            "node-cidr-mask-size": "24",
        }

    def _timings(self) -> dict[str, object]:
        faster: dict[str, object] = {"horizontal-pod-autoscaler-sync-period": "2s"}
        if self.spec.profile == "api":
            # Simulated nodes send no heartbeats; taken for dead, they would make every pod unready for ever.
            faster["node-monitor-grace-period"] = "24h"
        return faster
