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
    controlplane,
    files,
    handle,
    node_profile,
    numbers,
    ports,
    prerequisites,
    processes,
    readiness,
    records,
    rest,
)

logger = logging.getLogger(__name__)


class ClusterError(Exception):
    """A cluster is not what the command needs; the message says what to do."""


def up(spec: records.Spec) -> handle.Cluster:
    """Returns a usable cluster: the running one if it is healthy, else a new one in its place.

    Raises ClusterError when a healthy cluster of that name was started with other options, MissingPrerequisites
    before anything is started, and BuildError, StartError or NotReadyError from the parts; then what was started is
    gone again and the logs are kept.
    """
    with files.locked(records.lock_path(spec.name)):
        running = _healthy(spec)
        if running:
            return running
        prerequisites.require(spec.profile)
        programs = binaries.ensure(binaries.of_profile(spec.profile))
        _remove(spec.name)
        return _start(spec, programs)


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
    ended = [f"{name} has ended" for name, process in cluster.components().items() if not processes.alive(process)]
    if ended:
        return ended
    try:
        if not readiness.api_ready(cluster.api):
            return ["the API server is not ready"]
        if not readiness.nodes_ready(cluster.api, cluster.record.spec.nodes):
            return ["not all nodes are Ready"]
    except (OSError, rest.ApiError) as error:
        return [f"the API server does not answer: {error}"]
    return []


def _healthy(spec: records.Spec) -> handle.Cluster | None:
    try:
        record = records.load(spec.name)
    except ValueError:
        return None
    if record is None or record.phase != "running" or problems(handle.Cluster(record)):
        return None
    if record.spec != spec:
        raise ClusterError(
            f"cluster {spec.name!r} already runs with other options ({_describe(record.spec)}, asked for: "
            f"{_describe(spec)}): run `python -m e2e.cluster down --name {spec.name}` first, or choose another name"
        )
    logger.info("cluster %s is already running", spec.name)
    return handle.Cluster(record)


def _start(spec: records.Spec, programs: Mapping[str, Path]) -> handle.Cluster:
    started = time.monotonic()
    record = records.Record(spec).save()
    try:
        cluster = _start_profile(record, programs)
    except BaseException:
        # Ctrl-C too: nothing half started stays behind, and the record says that this one is not to be used.
        _stop(record)
        record.in_phase("failed")
        raise
    logger.info("cluster %s is up after %.1f s", spec.name, time.monotonic() - started)
    return cluster


def _start_profile(record: records.Record, programs: Mapping[str, Path]) -> handle.Cluster:
    if record.spec.profile == "node":
        record = replace(record, number=numbers.claim(record.folder)).save()
        node_profile.start(handle.Cluster(record), programs)
        return handle.Cluster(record.in_phase("running"))
    record = ports.assign(record, controlplane.API_PROFILE_PORTS)
    api_profile.start(handle.Cluster(record), programs)
    return handle.Cluster(record.in_phase("running"))


def _stop(record: records.Record) -> None:
    _end(record.folder)


def _end(folder: Path) -> None:
    """Ends all that runs and removes what would survive it on the machine, with or without a readable record."""
    own = _ancestors()
    processes.kill([process for process in processes.marked(folder) if process.pid not in own])
    if os.geteuid() == 0:
        node_profile.remove_traces(folder)


def _ancestors() -> set[int]:
    """This process and those above it: `down` may be called from within `exec`, which carries the mark."""
    found, pid = set[int](), os.getpid()
    while pid > 1:
        found.add(pid)
        pid = processes.parent(pid)
    return found


def _remove(name: str) -> bool:
    folder = records.Record(records.Spec(name)).folder
    if not folder.exists():
        return False
    _end(folder)
    subprocess.run(["rm", "-rf", "--", str(folder)], check=True)
    return True


def _describe(spec: records.Spec) -> str:
    return f"profile {spec.profile}, {spec.nodes} nodes, {spec.gpus} GPUs a GPU node, audit {spec.audit_mode}"
