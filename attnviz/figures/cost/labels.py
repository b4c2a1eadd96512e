"""Label placement without overlaps: a label that would cover a point or another label is replaced by a number."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import chain
from typing import NamedTuple

PLOT_WIDTHS = (260, 560, 1000)  # pixels of the plot: the server does not know the page's width, so all must work
CROSSING = 3  # of two lines: as bad as so many labels or markers that a line runs through
ROUNDS = 3  # in which labels whose lines cross are placed again
CHARACTER, LINE, MARK = 6.4, 15, 6  # pixels: width of a character, height of a line, half a marker


class Spot(NamedTuple):
    """Position of a label relative to its point: shifts in pixels (up is positive) and the anchored side."""

    xshift: float
    yshift: float
    xanchor: str


NEAR = (
    Spot(9, 0, "left"), Spot(-9, 0, "right"), Spot(0, 15, "center"), Spot(0, -15, "center"),
    Spot(4, 14, "left"), Spot(4, -14, "left"), Spot(-4, 14, "right"), Spot(-4, -14, "right"),
)  # fmt: skip
FAR = tuple(  # for labels that must be shown, nearest first; a line connects point and label
    sorted(
        (
            Spot(side * x, y, "left" if side > 0 else "right")
            for y in (*range(-222, -20, 18), 0, *range(24, 230, 18))
            for x in (14, 36, 60, 90)
            for side in (1, -1)
            if y or x > 14
        ),
        key=lambda spot: math.hypot(spot.xshift, spot.yshift),
    )
)
AWAY = frozenset(FAR)


class Box(NamedTuple):
    left: float
    right: float
    bottom: float
    top: float

    def overlaps(self, other: Box) -> bool:
        beside = self.right <= other.left or other.right <= self.left
        return not (beside or self.top <= other.bottom or other.top <= self.bottom)


class Line(NamedTuple):
    """Straight line from a point to the label that stands away from it, in pixels."""

    start: tuple[float, float]
    end: tuple[float, float]

    def crosses(self, other: Line) -> bool:
        return _is_left(self, other.start) != _is_left(self, other.end) and (
            _is_left(other, self.start) != _is_left(other, self.end)
        )

    def near(self, boxes: Sequence[Box]) -> list[Box]:
        """Return the boxes that the smallest upright box around the line overlaps: the line meets no others."""
        (x0, y0), (x1, y1) = self
        x0, x1, y0, y1 = min(x0, x1), max(x0, x1), min(y0, y1), max(y0, y1)
        return [box for box in boxes if x0 < box[1] and box[0] < x1 and y0 < box[3] and box[2] < y1]

    def meets(self, box: Box) -> bool:
        """Check whether a part of the line lies in the box: its diagonals are crossed, or it starts or ends inside."""
        (x0, y0), (x1, y1) = self
        left, right, bottom, top = box
        if (x0 <= left and x1 <= left) or (x0 >= right and x1 >= right):  # most lines are far away
            return False
        if (y0 <= bottom and y1 <= bottom) or (y0 >= top and y1 >= top):
            return False
        corners = (left, bottom), (right, top), (left, top), (right, bottom)
        inside = any(left < x < right and bottom < y < top for x, y in self)
        return inside or self.crosses(Line(*corners[:2])) or self.crosses(Line(*corners[2:]))


def _is_left(line: Line, point: tuple[float, float]) -> bool:
    """Check whether the point lies left of the line, seen from its start and extended to both sides."""
    (x0, y0), (x1, y1) = line
    return (x1 - x0) * (point[1] - y0) > (y1 - y0) * (point[0] - x0)


class Taken(NamedTuple):
    """What is on a plot of one width so far: markers, labels, and the lines that lead to labels."""

    marks: list[Box]
    labels: list[Box]
    lines: list[Line]

    def has_room(self, box: Box) -> bool:
        left, right, bottom, top = box
        for x0, x1, y0, y1 in chain(self.labels, self.marks):  # `overlaps`, not called: half of the placement's time
            if x0 < right and left < x1 and y0 < top and bottom < y1:
                return False
        return True

    def crossings(self, box: Box, line: Line | None, most: float) -> int:
        """Count the lines that the label lies on, and the labels, other markers and (each CROSSING times) lines that
        its line meets; it stops early once there are `most`."""
        n_crossings = sum(other.meets(box) for other in self.lines)
        if line is None or n_crossings >= most:
            return n_crossings
        n_crossings += CROSSING * sum(map(line.crosses, self.lines))
        if n_crossings >= most:
            return n_crossings
        n_crossings += sum(map(line.meets, line.near(self.labels)))
        return n_crossings + sum(line.meets(mark) and not _holds(mark, line.start) for mark in line.near(self.marks))


def _holds(box: Box, point: tuple[float, float]) -> bool:
    """Check whether the point lies in the box or within a marker of it, as those of a group do."""
    x, y = point
    return box.left - MARK <= x <= box.right + MARK and box.bottom - MARK <= y <= box.top + MARK


class Number(NamedTuple):
    """Label with numbers, "16–19, 23", in place of the names of overlapping points."""

    text: str
    point: int  # index of the point it stands beside
    spot: Spot | None  # None if there is no room


class Labels(NamedTuple):
    """Positions of the points' names, and the numbers of the points without a name."""

    names: list[Spot | None]
    numbered: list[int]  # points without a name, from left to right; the first is number 1
    numbers: list[Number]

    @property
    def complete(self) -> bool:
        return all(number.spot for number in self.numbers)


