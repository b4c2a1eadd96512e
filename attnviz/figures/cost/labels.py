"""Labels that give way: each goes where it covers neither a point nor another label, or a number takes its place."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

PLOT_WIDTHS = (260, 560, 1000)  # pixels between the axes: the server cannot know the page's width, so all must do
NUMBER = "00"  # as wide as a number can be; with a space behind it where there is room
CHARACTER, LINE, MARK = 6.4, 15, 6  # pixels: width of a character, height of a line, half a marker


class Spot(NamedTuple):
    """Where a label stands beside its point: shifts in pixels (up is positive) and the side it is held by."""

    xshift: float
    yshift: float
    xanchor: str


NEAR = (
    Spot(9, 0, "left"), Spot(-9, 0, "right"), Spot(0, 15, "center"), Spot(0, -15, "center"),
    Spot(4, 14, "left"), Spot(4, -14, "left"), Spot(-4, 14, "right"), Spot(-4, -14, "right"),
)  # fmt: skip
FAR = tuple(  # for points that must be named: a line leads there
    Spot(x, y, side)
    for y in (24, -24, 38, -38, 54, -54, 72, -72, 92, -92, 120, -120, 150, -150, 180, -180, 220, -220)
    for x, side in (
        (10, "left"),
        (-10, "right"),
        (30, "left"),
        (-30, "right"),
        (60, "left"),
        (-60, "right"),
        (90, "left"),
        (-90, "right"),
    )  # fmt: skip
)


class Box(NamedTuple):
    left: float
    right: float
    bottom: float
    top: float

    def overlaps(self, other: Box) -> bool:
        beside = self.right <= other.left or other.right <= self.left
        return not (beside or self.top <= other.bottom or other.top <= self.bottom)


def place(
    points: Sequence[tuple[float, float]], names: Sequence[str], height: float, n_needed: int = 0
) -> tuple[list[Spot | None], list[Spot | None]]:
    """For each point (fractions of the plot, 0 to 1, up is 1) a place for its name, and one for a number otherwise.

    Earlier points choose first. `height` is the plot's, in pixels. The first `n_needed` and all numbers may also stand
    further away; a later point that another covers stays without a name, which would seem to be the other's. Where
    names would leave a point without a number, only the first `n_needed` have names.
    """
    placed, numbers = _placed(points, names, height, n_needed, len(points))
    if all(name or number for name, number in zip(placed, numbers, strict=True)):
        return placed, numbers
    return _placed(points, names, height, n_needed, n_needed)


def _placed(
    points: Sequence[tuple[float, float]], names: Sequence[str], height: float, n_needed: int, n_named: int
) -> tuple[list[Spot | None], list[Spot | None]]:
    """The same, with names for the first `n_named` at most."""
    taken = {width: [_mark(point, width, height) for point in points] for width in PLOT_WIDTHS}
    covered = [any(_covers(marks, i) for marks in taken.values()) for i in range(len(points))]
    placed: list[Spot | None] = []
    for i, (point, name) in enumerate(zip(points, names, strict=True)):
        spots = NEAR + FAR if i < n_needed else () if covered[i] or i >= n_named else NEAR
        placed.append(_first_free(point, name, height, taken, spots))
    numbers = [
        None
        if spot
        else _first_free(point, NUMBER + " ", height, taken, NEAR + FAR)
        or _first_free(point, NUMBER, height, taken, NEAR + FAR)
        for point, spot in zip(points, placed, strict=True)
    ]
    return placed, numbers


def _covers(marks: list[Box], i: int) -> bool:
    return any(j != i and marks[i].overlaps(other) for j, other in enumerate(marks))


def _first_free(
    point: tuple[float, float], name: str, height: float, taken: dict[int, list[Box]], spots: Sequence[Spot]
) -> Spot | None:
    for spot in spots:
        boxes = {width: _box(point, spot, name, width, height) for width in taken}
        inside = all(_inside(box, width, height) for width, box in boxes.items())
        if inside and not any(box.overlaps(other) for width, box in boxes.items() for other in taken[width]):
            for width, box in boxes.items():
                taken[width].append(box)
            return spot
    return None


def _inside(box: Box, width: float, height: float) -> bool:
    return 0 < box.left and box.right < width and 0 < box.bottom and box.top < height


def _mark(point: tuple[float, float], width: float, height: float) -> Box:
    x, y = point[0] * width, point[1] * height
    return Box(x - MARK, x + MARK, y - MARK, y + MARK)


def _box(point: tuple[float, float], spot: Spot, name: str, width: float, height: float) -> Box:
    length = CHARACTER * len(name)
    left = point[0] * width + spot.xshift - {"left": 0, "center": length / 2, "right": length}[spot.xanchor]
    middle = point[1] * height + spot.yshift
    return Box(left, left + length, middle - LINE / 2, middle + LINE / 2)


def spread(heights: Sequence[float], gap: float) -> list[float]:
    """The heights in their order, no two closer than `gap`: what is too close is set apart around its middle."""
    clusters: list[list[int]] = []
    for i in sorted(range(len(heights)), key=lambda i: heights[i]):
        clusters.append([i])
        while len(clusters) > 1 and _lowest(clusters[-1], heights, gap) < _highest(clusters[-2], heights, gap) + gap:
            last = clusters.pop()
            clusters[-1] = clusters[-1] + last
    moved = list(heights)
    for cluster in clusters:
        for rank, i in enumerate(cluster):
            moved[i] = _lowest(cluster, heights, gap) + rank * gap
    return moved


def _lowest(cluster: list[int], heights: Sequence[float], gap: float) -> float:
    return sum(heights[i] for i in cluster) / len(cluster) - gap * (len(cluster) - 1) / 2


def _highest(cluster: list[int], heights: Sequence[float], gap: float) -> float:
    return _lowest(cluster, heights, gap) + gap * (len(cluster) - 1)
