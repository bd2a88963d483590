"""An encrypted copy of the test model on a volume of the cluster, and the Secrets with keys."""

from __future__ import annotations

import base64
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from e2e.cluster import paths
from e2e.cluster.images import model
from e2e.kube import Kube, Object
from e2e.kubectl import Kubectl
from gptservice_runtime.weights import encrypting
from gptservice_runtime.weights.keys import KEY_BYTES, Key

CLAIM = "encrypted"
URI = f"pvc://{CLAIM}/{model.NAME}"
ROOM: Object = {"requests": {"cpu": "10m", "memory": "192Mi"}, "limits": {"memory": "4Gi"}}
"""Of the limit the stand-in needs little; the rest is for what is decrypted."""


def new_key() -> Key:
    return Key(secret=os.urandom(KEY_BYTES))


def key_secret(kube: Kube, namespace: str, name: str, key: Key) -> None:
    """As `kubectl create secret generic NAME --from-file=key=FILE` makes it."""
    text = base64.b64encode(key.secret) + b"\n"
    data = {"key": base64.b64encode(text).decode()}
    kube.create({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name}, "data": data}, namespace)


@contextmanager
def claim(kubectl: Kubectl, namespace: str, folder: Path, key: Key) -> Iterator[Path]:
    """The claim `encrypted` with the test model, encrypted for the key; where it lies on this machine."""
    folder.mkdir()
    folder.chmod(0o755)  # pods run under any user id
    encrypting.encrypt(paths.models() / model.NAME, folder / model.NAME, (key,))
    name = f"{CLAIM}-{namespace}"
    common: Object = {"accessModes": ["ReadOnlyMany"], "storageClassName": ""}
    reference = {"namespace": namespace, "name": CLAIM}
    volume = {"capacity": {"storage": "1Gi"}, "hostPath": {"path": str(folder)}, "claimRef": reference}
    request = {"volumeName": name, "resources": {"requests": {"storage": "1Gi"}}}
    kubectl.apply(
        {"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": name}, "spec": {**common, **volume}},
        {
            "apiVersion": "v1",
            "kind": "PersistentVolumeClaim",
            "metadata": {"name": CLAIM, "namespace": namespace},
            "spec": {**common, **request},
        },
    )
    yield folder / model.NAME
    kubectl.run("delete", "persistentvolume", name, "--wait=false")


SEARCH = """
import os, stat, sys
marker, found = bytes.fromhex(sys.argv[1]), []
for line in open("/proc/self/mountinfo"):
    before, _, after = line.partition(" - ")
    place, options, kind = before.split()[4], before.split()[5].split(","), after.split()[0]
    # The image is large, and read-only for whoever ran in the pod.
    if kind in {"proc", "sysfs", "cgroup2", "devpts", "mqueue"} or (kind == "overlay" and "ro" in options):
        continue
    device = os.stat(place).st_dev
    for folder, folders, names in os.walk(place):
        folders[:] = [one for one in folders if os.lstat(os.path.join(folder, one)).st_dev == device]
        for name in names:
            path = os.path.join(folder, name)
            try:
                # Reading a pipe, such as /dev/stdin leads to, would never end.
                if not stat.S_ISREG(os.lstat(path).st_mode):
                    continue
                with open(path, "rb") as file:
                    if file.read(len(marker)) == marker:
                        found.append((kind, path))
            except OSError:
                pass
print(*(f"{kind} {path}" for kind, path in sorted(set(found))), sep="\\n")
"""
"""For a Python in the pod: where files of its volumes begin with these bytes, and on what kind of file system."""
