"""Kubeconfig files: self-contained (certificates inline), so that one can be copied anywhere."""

import base64
import json
from pathlib import Path

from e2e.cluster import files, pki


def write(path: Path, *, cluster: str, server: str, authority: Path, client: pki.KeyPair) -> Path:
    """Writes a kubeconfig (YAML, in its JSON form) for one user and returns its path."""
    user = {
        "client-certificate-data": _inline(client.certificate),
        "client-key-data": _inline(client.key),
    }
    content = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [
            {"name": cluster, "cluster": {"server": server, "certificate-authority-data": _inline(authority)}}
        ],
        "users": [{"name": cluster, "user": user}],
        "contexts": [{"name": cluster, "context": {"cluster": cluster, "user": cluster}}],
        "current-context": cluster,
    }
    return files.write(path, json.dumps(content, indent=1) + "\n", mode=0o600)


def _inline(path: Path) -> str:
    return base64.b64encode(path.read_bytes()).decode()
