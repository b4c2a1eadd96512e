"""A character that is several tokens is one in the browser: in the text view, Decode's text and on the axes."""

import re
from collections.abc import Callable
from urllib.parse import quote

import pytest
from playwright.sync_api import Page, Playwright, expect

from attnviz.text import tokenizer
from tests.browser.conftest import turn_to
from tests.browser.engines import firefox, webkit
from tests.browser.server import Server

FAMILY, ARABIC = "👩‍👩‍👧‍👦", "مرحبا"
# Where the letters of the text view lie, from left to right
LAID = """text => [...text.querySelectorAll(".glyph")]
  .map((glyph) => [glyph.textContent, glyph.getBoundingClientRect().left])
  .sort((a, b) => a[1] - b[1]).map(([letter]) => letter).join("")"""


def test_a_character_of_several_tokens_reads_as_one(visit: Callable[..., Page]) -> None:
    page = visit(f"heads?query=5&text={quote('床前' + FAMILY)}")
    its_tokens_lie_side_by_side_and_are_told_on_pointing(page)
    its_rows_and_columns_are_merged(page)
    turn_to(page, f"heads?text={quote(ARABIC)}")
    expect(page.locator(".tv .glyph")).to_have_text(list(ARABIC))
    assert page.locator(".tv .text").evaluate(LAID) == ARABIC[::-1]  # it begins on the right
    written = tokenizer().encode("床🇩🇪")
    turn_to(page, f"decode?text={quote(FAMILY)}&written={'.'.join(map(str, written))}&temperature=0")
    a_character_is_completed_byte_by_byte(page)


def its_tokens_lie_side_by_side_and_are_told_on_pointing(page: Page) -> None:
    first = page.locator(".tv .character").first
    expect(page.locator(".tv .glyph")).to_have_text(["床", "前", FAMILY])
    parts = first.locator(".token")
    expect(parts).to_have_count(3)
    boxes, whole = [part.bounding_box() for part in parts.all()], first.bounding_box()
    assert abs(sum(box["width"] for box in boxes) - whole["width"]) < 0.5
    for k in range(3):
        parts.nth(k).hover()
        expect(page.locator(".tv .title")).to_contain_text(f"query {k} “床 {k + 1}/3”")
        assert parts.nth(k).get_attribute("title") == f"{k} “床 {k + 1}/3”"
    family = page.locator(".tv .character").nth(2)
    assert family.locator(".token").count() == 25 and family.bounding_box()["width"] >= 99


def its_rows_and_columns_are_merged(page: Page) -> None:
    page.get_by_text("Merge the rows and columns of the 3 characters").click()
    expect(page).to_have_url(re.compile("merged=1"))
    canvas = page.locator(".hv .map")
    expect(page.locator(".hv .note")).to_contain_text("the weights on its keys are summed")
    expect(page.locator(".hv .query option")).to_have_text(["0–2 床", "3–5 前", f"6–30 {FAMILY}"])
    canvas.scroll_into_view_if_needed()
    at = canvas.evaluate(
        "map => { const { plot } = map.closest('.hv').view; return [plot.left, plot.top, plot.width, plot.height]; }"
    )
    left, top, width, height = at
    canvas.click(position={"x": left + width / 2, "y": top + height / 2})  # 前 on 前
    expect(page).to_have_url(re.compile("query=5&key=[345]&"))
    expect(page.locator(".hv .read").first).to_contain_text("Query 3–5 “前” → key 3–5 “前”: weight ")
    expect(page.locator(".tv .title")).to_contain_text("query 5 “前 3/3”")


def a_character_is_completed_byte_by_byte(page: Page) -> None:
    text, new = page.locator(".dp .text"), page.locator(".dp .text .new")
    expect(text).to_have_text(f"{FAMILY}床🇩🇪")
    expect(new).to_have_count(2)
    assert "linear-gradient" in new.first.evaluate("each => getComputedStyle(each).backgroundImage")
    assert new.first.get_attribute("title").startswith("床 1/3: ")
    for _ in range(9):  # back to the second byte of 床
        page.locator(".dp").get_by_role("button", name="One token back").click()
    expect(text).to_have_text(f"{FAMILY}<0xE5><0xBA>")
    expect(page.locator(".dp .candidates .chosen button")).to_have_text("床 3/3")
    page.locator(".dp .candidates .chosen button").click()
    expect(text).to_have_text(f"{FAMILY}床")
    expect(page.locator(".dp .maps-title")).to_contain_text("“床 3/3”")


# ---- the text view's lines

CHINESE = "注意力機制讓每個詞元查詢其他詞元，並按「相似度」分配權重。昨天下午我在咖啡館讀 paper，外面下著大雨。" * 2
LINES = """() => {
  const text = one(".tv .text"), lines = [];
  let last = -Infinity;
  for (const each of text.querySelectorAll(".glyph, span.token")) {
    const { bottom } = each.getBoundingClientRect();
    if (bottom > last + 10) lines.push(""); // characters of one line differ by less: fonts have other heights
    last = bottom;
    lines[lines.length - 1] += each.textContent;
  }
  return [lines, text.scrollWidth - text.clientWidth];
}"""


@pytest.mark.filterwarnings("ignore:setting remote_server_addr:DeprecationWarning")  # selenium's
@pytest.mark.parametrize("engine", ["firefox", "webkit"])
def test_a_chinese_text_is_seen_whole(engine: str, playwright: Playwright, server: Server) -> None:
    """Firefox ends no line beside an element that is out of flow, as the tokens of a character are."""
    with firefox(playwright, server.url) if engine == "firefox" else webkit(server.url) as window:
        window.open(f"heads?text={quote(CHINESE)}")
        window.until("() => one('.tv .glyph')")
        lines, hidden = window.run(LINES)
    assert hidden == 0
    assert "".join(lines).replace("\u00a0", " ") == CHINESE and len(lines) >= 3
    assert not [line for line in lines if line[0] in "，。」" or line[-1] == "「"]
