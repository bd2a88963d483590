"""Models of object stores, registries and web servers in real pods: served, and refused in plain words."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from e2e.api.state import Observer, condition, holds
from e2e.cluster import network
from e2e.cluster.handle import Cluster
from e2e.hub.faults import Fault
from e2e.kube import Kube, Object
from e2e.kubectl import Kubectl
from e2e.node import containers
from e2e.node.release import STANDIN, Release
from e2e.node.services import SOON, standin
from gptservice_runtime import digest
from tests.runtime.sources import places
from tests.runtime.sources.places import Place, Servers

pytestmark = pytest.mark.long


@pytest.fixture(scope="module")
def servers(cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Servers]:
    """Behind gates at this machine's end of the link, where the cluster's pods reach them."""
    host = network.outer(cluster.record.number)
    with places.all_servers(tmp_path_factory.mktemp("servers"), host) as running:
        yield running


@pytest.fixture(scope="module", autouse=True)
def installed(release: Release) -> None:
    release.use({**STANDIN, "cacheSize": "64Mi"})


def give_secret(kube: Kube, namespace: str, name: str, values: Mapping[str, str]) -> None:
    secret = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name}, "stringData": dict(values)}
    kube.create(secret, namespace)


def service_of(kube: Kube, namespace: str, name: str, place: Place, secret: Mapping[str, str]) -> Object:
    give_secret(kube, namespace, name, secret)
    return standin(name, model=place.uri, modelCredentialsSecretRef={"name": name})


@pytest.mark.parametrize("kind", places.NAMES)
def test_every_source_is_served(
    kind: str, servers: Servers, kube: Kube, kubectl: Kubectl, namespace: str, observer: Observer
) -> None:
    with servers.place(kind) as place:
        kube.apply(service_of(kube, namespace, kind, place, place.credentials), namespace)
        told = observer.wait_ready(kind, timeout=SOON)
    effective = told["status"]["effective"]
    assert effective["digest"] == digest.of_path(servers.model)
    assert effective["revision"]
    (pod,) = observer.pods(kind)
    log = containers.said(kubectl, "logs", pod["metadata"]["name"], "-c", "fetch", "--namespace", namespace)
    secrets = ("test-secret-key", "let-me-in", "secret-of-the-web", "Signature=")
    assert not [secret for secret in secrets if secret in log + str(pod) + str(told)]
    print(f"{kind}: {effective['uri']} {effective['revision']} {effective['digest']}")


FAULTS: list[Any] = [
    pytest.param("s3", Fault("cdn", corrupt=True), "ChecksumMismatch", id="s3 corrupt"),
    pytest.param("gs", Fault("api", status=503), "ModelDownloadFailed", id="gs fails"),
    pytest.param("oci", Fault("cdn", status=429, headers={"Retry-After": "0"}), "HubThrottled", id="oci throttled"),
    pytest.param("oci-tar", Fault("api", status=404), "ModelNotFound", id="oci gone"),
    # Not 403: an address that is signed for GET alone says that to a HEAD, and is asked with a GET then.
    pytest.param("https", Fault("api", status=401), "ModelAccessDenied", id="https denied"),
]


@pytest.mark.parametrize(("kind", "fault", "reason"), FAULTS)
def test_what_lasts_is_the_reason(
    kind: str, fault: Fault, reason: str, servers: Servers, kube: Kube, namespace: str, observer: Observer
) -> None:
    name = f"{kind}-{reason.lower()}"
    with servers.place(kind) as place:
        place.gate.faults.append(Fault(**vars(fault)))
        kube.apply(service_of(kube, namespace, name, place, place.credentials), namespace)
        observer.wait(lambda o: holds(o, "Ready", "False", reason), f"to say {reason}", name, timeout=SOON)
        place.gate.faults.clear()
        observer.wait_ready(name, timeout=SOON)


def test_weights_larger_than_the_memory_are_refused_before_the_download(
    servers: Servers, kube: Kube, namespace: str, observer: Observer, tmp_path: Path
) -> None:
    (tmp_path / "config.json").write_text("{}")
    with (tmp_path / "model.safetensors").open("wb") as weights:
        weights.truncate(256 << 20)
    servers.s3.upload(tmp_path, "large")
    with servers.place("s3") as place:
        place.uri = "s3://models/large"
        kube.apply(service_of(kube, namespace, "large", place, place.credentials), namespace)
        told = observer.wait(
            lambda o: holds(o, "Ready", "False", "OutOfMemory"), "to be too large", "large", timeout=SOON
        )
        assert place.gate.sent == 0
    assert "spec.resources.limits.memory" in condition(told, "Ready")["message"]
