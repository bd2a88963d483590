"""Names of children: legal for every legal object name, all different, and the same for ever."""

import re
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gptservice_operator import names

DNS_LABEL = re.compile(r"[a-z]([-a-z0-9]{0,61}[a-z0-9])?")
"""RFC 1035, which Kubernetes demands of a Service's name."""
LABEL_VALUE = re.compile(r"[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?")

ALPHANUMERIC = "abcxyz0189"
segments = st.from_regex(rf"[{ALPHANUMERIC}]([{ALPHANUMERIC}-]{{0,20}}[{ALPHANUMERIC}])?", fullmatch=True)
legal_names = st.lists(segments, min_size=1, max_size=6).map(".".join).filter(lambda name: len(name) <= 63)
"""DNS subdomains of at most 63 characters: what the API server lets a GPTService be called."""

AWKWARD = [
    pytest.param("a", id="one letter"),
    pytest.param("7", id="one digit"),
    pytest.param("llama-3.1-8b", id="a dot"),
    pytest.param("0.5b", id="a digit first and a dot"),
    pytest.param("a" * 63, id="63 characters"),
    pytest.param("9" * 63, id="63 digits"),
    pytest.param("x." * 31 + "y", id="63 characters, every other a dot"),
    pytest.param("a" + "-" * 60 + "." + "b", id="mostly hyphens"),
]
UID = "0f1e2d3c-4b5a-6978-8796-a5b4c3d2e1f0"


def key_secret(name: str) -> str:
    return names.key_secret(name, UID)


def certificate_secret(name: str) -> str:
    return names.certificate_secret(name, UID)


def shared_cache_claim(service_name: str) -> str:
    return names.cache_claim(service_name, "nfs", ["ReadWriteMany"])


def revision(name: str) -> str:
    return names.controller_revision(name, "0123456789ab")


CHILD_NAMES = [
    names.deployment,
    names.k8s_service,
    names.pods_service,
    names.limits_config_map,
    names.service_account,
    names.disruption_budget,
    names.network_policy,
    names.certificate,
    certificate_secret,
    names.former_certificate_secret,
    names.pod_monitor,
    shared_cache_claim,
    key_secret,
    revision,
]


@pytest.mark.parametrize("child_name", CHILD_NAMES)
@pytest.mark.parametrize("name", AWKWARD)
def test_awkward_names_make_legal_children(name: str, child_name: Callable[[str], str]) -> None:
    assert DNS_LABEL.fullmatch(child_name(name))


@given(legal_names)
def test_every_legal_name_makes_legal_children(name: str) -> None:
    for child_name in CHILD_NAMES:
        assert DNS_LABEL.fullmatch(child_name(name))


@given(legal_names)
def test_labels_and_selector_are_legal_and_the_labels_contain_the_selector(name: str) -> None:
    labels = names.labels(name)
    assert all(LABEL_VALUE.fullmatch(value) for value in labels.values())
    assert names.selector(name).items() <= labels.items()


@given(st.sets(legal_names, min_size=2, max_size=20))
def test_different_services_have_different_children(services: set[str]) -> None:
    for child_name in CHILD_NAMES:
        assert len({child_name(name) for name in services}) == len(services)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        pytest.param("a.b", "a-b", id="a dot and a hyphen"),
        pytest.param("a.b.c", "a-b.c", id="dots at different places"),
        pytest.param("7b", "g7b", id="a digit, and the letter put before it"),
        pytest.param("m" * 61 + ".a", "m" * 61 + ".b", id="a difference beyond what is kept"),
        pytest.param("m" * 62 + "a", "m" * 62 + "b", id="long names that differ at the end"),
    ],
)
def test_names_that_look_alike_stay_apart(one: str, other: str) -> None:
    for child_name in CHILD_NAMES:
        assert child_name(one) != child_name(other)


