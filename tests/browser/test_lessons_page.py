"""A lesson across several pages; single-element view and presentation mode; a lesson with touch on a phone."""

import re
from collections.abc import Callable

from playwright.sync_api import CDPSession, Page, expect

from attnviz.compute.placeholders import PLACEHOLDERS
from attnviz.session.lesson import parse
from tests.browser.conftest import NARROW, go, turn_to
from tests.browser.painted import REPAINTED, fits, overflow, painted_fraction, pixels, settle
from tests.browser.server import Server

RINGED = """name => {
  const element = document.querySelector(`.${name}`), style = element && getComputedStyle(element);
  if (!style || style.outlineStyle !== "solid" || parseFloat(style.outlineWidth) < 2) return false;
  const { top, bottom, height } = element.getBoundingClientRect();
  const bar = document.querySelector("[data-testid=stBottom]").getBoundingClientRect().top;
  const header = innerWidth > 768 ? 0 : document.querySelector("[data-testid=stHeader]").getBoundingClientRect().bottom;
  const whole = top >= header && bottom <= bar, begins = top >= header && top < header + 30;
  return height > 20 && (height < bar - header - 30 ? whole : begins);
}"""

NAMED = "([start, end]) => document.title.startsWith(start) && document.title.endsWith(end)"


def at_step(page: Page, number: int, title: str, marked: str) -> None:
    """Expect the step in the bar, the live region and the window's name, and the element outlined above the bar.

    An element that is too high for that has to begin below the header.
    """
    page.locator(".st-key-lesson-bar").get_by_role("heading", name=title).wait_for()  # polled more often than `expect`
    page.wait_for_function(NAMED, arg=[f"Step {number} of ", f": {title} · AttnViz"], polling=50)
    page.wait_for_function(RINGED, arg=f"st-key-{marked}", polling=50)
    expect(page.locator(".st-key-lesson-mark [role=status]")).to_contain_text(f"Step {number} of")


def a_lesson_leads_through_pages_by_keys_and_one_may_wander_off(page: Page) -> None:
    page.get_by_test_id("stMain").get_by_role("link", name="Why keys and values are shared").click()
    at_step(page, 1, "MHA: a KV head for each query head", "diagram")
    expect(page.locator(".st-key-lesson-back button")).to_be_disabled()
    page.keyboard.press("j")
    at_step(page, 2, "GQA: groups share one", "diagram")
    page.locator(".st-key-lesson-next button").click()
    at_step(page, 3, "The cache shrinks with them", "cached")
    expect(page.locator(".st-key-lesson-text")).to_contain_text("3,072 B per token where MHA caches 6,144 B")
    page.keyboard.press("j")
    at_step(page, 4, "Query heads stay different", "layer-maps")
    expect(page.get_by_role("region", name="Lesson: Why keys and values are shared")).to_be_visible()
    page.wait_for_function("document.activeElement.closest('.st-key-lesson-bar')")
    expect(page.locator(".st-key-lesson-text")).not_to_contain_text("part of W_o")
    page.keyboard.press("q")
    expect(page.locator(".st-key-lesson-text")).to_contain_text("part of W_o")
    expect(page.locator(".st-key-lesson-mark [role=status]")).to_contain_text("part of W_o")
    page.keyboard.press("q")
    expect(page.locator(".st-key-lesson-text")).not_to_contain_text("part of W_o")
    page.get_by_test_id("stSidebar").get_by_role("link", name="Overview", exact=True).click()  # leave the step
    expect(page.get_by_role("heading", level=1)).to_have_text("Overview")
    expect(page.locator(".st-key-lesson-return button")).to_be_visible()
    expect(page).to_have_url(re.compile(r"/\?.*lesson_step=4"))
    settle(page)
    page.keyboard.press("g")
    at_step(page, 4, "Query heads stay different", "layer-maps")
    page.keyboard.press("k")
    at_step(page, 3, "The cache shrinks with them", "cached")
    turn_to(page, "query_groups?tiled=1&lesson=shared-kv-heads&lesson_step=7")
    at_step(page, 7, "Keep the order", "diagram")
    page.keyboard.press("j")
    at_step(page, 8, "In published models", "figure-alternatives")
    expect(page.get_by_role("heading", level=1)).to_have_text("Cost")
    settle(page)
    page.go_back()  # one step back, across pages
    at_step(page, 7, "Keep the order", "diagram")
    expect(page).to_have_url(re.compile("query_groups.*lesson_step=7"))
    page.keyboard.press("l")
    expect(page.get_by_text("You are at step 7")).to_be_visible()
    page.locator(".st-key-lesson-leave button").click()
    expect(page.locator(".st-key-lesson-bar")).to_have_count(0)
    expect(page).not_to_have_url(re.compile("lesson_step"))


