"""Containment by Kubernetes' merge keys: what an apply would change, and what it would leave alone."""

from itertools import pairwise
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gptservice_operator.api.quantity import stored
from gptservice_operator.contained import contains

Map = dict[str, Any]


def resources(**quantities: Any) -> Map:
    return {"resources": {"limits": quantities}}


EMPTY: Map = {}

CONTAINED = [
    pytest.param({"a": 1, "b": 2}, {"a": 1}, id="a key that others added"),
    pytest.param({"a": {"b": 1, "c": 2}}, {"a": {"b": 1}}, id="a key that others added further down"),
    pytest.param({"a": 1}, {}, id="nothing is wanted"),
    pytest.param(
        {"metadata": {"annotations": {"ours": "x", "argocd.argoproj.io/tracking-id": "y"}}},
        {"metadata": {"annotations": {"ours": "x"}}},
        id="a foreign annotation",
    ),
    pytest.param(resources(cpu="1"), resources(cpu="1000m"), id="1000m is 1"),
    pytest.param(resources(cpu="1"), resources(cpu=1), id="a number and its text"),
    pytest.param(resources(memory="1Gi"), resources(memory="1024Mi"), id="1024Mi is 1Gi"),
    pytest.param(resources(cpu="1500m"), resources(cpu="1.5"), id="1.5 is 1500m"),
    pytest.param(resources(memory="1e3"), resources(memory="1k"), id="an exponent"),
    pytest.param({"emptyDir": {"sizeLimit": "1Gi"}}, {"emptyDir": {"sizeLimit": "1024Mi"}}, id="a volume's size limit"),
    pytest.param(
        {"containers": [{"name": "a", "image": "p"}, {"name": "engine", "image": "e"}, {"name": "z", "image": "p"}]},
        {"containers": [{"name": "engine", "image": "e"}]},
        id="injected sidecars, before and after",
    ),
    pytest.param(
        {"env": [{"name": "INJECTED", "value": "1"}, {"name": "A", "value": "a"}]},
        {"env": [{"name": "A", "value": "a"}]},
        id="an injected variable",
    ),
    pytest.param(
        {"env": [{"name": "B", "value": "b"}, {"name": "A", "value": "a"}]},
        {"env": [{"name": "A", "value": "a"}, {"name": "B", "value": "b"}]},
        id="keyed lists in another order",
    ),
    pytest.param(
        {"initContainers": [{"name": "a", "image": "p"}, {"name": "fetch", "image": "e"}, {"name": "z", "image": "p"}]},
        {"initContainers": [{"name": "fetch", "image": "e"}]},
        id="injected init containers, before and after",
    ),
    pytest.param(
        {"imagePullSecrets": [{"name": "injected"}, {"name": "ours"}, {"name": "injected-too"}]},
        {"imagePullSecrets": [{"name": "ours"}]},
        id="injected pull secrets, before and after",
    ),
    pytest.param(
        {"volumes": [{"name": "ca", "secret": {"secretName": "s"}}, {"name": "tmp", "emptyDir": EMPTY}]},
        {"volumes": [{"name": "tmp", "emptyDir": EMPTY}]},
        id="an injected volume",
    ),
    pytest.param(
        {"volumeMounts": [{"name": "ca", "mountPath": "/ca"}, {"name": "tmp", "mountPath": "/tmp"}]},
        {"volumeMounts": [{"name": "tmp", "mountPath": "/tmp"}]},
        id="an injected mount",
    ),
    pytest.param(
        {
            "ports": [
                {"containerPort": 8000, "protocol": "TCP", "name": "http"},
                {"containerPort": 9, "protocol": "TCP"},
            ]
        },
        {"ports": [{"containerPort": 8000, "protocol": "TCP"}]},
        id="another container port",
    ),
    pytest.param(
        {"ports": [{"containerPort": 53, "protocol": "TCP", "name": "t"}, {"containerPort": 53, "protocol": "UDP"}]},
        {"ports": [{"containerPort": 53, "protocol": "TCP", "name": "t"}]},
        id="the same port of another protocol beside ours",
    ),
    pytest.param(
        {"ports": [{"port": 80, "protocol": "TCP", "name": "http"}, {"port": 81, "protocol": "TCP", "name": "more"}]},
        {"ports": [{"port": 80, "protocol": "TCP", "name": "http"}]},
        id="another port of a Service",
    ),
    pytest.param(
        {"ports": [{"port": 80, "protocol": "TCP", "targetPort": 8000, "nodePort": 30080}]},
        {"ports": [{"port": 80, "protocol": "TCP", "targetPort": 8000}]},
        id="a node port that the server chose",
    ),
    pytest.param(
        {"ownerReferences": [{"uid": "a", "kind": "X"}, {"uid": "ours", "kind": "G"}, {"uid": "z", "kind": "X"}]},
        {"ownerReferences": [{"uid": "ours", "kind": "G"}]},
        id="further owners",
    ),
    pytest.param(
        {
            "topologySpreadConstraints": [
                {"topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule", "maxSkew": 1},
                {"topologyKey": "zone", "whenUnsatisfiable": "ScheduleAnyway", "maxSkew": 2},
                {"topologyKey": "host", "whenUnsatisfiable": "DoNotSchedule", "maxSkew": 3},
            ]
        },
        {"topologySpreadConstraints": [{"topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule", "maxSkew": 1}]},
        id="spread constraints go by topology key and effect",
    ),
    pytest.param(
        {"tolerations": [{"key": "gpu", "operator": "Exists", "tolerationSeconds": 5}]},
        {"tolerations": [{"key": "gpu", "operator": "Exists"}]},
        id="a default within an element of an atomic list",
    ),
    pytest.param(
        {"env": [{"name": "EMPTY"}]},
        {"env": [{"name": "EMPTY", "value": ""}]},
        id="an empty text, which the server leaves out",
    ),
    pytest.param(
        {"matchExpressions": [{"key": "k", "operator": "Exists"}]},
        {"matchExpressions": [{"key": "k", "operator": "Exists", "values": list[str]()}]},
        id="an empty list, which the server leaves out",
    ),
    pytest.param({"labelSelector": {}}, {"labelSelector": {"matchLabels": {}}}, id="an empty map, likewise"),
]