def place(points: Sequence[tuple[float, float]], names: Sequence[str], height: float, n_needed: int = 0) -> Labels:
    """Place a name, or a number in its stead, for each point (fractions of the plot, 0 to 1, up is 1).

    Earlier points choose first. `height` is the plot's, in pixels. The first `n_needed` names and all numbers may also
    stand further away; a later point that is covered by another gets no name, as that would seem to be the other's. If
    names leave no room for a number, only the first `n_needed` points have names.
    """
    labels = _placed(points, names, height, n_needed, len(points))
    return labels if labels.complete else _placed(points, names, height, n_needed, n_needed)


def _placed(
    points: Sequence[tuple[float, float]], names: Sequence[str], height: float, n_needed: int, n_named: int
) -> Labels:
    """Place the labels, with names for the first `n_named` points at most."""
    taken = {width: Taken([_mark(point, width, height) for point in points], [], []) for width in PLOT_WIDTHS}
    covered = [any(_covers(each.marks, i) for each in taken.values()) for i in range(len(points))]
    placed: list[Spot | None] = []
    for i, (point, name) in enumerate(zip(points, names, strict=True)):
        spots = NEAR + FAR if i < n_needed else () if covered[i] or i >= n_named else NEAR
        placed.append(_first_free(point, name, height, taken, spots))
    numbered = sorted((i for i, spot in enumerate(placed) if not spot), key=points.__getitem__)
    groups = [
        (ranges([place + 1 for place in group]), numbered[group[0]])
        for group in _overlapping_groups([points[i] for i in numbered], height)
    ]
    found = {first: _first_free(points[first], text + " ", height, taken, NEAR) for text, first in groups}
    written = dict(enumerate(names)) | {first: text + " " for text, first in groups}
    for text, first in groups:  # those without room beside their point come last, so that few lines are needed
        if not found[first]:
            found[first] = _first_free(points[first], text + " ", height, taken, FAR)
        if not found[first]:
            written[first], found[first] = text, _first_free(points[first], text, height, taken, NEAR + FAR)
    stands = dict(enumerate(placed)) | found
    _uncross(points, written, stands, height, taken)
    numbers = [Number(text, first, stands[first]) for text, first in groups]
    return Labels([None if i in found else stands[i] for i in range(len(points))], numbered, numbers)


def _uncross(
    points: Sequence[tuple[float, float]], written: dict[int, str], spots: dict[int, Spot | None], height: float,
    taken: dict[int, Taken],
) -> None:  # fmt: skip
    """Place labels whose lines cross again, now that all others have a place. Some may still cross."""
    for _ in range(ROUNDS):
        for i, spot in spots.items():
            if spot and _crosses(points[i], spot, height, taken):
                _release(points[i], spot, written[i], height, taken)
                spots[i] = _first_free(points[i], written[i], height, taken, NEAR + FAR)


def _crosses(point: tuple[float, float], spot: Spot, height: float, taken: dict[int, Taken]) -> bool:
    """Check whether the line to the label crosses another one at any plot width."""
    lines = {width: _line(point, spot, width, height) for width in taken}
    return any(line and any(map(line.crosses, taken[width].lines)) for width, line in lines.items())


