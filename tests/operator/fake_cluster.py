"""A cluster in memory: what passes read and write, with what an API server adds, refuses and loses."""

import copy
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, cast

from gptservice_operator import errors, extract, names
from gptservice_operator.actions import child_key
from gptservice_operator.api import kinds
from gptservice_operator.api.kinds import Kind
from gptservice_operator.cluster import Cluster, Page
from gptservice_operator.extract import EntryKey
from gptservice_operator.store import Store
from tests.operator import builders
from tests.operator.builders import Body

Pages = AsyncIterator[Page]
Names = list[str]
# The class below has a method called `list`, so that it cannot say it itself.


@dataclass(frozen=True)
class Write:
    """One write as it arrived."""

    kind: str
    name: str
    uid: str | None
    body: Body


@dataclass
class FakeCluster:
    """Objects by kind, namespace and name. A test reads and changes them; it says which calls fail, and how."""

    objects: dict[EntryKey, Body] = field(default_factory=dict[EntryKey, Body])
    writes: list[Write] = field(default_factory=list[Write])
    reads: list[EntryKey] = field(default_factory=list[EntryKey])
    failures: dict[tuple[str, str], errors.OperatorError] = field(
        default_factory=dict[tuple[str, str], errors.OperatorError]
    )
    """By verb (get, list, apply, create, patch, delete, events, status, discover) and kind: what such a call raises."""
    secrets: dict[str, Body] = field(default_factory=dict[str, Body])
    """By name. No watch and no read of a pass shows them."""
    posts: list[str] = field(default_factory=list[str])
    """Names of the Secrets that were asked for, made or not."""
    pod_events: dict[str, list[Body]] = field(default_factory=dict[str, list[Body]])
    """By UID of the pod."""
    told: dict[str, Body] = field(default_factory=dict[str, Body])
    """The Events on services, by name."""
    looks: list[str] = field(default_factory=list[str])
    """UIDs of the pods whose Events were listed."""
    document: Body = field(default_factory=dict[str, Any])
    """What it publishes of our schemas."""
    served: set[Kind] = field(default_factory=set[Kind])
    """Those of the optional kinds that it has."""
    version: int = 100
    made: int = 0

    def as_cluster(self) -> Cluster:
        """Return it for what asks for the real one."""
        return cast("Cluster", self)

    def add(self, body: Body) -> Body:
        """Put an object there, as somebody else would."""
        self.version += 1
        stored = copy.deepcopy(body)
        stored["metadata"]["resourceVersion"] = str(self.version)
        self.objects[extract.key_of(builders.KINDS[body["kind"]], body["metadata"])] = stored
        return stored

    def edit(self, kind: str, name: str) -> Body:
        """Return an object to be changed in place, with a new version."""
        namespace = "" if kind == "GPTModel" else builders.NAMESPACE
        return self.add(self.objects[kind, namespace, name])

    def remove(self, kind: str, name: str) -> None:
        self.version += 1
        del self.objects[kind, builders.NAMESPACE, name]

    def get_body(self, kind: str, name: str) -> Body | None:
        return self.objects.get((kind, builders.NAMESPACE, name))

    def fill(self, store: Store) -> Store:
        """Have a store know everything that watches show, which is all but children without our label."""
        for (kind, *_), body in self.objects.items():
            if kind in {own.name for own in kinds.OWN} or _has_our_label(body):
                store.put(builders.entry(body))
        return store

    async def get(self, kind: Kind, namespace: str, name: str) -> Body | None:
        self._may_fail("get", kind)
        self.reads.append((kind.name, namespace, name))
        return copy.deepcopy(self.objects.get((kind.name, namespace, name)))

    async def list(self, kind: Kind, label_selector: str | None = None, namespace: str | None = None) -> Pages:
        self._may_fail("list", kind)
        listed = [
            copy.deepcopy(body)
            for key, body in self.objects.items()
            if key[0] == kind.name and namespace in (None, key[1]) and (label_selector is None or _has_our_label(body))
        ]
        middle, as_of = len(listed) // 2, self.version
        for page in (listed[:middle], listed[middle:]):
            yield Page(page, as_of)

    async def apply(self, manifest: Mapping[str, Any], *, manager: str, uid: str | None = None) -> Body:
        kind, name = child_key(manifest)
        self._may_fail("apply", builders.KINDS[kind])
        key = (kind, manifest["metadata"]["namespace"], name)
        old = self.objects.get(key)
        if uid is not None and (old is None or old["metadata"]["uid"] != uid):
            raise errors.Conflict(f"apply {kind}: Precondition failed: UID in precondition: {uid}")
        if uid is None and old is not None:
            raise errors.Conflict(f"apply {kind}: the object has been modified; please apply your changes")
        if old is not None and kind == "ControllerRevision" and old["data"] != manifest["data"]:
            raise errors.Invalid(f"apply {kind}: {name} is invalid: data: Forbidden: field is immutable")
        self.writes.append(
            Write(kind if manager == names.MANAGER else f"{kind} ({manager})", name, uid, copy.deepcopy(dict(manifest)))
        )
        self.made += old is None
        new_uid = old["metadata"]["uid"] if old else f"{kind}-{name}-{self.made}"
        whole = (
            manifest if manager == names.MANAGER else {**copy.deepcopy(old or {}), "spec": dict((old or {})["spec"])}
        )
        new = builders.live(whole, uid=new_uid, version=self.version + 1, old=old)
        if kind == "Deployment":
            _set_replicas(new, manifest, manager, old)
        if old is not None and _without_version(old) == _without_version(new):
            return copy.deepcopy(old)
        return copy.deepcopy(self.add(new))

    async def create(self, manifest: Mapping[str, Any], kind: Kind = kinds.SECRET) -> bool:
        """Make a Secret or an Event; what it holds is for tests alone, as no reply carries it."""
        self._may_fail("create", kind)
        name: str = manifest["metadata"]["name"]
        if kind is kinds.EVENT:
            return name not in self.told and bool(self.told.setdefault(name, copy.deepcopy(dict(manifest))))
        self.posts.append(name)
        if name in self.secrets:
            return False
        self.secrets[name] = copy.deepcopy(dict(manifest))
        return True

    async def events(self, namespace: str, uid: str) -> Sequence[Body]:
        self._may_fail("events", kinds.EVENT)
        on_service = [event for event in self.told.values() if event["involvedObject"]["uid"] == uid]
        if on_service:
            return copy.deepcopy(on_service)
        self.looks.append(uid)
        return copy.deepcopy(self.pod_events.get(uid, []))

    async def patch_event(self, namespace: str, name: str, change: Mapping[str, Any]) -> None:
        self._may_fail("patch", kinds.EVENT)
        if name not in self.told:
            raise errors.Absent(f"patch Event: {name} not found")
        self.told[name] |= change

    async def apply_status(self, *, namespace: str, name: str, uid: str, status: Mapping[str, Any]) -> Body:
        self._may_fail("status", kinds.GPT_SERVICE)
        old = self.objects.get(("GPTService", namespace, name))
        if old is None:
            raise errors.Absent("apply GPTService: not found")
        if old["metadata"]["uid"] != uid:
            raise errors.Conflict("apply GPTService: Precondition failed: UID in precondition")
        self.writes.append(Write("GPTService/status", name, uid, dict(status)))
        return copy.deepcopy(self.add({**old, "status": dict(status)}))

    async def delete(self, kind: Kind, namespace: str, name: str, uid: str) -> None:
        self._may_fail("delete", kind)
        key = (kind.name, namespace, name)
        old = self.objects.get(key)
        if old is None or old["metadata"]["uid"] != uid:
            return
        self.writes.append(Write(f"delete {kind.name}", name, uid, {}))
        if old["metadata"].get("finalizers"):
            self.add({**old, "metadata": {**old["metadata"], "deletionTimestamp": builders.CREATED}})
        else:
            del self.objects[key]

    async def openapi(self) -> Body:
        self._may_fail("openapi", kinds.GPT_SERVICE)
        return self.document

    async def serves(self, kind: Kind) -> bool:
        self._may_fail("discover", kind)
        return kind in self.served

    async def close(self) -> None:
        pass

    def _may_fail(self, verb: str, kind: Kind) -> None:
        if kind in kinds.OPTIONAL and kind not in self.served and verb in ("list", "apply"):
            raise errors.Absent(f"{verb} {kind.name}: the server could not find the requested resource")
        failure = self.failures.get((verb, kind.name))
        if failure is not None:
            raise failure

    def written(self) -> Names:
        """Return the kinds that were written since this was last asked, in order."""
        kinds_written = [write.kind for write in self.writes]
        self.writes.clear()
        return kinds_written


def _has_our_label(body: Body) -> bool:
    labels = body["metadata"].get("labels", {})
    return bool(labels.get("app.kubernetes.io/managed-by") == "gptservice-operator")


def _without_version(body: Body) -> Body:
    return {**body, "metadata": {**body["metadata"], "resourceVersion": None}}


def _set_replicas(new: Body, manifest: Mapping[str, Any], manager: str, old: Body | None) -> None:
    """Do with ``spec.replicas`` and its owners what server-side apply does: omission by the only owner means 1."""
    before: Body = (old or {}).get("spec", {})
    owners = builders.replicas_managers(old) if old is not None else frozenset[str]()
    if "replicas" in manifest.get("spec", {}):
        value = manifest["spec"]["replicas"]
        owners = owners | {manager} if value == before.get("replicas") else frozenset({manager})
    else:
        value = 1 if owners == {manager} else before.get("replicas", 1)
        owners -= {manager}
    new["spec"]["replicas"] = value
    builders.own_replicas(new, *owners)
