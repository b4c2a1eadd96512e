"""All colours of the product. Each KV head has a hue, all with the same lightness ramp, and always a label as well.

The hues were chosen by searching for the eight of equal OKLCH lightness whose closest pair is as far apart as possible
for normal sight and for simulated protanopia, deuteranopia and tritanopia; then ordered so that the first few are
farthest apart. A ninth KV head repeats the first hue.

The server does not know whether a page is light or dark. Plotly colours therefore have a middle lightness or shade from
transparent to such a colour; the canvas components, which can query the browser, get one ramp per theme.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from attnviz.cost.variants import KINDS
from attnviz.figures.chart import Chart

HUES = (  # OKLCH hue in degrees, largest chroma
    (259.0, 0.190),  # blue
    (57.0, 0.142),  # orange
    (324.0, 0.190),  # magenta
    (126.0, 0.105),  # olive
    (6.0, 0.182),  # crimson
    (182.0, 0.106),  # teal
    (291.0, 0.153),  # violet
    (324.0, 0.105),  # mauve
)
MID_LIGHTNESS = 0.59  # contrast of about 4 against a white and against a near-black page
RAMP_ENDS = {"light": (0.985, 0.30), "dark": (0.18, 0.92)}  # OKLCH lightness of weight 0 and of weight 1

RAMP_STEPS = 33  # stops of a colour scale; plotly interpolates linearly between them
CANVAS_STOPS = 17  # of a canvas ramp, as it is sent to the browser
MASKED_RGBA = (128, 128, 128, 0.16)  # a masked cell: grey, which no weight has as its colour
MASKED = "rgba({}, {}, {}, {})".format(*MASKED_RGBA)
CHEQUERED = "rgba(128, 128, 128, 0.42)"  # every second masked cell of a map in which a value near 0 is pale, too
NEUTRAL = "#7d7d7d"  # lines, bars and marks that belong to no KV head
FAINT = "rgba(128, 128, 128, 0.35)"  # excluded values, grid lines and guides
OUTLINE = {"color": NEUTRAL, "width": 1}  # of a faint bar whose length is read
RIGHT, WRONG = "#1a7f4b", "#a3281f"  # answers to the questions of Practice

_KINDS = dict(zip(KINDS, (  # muted, unlike a KV head; lightness, chroma, hue, plotly marker, plotly dash
    (0.50, 0.060, 250.0, "circle", "solid"),
    (0.66, 0.070, 95.0, "square", "dash"),
    (0.58, 0.060, 20.0, "diamond", "dot"),
    (0.62, 0.000, 0.0, "triangle-up", "dashdot"),
    (0.60, 0.100, 285.0, "star", "longdash"),
), strict=True))  # fmt: skip


def oklch(lightness: ArrayLike, chroma: ArrayLike, hue: float) -> np.ndarray:
    """Convert OKLCH (hue in degrees) to gamma-encoded sRGB in 0..1; outside sRGB, reduce the chroma, not the lightness.

    lightness and chroma may be arrays of shape (N,); the result is then (N, 3), else (3,). Matrices: Björn Ottosson,
    "A perceptual color space for image processing", 2020 (public domain).
    """
    lightness, chroma = np.broadcast_arrays(np.asarray(lightness, float), np.asarray(chroma, float))
    low, high = np.zeros_like(chroma), chroma
    fits = _inside(_linear_rgb(lightness, chroma, hue))
    for _ in range(20):  # bisect for the largest chroma inside sRGB, to a millionth
        middle = (low + high) / 2
        inside = _inside(_linear_rgb(lightness, middle, hue))
        low, high = np.where(inside, middle, low), np.where(inside, high, middle)
    linear = _linear_rgb(lightness, np.where(fits, chroma, low), hue).clip(0, 1)
    return np.where(linear <= 0.0031308, 12.92 * linear, 1.055 * linear ** (1 / 2.4) - 0.055)


def _linear_rgb(lightness: np.ndarray, chroma: np.ndarray, hue: float) -> np.ndarray:
    a, b = chroma * np.cos(np.radians(hue)), chroma * np.sin(np.radians(hue))
    lms = np.stack([
        lightness + 0.3963377774 * a + 0.2158037573 * b,
        lightness - 0.1055613458 * a - 0.0638541728 * b,
        lightness - 0.0894841775 * a - 1.2914855480 * b,
    ], axis=-1) ** 3  # fmt: skip
    return lms @ np.array([
        [4.0767416621, -1.2684380046, -0.0041960863],
        [-3.3077115913, 2.6097574011, -0.7034186147],
        [0.2309699292, -0.3413193965, 1.7076147010],
    ])  # fmt: skip


def _inside(linear: np.ndarray) -> np.ndarray:
    return (linear.min(-1) >= 0) & (linear.max(-1) <= 1)


@cache
def _bytes(lightness: float, chroma: float, hue: float) -> tuple[int, int, int]:
    red, green, blue = (round(v * 255) for v in oklch(lightness, chroma, hue))
    return red, green, blue


def _hex(rgb: tuple[int, int, int]) -> str:
    return "#{:02x}{:02x}{:02x}".format(*rgb)


def _rgba(rgb: tuple[int, int, int], alpha: float) -> str:
    return f"rgba({rgb[0]}, {rgb[1]}, {rgb[2]}, {alpha:.4g})"


def faded(colour: str, alpha: float) -> str:
    """Return a "#rrggbb" colour with this opacity: for a mark whose outline keeps the full colour."""
    return _rgba((int(colour[1:3], 16), int(colour[3:5], 16), int(colour[5:], 16)), alpha)


def _check(kv_head: int, n_kv_heads: int) -> None:
    if not 0 <= kv_head < n_kv_heads:
        raise ValueError(f"kv_head must lie between 0 and {n_kv_heads - 1}, not {kv_head}")


@cache
def kv_rgb(kv_head: int, n_kv_heads: int) -> tuple[int, int, int]:
    """Return the KV head's colour at middle lightness as three bytes."""
    _check(kv_head, n_kv_heads)
    hue, chroma = HUES[kv_head % len(HUES)]
    return _bytes(MID_LIGHTNESS, chroma, hue)


