"""The certificates, keys and kubeconfigs of one cluster, at fixed places below its folder."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from e2e.cluster import kubeconfigs, pki

FRONT_PROXY = "front-proxy"

# Kubeconfig name -> (user, groups). The users are those that Kubernetes' built-in roles are bound to.
_USERS: dict[str, tuple[str, tuple[str, ...]]] = {
    "admin": ("kubernetes-admin", ("system:masters",)),
    "kube-controller-manager": ("system:kube-controller-manager", ()),
    "kube-scheduler": ("system:kube-scheduler", ()),
    "kwok": ("kwok", ()),
    "kube-proxy": ("system:kube-proxy", ()),
    "coredns": ("coredns", ()),
}


@dataclass(frozen=True)
class Credentials:
    """Where to find them; existing files are not implied."""

    folder: Path

    @property
    def authority(self) -> pki.KeyPair:
        """The certificate authority; its key signs for the controller manager too."""
        return self.pair("ca")

    @property
    def service_account(self) -> pki.KeyPair:
        """The key of service account tokens (`certificate` is its public half)."""
        return pki.KeyPair(self._pki / "sa.pub", self._pki / "sa.key")

    def pair(self, name: str) -> pki.KeyPair:
        """A certificate and its key, by file name."""
        return pki.KeyPair(self._pki / f"{name}.crt", self._pki / f"{name}.key")

    def kubeconfig(self, name: str) -> Path:
        """A component's kubeconfig; the administrator's lies at the top, where people look."""
        return self.folder / ("kubeconfig" if name == "admin" else f"kubeconfigs/{name}")

    @property
    def _pki(self) -> Path:
        return self.folder / "pki"


def issue(folder: Path, *, server: str, hosts: Sequence[str], node: str = "") -> Credentials:
    """Makes everything for a control plane answering as `server` under `hosts`, and for a kubelet if there is a node.

    The kubelet's serving address is the first of `hosts`.
    """
    found = Credentials(folder)
    authority = pki.Authority(folder / "pki")
    pki.issue_service_account_key(folder / "pki")
    authority.issue("apiserver", "kube-apiserver", hosts=hosts)
    authority.issue("apiserver-kubelet-client", "kube-apiserver-kubelet-client", groups=("system:masters",))
    authority.issue("etcd", "etcd", hosts=("127.0.0.1", "localhost"))
    authority.issue(FRONT_PROXY, FRONT_PROXY)
    users = dict(_USERS)
    if node:
        users["kubelet"] = (f"system:node:{node}", ("system:nodes",))
        authority.issue("kubelet-server", f"system:node:{node}", hosts=(hosts[0], node))
    for name, (user, groups) in users.items():
        client = authority.issue(name, user, groups=groups)
        path = found.kubeconfig(name)
        kubeconfigs.write(path, cluster=folder.name, server=server, authority=authority.certificate, client=client)
    return found