FILLS = """name => {
  const element = document.querySelector(`.${name}`), box = element?.getBoundingClientRect();
  const bar = document.querySelector("[data-testid=stBottom]").getBoundingClientRect(), beside = bar.left > 0;
  const [right, bottom] = beside ? [bar.left, innerHeight] : [innerWidth, bar.top];
  if (!box || element.currentCSSZoom < 1.399 || box.bottom > bottom + 2 || box.right > right + 2) return false;
  return box.height > 0.8 * bottom || box.width > 0.8 * right;
}"""


def test_a_lesson_leads_by_keys_presenting_fills_the_screen_and_an_embedded_drawing_stands_alone(
    visit: Callable[..., Page], server: Server
) -> None:
    page = visit("lessons")
    a_lesson_leads_through_pages_by_keys_and_one_may_wander_off(page)
    turn_to(page, "heads")
    presenting_fills_the_screen_and_an_embedded_drawing_stands_alone(page, server)


def presenting_fills_the_screen_and_an_embedded_drawing_stands_alone(page: Page, server: Server) -> None:
    page.evaluate("""
        const write = async ([item]) => { window.copied = await (await item.getType("text/plain")).text(); };
        Object.defineProperty(navigator, "clipboard", { value: { write } });
    """)
    page.get_by_role("button", name="Copy embed code").click()
    page.get_by_label("Drawing", exact=True).select_option("head-grid")
    code = page.wait_for_function("window.copied").json_value()
    source = re.search(r'src="([^"]+)"', code)[1].replace("&amp;", "&")
    assert code.startswith("<iframe ") and "only=head-grid" in source and "embed=true" in source
    width, height = (int(re.search(rf'{side}="(\d+)"', code)[1]) for side in ("width", "height"))
    framed = page.context.new_page()
    framed.set_viewport_size({"width": width, "height": height})
    framed.goto(source)
    settle(framed)
    hidden = framed.get_by_test_id("stMain").evaluate("main => main.scrollHeight - main.clientHeight")
    assert hidden <= 0 and height < 1000, "the code's frame holds the drawing"
    framed.close()
    step = page.locator("button.step")
    expect(step).to_be_hidden()  # there is no folder of own lessons
    step.evaluate("button => { button.hidden = false; window.copied = ''; }")
    step.click()
    page.get_by_label("Drawing", exact=True).select_option("head-view")
    written = page.wait_for_function("window.copied").json_value()
    lesson = parse("mine", f"# Mine\n\nMinutes: 5\n\n{written}", PLACEHOLDERS)
    assert (lesson.step(1).page.path, lesson.step(1).target) == ("heads", "head-view")
    page.keyboard.press("p")
    expect(page.locator(".st-key-presenter")).to_be_visible()
    expect(page.get_by_test_id("stSidebar")).to_be_hidden()
    for width, height in ((1280, 720), (1920, 1080)):
        page.set_viewport_size({"width": width, "height": height})
        page.wait_for_function(FILLS, polling=50, arg="st-key-head-grid")
    page.keyboard.press("ArrowRight")
    expect(page.locator(".st-key-text-view")).to_be_visible()
    expect(page.locator(".st-key-head-grid")).to_have_count(0)
    page.keyboard.press("PageDown")
    page.wait_for_function(FILLS, polling=50, arg="st-key-head-view")
    settle(page)
    box = page.locator(".st-key-head-view .map").bounding_box()
    page.mouse.move(box["x"] + box["width"] * 0.4, box["y"] + box["height"] * 0.9)
    expect(page.locator(".st-key-head-view .read")).to_contain_text(
        "Query 2"
    )  # the cell under the pointer, zoomed or not
    ring = page.locator(".attnviz-ring").bounding_box()
    assert abs(ring["x"] + ring["width"] / 2 - box["x"] - box["width"] * 0.4) < 2
    page.keyboard.press("b")
    expect(page.locator(".attnviz-black")).to_be_visible()
    page.keyboard.press("b")
    expect(page.locator(".attnviz-black")).to_be_hidden()
    page.get_by_role("button", name="QR code").click()
    code = page.get_by_role("dialog").locator("img")
    expect(code).to_be_visible()
    page.keyboard.press("Escape")  # closes the dialog alone
    expect(code).to_be_hidden()
    page.locator(".st-key-present-leave button").click()
    expect(page.get_by_test_id("stSidebar")).to_be_visible()

    page.set_viewport_size({"width": 800, "height": 600})
    go(page, server, source.rpartition("/")[2])
    grid = page.locator(".st-key-head-grid")
    expect(grid.get_by_role("gridcell")).to_have_count(32)
    expect(page.get_by_role("heading", level=1)).to_have_count(0)
    expect(page.locator(".st-key-head-view")).to_have_count(0)
    assert grid.bounding_box()["y"] < 40 and painted_fraction(pixels(grid)) > 0.1
    grid.get_by_role("gridcell").nth(5).hover()
    expect(grid.locator(".read")).to_contain_text("Layer 0, H5")
    fits(page)

    go(page, server, "?embed=true&only=front-grid")
    expect(page.get_by_role("heading", level=1)).to_have_count(0)
    page.get_by_role("gridcell").nth(5).click()  # leads to Heads, of which nothing is hidden
    expect(page.get_by_role("heading", level=1)).to_have_text("Heads")
    expect(page.locator(".st-key-head-view .map")).to_be_visible()
    expect(page.get_by_test_id("stAlert")).to_have_count(0)
    page.go_back()
    expect(page.locator(".st-key-front-grid")).to_be_visible()
    expect(page).to_have_url(re.compile(r"/\?embed=true&only=front-grid$"))
    expect(page.get_by_role("heading", level=1)).to_have_count(0)


