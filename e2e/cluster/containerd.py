"""containerd's configuration, as pure text, and the network configuration for its pods."""

import json
from dataclasses import dataclass
from pathlib import Path

PAUSE_IMAGE = "localhost/gptservice-pause:dev"
SOCKET = Path("/run/containerd/containerd.sock")
# Kubernetes' images live in this namespace of containerd.
NAMESPACE = "k8s.io"

# Parts that are not used: some look for devices, `opt` makes a folder on the machine, `nri` a socket.
_DISABLED = (
    "io.containerd.internal.v1.opt", "io.containerd.internal.v1.tracing", "io.containerd.tracing.processor.v1.otlp",
    "io.containerd.nri.v1.nri", "io.containerd.snapshotter.v1.blockfile", "io.containerd.snapshotter.v1.btrfs",
    "io.containerd.snapshotter.v1.devmapper", "io.containerd.snapshotter.v1.erofs",
    "io.containerd.snapshotter.v1.zfs",
)  # fmt: skip


@dataclass(frozen=True)
class Settings:
    """Where one containerd keeps its content (`root`) and its sockets (`state`), and what it runs."""

    root: Path
    runc: Path
    network_configuration: Path
    network_plugins: Path
    state: Path = SOCKET.parent
    socket: Path = SOCKET


def configuration(settings: Settings) -> str:
    """The configuration file's text."""
    disabled = ", ".join(f'"{name}"' for name in _DISABLED)
    return f"""version = 3
root = "{settings.root}"
state = "{settings.state}"
imports = []
disabled_plugins = [{disabled}]

[grpc]
  address = "{settings.socket}"

[ttrpc]
  address = "{settings.socket}.ttrpc"

[plugins."io.containerd.cri.v1.images".pinned_images]
  sandbox = "{PAUSE_IMAGE}"

[plugins."io.containerd.cri.v1.runtime"]
  # Without CAP_SYS_RESOURCE (as in many containers) every sandbox would fail.
  restrict_oom_score_adj = true

[plugins."io.containerd.cri.v1.runtime".cni]
  bin_dirs = ["{settings.network_plugins}"]
  conf_dir = "{settings.network_configuration}"

[plugins."io.containerd.cri.v1.runtime".containerd.runtimes.runc]
  runtime_type = "io.containerd.runc.v2"

[plugins."io.containerd.cri.v1.runtime".containerd.runtimes.runc.options]
  BinaryName = "{settings.runc}"
"""


def network(pod_range: str) -> str:
    """A bridge for the pods of the one node, with addresses of `pod_range` and host ports."""
    bridge = {
        "type": "bridge",
        "bridge": "pods",
        "isGateway": True,
        "ipMasq": True,
        "hairpinMode": True,
        "ipam": {
            "type": "host-local",
            "ranges": [[{"subnet": pod_range}]],
            "routes": [{"dst": "0.0.0.0/0"}],
        },
    }
    plugins = [bridge, {"type": "portmap", "capabilities": {"portMappings": True}}]
    return json.dumps({"cniVersion": "1.0.0", "name": "pods", "plugins": plugins}, indent=1)
