"""What the dashboards and rules ask, before the real promtool: that it is PromQL, and that GPUs are found.

Whether what they name is there, a real Prometheus says at the level of nodes.
"""

from pathlib import Path
from typing import Any

import pytest
import yaml

from e2e.monitoring import queries
from tests.monitoring.conftest import Promtool

pytestmark = pytest.mark.api  # needs a Go binary, no cluster

CHOSEN = {"namespace": "a", "service": "chat"}
BUSY = "DCGM_FI_DEV_GPU_UTIL"
READY = 'gptservice_ready{{namespace="a", gptservice_name="{}", pod="{}"}}'


def test_every_query_is_one(promtool: Promtool, tmp_path: Path) -> None:
    asked = queries.all_of_them()
    rules = [{"record": f"query:{number}", "expr": query.filled(CHOSEN)} for number, query in enumerate(asked)]
    file = tmp_path / "rules.yaml"
    file.write_text(yaml.safe_dump({"groups": [{"name": "all", "rules": rules}]}))
    assert f"SUCCESS: {len(asked)} rules found" in promtool("check", "rules", file)


@pytest.mark.parametrize(
    ("panel", "seen"),
    [
        pytest.param(
            ("service.json", "GPU in use"),
            {'{pod="chat-1", gpu="0"}': 90, '{pod="chat-2", gpu="1"}': 50},
            id="of one service, by pod",
        ),
        pytest.param(
            ("fleet.json", "GPU in use, mean of a service's"),
            {'{namespace="a", gptservice_name="chat"}': 70, '{namespace="a", gptservice_name="other"}': 30},
            id="of all services",
        ),
        pytest.param(
            ("fleet.json", "GPUs held"),
            {'{namespace="a", gptservice_name="chat"}': 2, '{namespace="a", gptservice_name="other"}': 1},
            id="how many",
        ),
    ],
)
def test_a_gpu_is_found_by_the_pod_that_holds_it(
    promtool: Promtool, tmp_path: Path, panel: tuple[str, str], seen: dict[str, int]
) -> None:
    """With what the exporter calls a pod, whether its labels are honoured or not; of others' GPUs nothing is shown."""
    series = {
        READY.format("chat", "chat-1"): 1,
        READY.format("chat", "chat-2"): 0,
        READY.format("other", "other-1"): 1,
        f'{BUSY}{{namespace="gpu", pod="exporter", gpu="0", exported_namespace="a", exported_pod="chat-1"}}': 90,
        f'{BUSY}{{namespace="a", pod="chat-2", gpu="1"}}': 50,
        f'{BUSY}{{namespace="gpu", pod="exporter", gpu="2", exported_namespace="a", exported_pod="other-1"}}': 30,
        f'{BUSY}{{namespace="gpu", pod="exporter", gpu="3"}}': 10,
        f'{BUSY}{{namespace="b", pod="somebody-else", gpu="4"}}': 70,
    }
    (query,) = [one for one in queries.of_panels() if (one.file, one.title) == panel]
    case: dict[str, Any] = {
        "input_series": [{"series": name, "values": f"{value}x5"} for name, value in series.items()],
        "promql_expr_test": [
            {
                "expr": query.filled(CHOSEN),
                "eval_time": "5m",
                "exp_samples": [{"labels": labels, "value": value} for labels, value in seen.items()],
            }
        ],
    }
    file = tmp_path / "case.yaml"
    file.write_text(yaml.safe_dump({"tests": [case]}))
    promtool("test", "rules", file)