NO_WORDS_MEET = """() => {
  const words = [...document.querySelectorAll(".heatmap-label")].map(word => word.getBoundingClientRect());
  return words.length > 20 && words.every(a => words.every(b =>
    a === b || a.right <= b.left + 1 || b.right <= a.left + 1 || a.bottom <= b.top + 1 || b.bottom <= a.top + 1));
}"""


WIDE_MAPS = """() => {
  const component = [...document.querySelectorAll(".st-key-layer-maps *")].find(each => each.shadowRoot);
  return component?.shadowRoot.querySelector(".head")?.getBoundingClientRect().width > 180;
}"""


PAINTED_ABOVE_THE_BAR = """name => {
  const element = document.querySelector(`.${name}`), bar = document.querySelector("[data-testid=stBottom]");
  const [chart, box, { top }] = [element?.querySelector(".main-svg"), element, bar].map(
    e => e?.getBoundingClientRect());
  return chart?.height > 200 && chart.bottom <= box.bottom + 1 && box.bottom <= top && box.bottom > top - 80
    && getComputedStyle(element).outlineStyle === "none";
}"""


def a_presented_chart_is_whole_with_its_key_also_when_an_answer_makes_the_bar_higher(page: Page) -> None:
    page.wait_for_function(PAINTED_ABOVE_THE_BAR, polling=50, arg="st-key-figure-number")
    expect(page.get_by_text("q and k after RoPE")).to_be_visible()
    bar = page.get_by_test_id("stBottom")
    before = bar.bounding_box()["height"]
    page.keyboard.press("q")
    expect(page.get_by_role("button", name="Hide the answer")).to_be_visible()
    page.wait_for_function(PAINTED_ABOVE_THE_BAR, polling=50, arg="st-key-figure-number")
    assert bar.bounding_box()["height"] > before


