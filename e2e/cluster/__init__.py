"""The embedded cluster: a real Kubernetes without Docker, in two profiles.

`api` is a control plane with simulated nodes (kwok) and needs no root; `node` adds a real containerd, kubelet,
kube-proxy and CoreDNS in namespaces of their own. `lifecycle` is the entry for Python, `python -m e2e.cluster` the
one for people.
"""
