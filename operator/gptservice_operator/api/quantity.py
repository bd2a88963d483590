"""Kubernetes quantities as numbers, exactly as the API server understands them."""

import re
from decimal import ROUND_CEILING, Decimal, localcontext

_DECIMAL = {"n": -9, "u": -6, "m": -3, "": 0, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
_BINARY = {"Ki": 10, "Mi": 20, "Gi": 30, "Ti": 40, "Pi": 50, "Ei": 60}
_QUANTITY = re.compile(r"0*([0-9]*)(?:\.([0-9]*))?(?:[eE]([+-]?[0-9]{1,2}))?([a-zA-Z]*)")
_NANO = Decimal("1e-9")
_MILLI = Decimal("0.001")
_LARGEST = Decimal(2**63 - 1)
_DIGITS = 60


def quantity(text: object) -> Decimal | None:
    """Return a quantity as a number, as CEL's ``quantity()`` compares it; None if it is none.

    What is finer than a billionth is rounded up. What exceeds 63 bits is cut to the largest such number, but only where
    Kubernetes leaves its fast way of parsing: so ``20E`` is greater than ``10E``, and ``20Ei`` is not greater than
    ``10Ei``.
    """
    match = _QUANTITY.fullmatch(str(text))
    if match is None or not str(text)[:1].isdigit() or (match[4] not in _DECIMAL and match[4] not in _BINARY):
        return None
    whole, fraction, exponent, suffix = match[1], match[2] or "", int(match[3] or 0), match[4]
    with localcontext(prec=_DIGITS):
        number = Decimal(f"{whole or 0}.{fraction or 0}")
        if suffix in _BINARY:
            value = number * Decimal(2) ** _BINARY[suffix]
            exact = not fraction and 14 - len(whole) - _BINARY[suffix] * 3 // 10 >= 0
        else:
            value = number * Decimal(10) ** (_DECIMAL[suffix] + exponent)
            exact = len(whole) + len(fraction) <= 18
        return (value if exact else min(value, _LARGEST)).quantize(_NANO, rounding=ROUND_CEILING)


def stored(text: object) -> Decimal | str:
    """Return the number that the API server stores for a resource, in thousandths rounded up; else the text itself."""
    value = quantity(text)
    if value is None:
        return str(text)
    with localcontext(prec=_DIGITS):
        return value.quantize(_MILLI, rounding=ROUND_CEILING)
