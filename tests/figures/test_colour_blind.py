"""The distances between hues under three simulated kinds of colour blindness.

The distance is CIEDE2000, checked against its authors' table. About 1 is just noticeable side by side, 10 at a glance.
In greyscale all hues are equal, since the ramps share their lightness: there, and with more KV heads than hues, only
the KV head's number beside each colour identifies it.
"""

from itertools import combinations, pairwise

import numpy as np
import pytest

from attnviz.cost.variants import KINDS
from attnviz.figures import theme

# Machado, Oliveira and Fernandes, "A Physiologically-based Model for Simulation of Color Vision Deficiency", IEEE TVCG
# 15(6), 2009, table of severity 1.0; applied to linear sRGB
SIGHTS = {
    "normal": np.eye(3),
    "protanopia": [[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216], [-0.003882, -0.048116, 1.051998]],
    "deuteranopia": [[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413], [-0.011820, 0.042940, 0.968881]],
    "tritanopia": [[1.255528, -0.076749, -0.178779], [-0.078411, 0.930809, 0.147602], [0.004733, 0.691367, 0.303900]],
}
D65 = np.array([0.95047, 1.0, 1.08883])
TO_XYZ = np.array([
    [0.4124564, 0.3575761, 0.1804375], [0.2126729, 0.7151522, 0.0721750], [0.0193339, 0.1191920, 0.9503041],
])  # fmt: skip


def seen(colour: str | tuple, sight: str) -> np.ndarray:
    """Return the CIELAB (L, a, b) of "#rrggbb" or three bytes under this kind of vision."""
    rgb = [int(colour[i : i + 2], 16) for i in (1, 3, 5)] if isinstance(colour, str) else colour
    encoded = np.array(rgb[:3]) / 255
    linear = np.where(encoded <= 0.04045, encoded / 12.92, ((encoded + 0.055) / 1.055) ** 2.4)
    xyz = TO_XYZ @ (np.array(SIGHTS[sight]) @ linear).clip(0, 1) / D65
    f = np.where(xyz > (6 / 29) ** 3, np.cbrt(xyz), xyz / (3 * (6 / 29) ** 2) + 4 / 29)
    return np.array([116 * f[1] - 16, 500 * (f[0] - f[1]), 200 * (f[1] - f[2])])


def ciede2000(one: np.ndarray, other: np.ndarray) -> float:
    """Sharma, Wu and Dalal, "The CIEDE2000 Color-Difference Formula", Color Research and Application 30(1), 2005."""
    (L1, a1, b1), (L2, a2, b2) = one, other
    mean_c7 = ((np.hypot(a1, b1) + np.hypot(a2, b2)) / 2) ** 7
    stretch = 1 + 0.5 * (1 - np.sqrt(mean_c7 / (mean_c7 + 25.0**7)))
    a1, a2 = a1 * stretch, a2 * stretch
    c1, c2 = np.hypot(a1, b1), np.hypot(a2, b2)
    h1, h2 = (np.degrees(np.arctan2(b, a)) % 360 for a, b in ((a1, b1), (a2, b2)))
    turn = (h2 - h1 + 180) % 360 - 180 if c1 * c2 else 0.0
    middle = (h1 + turn / 2) % 360 if c1 * c2 else h1 + h2
    hue = 2 * np.sqrt(c1 * c2) * np.sin(np.radians(turn / 2))
    L, c = (L1 + L2) / 2, (c1 + c2) / 2
    t = (
        1
        - 0.17 * _cos(middle - 30)
        + 0.24 * _cos(2 * middle)
        + 0.32 * _cos(3 * middle + 6)
        - 0.2 * _cos(4 * middle - 63)
    )
    dl = (L2 - L1) / (1 + 0.015 * (L - 50) ** 2 / np.sqrt(20 + (L - 50) ** 2))
    dc, dh = (c2 - c1) / (1 + 0.045 * c), hue / (1 + 0.015 * c * t)
    twist = -2 * np.sqrt(c**7 / (c**7 + 25.0**7)) * np.sin(np.radians(60 * np.exp(-(((middle - 275) / 25) ** 2))))
    return float(np.sqrt(dl**2 + dc**2 + dh**2 + twist * dc * dh))