DIFFERENT = [
    pytest.param({"a": 1}, {"a": 2}, id="another value"),
    pytest.param({}, {"a": 1}, id="a key that is gone"),
    pytest.param({"a": None}, {"a": {"b": 1}}, id="a map that is null"),
    pytest.param({"a": "x"}, {"a": ["x"]}, id="a text for a list"),
    pytest.param({"a": ["x"]}, {"a": {"x": 1}}, id="a list for a map"),
    pytest.param({"value": "1"}, {"value": "1000m"}, id="texts outside of resources are no quantities"),
    pytest.param(resources(cpu="2"), resources(cpu="1"), id="another quantity"),
    pytest.param(resources(memory="1G"), resources(memory="1Gi"), id="1G is not 1Gi"),
    pytest.param({"args": ["a", "b"]}, {"args": ["a"]}, id="an argument that others added"),
    pytest.param({"args": ["a"]}, {"args": ["a", "b"]}, id="an argument that is gone"),
    pytest.param({"args": ["b", "a"]}, {"args": ["a", "b"]}, id="arguments in another order"),
    pytest.param(
        {"tolerations": [{"key": "gpu"}, {"key": "spot"}]},
        {"tolerations": [{"key": "gpu"}]},
        id="a toleration that others added: the list is atomic",
    ),
    pytest.param(
        {"containers": [{"name": "engine", "image": "other"}]},
        {"containers": [{"name": "engine", "image": "ours"}]},
        id="another image",
    ),
    pytest.param({"containers": [{"name": "x"}]}, {"containers": [{"name": "engine"}]}, id="a container that is gone"),
    pytest.param({"env": []}, {"env": [{"name": "A", "value": "a"}]}, id="a variable that is gone"),
    pytest.param(
        {"env": [{"name": "A", "value": "b"}]},
        {"env": [{"name": "A", "value": "a"}]},
        id="a variable with another value",
    ),
    pytest.param(
        {"env": [{"name": "A", "value": "filled"}]},
        {"env": [{"name": "A", "value": ""}]},
        id="a variable that should be empty",
    ),
    pytest.param(
        {"ports": [{"containerPort": 8000, "protocol": "UDP"}]},
        {"ports": [{"containerPort": 8000, "protocol": "TCP"}]},
        id="the same port of another protocol",
    ),
    pytest.param(
        {"ports": [{"port": 80, "protocol": "TCP", "targetPort": 1}]},
        {"ports": [{"port": 80, "protocol": "TCP", "targetPort": 8000}]},
        id="another target port",
    ),
    pytest.param(
        {"topologySpreadConstraints": [{"topologyKey": "zone", "whenUnsatisfiable": "ScheduleAnyway"}]},
        {"topologySpreadConstraints": [{"topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule"}]},
        id="a spread constraint with another effect",
    ),
]