@pytest.mark.parametrize(
    ("name", "deployment", "config_map"),
    [
        pytest.param("prod-gpt", "prod-gpt", "prod-gpt-limits", id="a label stays as it is"),
        pytest.param("llama-3.1-8b", "llama-3-1-8b-7b633509", "llama-3-1-8b-7b633509-limits", id="dots"),
        pytest.param("3-chat", "g3-chat-4404000a", "g3-chat-4404000a-limits", id="a digit first"),
        pytest.param("a" * 56, "a" * 56, "a" * 56 + "-limits", id="just room for the suffix"),
        pytest.param("a" * 57, "a" * 57, "a" * 47 + "-f13b2d72-limits", id="no room for the suffix"),
        pytest.param("a" * 63, "a" * 63, "a" * 47 + "-7d3e74a0-limits", id="the longest label"),
    ],
)
def test_names_never_change(name: str, deployment: str, config_map: str) -> None:
    """A name that changed would leave the former child behind and start a second one beside it."""
    assert names.deployment(name) == deployment
    assert names.k8s_service(name) == deployment
    assert names.limits_config_map(name) == config_map


def test_the_secret_of_the_key_is_the_object_s_and_not_its_successor_s() -> None:
    assert certificate_secret("chat") == "chat-tls-0f1e2d3c"
    assert key_secret("chat") == "chat-key-0f1e2d3c"
    assert key_secret("llama-3.1-8b").endswith("-key-0f1e2d3c")
    assert names.key_secret("chat", "1" + UID[1:]) != key_secret("chat")


def test_labels_and_selector_never_change() -> None:
    """A Deployment's selector is immutable: with another one, every service would have to be made again."""
    assert names.selector("chat") == {"app.kubernetes.io/name": "gptservice", "gptservice-name": "chat"}
    assert names.labels("chat") == {
        "app.kubernetes.io/name": "gptservice",
        "app.kubernetes.io/managed-by": "gptservice-operator",
        "gptservice-name": "chat",
    }
    assert names.selector_text("chat") == "app.kubernetes.io/name=gptservice,gptservice-name=chat"
    assert names.WATCH_SELECTOR == "app.kubernetes.io/managed-by=gptservice-operator"


def test_the_owner_reference_controls_and_blocks_nothing() -> None:
    assert names.owner_reference("chat", "u-1") == {
        "apiVersion": "ai.example.com/v1",
        "kind": "GPTService",
        "name": "chat",
        "uid": "u-1",
        "controller": True,
    }


@pytest.mark.parametrize(
    ("references", "uid"),
    [
        pytest.param(None, None, id="no owner"),
        pytest.param([{"uid": "a"}], None, id="an owner that does not control"),
        pytest.param([{"uid": "a"}, {"uid": "b", "controller": True}], "b", id="the second one controls"),
        pytest.param([{"uid": "a", "controller": False}], None, id="one that says it does not"),
    ],
)
def test_the_controller_of_an_object(references: list[dict[str, object]] | None, uid: str | None) -> None:
    metadata = {} if references is None else {"ownerReferences": references}
    assert names.controller_uid(metadata) == uid


class TestCacheClaim:
    """What cannot be changed in a claim is in its name, so that a change of it makes another claim."""

    def test_its_name_for_ever(self) -> None:
        """Another name for the same cache would leave the weights behind."""
        assert names.cache_claim("chat", None, ["ReadWriteOnce"]) == "chat-cache-a2f0cffa"
        assert names.cache_claim("llama-3.1-8b", "fast", ["ReadWriteMany"]).startswith("llama-3-1-8b-7b633509-cache-")

    def test_each_class_and_set_of_modes_has_its_own(self) -> None:
        claims = [
            names.cache_claim("chat", storage_class, modes)
            for storage_class in (None, "fast", "null")
            for modes in (["ReadWriteOnce"], ["ReadWriteMany"], ["ReadWriteMany", "ReadWriteOnce"])
        ]
        assert len(set(claims)) == len(claims)

    def test_the_order_of_modes_is_no_difference(self) -> None:
        one = names.cache_claim("chat", "nfs", ["ReadWriteOnce", "ReadWriteMany"])
        assert one == names.cache_claim("chat", "nfs", ["ReadWriteMany", "ReadWriteOnce"])
