"""Two releases of the operator, for different namespaces: what lies in no namespace has a name for each."""

import pytest
import yaml

from tests.charts.conftest import CHART, Helm

pytestmark = pytest.mark.api  # needs a Go binary, no cluster

KINDS = ("ClusterRole", "ClusterRoleBinding")


def without_namespace(helm: Helm, release: str, team: str) -> set[tuple[str, str]]:
    """Kind and name of what a release for one team makes for the cluster."""
    values = {"namespaces": [team], "crds": {"enabled": False}}
    done = helm("template", release, str(CHART), "--namespace", f"{team}-system", values=values)
    assert done.returncode == 0, done.stderr
    manifests = [each for each in yaml.safe_load_all(done.stdout) if each]
    return {(each["kind"], each["metadata"]["name"]) for each in manifests if each["kind"] in KINDS}


def test_another_release_name_is_another_name_for_all_of_it(helm: Helm) -> None:
    first, second = (without_namespace(helm, release, "team-b") for release in ("gptservice-operator", "team-b"))
    assert first
    assert first & second == set()


def test_the_same_release_name_is_the_same_for_all_of_it(helm: Helm) -> None:
    """Which Helm refuses, as docs/operations.md says."""
    name = "gptservice-operator"
    assert without_namespace(helm, name, "team-a") == without_namespace(helm, name, "team-b")
