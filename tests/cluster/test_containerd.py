import json
import tomllib
from pathlib import Path

from e2e.cluster import containerd


def test_the_configuration_is_what_containerd_reads() -> None:
    settings = containerd.Settings(
        root=Path("/c/containerd"),
        runc=Path("/bin/runc"),
        network_configuration=Path("/c/cni"),
        network_plugins=Path("/bin/cni"),
    )
    content = tomllib.loads(containerd.configuration(settings))
    assert (content["root"], content["state"]) == ("/c/containerd", "/run/containerd")
    assert content["grpc"]["address"] == "/run/containerd/containerd.sock"
    runtime = content["plugins"]["io.containerd.cri.v1.runtime"]
    assert runtime["restrict_oom_score_adj"] is True
    assert runtime["cni"] == {"bin_dirs": ["/bin/cni"], "conf_dir": "/c/cni"}
    assert runtime["containerd"]["runtimes"]["runc"]["options"]["BinaryName"] == "/bin/runc"
    assert content["plugins"]["io.containerd.cri.v1.images"]["pinned_images"]["sandbox"] == containerd.PAUSE_IMAGE


def test_pods_get_addresses_of_the_clusters_range_and_reach_themselves() -> None:
    bridge, portmap = json.loads(containerd.network("10.101.0.0/16"))["plugins"]
    assert bridge["ipam"]["ranges"] == [[{"subnet": "10.101.0.0/16"}]]
    assert bridge["hairpinMode"] is True
    assert portmap["type"] == "portmap"
