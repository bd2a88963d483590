"""Kubernetes quantities as numbers, exactly as the API server understands them."""

import re
from decimal import ROUND_CEILING, Decimal, localcontext

_SUFFIXES = {
    "": Decimal(1), "m": Decimal("0.001"), "k": Decimal(10) ** 3, "M": Decimal(10) ** 6, "G": Decimal(10) ** 9,
    "T": Decimal(10) ** 12, "P": Decimal(10) ** 15, "E": Decimal(10) ** 18, "Ki": Decimal(2) ** 10,
    "Mi": Decimal(2) ** 20, "Gi": Decimal(2) ** 30, "Ti": Decimal(2) ** 40, "Pi": Decimal(2) ** 50,
    "Ei": Decimal(2) ** 60, "n": Decimal("1e-9"), "u": Decimal("1e-6"),
}  # fmt: skip
_QUANTITY = re.compile(r"([0-9]+(?:\.[0-9]*)?(?:[eE][+-]?[0-9]{1,2})?)([a-zA-Z]*)")
_NANO = Decimal("1e-9")
_MILLI = Decimal("0.001")
_LARGEST = Decimal(2**63 - 1)
_DIGITS = 60


def quantity(text: object) -> Decimal | None:
    """Return a quantity as a number, as CEL's ``quantity()`` compares it; None if it is none.

    What is finer than a billionth is rounded up, and what exceeds 63 bits is cut to the largest such number.
    """
    match = _QUANTITY.fullmatch(str(text))
    if match is None or match[2] not in _SUFFIXES:
        return None
    with localcontext(prec=_DIGITS):
        value = min(Decimal(match[1]) * _SUFFIXES[match[2]], _LARGEST)
        return value.quantize(_NANO, rounding=ROUND_CEILING)


def stored(text: object) -> Decimal | str:
    """Return the number that the API server stores for a resource, in thousandths rounded up; else the text itself."""
    value = quantity(text)
    if value is None:
        return str(text)
    with localcontext(prec=_DIGITS):
        return value.quantize(_MILLI, rounding=ROUND_CEILING)
