"""Measurements of the colours: lightness by the published OKLab, colour blindness by simulation, contrast by WCAG.

Run: .venv/bin/python -m pytest tests/figures/test_theme.py
"""

import tomllib
from itertools import combinations
from pathlib import Path

import numpy as np
import pytest
from streamlit.elements.lib.streamlit_plotly_theme import GRAY_90

from attnviz.cost import variants
from attnviz.figures import theme
from attnviz.figures.group_quality import STRONG_CELL

PAGES = {"light": (255, 255, 255), "dark": (14, 17, 23)}  # Streamlit's own two backgrounds
THEMES = ("light", "dark")
TEXTS = {"light": "#262730", "dark": "#fafafa"}  # what Streamlit 1.67.0 puts in the place of theme.TEXT
KINDS = tuple(variants.KINDS)
MARKS = [theme.kv_colour(k, 8) for k in range(8)] + [theme.kind_style(k)["colour"] for k in KINDS] + [theme.NEUTRAL]
MARKS += [theme.BROWN, theme.DARK_BROWN, theme.LIGHT_BROWN, theme.PETROL, theme.DARK_PETROL, theme.LIGHT_PETROL]
# Machado, Oliveira and Fernandes, "A Physiologically-based Model for Simulation of Color Vision Deficiency" (2009),
# severity 1.0, applied to linear sRGB
SIGHTS = {
    "normal": np.eye(3),
    "protanopia": [[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216], [-0.003882, -0.048116, 1.051998]],
    "deuteranopia": [[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413], [-0.011820, 0.042940, 0.968881]],
    "tritanopia": [[1.255528, -0.076749, -0.178779], [-0.078411, 0.930809, 0.147602], [0.004733, 0.691367, 0.303900]],
}


def linear(rgb) -> np.ndarray:
    encoded = np.asarray(rgb, float) / 255
    return np.where(encoded <= 0.04045, encoded / 12.92, ((encoded + 0.055) / 1.055) ** 2.4)


def oklab(rgb_linear) -> np.ndarray:
    """Convert sRGB to OKLab with Ottosson's matrices, the inverse of the theme's. The last axis is L, a, b."""
    lms = np.asarray(rgb_linear) @ np.array([
        [0.4122214708, 0.2119034982, 0.0883024619],
        [0.5363325363, 0.6806995451, 0.2817188376],
        [0.0514459929, 0.1073969566, 0.6299787005],
    ])  # fmt: skip
    return np.cbrt(lms) @ np.array([
        [0.2104542553, 1.9779984951, 0.0259040371],
        [0.7936177850, -2.4285922050, 0.7827717662],
        [-0.0040720468, 0.4505937099, -0.8086757660],
    ])  # fmt: skip


def seen(rgb, sight: str) -> np.ndarray:
    return oklab((linear(rgb) @ np.array(SIGHTS[sight]).T).clip(0, 1))


def luminance(rgb) -> np.ndarray:
    return linear(rgb) @ [0.2126, 0.7152, 0.0722]


def contrast(one, other) -> float:
    high, low = sorted((float(luminance(one)), float(luminance(other))), reverse=True)
    return (high + 0.05) / (low + 0.05)


def from_hex(colour: str) -> tuple[int, ...]:
    return tuple(int(colour[i : i + 2], 16) for i in (1, 3, 5))


def on_page(colour: str, page: str | tuple) -> np.ndarray:
    """Blend an "rgba(r, g, b, a)" with the page, or with this colour, as the browser does."""
    *rgb, alpha = (float(part) for part in colour.removeprefix("rgba(").removesuffix(")").split(","))
    return alpha * np.array(rgb) + (1 - alpha) * np.array(PAGES.get(page, page))


def test_known_colours():
    assert np.allclose(theme.oklch(1.0, 0.0, 0.0), 1.0, atol=1e-6)
    assert np.allclose(theme.oklch(0.627955, 0.257683, 29.2339) * 255, (255, 0, 0), atol=0.2)  # red
    assert np.allclose(theme.oklch(0.701, 0.3225, 328.36) * 255, (255, 0, 255), atol=0.5)  # magenta


