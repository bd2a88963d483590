"""`make bench-api`: the size of the CRDs, what the API server thinks of them, and the time to parse an object."""

import json
import os
import time
from typing import Any

from e2e.bench.largest import largest_spec
from e2e.cluster import lifecycle, records
from e2e.kube import Kube, KubeError
from e2e.operator_process import CRDS
from gptservice_operator import parse
from gptservice_operator.api import crd
from gptservice_operator.render.resolved import Refusal

_CLUSTER = "bench-api"
_REPEATED = 300
TYPICAL: dict[str, Any] = {
    "modelRef": "gpt-3.5-turbo-2024-04",
    "replicas": 3,
    "maxInflightRequests": 128,
    "upgradeStrategy": "RollingUpdate",
    "gpu": {"count": 1},
    "engine": {"args": ["--dtype=bfloat16"], "env": [{"name": "NCCL_DEBUG", "value": "WARN"}]},
}


def service(spec: dict[str, Any]) -> dict[str, Any]:
    """Return a GPTService with a spec."""
    return {"apiVersion": "ai.example.com/v1", "kind": "GPTService", "metadata": {"name": "bench"}, "spec": spec}


def parse_milliseconds(spec: dict[str, Any], times: int) -> float:
    """Return the mean time of one parse; RuntimeError when the operator refuses the spec."""
    body = service(spec)
    outcome = parse.parse(body)
    if isinstance(outcome, Refusal):
        raise RuntimeError(f"the operator refuses the object that is to be measured: {outcome.message}")
    started = time.perf_counter()
    for _ in range(times):
        parse.parse(body)
    return (time.perf_counter() - started) / times * 1000


def report_sizes() -> None:
    """Print the size of each CRD file."""
    total = 0
    for file in sorted(CRDS.glob("*.yaml")):
        size = file.stat().st_size
        total += size
        print(f"{file.name}: {size:,} bytes")
    print(f"CRD files together: {total:,} bytes (limit 200,000)")
    copied = len(json.dumps(crd.gptservice_crd()).encode())
    print(f"copy that plain `kubectl apply` keeps in an annotation: about {copied:,} bytes (limit 262,144)")


def report_server(kube: Kube) -> None:
    """Print whether the API server takes the CRDs (it estimates the cost of every rule), and the largest object."""
    for definition in (crd.gptservice_crd(), crd.gptmodel_crd()):
        kube.apply(definition)
        print(f"the API server accepts every rule of {definition['metadata']['name']}, with all bounds in place")
    time.sleep(2)  # the API server begins to judge by a new CRD a moment later
    for name, spec in (("typical", TYPICAL), ("largest", largest_spec())):
        body = service(spec)
        size = len(json.dumps(body).encode())
        started = time.perf_counter()
        try:
            kube.judge(body, "default")
            verdict = "accepted"
        except KubeError as error:
            verdict = f"refused: {error.message[:300]}"
        print(f"{name} object, {size:,} bytes: {verdict} in {(time.perf_counter() - started) * 1000:.0f} ms (dry run)")


def main() -> None:
    """Run all of it, on the cluster that E2E_CLUSTER names or on one of its own."""
    report_sizes()
    print(f"pydantic, typical object: {parse_milliseconds(TYPICAL, _REPEATED):.3f} ms")
    print(f"pydantic, largest object: {parse_milliseconds(largest_spec(), _REPEATED // 30):.1f} ms")
    kept = os.environ.get("E2E_CLUSTER")
    spec = records.Spec(name=kept or _CLUSTER, profile="api", nodes=4, gpus=64, audit_mode="blocking")
    cluster = lifecycle.up(spec)
    try:
        report_server(Kube(cluster.kubeconfig))
    finally:
        if not kept:
            lifecycle.down(_CLUSTER)


if __name__ == "__main__":
    main()
