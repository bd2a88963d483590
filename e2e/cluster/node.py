"""Configuration and command lines of what makes a machine a node: kubelet, kube-proxy, CoreDNS, device plugin."""

import json
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from e2e.cluster import containerd, controlplane, credentials, files, simulation

NAME = "node1"
DNS_ADDRESS = "10.96.0.10"
DEVICE_PLUGIN = "device-plugin"

_CLUSTER_DOMAIN = "cluster.local"


@dataclass(frozen=True)
class Node:
    """The one node of a cluster; `group` names its control groups."""

    folder: Path
    addresses: controlplane.Addresses
    binaries: Mapping[str, Path]
    group: str
    gpus: int

    @property
    def device_control(self) -> Path:
        """The file through which a test makes devices unhealthy."""
        return self.folder / "devices.json"

    @property
    def containerd_root(self) -> Path:
        """containerd's content: images, snapshots and its databases."""
        return self.folder / "containerd"

    def containerd(self) -> list[str]:
        """containerd, with the bridge network; the runc shim is found on the PATH."""
        network = files.write(self.folder / "cni" / "10-pods.conflist", containerd.network(self.addresses.pod_range))
        settings = containerd.Settings(
            root=self.containerd_root,
            runc=self.binaries["runc"],
            network_configuration=network.parent,
            network_plugins=self.binaries["bridge"].parent,
        )
        config = files.write(self.folder / "containerd.toml", containerd.configuration(settings))
        return [str(self.binaries["containerd"]), f"--config={config}"]

    def kubelet(self) -> list[str]:
        """The kubelet, which registers the node."""
        config = files.write(self.folder / "kubelet.json", json.dumps(self._kubelet_configuration(), indent=1))
        labels = f"nvidia.com/gpu.product={simulation.PRODUCTS[0]}" if self.gpus else ""
        return [
            str(self.binaries["kubelet"]),
            f"--config={config}",
            f"--kubeconfig={self._kubeconfig('kubelet')}",
            f"--hostname-override={NAME}",
            f"--node-ip={self.addresses.host}",
            f"--node-labels={labels}",
        ]

    def kube_proxy(self) -> list[str]:
        """kube-proxy in iptables mode, inside the cluster's own network namespace."""
        return [
            str(self.binaries["kube-proxy"]),
            f"--kubeconfig={self._kubeconfig('kube-proxy')}",
            f"--hostname-override={NAME}",
            f"--cluster-cidr={self.addresses.pod_range}",
            "--proxy-mode=iptables",
            # nf_conntrack_max is one value for the whole machine.
            "--conntrack-max-per-core=0",
        ]

    def coredns(self) -> list[str]:
        """CoreDNS as a process of the node; needs no image."""
        config = f""".:53 {{
    bind {self.addresses.host}
    ready {self.addresses.host}:8181
    kubernetes {_CLUSTER_DOMAIN} in-addr.arpa ip6.arpa {{
        kubeconfig {self._kubeconfig("coredns")}
        pods insecure
        ttl 5
    }}
    errors
}}
"""
        return [str(self.binaries["coredns"]), "-conf", str(files.write(self.folder / "Corefile", config))]

    def device_plugin(self) -> list[str]:
        """Advertises `gpus` pretended devices to the kubelet."""
        return [
            sys.executable, "-m", "e2e.cluster.device_plugin", "--socket-dir=/var/lib/kubelet/device-plugins",
            "--resource=nvidia.com/gpu", f"--count={self.gpus}", f"--control={self.device_control}",
        ]  # fmt: skip

    def _kubeconfig(self, user: str) -> Path:
        return credentials.Credentials(self.folder).kubeconfig(user)

    def _kubelet_configuration(self) -> dict[str, Any]:
        own = credentials.Credentials(self.folder)
        serving = own.pair("kubelet-server")
        return {
            "apiVersion": "kubelet.config.k8s.io/v1beta1",
            "kind": "KubeletConfiguration",
            "authentication": {
                "anonymous": {"enabled": False},
                "webhook": {"enabled": True},
                "x509": {"clientCAFile": str(own.authority.certificate)},
            },
            "authorization": {"mode": "Webhook"},
            "tlsCertFile": str(serving.certificate),
            "tlsPrivateKeyFile": str(serving.key),
            "containerRuntimeEndpoint": f"unix://{containerd.SOCKET}",
            "clusterDNS": [DNS_ADDRESS],
            "clusterDomain": _CLUSTER_DOMAIN,
            "resolvConf": str(self.folder / "resolv.conf"),
            "cgroupDriver": "cgroupfs",
            "cgroupRoot": f"/{self.group}",
            "failCgroupV1": False,
            "failSwapOn": False,
            # Lowering it takes CAP_SYS_RESOURCE.
            "oomScoreAdj": 0,
            # A full disk of the machine must neither evict pods nor delete the images under test.
            "evictionHard": {"memory.available": "50Mi", "nodefs.available": "1%", "imagefs.available": "1%"},
            "imageGCHighThresholdPercent": 100,
            "imageGCLowThresholdPercent": 99,
            # Faster than the defaults (10 s and 1 min): changed devices and mounted ConfigMaps are seen sooner.
            "nodeStatusUpdateFrequency": "2s",
            "syncFrequency": "10s",
        }


def name_servers(address: str) -> str:
    """resolv.conf for processes on the node: CoreDNS only, so that names outside the cluster do not resolve."""
    return f"nameserver {address}\nsearch svc.{_CLUSTER_DOMAIN} {_CLUSTER_DOMAIN}\n"