def kv_colour(kv_head: int, n_kv_heads: int) -> str:
    """Return the KV head's colour as "#rrggbb": readable on white and on near-black, equally light for every head."""
    return _hex(kv_rgb(kv_head, n_kv_heads))


def kv_palette(n_kv_heads: int) -> list[str]:
    """Return the colours of all KV heads."""
    return [kv_colour(kv_head, n_kv_heads) for kv_head in range(n_kv_heads)]


def kv_scale(kv_head: int, n_kv_heads: int, ground: str | None = None, *, at: np.ndarray | None = None) -> list[list]:
    """Return a plotly colour scale from transparent (0) to the KV head's colour (1), monotone on light and dark pages.

    ground: "light" or "dark", for the canvas colours on such a page instead of a scale that suits both.
    at: (RAMP_STEPS,) the shares of the top at equal distances along the colours; None: a linear scale.
    """
    along = np.linspace(0, 1, RAMP_STEPS if ground or at is not None else 2)
    if ground:
        ramp = kv_ramp(kv_head, n_kv_heads, ground)
        colours = ["rgb({}, {}, {})".format(*ramp[round(255 * a)]) for a in along]
    else:
        colours = [_rgba(kv_rgb(kv_head, n_kv_heads), a) for a in along]
    stops = [[float(share), colour] for share, colour in zip(along if at is None else at, colours, strict=True)]
    return stops if stops[0][0] == 0 else [[0.0, colours[0]], *stops]


_GREY = 125, 125, 125


def signed_scale(
    kv_head: int, n_kv_heads: int, ground: str | None = None, *, at: np.ndarray | None = None
) -> list[list]:
    """Return a plotly colour scale of numbers from -1 (grey) over 0 to 1 (the KV head's colour).

    ground and at: as for `kv_scale`, of each half.
    """
    along = np.linspace(0, 1, RAMP_STEPS)
    if ground:
        below = [
            "rgb({}, {}, {})".format(*diverging_ramps(kv_head, n_kv_heads, ground)[0][round(255 * a)]) for a in along
        ]
    else:
        below = [_rgba(_GREY, a) for a in along]
    above = kv_scale(kv_head, n_kv_heads, ground, at=along if at is None else at)
    shares = along if at is None else at
    lower = [[0.5 - share / 2, colour] for share, colour in zip(shares.tolist(), below, strict=True)][::-1]
    return [[0.0, lower[0][1]], *lower[1:], *([0.5 + share / 2, colour] for share, colour in above)]


