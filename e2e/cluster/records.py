"""What is written down about a cluster, so that any later command finds and ends it."""

import json
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, Literal, cast, get_args

from e2e.cluster import files, paths

Profile = Literal["api", "node"]
AuditMode = Literal["batch", "blocking"]
AuditPolicy = Literal["writes", "requests"]
Phase = Literal["starting", "running", "failed"]

PROFILES = get_args(Profile)
AUDIT_MODES = get_args(AuditMode)


@dataclass(frozen=True)
class Spec:
    """What the user asked for.

    `nodes` counts simulated nodes (profile node has exactly one real one); `gpus` is what each GPU node advertises.
    """

    name: str
    profile: Profile = "api"
    nodes: int = 1
    gpus: int = 0
    audit_mode: AuditMode = "batch"
    audit_policy: AuditPolicy = "writes"
    """Whether the audit log holds every request, reads and leases too, or writes alone; see `e2e.cluster.audit`."""


@dataclass(frozen=True)
class Record:
    """One cluster; `number` (profile node) chooses its addresses, `ports` (profile api) its ports on the loopback."""

    spec: Spec
    phase: Phase = "starting"
    number: int = 0
    ports: dict[str, int] = field(default_factory=dict[str, int])

    @property
    def folder(self) -> Path:
        """Where everything about the cluster is."""
        return paths.cluster(self.spec.name)

    def save(self) -> "Record":
        """Writes the record and returns it."""
        files.write(_path(self.spec.name), json.dumps(asdict(self), indent=1) + "\n")
        return self

    def in_phase(self, phase: Phase) -> "Record":
        """A copy in another phase, saved."""
        return replace(self, phase=phase).save()


def load(name: str) -> Record | None:
    """The record of a cluster, None when there is none; raises ValueError when it cannot be read."""
    path = _path(name)
    try:
        content = cast(dict[str, Any], json.loads(path.read_text()))
        return Record(Spec(**content.pop("spec")), **content)
    except FileNotFoundError:
        return None
    except (ValueError, KeyError, TypeError) as error:
        raise ValueError(
            f"{path} cannot be read ({error}); `python -m e2e.cluster down --name {name}` clears it"
        ) from error


def names() -> list[str]:
    """The clusters that have a state folder, whole or not."""
    folder = paths.clusters()
    found = sorted(path.name for path in folder.iterdir() if path.is_dir()) if folder.exists() else []
    return [name for name in found if paths.is_name(name)]


def lock_path(name: str) -> Path:
    """Whoever changes a cluster holds this lock; it lies beside the folder, which comes and goes."""
    return paths.clusters() / f".{paths.cluster(name).name}.lock"


def _path(name: str) -> Path:
    return paths.cluster(name) / "cluster.json"
