"""Amounts in words that people read."""

_UNITS = ("B", "kB", "MB", "GB", "TB")


def size(count: float) -> str:
    """Bytes for people, in powers of 1000 as hubs and disks count."""
    unit = 0
    while count >= 1000 and unit < len(_UNITS) - 1:
        count, unit = count / 1000, unit + 1
    return f"{count:.0f} {_UNITS[unit]}" if unit == 0 else f"{count:.1f} {_UNITS[unit]}"
