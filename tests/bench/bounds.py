"""Bounds of the benchmark figures."""


def judged(value: float, most: float | None) -> str:
    """Return the table's suffix for a figure: its bound and whether it is met; "" without a bound."""
    return "" if most is None else f"   at most {most:g}: {'met' if value <= most else 'not met'}"
