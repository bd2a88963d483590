"""What Flux renders: it adds the commit to the chart's version, `0.1.0+1a2b3c4d5e6f`."""

import shutil
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.charts.conftest import CATALOGUE, CHART, Helm

pytestmark = pytest.mark.api  # needs a Go binary, no cluster


@pytest.mark.parametrize(
    ("chart", "values"),
    [
        pytest.param(
            CHART, {"podMonitor": {"enabled": True}, "monitoring": {"rules": {"enabled": True}}}, id="operator"
        ),
        pytest.param(CATALOGUE, {"models": {"a": {"uri": "org/a"}}}, id="catalogue"),
    ],
)
def test_a_commit_that_changes_nothing_of_a_chart_changes_nothing_in_the_cluster(
    helm: Helm, tmp_path: Path, chart: Path, values: dict[str, Any]
) -> None:
    """Nor is there a `+` in a label, which the API server would refuse."""
    copied = shutil.copytree(chart, tmp_path / chart.name)
    file = copied / "Chart.yaml"
    about = yaml.safe_load(file.read_text())
    file.write_text(yaml.safe_dump({**about, "version": f"{about['version']}+1a2b3c4d5e6f"}))
    place = ("--namespace", "gptservice-system")
    plain, of_a_commit = (helm("template", "a", str(each), *place, values=values) for each in (chart, copied))
    assert of_a_commit.stdout == plain.stdout != "", of_a_commit.stderr
