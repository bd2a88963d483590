"""Every manifest of the golden cases, to the letter.

To accept a change: ``pytest tests/operator/render --update-golden``, and read the diff.
"""

from pathlib import Path
from typing import Any

import pytest
import yaml
from kubernetes.client import models

from gptservice_operator.api import kinds
from tests.operator.golden_cases import CASES

GOLDEN = Path(__file__).resolve().parents[1] / "golden"


def as_text(manifests: list[dict[str, Any]]) -> str:
    class Plain(yaml.SafeDumper):
        def ignore_aliases(self, data: Any) -> bool:
            return True

    dumped = yaml.dump_all(manifests, Dumper=Plain, sort_keys=True, width=120)  # pyright: ignore[reportUnknownMemberType]
    return str(dumped)


@pytest.mark.parametrize("case", CASES)
def test_manifests_are_those_of_the_golden_file(case: str, request: pytest.FixtureRequest) -> None:
    rendered, path = as_text(CASES[case].manifests()), GOLDEN / f"{case}.yaml"
    if request.config.getoption("--update-golden"):
        path.write_text(rendered, encoding="utf-8")
    assert rendered == path.read_text(encoding="utf-8")


@pytest.mark.parametrize("case", CASES)
def test_kubernetes_own_models_accept_every_manifest(case: str) -> None:
    others = {kind.name for kind in kinds.OPTIONAL}  # of which there is no model; the api level has their CRDs
    for manifest in yaml.safe_load_all((GOLDEN / f"{case}.yaml").read_text(encoding="utf-8")):
        if manifest["kind"] not in others:
            version = manifest["apiVersion"].rpartition("/")[2].upper()
            getattr(models, f"{version}{manifest['kind']}").model_validate(manifest)


def test_kubernetes_own_models_would_notice_a_mistake() -> None:
    (deployment,) = [body for body in CASES["minimal"].manifests() if body["kind"] == "Deployment"]
    deployment["spec"]["template"]["spec"]["containers"][0]["imagePullpolicy"] = "Always"
    with pytest.raises(ValueError, match="imagePullpolicy"):
        models.V1Deployment.model_validate(deployment)


def test_no_golden_file_is_left_over() -> None:
    assert {path.stem for path in GOLDEN.glob("*.yaml")} == set(CASES)