def _overlapping_groups(points: Sequence[tuple[float, float]], height: float) -> list[list[int]]:
    """Group the indices of the points that overlap even at the largest plot width."""
    marks = [_mark(point, PLOT_WIDTHS[-1], height) for point in points]
    groups: list[list[int]] = []
    for i, mark in enumerate(marks):
        group = next((g for g in groups if _near(marks[g[0]], mark)), None)
        if group is None:
            groups.append([i])
        else:
            group.append(i)
    return groups


def _near(one: Box, other: Box) -> bool:
    """Check whether two markers are at most half a marker apart."""
    return abs(one.left - other.left) <= MARK and abs(one.bottom - other.bottom) <= MARK


def ranges(numbers: Sequence[int]) -> str:
    """Format ascending numbers, more than two in a row as a range: "1, 2", "16–19, 23"."""
    runs: list[list[int]] = []
    for n in numbers:
        if runs and n == runs[-1][-1] + 1:
            runs[-1].append(n)
        else:
            runs.append([n])
    return ", ".join(f"{run[0]}–{run[-1]}" if len(run) > 2 else ", ".join(map(str, run)) for run in runs)


def _covers(marks: list[Box], i: int) -> bool:
    return any(j != i and marks[i].overlaps(other) for j, other in enumerate(marks))


def _first_free(
    point: tuple[float, float], name: str, height: float, taken: dict[int, Taken], spots: Sequence[Spot]
) -> Spot | None:
    """Take the spot with room for the label where the fewest lines are crossed, the earliest of several."""
    best, fewest = None, math.inf
    for spot in spots:
        boxes = _free(point, spot, name, height, taken)
        if not boxes:
            continue
        crossed = 0
        for width, box in boxes.items():
            if crossed < fewest:  # else the spot is out already: counting takes most of the time
                crossed += taken[width].crossings(box, _line(point, spot, width, height), fewest - crossed)
        if crossed < fewest:
            best, fewest = spot, crossed
        if not fewest:
            break
    return _take(point, best, name, height, taken) if best else None


def _free(point: tuple[float, float], spot: Spot, name: str, height: float, taken: dict[int, Taken]) -> dict[int, Box]:
    """Return the label's box at each plot width; none if there is no room for it at one of them."""
    boxes = {}
    for width, each in taken.items():
        boxes[width] = box = _box(point, spot, name, width, height)
        if not (_inside(box, width, height) and each.has_room(box)):
            return {}
    return boxes


def _take(point: tuple[float, float], spot: Spot, name: str, height: float, taken: dict[int, Taken]) -> Spot:
    for width, each in taken.items():
        each.labels.append(_box(point, spot, name, width, height))
        if line := _line(point, spot, width, height):
            each.lines.append(line)
    return spot


def _release(point: tuple[float, float], spot: Spot, name: str, height: float, taken: dict[int, Taken]) -> None:
    """Undo `_take`."""
    for width, each in taken.items():
        each.labels.remove(_box(point, spot, name, width, height))
        if line := _line(point, spot, width, height):
            each.lines.remove(line)


def _line(point: tuple[float, float], spot: Spot, width: float, height: float) -> Line | None:
    """Return the line to a label that stands away from its point; None beside it."""
    if spot not in AWAY:
        return None
    x, y = point[0] * width, point[1] * height
    return Line((x, y), (x + spot.xshift, y + spot.yshift))


def _inside(box: Box, width: float, height: float) -> bool:
    return box.left > 0 and box.right < width and box.bottom > 0 and box.top < height


def _mark(point: tuple[float, float], width: float, height: float) -> Box:
    x, y = point[0] * width, point[1] * height
    return Box(x - MARK, x + MARK, y - MARK, y + MARK)


def _box(point: tuple[float, float], spot: Spot, name: str, width: float, height: float) -> Box:
    length = CHARACTER * len(name)
    left = point[0] * width + spot.xshift - {"left": 0, "center": length / 2, "right": length}[spot.xanchor]
    middle = point[1] * height + spot.yshift
    return Box(left, left + length, middle - LINE / 2, middle + LINE / 2)


def spread(heights: Sequence[float], gap: float) -> list[float]:
    """Move heights so that no two are closer than `gap`: clusters are spread around their mean, in the same order."""
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
