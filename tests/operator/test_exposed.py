"""After a rollback clients find what the pods that came back speak, and are told where the spec says otherwise."""

from typing import Any

import pytest

from gptservice_operator import exposed
from gptservice_operator.render import pod
from gptservice_operator.render.resolved import Resolved
from tests.operator import builders
from tests.operator.builders import Body

PLAIN: Body = {"model": "pvc://models/m"}
TLS: Body = {**PLAIN, "tls": {"secretName": "cert"}}
MUTUAL: Body = {**PLAIN, "tls": {"secretName": "cert", "clientCASecretRef": {"name": "ca", "key": "ca.crt"}}}
OWN_KEYS: Body = {**PLAIN, "auth": {"apiKeys": {"secretRef": {"name": "theirs"}}}}
NO_KEYS: Body = {**PLAIN, "auth": {"disabled": True}}
HOST = "chat.team-a.svc"


def run(asked: Body, before: Body) -> Resolved:
    """Return a service whose spec asks for something, while pods of an earlier spec run."""
    template = pod.render_pod_template(builders.resolved(before))
    return exposed.as_run(builders.resolved(asked), template, builders.service(spec=asked))


@pytest.mark.parametrize(
    ("asked", "before", "endpoint"),
    [
        pytest.param(TLS, PLAIN, f"http://{HOST}:80", id="TLS was switched on"),
        pytest.param(PLAIN, TLS, f"https://{HOST}:443", id="TLS was switched off"),
        pytest.param({**TLS, "service": {"port": 8443}}, PLAIN, f"http://{HOST}:8443", id="a port that was chosen"),
        pytest.param(PLAIN, PLAIN, f"http://{HOST}:80", id="neither"),
    ],
)
def test_the_port_and_the_protocol_are_the_pods_own(asked: Body, before: Body, endpoint: str) -> None:
    assert run(asked, before).endpoint == endpoint


@pytest.mark.parametrize("before", [PLAIN, OWN_KEYS, NO_KEYS], ids=["generated", "the user's", "none"])
@pytest.mark.parametrize("asked", [PLAIN, OWN_KEYS, NO_KEYS], ids=["generated", "the user's", "none"])
def test_the_keys_are_the_pods_own(asked: Body, before: Body) -> None:
    assert run(asked, before).api_keys == builders.resolved(before).api_keys


@pytest.mark.parametrize("spec", [PLAIN, TLS, MUTUAL, OWN_KEYS, NO_KEYS])
def test_the_same_spec_is_left_as_it_is(spec: Body) -> None:
    asked = builders.resolved(spec)
    assert list(exposed.differences(asked, run(spec, spec))) == []


@pytest.mark.parametrize(
    ("asked", "before", "said"),
    [
        (TLS, PLAIN, ["spec.tls", f"http://{HOST}:80", "without a certificate of their own"]),
        (PLAIN, TLS, ["spec.tls", f"https://{HOST}:443"]),
        (TLS, MUTUAL, ["spec.tls", "with a certificate of their own"]),
        (MUTUAL, TLS, ["spec.tls", "without a certificate of their own"]),
        (NO_KEYS, OWN_KEYS, ["spec.auth", "keys of Secret theirs"]),
        (OWN_KEYS, NO_KEYS, ["spec.auth", "ask for no key"]),
    ],
)
def test_what_differs_is_told_with_what_to_do(asked: Body, before: Body, said: list[Any]) -> None:
    (warning,) = exposed.differences(builders.resolved(asked), run(asked, before))
    for words in (*said, "until another revision is rolled out"):
        assert words in warning