def drawings_that_were_too_high_or_too_dense_are_presented_above_the_bar(page: Page) -> None:
    turn_to(page, "decode?present=1")
    page.wait_for_function(FILLS, polling=50, arg="st-key-decode-player")
    turn_to(page, "steps?tab=step&step=0&present=1")
    page.wait_for_function(FILLS, polling=50, arg="st-key-decode-walk")
    turn_to(page, "steps?tab=lens&present=1&only=figure-lens")
    page.wait_for_function(NO_WORDS_MEET, polling=100)
    turn_to(page, "query_groups?present=1&only=layer-maps")  # in two rows
    page.wait_for_function(FILLS, polling=50, arg="st-key-layer-maps")
    page.wait_for_function(WIDE_MAPS, polling=50)
    turn_to(page, "query_groups?tab=latent&model=mla&present=1&only=figure-latent")
    page.wait_for_function(FILLS, polling=50, arg="st-key-figure-latent")
    page.set_viewport_size({"width": 900, "height": 768})  # not wide enough for the text beside the drawing
    turn_to(page, "heads?tab=number&lesson=score-to-weight&lesson_step=2&only=figure-number&present=1")
    a_presented_chart_is_whole_with_its_key_also_when_an_answer_makes_the_bar_higher(page)
    on_a_small_screen_the_longest_text_with_its_answer_is_beside_the_drawing(page)


BESIDE = """name => {
  const drawing = document.querySelector(`.${name}`)?.getBoundingClientRect();
  const bar = document.querySelector("[data-testid=stBottom]"), { left } = bar.getBoundingClientRect();
  return drawing?.height > 0.7 * innerHeight && drawing.bottom <= innerHeight && drawing.right <= left
    && left > 0.6 * innerWidth && bar.scrollHeight <= bar.clientHeight + 1;
}"""


def on_a_small_screen_the_longest_text_with_its_answer_is_beside_the_drawing(page: Page) -> None:
    step = "heads?layer=1&head=3&query=19&tab=writes&lesson=one-head&lesson_step=7"
    for width, height in ((1024, 768), (960, 600)):
        page.set_viewport_size({"width": width, "height": height})
        turn_to(page, f"{step}&only=figure-logits&present=1")
        page.wait_for_function(BESIDE, polling=50, arg="st-key-figure-logits")
        page.keyboard.press("q")
        answer = page.get_by_role("paragraph").filter(has_text="Not necessarily")
        expect(answer).to_be_in_viewport(ratio=0.98)  # Streamlit cuts off a pixel above its first line
        expect(page.get_by_role("button", name="Hide the answer")).to_be_in_viewport(ratio=1)
        page.wait_for_function(BESIDE, polling=50, arg="st-key-figure-logits")
        page.keyboard.press("q")
        expect(page.get_by_text("Not necessarily")).to_have_count(0)


