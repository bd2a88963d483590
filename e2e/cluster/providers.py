"""Where the cluster comes from: $PROVIDER is `embedded` (the default), `kind` or `current`.

The same commands work with each as far as they make sense; `kind` needs Docker and could not be tried where this
was written.
"""

import os
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Protocol

from e2e.cluster import files, handle, lifecycle, paths, records, report
from e2e.cluster.images import catalogue


class Unsupported(Exception):
    """This provider cannot do that; the message says what to do instead."""


class Provider(Protocol):
    """What the commands need from a cluster's maker."""

    def up(self, spec: records.Spec) -> str:
        """Makes the cluster usable and says so in a line or two."""
        ...

    def down(self, name: str) -> bool:
        """Removes it; False when there was none."""
        ...

    def status(self, name: str) -> tuple[str, bool]:
        """A text for people, and whether the cluster is healthy."""
        ...

    def kubeconfig(self, name: str) -> Path:
        """The administrator's kubeconfig."""
        ...

    def load_image(self, name: str, image: str) -> None:
        """Makes an image (a name or an archive's path) available to pods."""
        ...


def chosen(environment: Mapping[str, str] = os.environ) -> Provider:
    """The provider that $PROVIDER names; raises ValueError for an unknown one."""
    name = environment.get("PROVIDER") or "embedded"
    made: dict[str, type[Embedded] | type[Kind] | type[Current]] = {
        "embedded": Embedded,
        "kind": Kind,
        "current": Current,
    }
    if name not in made:
        raise ValueError(f"PROVIDER={name}: choose one of {', '.join(made)}")
    return made[name]()


class Embedded:
    """The cluster of this package."""

    def up(self, spec: records.Spec) -> str:
        cluster = lifecycle.up(spec)
        return f"cluster {spec.name} is up; export KUBECONFIG={cluster.kubeconfig}"

    def down(self, name: str) -> bool:
        return lifecycle.down(name)

    def status(self, name: str) -> tuple[str, bool]:
        record = records.load(name)
        return report.status(handle.Cluster(record)) if record else (f"there is no cluster {name}", False)

    def kubeconfig(self, name: str) -> Path:
        return lifecycle.find(name).kubeconfig

    def load_image(self, name: str, image: str) -> None:
        cluster = lifecycle.find(name)
        archive = Path(image)
        cluster.load_image(archive if archive.is_file() else _archive_of(image))


class Kind:
    """kind (Kubernetes in Docker). Untried: no Docker was at hand."""

    def up(self, spec: records.Spec) -> str:
        if spec.name not in self._clusters():
            self._run("create", "cluster", "--name", spec.name, "--wait", "120s")
        return f"kind cluster {spec.name} is up; export KUBECONFIG={self.kubeconfig(spec.name)}"

    def down(self, name: str) -> bool:
        existed = name in self._clusters()
        self._run("delete", "cluster", "--name", name)
        return existed

    def status(self, name: str) -> tuple[str, bool]:
        exists = name in self._clusters()
        return f"kind cluster {name} {'exists' if exists else 'does not exist'}", exists

    def kubeconfig(self, name: str) -> Path:
        content = self._run("get", "kubeconfig", "--name", name)
        return files.write(paths.cluster(f"kind-{name}") / "kubeconfig", content, mode=0o600)

    def load_image(self, name: str, image: str) -> None:
        what = "image-archive" if Path(image).exists() else "docker-image"
        self._run("load", what, image, "--name", name)

    def _clusters(self) -> list[str]:
        return self._run("get", "clusters").split()

    def _run(self, *arguments: str) -> str:
        if not shutil.which("kind"):
            raise Unsupported("PROVIDER=kind needs kind and Docker: https://kind.sigs.k8s.io/docs/user/quick-start/")
        done = subprocess.run(["kind", *arguments], stdout=subprocess.PIPE, text=True, check=False)
        if done.returncode:
            raise Unsupported(f"`kind {' '.join(arguments)}` failed with status {done.returncode}, see above")
        return done.stdout


class Current:
    """The cluster that the user's kubeconfig points to. It is used, never made or ended."""

    def up(self, spec: records.Spec) -> str:
        return f"using the cluster of {self.kubeconfig(spec.name)}"

    def down(self, name: str) -> bool:
        raise Unsupported(f"PROVIDER=current does not end clusters; {name} was left alone")

    def status(self, name: str) -> tuple[str, bool]:
        return f"using the cluster of {self.kubeconfig(name)}", True

    def kubeconfig(self, name: str) -> Path:
        path = Path(os.environ.get("KUBECONFIG") or Path.home() / ".kube" / "config")
        if not path.is_file():
            raise Unsupported(
                f"PROVIDER=current needs a kubeconfig for {name}, but {path} is not a file: set KUBECONFIG"
            )
        return path

    def load_image(self, name: str, image: str) -> None:
        raise Unsupported(f"PROVIDER=current cannot put {image} into {name}: push it to a registry the cluster uses")


def _archive_of(image: str) -> Path:
    """The archive of one of our own images, built if its inputs changed."""
    for name in catalogue.NAMES:
        if image in (name, catalogue.reference(name)):
            return catalogue.archive(name)
    raise ValueError(f"{image!r} is neither a file nor one of our images ({', '.join(catalogue.NAMES)})")
