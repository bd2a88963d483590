"""The Certificate: for the names by which clients reach the Service."""

from typing import Any
from urllib.parse import urlsplit

import pytest

from gptservice_operator import names
from gptservice_operator.render import pods_service, service
from gptservice_operator.render.certificate import dns_names, render_certificate
from tests.operator import builders
from tests.operator.builders import Body


def certificate(name: str = "chat", seen: Any = builders.EVERYTHING_SERVED, **issuer: Any) -> Body | None:
    spec = {"model": "pvc://models/m", "tls": {"issuerRef": {"name": "internal", **issuer}}}
    return render_certificate(builders.resolved(spec, name=name, seen=seen))


def test_the_names_are_those_of_the_service() -> None:
    manifest = certificate()
    assert manifest is not None
    assert manifest["spec"]["dnsNames"] == [
        "chat", "chat.team-a", "chat.team-a.svc", "chat.team-a.svc.cluster.local",
        "chat-pods", "chat-pods.team-a", "chat-pods.team-a.svc", "chat-pods.team-a.svc.cluster.local",
    ]  # fmt: skip


@pytest.mark.parametrize("name", ["chat", "llama-3.1-8b", "7" * 63])
def test_the_endpoint_of_the_status_is_covered(name: str) -> None:
    decided = builders.resolved({"model": "pvc://models/m"}, name=name)
    assert urlsplit(decided.endpoint).hostname in dns_names(decided)
    headless = pods_service.render_pods_service(decided)["metadata"]["name"]
    assert f"{headless}.team-a.svc.cluster.local" in dns_names(decided), "for clients that balance by themselves"
    assert dns_names(decided)[0] == service.render_service(decided)["metadata"]["name"]


def test_the_secret_is_the_same_whatever_the_issuer() -> None:
    one, other = certificate(), certificate(kind="ClusterIssuer", group="awspca.cert-manager.io")
    assert one is not None
    assert other is not None
    assert one["spec"]["secretName"] == other["spec"]["secretName"]
    assert one["spec"]["secretName"] == names.certificate_secret("chat", builders.uid_of("GPTService", "chat"))


@pytest.mark.parametrize(
    ("given", "kind", "group"),
    [
        pytest.param({}, "Issuer", "cert-manager.io", id="in full where nothing is said"),
        pytest.param({"kind": "ClusterIssuer"}, "ClusterIssuer", "cert-manager.io", id="of the cluster"),
        pytest.param({"group": "awspca.cert-manager.io"}, "Issuer", "awspca.cert-manager.io", id="of another group"),
    ],
)
def test_the_issuer(given: Body, kind: str, group: str) -> None:
    manifest = certificate(**given)
    assert manifest is not None
    assert manifest["spec"]["issuerRef"] == {"name": "internal", "kind": kind, "group": group}


def test_each_renewal_has_a_new_key() -> None:
    manifest = certificate()
    assert manifest is not None
    assert manifest["spec"]["privateKey"] == {"rotationPolicy": "Always"}


def test_there_is_none_where_nobody_would_issue_it() -> None:
    assert certificate(seen=builders.companions.NOTHING_SEEN) is None


@pytest.mark.parametrize("tls", [None, {"secretName": "mine"}])
def test_there_is_none_without_an_issuer(tls: Body | None) -> None:
    spec: Body = {"model": "pvc://models/m", **({} if tls is None else {"tls": tls})}
    assert render_certificate(builders.resolved(spec, seen=builders.EVERYTHING_SERVED)) is None
