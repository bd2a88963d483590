"""Quantities as Kubernetes' own parser has them. That CEL agrees is seen on a real API server."""

from decimal import Decimal

import pytest

from gptservice_operator.api.quantity import quantity, stored


@pytest.mark.parametrize(
    ("text", "number"),
    [
        pytest.param("1000m", "1", id="thousandths"),
        pytest.param(2, "2", id="a number"),
        pytest.param("1.5Gi", "1610612736", id="a fraction of a binary unit"),
        pytest.param("007k", "7000", id="leading zeros"),
        pytest.param("1e3", "1000", id="an exponent"),
        pytest.param("0.0000000001", "0.000000001", id="finer than a billionth"),
        pytest.param("20E", "2e19", id="beyond 63 bits, decimal"),
        pytest.param("20Ei", str(2**63 - 1), id="beyond 63 bits, binary"),
        pytest.param("99999999999999999999", str(2**63 - 1), id="20 digits"),
        pytest.param("0Ei", "0", id="nothing of a large unit"),
    ],
)
def test_numbers(text: object, number: str) -> None:
    assert quantity(text) == Decimal(number)


@pytest.mark.parametrize("text", ["", "lots", "1GB", "-1", "1 Gi", ".", "Gi", "1e3k5", True, None])
def test_what_is_no_quantity_is_none(text: object) -> None:
    assert quantity(text) is None


def test_what_is_stored_is_rounded_up_to_thousandths() -> None:
    assert stored("0.0001") == stored("1m") == Decimal("0.001")
    assert stored("lots") == "lots"
