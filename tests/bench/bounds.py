"""Whether a figure is within its bound."""


def judged(value: float, most: float | None) -> str:
    """What stands behind a figure in a table: its bound, and whether it is met; nothing without one."""
    return "" if most is None else f"   at most {most:g}: {'met' if value <= most else 'not met'}"