def _cos(degrees: float) -> float:
    return np.cos(np.radians(degrees))


def closest(colours: list, sight: str) -> float:
    """Return the smallest distance between any two of these colours."""
    return min(ciede2000(a, b) for a, b in combinations([seen(c, sight) for c in colours], 2))


AUTHORS = [  # from the paper's table: two colours and their distance
    ((50, 2.6772, -79.7751), (50, 0, -82.7485), 2.0425),
    ((50, -1.3802, -84.2814), (50, 0, -82.7485), 1.0),
    ((50, 0, 0), (50, -1, 2), 2.3669),
    ((50, 2.49, -0.001), (50, -2.49, 0.0009), 7.1792),
    ((50, 2.5, 0), (73, 25, -18), 27.1492),
    ((50, 2.5, 0), (61, -5, 29), 22.8977),
]


@pytest.mark.parametrize(("one", "other", "distance"), AUTHORS)
def test_the_distance_is_the_one_its_authors_computed(one, other, distance):
    assert ciede2000(np.array(one, float), np.array(other, float)) == pytest.approx(distance, abs=1e-4)


def test_who_sees_no_red_takes_red_for_dark_green():
    """The simulation has an effect: red and dark green are far apart for most people, close for a protanope."""
    red, green = (200, 40, 30), (95, 85, 20)
    assert closest([red, green], "normal") > 3 * closest([red, green], "protanopia")


# Measured: 51.8 for two KV heads, 7.8 for four, 6.0 for six, 3.4 for eight (KV 0 and 6, without green).
FAR_ENOUGH = {2: 50, 3: 7.5, 4: 7.5, 5: 5.5, 6: 5.5, 7: 3, 8: 3}


@pytest.mark.parametrize("sight", SIGHTS)
@pytest.mark.parametrize("n", FAR_ENOUGH)
def test_the_hues_of_up_to_eight_kv_heads_are_told_apart(n, sight):
    assert closest([theme.kv_colour(k, n) for k in range(n)], sight) > FAR_ENOUGH[n]


@pytest.mark.parametrize("sight", SIGHTS)
@pytest.mark.parametrize("page", ["light", "dark"])
def test_so_are_the_maps_at_a_weight_of_a_quarter(page, sight):
    maps = [theme.kv_ramp(k, 8, page)[128] for k in range(8)]  # the scale is of the square root
    assert closest(maps, sight) > 2.5
    assert closest(maps[:4], sight) > 6.5


@pytest.mark.parametrize("sight", SIGHTS)
@pytest.mark.parametrize("n", [2, 4, 8, 16])
def test_kv_heads_that_stand_side_by_side_are_told_apart_at_a_glance(n, sight):
    colours = [seen(theme.kv_colour(k, n), sight) for k in range(n)]
    assert min(ciede2000(a, b) for a, b in pairwise(colours)) > 7.5


@pytest.mark.parametrize("sight", SIGHTS)
def test_the_kinds_of_attention_and_the_two_signs_are_told_apart(sight):
    kinds = [theme.kind_style(kind)["colour"] for kind in KINDS]
    assert closest(kinds, sight) > 8
    signs = [tuple(map(float, theme.DIVERGING[i][1][5:-1].split(","))) for i in (0, -1)]
    assert closest(signs, sight) > 30


def test_in_grey_and_beyond_eight_only_the_number_beside_the_colour_tells():
    """The limit of the palette: no palette of equal lightness can do better."""
    assert closest([theme.kv_colour(k, 16) for k in range(16)], "normal") == 0
    lightness = [seen(theme.kv_colour(k, 8), "normal")[0] for k in range(8)]
    assert np.ptp(lightness) < 5