SEQUENTIAL = [[0.0, _rgba(_GREY, 0)], [1.0, _rgba(_GREY, 1)]]  # a quantity that belongs to no KV head
TABLE = [[0.0, _rgba(_GREY, 0.08)], [1.0, _rgba(_GREY, 0.6)]]  # cells with texts in them
TEXT = "#000037"  # Streamlit puts its theme's text colour in its place; plotly's own text is lighter
ON_STRONG = "#000000"  # a number in a cell of almost full colour
_BROWN, _PETROL = (0.09, 65.0), (0.09, 215.0)  # chroma and OKLCH hue: brown and blue-green, muted
_NEGATIVE, _POSITIVE = _bytes(MID_LIGHTNESS, *_BROWN), _bytes(MID_LIGHTNESS, *_PETROL)
BROWN, PETROL = _hex(_NEGATIVE), _hex(_POSITIVE)  # two lines or marks that belong to no KV head
_LOW, _HIGH = 0.505, 0.66  # lightness farthest apart among those that stand out on both pages
DARK_BROWN, LIGHT_BROWN, DARK_PETROL, LIGHT_PETROL = (
    _hex(_bytes(lightness, *hue)) for hue in (_BROWN, _PETROL) for lightness in (_LOW, _HIGH)
)
DIVERGING: list[list[Any]] = [  # the middle, zero, is transparent
    [0.0, _rgba(_NEGATIVE, 1)],
    [0.5, _rgba(_NEGATIVE, 0)],
    [0.5, _rgba(_POSITIVE, 0)],
    [1.0, _rgba(_POSITIVE, 1)],
]


# A map of several heads together: blue-green, since grey is masked
OF_SEVERAL: list[list[Any]] = [[0.0, _rgba(_POSITIVE, 0)], [1.0, _rgba(_POSITIVE, 1)]]


@cache
def kv_ramp(kv_head: int, n_kv_heads: int, theme: str) -> np.ndarray:
    """Return a KV head's canvas ramp: uint8 (256, 3), read-only, row 0 close to the page's colour, row 255 farthest.

    theme: "light" or "dark". Row i has the same lightness in every hue, so that maps of different heads are comparable.
    """
    _check(kv_head, n_kv_heads)
    hue, chroma = HUES[kv_head % len(HUES)]
    return _ramp(chroma, hue, theme)


def ramps(kv_heads: Iterable[int], n_kv_heads: int) -> dict[str, list[list[list[int]]]]:
    """Return stops of each KV head's canvas ramp, (CANVAS_STOPS, 3), on a "light" and on a "dark" page."""
    picked, heads = np.linspace(0, 255, CANVAS_STOPS).round().astype(int), list(kv_heads)
    return {scheme: [kv_ramp(k, n_kv_heads, scheme)[picked].tolist() for k in heads] for scheme in RAMP_ENDS}


def _ramp(chroma: float, hue: float, theme: str) -> np.ndarray:
    """Return the canvas ramp of a hue: uint8 (256, 3), read-only; the chroma rises over its first two fifths."""
    first, last = RAMP_ENDS[theme]
    values = np.linspace(0, 1, 256)
    colours = oklch(first + (last - first) * values, chroma * (2.5 * values).clip(max=1), hue)  # (256, 3)
    ramp = np.round(255 * colours).astype(np.uint8)
    ramp.setflags(write=False)
    return ramp


@cache
def diverging_ramps(kv_head: int | None, n_kv_heads: int, theme: str) -> tuple[np.ndarray, np.ndarray]:
    """Return the canvas ramps of negative and of positive numbers, each starting at 0: uint8 (256, 3), read-only.

    With a KV head, positive numbers have its hue and negative ones are grey; without one, they are blue-green and
    brown.
    """
    if kv_head is None:
        return _ramp(*_BROWN, theme), _ramp(*_PETROL, theme)
    return _ramp(0.0, 0.0, theme), kv_ramp(kv_head, n_kv_heads, theme)


def kind_style(kind: str) -> dict[str, str]:
    """Return colour, symbol and dash of a type of attention; the palette differs from that of the KV heads."""
    lightness, chroma, hue, symbol, dash = _KINDS[kind]
    return {"colour": _hex(_bytes(lightness, chroma, hue)), "symbol": symbol, "dash": dash}


LABEL = {"size": 12}  # font of ticks and legends, in pixels; Streamlit's default is smaller


def base_figure(height: int, **layout: Any) -> Chart:
    """Return an empty, transparent figure with narrow margins; text has the page's colour. height in pixels."""
    grid = {"gridcolor": FAINT, "zerolinecolor": FAINT, "gridwidth": 0.5, "zerolinewidth": 0.5, "tickfont": LABEL}
    figure = Chart(
        height=height,
        paper_bgcolor="rgba(0,0,0,0)",
        plot_bgcolor="rgba(0,0,0,0)",
        margin={"l": 8, "r": 8, "t": 8, "b": 8},
        font={"size": 13},
        legend={"font": LABEL},
        hoverlabel={"align": "left"},
        xaxis=grid,
        yaxis=grid,
    )
    figure.update_layout(**layout)
    return figure