def test_a_colour_outside_srgb_keeps_its_lightness():
    kept = oklab(linear(theme.oklch(0.9, 0.3, 259.0) * 255))
    assert kept[0] == pytest.approx(0.9, abs=1e-3)
    assert np.hypot(*kept[1:]) < 0.1


@pytest.mark.parametrize("page", THEMES)
def test_the_same_weight_has_the_same_lightness_in_every_hue(page):
    lightness = np.array([oklab(linear(theme.kv_ramp(k, 8, page)))[:, 0] for k in range(8)])  # (8, 256)
    assert np.ptp(lightness, axis=0).max() < 0.006  # bytes round; a step of the ramp is 0.003


def test_marks_have_one_lightness():
    lightness = [oklab(linear(from_hex(theme.kv_colour(k, 8))))[0] for k in range(8)]
    assert np.ptp(lightness) < 0.006


@pytest.mark.parametrize("page", THEMES)
@pytest.mark.parametrize("kv_head", range(8))
def test_the_ramp_leaves_the_page_and_never_turns_back(kv_head, page):
    ramp = theme.kv_ramp(kv_head, 8, page)
    away = {"light": -1, "dark": 1}[page]
    every_fourth = away * oklab(linear(ramp))[::4, 0]  # a quarter of a step in lightness is lost to rounding
    assert (np.diff(every_fourth) > 0).all()
    assert contrast(ramp[0], PAGES[page]) < 1.1
    assert contrast(ramp[-1], PAGES[page]) > 10


@pytest.mark.parametrize("page", THEMES)
@pytest.mark.parametrize("kv_head", range(8))
def test_printed_in_grey_the_order_of_the_weights_is_kept(kv_head, page):
    grey = luminance(theme.kv_ramp(kv_head, 8, page))[::8]
    assert (np.diff(grey) * {"light": -1, "dark": 1}[page] > 0).all()


@pytest.mark.parametrize("sight", SIGHTS)
def test_eight_hues_are_told_apart_with_every_kind_of_sight(sight):
    colours = [seen(from_hex(theme.kv_colour(k, 8)), sight) for k in range(8)]
    closest = min(np.linalg.norm(a - b) for a, b in combinations(colours, 2))
    assert closest > 0.04  # 0.02 is about the smallest difference seen side by side


@pytest.mark.parametrize("sight", SIGHTS)
def test_two_kv_heads_are_far_apart(sight):
    first, second = (seen(from_hex(theme.kv_colour(k, 2)), sight) for k in range(2))
    assert np.linalg.norm(first - second) > 0.2


def test_the_ninth_kv_head_repeats_the_first_and_a_tenth_of_nine_is_refused():
    assert theme.kv_colour(8, 16) == theme.kv_colour(0, 16)
    with pytest.raises(ValueError, match="between 0 and 8, not 9"):
        theme.kv_colour(9, 9)


@pytest.mark.parametrize("page", THEMES)
def test_marks_stand_out_on_both_pages(page):
    for mark in MARKS:
        assert contrast(from_hex(mark), PAGES[page]) > 3  # WCAG 1.4.11 for graphics


@pytest.mark.parametrize("sight", SIGHTS)
def test_two_shades_of_brown_and_of_petrol_are_told_apart_with_every_kind_of_sight(sight):
    pairs = [(theme.DARK_BROWN, theme.LIGHT_BROWN), (theme.DARK_PETROL, theme.LIGHT_PETROL)]
    assert min(np.linalg.norm(seen(from_hex(a), sight) - seen(from_hex(b), sight)) for a, b in pairs) > 0.12


@pytest.mark.parametrize("page", THEMES)
def test_a_faint_bar_stands_out_by_its_outline_only(page):
    assert (
        contrast(from_hex(theme.OUTLINE["color"]), PAGES[page]) > 3 > contrast(on_page(theme.FAINT, page), PAGES[page])
    )
    faint = theme.faded("#102a43", 0.4)
    assert on_page(faint, page) == pytest.approx(0.4 * np.array([16, 42, 67]) + 0.6 * np.array(PAGES[page]), abs=1e-9)