def test_a_deep_link_comes_to_its_drawing_and_a_step_or_a_high_drawing_is_presented_by_itself(
    visit: Callable[..., Page],
) -> None:
    models = "preset=deepseek-v3&compare=qwen1.5-7b,mistral-7b-v0.3,deepseek-v3&context=4096"  # not as in the step
    page = visit(f"cost?tab=published&{models}&lesson=mla&lesson_step=8")  # drawings above it grow late
    at_step(page, 8, "In published models", "figure-totals")
    page.get_by_test_id("stMain").evaluate("main => main.scrollTo(0, 0)")
    settle(page)
    page.keyboard.press("g")  # back to the step's own settings
    expect(page.locator(".st-key-lesson-return")).to_have_count(0)
    at_step(page, 8, "In published models", "figure-totals")
    short = page.add_style_tag(content=".stMainBlockContainer { max-height: 300px; overflow: clip; }")
    turn_to(page, "heads?layer=1&head=3&query=19&tab=writes&lesson=one-head&lesson_step=7")
    expect(page.locator(".st-key-figure-logits .js-plotly-plot")).to_be_attached()
    page.wait_for_timeout(3500)  # a busy browser draws what is below later than the drawing is watched
    short.evaluate("style => style.remove()")
    at_step(page, 7, "What the head writes", "figure-logits")
    turn_to(page, "steps?model=mla&absorbed=1&lesson=mla&lesson_step=6")
    at_step(page, 6, "Line by line", "source-walk")
    line = page.locator(".st-key-source-walk .row.here").first
    before = line.inner_text()
    page.keyboard.press("ArrowRight")  # without a click into the walk
    expect(line).not_to_have_text(before)
    page.set_viewport_size({"width": 1280, "height": 720})
    turn_to(page, "heads?layer=1&head=3&lesson=one-head&lesson_step=2")
    page.keyboard.press("p")
    page.wait_for_function(FILLS, polling=50, arg="st-key-head-grid")
    expect(page).to_have_url(re.compile("only=head-grid"))
    assert page.get_by_role("button", name="Leave").count() == 1
    text = page.locator(".st-key-lesson-text p").first
    assert 1.5 < text.evaluate("text => text.currentCSSZoom") <= 1.75  # as large as is seen without scrolling
    assert page.get_by_test_id("stBottom").evaluate("bar => bar.scrollHeight - bar.clientHeight") <= 1
    page.evaluate(WIDTHS_SEEN, "st-key-head-view")
    page.keyboard.press("PageDown")
    expect(page).to_have_url(re.compile("lesson_step=3.*only=head-view"))
    expect(page.locator(".st-key-head-grid")).to_have_count(0)
    page.wait_for_function(FILLS, polling=50, arg="st-key-head-view")
    assert len(page.evaluate("[...widths]")) <= 3  # as drawn at first, and enlarged: none of those that are tried out
    page.keyboard.press("q")
    hide = page.get_by_role("button", name="Hide the answer")
    expect(hide).to_be_in_viewport(ratio=1)  # the text is beside the drawing: there is room for the answer
    expect(page.get_by_text("What one head does · 3 / 7")).to_be_in_viewport()
    cell = page.locator(".st-key-head-view .map").bounding_box()
    assert cell["width"] < 2.2 * cell["height"]  # a square of queries and keys is not flat
    page.get_by_role("button", name="QR code").click()
    code = page.get_by_role("dialog").locator("img")
    expect(code).to_be_visible()
    box = code.bounding_box()
    assert box["width"] > 300 and box["y"] >= 0 and box["y"] + box["height"] <= 720
    turn_to(page, "heads?tab=lines&present=1&only=lines")
    page.wait_for_function(FILLS, polling=50, arg="st-key-lines")
    rows = page.locator(".st-key-lines .scroll")
    assert rows.evaluate("rows => rows.scrollHeight - rows.clientHeight") <= 1  # the whole text, without scrolling
    drawings_that_were_too_high_or_too_dense_are_presented_above_the_bar(page)


WIDTHS_SEEN = """name => {
  window.widths = new Set();
  const look = () => {
    const element = document.querySelector(`.${name}`);
    if (element && getComputedStyle(element).opacity > 0) widths.add(Math.round(element.getBoundingClientRect().width));
    requestAnimationFrame(look);
  };
  look();
}"""


LONGEST_BAR = """() => {
  const drawing = document.querySelector(".st-key-stored");
  const host = [...drawing.querySelectorAll("*")].find(each => each.shadowRoot);
  if (getComputedStyle(drawing).opacity < 1) return false;
  const bars = [...host.shadowRoot.querySelectorAll("rect")].map(each => each.getBoundingClientRect().width);
  return Math.max(...bars) / drawing.getBoundingClientRect().width;
}"""
IN_ITS_BOX = """() => {
  const charts = [...document.querySelectorAll(".stPlotlyChart:has(.main-svg)")];
  const wide = each => each.getBoundingClientRect().width, drawn = each => wide(each.querySelector(".main-svg"));
  return charts.length > 1 && charts.every(each => Math.abs(drawn(each) / wide(each) - 1) < 0.02);
}"""


