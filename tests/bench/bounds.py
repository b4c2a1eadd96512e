"""Bounds of the benchmark figures."""


def row(name: str, value: float, most: float | None) -> str:
    """Return a figure's row of the table in docs/load.md, followed by whether it misses its bound."""
    bound = "" if most is None else f"{most:g}"
    return f"| {name} | {value:.2f} | {bound} |{'  not met' if most is not None and value > most else ''}"
