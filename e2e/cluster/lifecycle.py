"""Brings clusters up and down. Both may be called in any state, also after everything was killed."""

import logging
import os
import subprocess
import time
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from e2e.cluster import (
    api_profile,
    binaries,
    contents,
    controlplane,
    files,
    handle,
    node_profile,
    paths,
    ports,
    prerequisites,
    processes,
    readiness,
    records,
    rest,
)

# How long a cluster whose processes all live may be slow to answer.
_PATIENCE_SECONDS = 30

logger = logging.getLogger(__name__)


class ClusterError(Exception):
    """A cluster is not what the command needs; the message says what to do."""


def up(spec: records.Spec, *, seeds: contents.Seeds | None = None) -> handle.Cluster:
    """Returns a usable cluster: the running one if it is healthy, else a new one in its place.

    Raises ClusterError when a healthy cluster of that name was started with other options, MissingPrerequisites
    before anything is started, and BuildError, StartError or NotReadyError from the parts; then what was started is
    gone again and the logs are kept. `seeds` makes the node's images, by default all of `e2e.cluster.images`.
    """
    if spec.profile == "node" and spec.nodes != 1:
        raise ClusterError(f"profile node has exactly one node, not {spec.nodes}; profile api simulates any number")
    with files.locked(records.lock_path(spec.name)):
        if running := _running(spec):
            return running
        prerequisites.require(spec.profile)
        programs = binaries.ensure(binaries.of_profile(spec.profile))
        # What takes minutes and may fail comes before anything is removed.
        seed = (seeds or contents.images_seeds()).seed() if spec.profile == "node" else None
        _remove(spec.name)
        return _start(spec, programs, seed)


def down(name: str) -> bool:
    """Ends a cluster and removes all its traces; False when there was none."""
    with files.locked(records.lock_path(name)):
        return _remove(name)


def find(name: str) -> handle.Cluster:
    """The cluster of that name; raises ClusterError when there is none or it was not started to the end."""
    record = records.load(name)
    if record is None:
        raise ClusterError(f"there is no cluster {name!r}; start it with `python -m e2e.cluster up --name {name}`")
    if record.phase != "running":
        raise ClusterError(
            f"cluster {name!r} was not started to the end (phase {record.phase}; logs in {record.folder / 'logs'}): "
            f"run `python -m e2e.cluster up --name {name} --profile {record.spec.profile}` again"
        )
    return handle.Cluster(record)


def problems(cluster: handle.Cluster) -> list[str]:
    """What is wrong with a cluster, empty when it is healthy."""
    if cluster.record.phase != "running":
        return ["it was not started to the end"]
    if ended := _ended(cluster):
        return [f"{name} has ended" for name in ended]
    try:
        if not readiness.api_ready(cluster.api):
            return ["the API server is not ready"]
        if not readiness.nodes_ready(cluster.api, cluster.record.spec.nodes):
            return ["not all nodes are Ready"]
    except (OSError, rest.ApiError) as error:
        return [f"the API server does not answer: {error}"]
    return []


def _running(spec: records.Spec) -> handle.Cluster | None:
    """The healthy cluster of that name, if there is one."""
    try:
        record = records.load(spec.name)
    except ValueError:
        return None
    if record is None or not _recovers(handle.Cluster(record)):
        return None
    if record.spec != spec:
        raise ClusterError(
            f"cluster {spec.name!r} already runs with other options ({_describe(record.spec)}, asked for: "
            f"{_describe(spec)}): run `python -m e2e.cluster down --name {spec.name}` first, or choose another name"
        )
    logger.info("cluster %s is already running", spec.name)
    return handle.Cluster(record)


def _recovers(cluster: handle.Cluster) -> bool:
    """Whether a cluster is healthy, now or soon: a busy machine is no reason to throw one away."""
    deadline = time.monotonic() + _PATIENCE_SECONDS
    while wrong := problems(cluster):
        if cluster.record.phase != "running" or _ended(cluster) or time.monotonic() > deadline:
            logger.info("cluster %s is replaced: %s", cluster.name, "; ".join(wrong))
            return False
        time.sleep(1)
    return True


def _ended(cluster: handle.Cluster) -> list[str]:
    return [name for name, process in cluster.components().items() if not processes.alive(process)]


def _start(spec: records.Spec, programs: Mapping[str, Path], seed: Path | None) -> handle.Cluster:
    started = time.monotonic()
    record = records.Record(spec).save()
    try:
        cluster = _start_profile(record, programs, seed)
    except BaseException:
        # Ctrl-C too: nothing half started stays behind, and the record says that this one is not to be used.
        _end(record.folder)
        record.in_phase("failed")
        raise
    logger.info("cluster %s is up after %.1f s", spec.name, time.monotonic() - started)
    return cluster


def _start_profile(record: records.Record, programs: Mapping[str, Path], seed: Path | None) -> handle.Cluster:
    if seed:
        record = replace(record, number=node_profile.claim_number(record.folder)).save()
        node_profile.start(handle.Cluster(record), programs, seed)
        return handle.Cluster(record.in_phase("running"))
    record = ports.assign(record, controlplane.API_PROFILE_PORTS)
    api_profile.start(handle.Cluster(record), programs)
    return handle.Cluster(record.in_phase("running"))


def _end(folder: Path) -> bool:
    """Ends all that runs for a cluster and removes what would survive it on the machine; False if there was nothing.

    Needs no record: that may be damaged, or gone with the folder.
    """
    running = processes.marked(folder)
    processes.kill(running)
    # Only root can have made namespaces and what comes with them.
    traces = os.geteuid() == 0 and node_profile.remove_traces(folder)
    return bool(running) or traces


def _remove(name: str) -> bool:
    folder = paths.cluster(name)
    found = _end(folder) or folder.exists()
    subprocess.run(["rm", "-rf", "--", str(folder)], check=True)
    return found


def _describe(spec: records.Spec) -> str:
    audit = f"audit of {spec.audit_policy}, {spec.audit_mode}"
    return f"profile {spec.profile}, {spec.nodes} nodes, {spec.gpus} GPUs a GPU node, {audit}"
