"""What the API server must know for CoreDNS, which runs as a process of the node rather than as a pod."""

from e2e.cluster import node, rest, simulation

_ROLE: rest.Object = {
    "apiVersion": "rbac.authorization.k8s.io/v1",
    "kind": "ClusterRole",
    "metadata": {"name": "coredns"},
    "rules": [
        {"apiGroups": [""], "resources": ["services", "pods", "namespaces"], "verbs": ["list", "watch"]},
        {"apiGroups": ["discovery.k8s.io"], "resources": ["endpointslices"], "verbs": ["list", "watch"]},
    ],
}

_PORTS = [{"name": f"dns-{protocol.lower()}", "port": 53, "protocol": protocol} for protocol in ("UDP", "TCP")]


def prepare(api: rest.ApiClient, address: str) -> None:
    """Gives CoreDNS its permissions and pods the Service through which they ask it at `address`."""
    rbac = "/apis/rbac.authorization.k8s.io/v1"
    api.apply(f"{rbac}/clusterroles/coredns", _ROLE)
    api.apply(f"{rbac}/clusterrolebindings/coredns", simulation.bind_user("coredns", role="coredns"))
    api.apply("/api/v1/namespaces/kube-system/services/kube-dns", _service())
    slices = "/apis/discovery.k8s.io/v1/namespaces/kube-system/endpointslices"
    api.apply(f"{slices}/kube-dns", _endpoints(address))


def _service() -> rest.Object:
    """Without a selector: its endpoints are ours to write."""
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": "kube-dns", "namespace": "kube-system"},
        "spec": {"clusterIP": node.DNS_ADDRESS, "ports": _PORTS},
    }


def _endpoints(address: str) -> rest.Object:
    labels = {"kubernetes.io/service-name": "kube-dns"}
    return {
        "apiVersion": "discovery.k8s.io/v1",
        "kind": "EndpointSlice",
        "metadata": {"name": "kube-dns", "namespace": "kube-system", "labels": labels},
        "addressType": "IPv4",
        "endpoints": [{"addresses": [address]}],
        "ports": _PORTS,
    }
