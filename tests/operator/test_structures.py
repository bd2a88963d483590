"""Settings that are more than a word: what they mean, and what is said of one that cannot be used."""

import json
from pathlib import Path
from typing import Any

import pytest

from e2e.cluster import pki
from gptservice_operator import structures
from gptservice_operator.api import schema
from gptservice_operator.api.scheduling import Scheduling
from tests.operator.golden_cases import SCHEDULING

CHART = Path(__file__).resolve().parents[2] / "charts" / "gptservice-operator"


class TestScheduling:
    def parsed(self, given: Any) -> Scheduling:
        return structures.scheduling(json.dumps(given), "runtime.scheduling")

    def test_every_field_of_a_service_s_own_is_read(self) -> None:
        assert self.parsed(SCHEDULING) == Scheduling.model_validate(SCHEDULING)

    @pytest.mark.parametrize("text", ["", "{}"])
    def test_nothing_is_nothing(self, text: str) -> None:
        assert structures.scheduling(text, "runtime.scheduling") == Scheduling()

    @pytest.mark.parametrize(
        ("given", "said"),
        [
            pytest.param({"tolerations": [{"key": "a", "operator": "Is"}]}, "tolerations[0].operator: ", id="a word"),
            pytest.param({"tolerations": [{"key": "a", "tolerationSeconds": "60"}]}, "tolerationSeconds: ", id="text"),
            pytest.param({"tolerations": [{"effect": "NoExecute"}]}, "needs operator Exists", id="a rule of the API"),
            pytest.param({"nodeSelektor": {}}, "nodeSelektor: there is no such field", id="a field that is unknown"),
            pytest.param(
                {"tolerations": [{"keys": "a"}]}, "tolerations[0].keys: there is no such field", id="one further down"
            ),
            pytest.param({"nodeSelector": {"a": 1}}, "nodeSelector.a: ", id="a label that is no text"),
            pytest.param([], ": Input should be", id="a list"),
        ],
    )
    def test_what_is_wrong_is_told_by_its_field(self, given: Any, said: str) -> None:
        with pytest.raises(structures.UnusableError) as refused:
            self.parsed(given)
        assert str(refused.value).startswith("runtime.scheduling")
        assert said in str(refused.value)

    def test_what_is_no_json_is_told(self) -> None:
        with pytest.raises(structures.UnusableError, match=r"^runtime\.scheduling: is no JSON: .*column 2"):
            structures.scheduling("{nodeSelector", "runtime.scheduling")

    def test_the_chart_knows_the_same_fields(self) -> None:
        values = json.loads((CHART / "values.schema.json").read_text())["$defs"]
        ours = schema.spec_schemas()["GPTService"]["properties"]["scheduling"]

        def fields(part: Any, path: str = "") -> set[str]:
            """Of both notations; the chart leaves what is below affinity's kinds to the operator."""
            found = {f"{path}.{name}" for name in part.get("properties", {})}
            for name, inner in part.get("properties", {}).items():
                found |= fields(inner.get("items", inner), f"{path}.{name}")
            return {name for name in found if not name.startswith(".affinity.") or name.count(".") == 2}

        assert fields(values["servingScheduling"]) == fields(ours)


class TestAuthorities:
    @pytest.fixture
    def pem(self, tmp_path: Path) -> str:
        return pki.Authority(tmp_path / "one").certificate.read_text().strip()

    def parsed(self, text: str) -> str:
        return structures.authorities(text, "runtime.caBundle")

    def test_the_certificates_are_kept_and_what_is_between_them_is_not(self, pem: str, tmp_path: Path) -> None:
        other = pki.Authority(tmp_path / "other").certificate.read_text().strip()
        assert self.parsed(f"# Zertifizierungsstelle für Süd\n{pem}\n\n{other}") == f"{pem}\n{other}\n"

    def test_lines_may_end_as_on_windows(self, pem: str) -> None:
        assert self.parsed(pem.replace("\n", "\r\n"))

    @pytest.mark.parametrize("text", ["", "\n"])
    def test_nothing_is_nothing(self, text: str) -> None:
        assert self.parsed(text) == ""

    @pytest.mark.parametrize(
        ("text", "said"),
        [
            pytest.param("ca.pem", "holds no certificate in PEM", id="a file's name"),
            pytest.param("{pem}\n-----BEGIN EC PRIVATE KEY-----", "holds a private key", id="a key beside it"),
            pytest.param(
                "{pem}\n-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----",
                "certificate 2 of 2 cannot be read",
                id="half a certificate",
            ),
            pytest.param(
                "-----BEGIN CERTIFICATE-----\nü\n-----END CERTIFICATE-----", "certificate 1 of 1", id="no ASCII"
            ),
            pytest.param("{pem}" + " " * (64 << 10), "no more than 65536", id="too much"),
        ],
    )
    def test_what_cannot_be_used_is_told(self, pem: str, text: str, said: str) -> None:
        with pytest.raises(structures.UnusableError) as refused:
            self.parsed(text.format(pem=pem))
        assert str(refused.value).startswith("runtime.caBundle: ")
        assert said in str(refused.value)