def test_a_small_projector_shows_bars_charts_on_a_whole_page_and_no_error_between_pages(
    visit: Callable[..., Page],
) -> None:
    page = visit("query_groups?model=mla&lesson=mla&lesson_step=5&only=stored&present=1")
    page.set_viewport_size({"width": 1024, "height": 768})
    page.wait_for_function(LONGEST_BAR, polling=50)
    page.wait_for_timeout(1000)
    assert page.evaluate(LONGEST_BAR) > 0.28  # beside labels that are as large as fits
    page.set_viewport_size({"width": 1280, "height": 720})
    turn_to(page, "rope?tab=longer&lesson=longer-contexts&lesson_step=3&present=1")  # no drawing alone
    page.wait_for_function(IN_ITS_BOX, polling=50)
    page.get_by_test_id("stBottom").evaluate("bar => { bar.remove(); dispatchEvent(new Event('resize')); }")
    page.wait_for_timeout(200)  # an error that nothing catches fails the test


RESTS = """() => {
  const at = document.querySelector("[data-testid=stMain]").scrollTop;
  window.places = [...(window.places ?? []), at].slice(-4);
  return window.places.length === 4 && window.places.every(place => place === at);
}"""


def test_a_lesson_on_a_phone_scrolls_and_a_long_press_reads_a_cell(visit: Callable[..., Page]) -> None:
    page = visit("heads?lesson=one-head&lesson_step=3", width=NARROW, scheme="dark")
    at_step(page, 3, "One head, large", "head-view")
    assert page.locator(".st-key-lesson-bar button:visible").count() >= 3
    assert page.locator("kbd:visible").count() == 0  # a phone has no keys
    buttons = page.get_by_test_id("stMain").locator("button:visible, summary:visible, select:visible")
    heights = buttons.evaluate_all("buttons => buttons.map(button => button.getBoundingClientRect().height)")
    assert len(heights) > 15 and min(heights) >= 40
    assert overflow(page) <= 0
    touch, box = page.context.new_cdp_session(page), page.locator(".st-key-head-view .map").bounding_box()
    at = {"x": box["x"] + box["width"] / 2, "y": box["y"] + box["height"] / 2}
    read = page.locator(".st-key-head-view .read")
    before = read.inner_text()
    touch.send("Input.dispatchTouchEvent", {"type": "touchStart", "touchPoints": [at]})
    expect(read).not_to_have_text(before)
    held = read.inner_text()
    touch.send("Input.dispatchTouchEvent", {"type": "touchEnd", "touchPoints": []})
    assert read.inner_text() == held and "query=" not in page.url  # the cell was read, not selected
    assert any(swiped_up(page, touch, at) > 80 for _ in range(5))
    page.wait_for_function(RESTS, polling=100)  # a tap during scrolling only stops the scrolling
    page.locator(".st-key-lesson-next button").tap()
    at_step(page, 4, "Where the weight goes", "lines")


def swiped_up(page: Page, touch: CDPSession, at: dict[str, float]) -> float:
    """Swipe up from there; return the pixels that the page scrolled.

    0 if a busy browser took so long for the first events that it was a long press.
    """
    scrolled = "document.querySelector('[data-testid=stMain]').scrollTop"
    top = page.evaluate(scrolled)
    for kind, up in (("touchStart", 0), *(("touchMove", 15 * i) for i in range(1, 15))):
        touch.send("Input.dispatchTouchEvent", {"type": kind, "touchPoints": [{**at, "y": at["y"] - up}]})
    touch.send("Input.dispatchTouchEvent", {"type": "touchEnd", "touchPoints": []})
    page.evaluate(REPAINTED)
    return page.evaluate(scrolled) - top
