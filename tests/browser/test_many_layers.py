"""Pages with an opened model of 30 layers of 9 heads, the size of SmolLM2-135M."""

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from urllib.parse import quote

import pytest
from playwright.sync_api import Locator, Page, expect

from tests.browser.conftest import go, turn_to
from tests.browser.painted import settle
from tests.browser.server import Server, serve
from tests.checkpoints.tall import L, save_tall

BOXES = "boxes => boxes.map(box => box.getBoundingClientRect().toJSON())"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_tall(tmp_path_factory.mktemp("models") / "tall")


@pytest.fixture(scope="module")
def opens(folder: Path) -> Iterator[Server]:
    with serve(env={"ATTNVIZ_MODELS": str(folder)}) as server:
        yield server
        assert server.tracebacks() == []


def of(folder: Path, address: str) -> str:
    return f"{address}{'&' if '?' in address else '?'}model={quote(str(folder), safe='')}"


def test_pages_with_thirty_layers(tab: Callable[..., Page], folder: Path, opens: Server) -> None:
    page = tab()
    go(page, opens, of(folder, ""))
    the_overview_uses_its_width_and_marks_no_head_without_a_role(page)
    turn_to(page, of(folder, "steps"))
    each_block_has_its_number(page)
    turn_to(page, "heads?model=gqa-4")
    a_dot_marks_the_heads_that_the_legend_names(page)


def the_overview_uses_its_width_and_marks_no_head_without_a_role(page: Page) -> None:
    grid = page.locator(".hg")
    expect(grid.locator(".head")).to_have_count(L * 9)
    expect(grid.locator(".has-role, .dots")).to_have_count(0)
    boxes = grid.locator(".map").evaluate_all(BOXES)
    assert min(box["width"] for box in boxes) > 28  # 20 in one column of layers
    right, room = max(box["right"] for box in boxes), grid.locator(".scroll").bounding_box()
    assert right > room["x"] + 0.9 * room["width"]
    assert max(box["bottom"] for box in boxes) - min(box["top"] for box in boxes) < 640
    at = {(round(box["left"]), round(box["top"])) for box in boxes}
    assert len(at) == L * 9  # none covers another
    first, half = boxes[0], boxes[L // 2 * 9]
    assert half["top"] == first["top"] and half["left"] > boxes[8]["right"]
    head = grid.locator(".head").nth(8)
    head.focus()
    page.keyboard.press("ArrowRight")
    expect(grid.locator(".read")).to_contain_text(f"Layer {L // 2}, H0")
    narrow_and_wide_again(page, grid)


def narrow_and_wide_again(page: Page, grid: Locator) -> None:
    """The columns follow the width."""
    usual, before = page.viewport_size, grid.locator(".map").nth(L // 2 * 9).bounding_box()
    page.set_viewport_size({"width": 390, "height": 844})
    settle(page)
    first, half = (grid.locator(".map").nth(n * 9).bounding_box() for n in (0, L // 2))
    assert first["x"] == half["x"] and first["y"] < half["y"]
    page.set_viewport_size(usual)
    settle(page)
    assert grid.locator(".map").nth(L // 2 * 9).bounding_box() == before


def each_block_has_its_number(page: Page) -> None:
    """The blocks of the other layers are as wide as one line, a dozen pixels."""
    blocks = page.locator(".way .call[aria-label^='blocks.']")
    expect(blocks).to_have_count(L)
    written = blocks.evaluate_all(
        "boxes => boxes.map(box => [box.ariaLabel, box.textContent, box.scrollWidth > box.clientWidth])"
    )
    assert [text.removeprefix("blocks.") for _, text, _ in written] == [
        name.removeprefix("blocks.") for name, *_ in written
    ]
    assert not any(cut for *_, cut in written)


def a_dot_marks_the_heads_that_the_legend_names(page: Page) -> None:
    choice = page.get_by_label("Heads shown")
    names = choice.locator("option").all_inner_texts()
    dotted = [n for n in names if any(role in n for role in ("previous token", "induction", "duplicate token"))]
    n_heads = sum(int(name.rstrip(")").rpartition("(")[2]) for name in dotted)
    assert any("local" in name for name in names) and n_heads > 0
    choice.select_option("overview")
    expect(page.locator(".hg .has-role")).to_have_count(n_heads)
    expect(page.locator(".hg .dots")).to_have_text("dot = previous-token, induction or duplicate-token head")
    with page.expect_download() as started:  # and in the saved picture, which has the same legend
        page.locator(".hg").get_by_role("button", name="Save as SVG").click()
    round_ones = re.findall(r'<rect [^>]*rx="50"', started.value.path().read_text(encoding="utf-8"))
    assert len(round_ones) == n_heads
