"""TLS in the pods: the Secrets arrive as directories, of the client CA's no more than is needed."""

import pytest

from gptservice_operator import names
from gptservice_operator.render.pod import render_pod_template
from gptservice_operator.render.pods_service import render_pods_service
from tests.operator import builders
from tests.operator.builders import Body

CERT: Body = {"secretName": "cert"}


def spec(tls: Body | None) -> Body:
    given: Body = {"model": "pvc://models/m", **({} if tls is None else {"tls": tls})}
    found: Body = render_pod_template(builders.resolved(given))["spec"]
    return found


def flags(tls: Body | None) -> list[str]:
    args: list[str] = spec(tls)["containers"][0]["args"]
    return [word for word in args[: args.index("--")] if word in {"--tls", "--require-client-certificate"}]


def secrets(tls: Body | None) -> dict[str, Body]:
    """The Secrets of the engine's container, by where they are mounted; those of the API keys left out."""
    found = spec(tls)
    volumes = {volume["name"]: volume.get("secret") for volume in found["volumes"]}
    mounts = found["containers"][0]["volumeMounts"]
    assert not [mount for mount in mounts if "subPath" in mount]
    assert all(mount["readOnly"] for mount in mounts if volumes[mount["name"]])
    return {
        mount["mountPath"]: volumes[mount["name"]]
        for mount in mounts
        if volumes[mount["name"]] and mount["name"] != "keys"
    }


@pytest.mark.parametrize(
    ("tls", "expected"),
    [
        pytest.param(None, [], id="none"),
        pytest.param(CERT, ["--tls"], id="the server's"),
        pytest.param(
            {**CERT, "clientCASecretRef": {"name": "ca"}}, ["--tls", "--require-client-certificate"], id="both"
        ),
    ],
)
def test_the_runtime_is_told(tls: Body | None, expected: list[str]) -> None:
    assert flags(tls) == expected


def test_without_tls_nothing_is_mounted() -> None:
    assert secrets(None) == {}


def test_the_users_certificate() -> None:
    assert secrets(CERT) == {"/etc/gptservice/tls": {"secretName": "cert", "defaultMode": 0o440}}


def test_an_issued_one_comes_by_the_secret_that_the_certificate_names() -> None:
    (mounted,) = secrets({"issuerRef": {"name": "internal"}}).values()
    assert mounted["secretName"] == names.certificate_secret("chat", builders.uid_of("GPTService", "chat"))


@pytest.mark.parametrize(
    ("key", "items"),
    [
        pytest.param({"key": "root.pem"}, {"items": [{"key": "root.pem", "path": "ca.crt"}]}, id="one of several"),
        pytest.param({}, {}, id="the only one"),
    ],
)
def test_of_the_client_ca_only_the_key_that_is_named(key: Body, items: Body) -> None:
    mounted = secrets({**CERT, "clientCASecretRef": {"name": "ca", **key}})["/etc/gptservice/client-ca"]
    assert mounted == {"secretName": "ca", "defaultMode": 0o440, **items}


def test_the_fetching_container_gets_none_of_it() -> None:
    (fetching,) = spec(CERT)["initContainers"]
    assert not [mount for mount in fetching["volumeMounts"] if mount["name"] in {"tls", "client-ca"}]


@pytest.mark.parametrize(("tls", "scheme"), [(None, "http"), (CERT, "https")])
def test_the_probes_stay_plain_and_the_port_says_what_it_speaks(tls: Body | None, scheme: str) -> None:
    container = spec(tls)["containers"][0]
    for probe in ("startupProbe", "readinessProbe", "livenessProbe"):
        asked = container[probe]["httpGet"]
        assert (asked["scheme"], asked["port"]) == ("HTTP", 8081)
    assert {port["containerPort"]: port["name"] for port in container["ports"]} == {8000: scheme, 8081: "probes"}
    given: Body = {"model": "pvc://models/m", **({} if tls is None else {"tls": tls})}
    (port,) = render_pods_service(builders.resolved(given))["spec"]["ports"]
    assert (port["name"], port["appProtocol"], port["port"]) == (scheme, scheme, 8000)
