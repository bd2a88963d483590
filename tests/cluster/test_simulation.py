import json

import pytest

from e2e.cluster import simulation, stages


@pytest.mark.parametrize(
    ("nodes", "gpus", "names"),
    [
        (1, 8, ["gpu-0"]),
        (3, 8, ["gpu-0", "gpu-1", "cpu-0"]),
        (4, 1, ["gpu-0", "gpu-1", "cpu-0", "cpu-1"]),
        (2, 0, ["cpu-0", "cpu-1"]),
    ],
)
def test_half_of_the_nodes_have_gpus_if_any_are_asked_for(nodes: int, gpus: int, names: list[str]) -> None:
    made = [simulation.node(index, nodes=nodes, gpus=gpus) for index in range(nodes)]
    assert [node["metadata"]["name"] for node in made] == names
    for node in made:
        has_gpu = node["metadata"]["name"].startswith("gpu")
        assert node["status"]["allocatable"].get("nvidia.com/gpu") == (str(gpus) if has_gpu else None)
        assert ("nvidia.com/gpu.product" in node["metadata"]["labels"]) is has_gpu
    products = {node["metadata"]["labels"].get("nvidia.com/gpu.product") for node in made} - {None}
    assert len(products) == min(2, sum(name.startswith("gpu") for name in names))


def test_stages_have_names_of_their_own_and_are_plain_data() -> None:
    found = stages.all_stages()
    names = [stage["metadata"]["name"] for stage in found]
    assert len(set(names)) == len(names)
    assert json.loads(json.dumps(found)) == found


def test_the_stages_of_a_pod_exclude_each_other() -> None:
    """Where one selector held all terms of another, both would match the same pod and chance would choose."""
    selectors: list[set[tuple[str, ...]]] = []
    for stage in stages.all_stages():
        if stage["spec"]["resourceRef"]["kind"] == "Pod":
            terms = stage["spec"]["selector"]["matchExpressions"]
            selectors.append({(term["key"], term["operator"], *term.get("values", ())) for term in terms})
    assert [one for one in selectors if any(one is not other and one >= other for other in selectors)] == []