@pytest.mark.parametrize("page", THEMES)
def test_texts_in_the_cells_of_a_table_are_readable(page):
    """On the background of the app's own themes."""
    config = tomllib.loads((Path(__file__).parents[2] / ".streamlit/config.toml").read_text("utf-8"))["theme"][page]
    ground, text = from_hex(config["backgroundColor"]), from_hex(TEXTS[page])
    least, most = (on_page(colour, ground) for _, colour in theme.TABLE)
    for share in np.linspace(0, 1, 50):  # blending is linear in the encoded values
        assert contrast(least + share * (most - least), text) > 4.5
    assert 1.05 < contrast(least, ground) < 2 < contrast(most, ground)


@pytest.mark.parametrize("page", THEMES)
def test_numbers_in_the_map_of_cosines_are_readable_at_any_strength(page):
    for _, colour in (theme.DIVERGING[0], theme.DIVERGING[-1]):
        for share in np.linspace(0, 1, 101):
            cell = on_page(colour.replace(", 1)", f", {share})"), page)
            assert contrast(cell, from_hex(theme.ON_STRONG if share >= STRONG_CELL else TEXTS[page])) > 4.1


def test_kinds_are_not_taken_for_kv_heads():
    styles = [theme.kind_style(kind) for kind in KINDS]
    assert len({s["symbol"] for s in styles}) == len({s["dash"] for s in styles}) == len(KINDS)
    for style in styles:
        kind = oklab(linear(from_hex(style["colour"])))
        nearest = min(np.linalg.norm(kind - oklab(linear(from_hex(theme.kv_colour(k, 8))))) for k in range(8))
        assert nearest > 0.04


@pytest.mark.parametrize("page", THEMES)
@pytest.mark.parametrize("scale", [theme.kv_scale(k, 8) for k in range(8)] + [theme.SEQUENTIAL, theme.OF_SEVERAL])
def test_plotly_scales_shade_one_way_on_both_pages(scale, page):
    (start, transparent), (end, full) = scale
    assert (start, end) == (0.0, 1.0)
    low, high = on_page(transparent, page), on_page(full, page)
    between = low + (high - low) * np.linspace(0, 1, 50)[:, None]  # blending is linear in the encoded values
    lightness = oklab(linear(between))[:, 0]
    assert (np.diff(lightness) * {"light": -1, "dark": 1}[page] > 0).all()
    assert contrast(low, PAGES[page]) == pytest.approx(1)
    assert contrast(high, PAGES[page]) > 3.8


@pytest.mark.parametrize("sight", SIGHTS)
def test_the_two_signs_are_told_apart(sight):
    negative, positive = (on_page(theme.DIVERGING[i][1], "light") for i in (0, -1))
    assert np.linalg.norm(seen(negative, sight) - seen(positive, sight)) > 0.08
    assert seen(negative, "normal")[0] == pytest.approx(seen(positive, "normal")[0], abs=0.006)


@pytest.mark.parametrize("page", THEMES)
def test_masked_is_grey_and_visible(page):
    grey = on_page(theme.MASKED, page)
    assert np.hypot(*oklab(linear(grey))[1:]) < 0.02
    assert contrast(grey, PAGES[page]) > 1.15


def test_no_colour_is_one_of_streamlits_placeholders():
    """Streamlit swaps the literal colours #000001 to #000040 in a figure for its theme's."""
    assert not [colour for colour in MARKS if colour.startswith("#0000")]
    assert theme.TEXT == GRAY_90  # the one that is meant to be swapped


def test_the_base_figure_takes_a_layout():
    figure = theme.base_figure(321, barmode="stack").figure()
    assert (figure.layout.height, figure.layout.barmode) == (321, "stack")
    assert figure.layout.paper_bgcolor == "rgba(0,0,0,0)"
    assert figure.layout.font.color is None