@pytest.mark.parametrize(("live", "wanted"), CONTAINED)
def test_is_contained(live: Map, wanted: Map) -> None:
    assert contains(live, wanted)


@pytest.mark.parametrize(("live", "wanted"), DIFFERENT)
def test_is_not_contained(live: Map, wanted: Map) -> None:
    assert not contains(live, wanted)


keys = st.text("abc", min_size=1, max_size=3)
leaves = st.none() | st.booleans() | st.integers() | st.text("xyz", min_size=1, max_size=4)
values = st.recursive(
    leaves, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(keys, inner, max_size=3), max_leaves=12
)
maps = st.dictionaries(keys, values, max_size=4)


def with_foreign_keys(value: Any) -> Any:
    """Return the value with one more key in every map of it."""
    if isinstance(value, dict):
        known = {key: with_foreign_keys(inner) for key, inner in cast("Map", value).items()}
        return {**known, "foreign": "yes"}
    return value


@given(maps)
def test_everything_contains_itself(body: Map) -> None:
    assert contains(body, body)


@given(maps)
def test_what_others_add_to_maps_is_no_difference(body: Map) -> None:
    assert contains(with_foreign_keys(body), body)


@given(maps.filter(bool), st.data())
def test_a_changed_value_is_a_difference(body: Map, data: st.DataObject) -> None:
    key = data.draw(st.sampled_from(sorted(body)))
    assert not contains({**body, key: "changed by others"}, body)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        pytest.param("1", "1000m", id="milli"),
        pytest.param("0.5", "500m", id="a fraction"),
        pytest.param("2k", "2000", id="kilo"),
        pytest.param("2Ki", "2048", id="kibi"),
        *(
            pytest.param(f"2{larger}", f"{2 * step}{smaller}", id=larger)
            for units, step in (("kMGTPE", 1000), (["Ki", "Mi", "Gi", "Ti", "Pi", "Ei"], 1024))
            for smaller, larger in pairwise(units)
        ),
        pytest.param("1e3", "1000", id="e is an exponent"),
        pytest.param("1E3", "1000", id="E before digits is an exponent"),
        pytest.param("1.50", "1.5", id="a trailing zero"),
        pytest.param(2, "2", id="a number"),
        pytest.param("0.0001", "1m", id="below milli is rounded up, as the API server does on writing"),
    ],
)
def test_equal_quantities(one: Any, other: Any) -> None:
    assert stored(one) == stored(other)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        pytest.param("1", "1m", id="milli"),
        pytest.param("1M", "1Mi", id="decimal and binary"),
        pytest.param("1Q", "1", id="no unit that Kubernetes knows"),
        pytest.param("lots", "more", id="no quantities at all"),
        pytest.param("1.2.3", "1.2.4", id="no numbers"),
    ],
)
def test_unequal_quantities(one: Any, other: Any) -> None:
    assert stored(one) != stored(other)
