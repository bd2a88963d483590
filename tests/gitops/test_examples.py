"""The examples for Argo CD and Flux name what is there, and ask for what a first sync needs."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from gptservice_operator.api import v1

ROOT = Path(__file__).resolve().parents[2]
APPLICATIONS = sorted((ROOT / "gitops/argocd/applications").glob("*.yaml"))
FLUX = sorted((ROOT / "gitops/flux").glob("*.yaml"))
SKIP = "SkipDryRunOnMissingResource=true"


def documents(file: Path) -> list[dict[str, Any]]:
    return [document for document in yaml.safe_load_all(file.read_text()) if document]


def named_paths(value: Any) -> Iterator[str]:
    """What a manifest says lies in this repository."""
    if isinstance(value, dict):
        for key, inner in value.items():
            if key in ("path", "chart") and isinstance(inner, str):
                yield inner
            elif key in ("valuesFiles", "valueFiles"):
                yield from (name.removeprefix("$values/") for name in inner)
            else:
                yield from named_paths(inner)
    if isinstance(value, list):
        for inner in value:
            yield from named_paths(inner)


@pytest.mark.parametrize("file", [*APPLICATIONS, *FLUX], ids=lambda file: f"{file.parent.name}/{file.stem}")
def test_every_path_is_there(file: Path) -> None:
    paths = [path for document in documents(file) for path in named_paths(document)]
    assert paths or file.stem == "source"
    assert not [path for path in paths if not (ROOT / path).exists()]


def test_flux_takes_up_an_edit_of_the_values() -> None:
    """Of a chart from Git it looks at the version alone, unless it is told to look at the commit."""
    releases = [one for file in FLUX for one in documents(file) if one["kind"] == "HelmRelease"]
    charts = [release["spec"]["chart"]["spec"] for release in releases]
    assert [chart["chart"] for chart in charts] == ["charts/gptservice-operator", "charts/gptservice-catalogue"]
    assert {(chart["sourceRef"]["kind"], chart.get("reconcileStrategy")) for chart in charts} == {
        ("GitRepository", "Revision")
    }


@pytest.mark.parametrize("file", APPLICATIONS, ids=lambda file: file.stem)
def test_applications_apply_on_the_server_side_and_heal(file: Path) -> None:
    (application,) = documents(file)
    policy = application["spec"]["syncPolicy"]
    assert "ServerSideApply=true" in policy["syncOptions"]
    assert policy["automated"] == {"prune": True, "selfHeal": True}
    sources = application["spec"].get("sources") or [application["spec"]["source"]]
    brings_the_kinds = any(source.get("path") == "charts/gptservice-operator" for source in sources)
    assert brings_the_kinds is (SKIP not in policy["syncOptions"])


def test_the_kinds_come_in_an_earlier_wave_than_what_is_of_them() -> None:
    waves = {
        file.stem: int(documents(file)[0]["metadata"]["annotations"]["argocd.argoproj.io/sync-wave"])
        for file in APPLICATIONS
    }
    assert waves["gptservice-operator"] < waves["gptservice-catalogue"] < waves["services"]


def test_services_can_share_a_first_sync_with_their_kind() -> None:
    """Argo CD tries everything out first, and refuses the whole sync where the kind is not served yet."""
    for file in (ROOT / "gitops/services").glob("*.yaml"):
        for document in documents(file):
            if document["kind"] == "GPTService":
                v1.GPTService.model_validate(document)
                assert document["metadata"]["annotations"]["argocd.argoproj.io/sync-options"] == SKIP


def test_services_name_models_of_the_catalogue() -> None:
    catalogue = yaml.safe_load((ROOT / "gitops/operator/catalogue-values.yaml").read_text())["models"]
    for file in (ROOT / "gitops/services").glob("*.yaml"):
        for document in documents(file):
            assert document["kind"] != "GPTService" or document["spec"]["modelRef"] in catalogue
