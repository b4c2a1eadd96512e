"""Decoding step by step in the browser: stepping, choosing another candidate, and the written tokens in the link."""

import re
from collections.abc import Callable
from urllib.parse import parse_qs, urlsplit

import pytest
from playwright.sync_api import Page, expect

from attnviz.session.pages import PAGES
from tests.browser.conftest import NARROW, go, turn_to, viewport
from tests.browser.painted import fits, hue_shares, painted_fraction, pixels, settle
from tests.browser.server import Server

NEWEST = """root => [...root.querySelectorAll(".maps canvas")].map((canvas) => {
  const y = canvas.height - Math.round(canvas.height / 50), n = canvas.width - 2; // the middle of the outlined last row
  const row = new Uint32Array(canvas.getContext("2d").getImageData(0, y, n, 1).data.buffer);
  return row.findLastIndex((colour) => colour !== row[n - 1]) / canvas.width;
})"""  # the share of the row that is not masked


BARS = """plot => [...plot.querySelectorAll(".barlayer .trace")].map((trace, i) => {
  const values = plot.querySelector(".js-plotly-plot").data[i].y;
  return [...trace.querySelectorAll("path")].map((path, j) => {
    const { y, height } = path.getBBox();
    return [values[j], y, y + height];
  });
})"""


# Without the delay of dimming: of its looks, one in 20 ms and one at each change, how many saw the player outdated, and
# how many dimmed.
WATCH = """player => {
  window.looks = { outdated: 0, dimmed: 0 };
  const look = () => {
    if (player.dataset.stale !== "true") return;
    looks.outdated++;
    looks.dimmed += getComputedStyle(player).opacity < 1;
  };
  setInterval(look, 20);
  new MutationObserver(look).observe(player, { attributes: true }); // it can be outdated for less than a frame
}"""
# How strong an outdated player is: before and after a click elsewhere, which may change the text or a setting.
CLICKED_ELSEWHERE = """player => {
  const opacity = () => +getComputedStyle(player).opacity, before = player.dataset.stale, seen = [];
  player.dataset.stale = "true";
  seen.push(opacity());
  document.body.dispatchEvent(new Event("pointerdown", { bubbles: true }));
  seen.push(opacity());
  player.dataset.stale = before;
  return seen;
}"""
# Returns to another text; the player sends its position in this one before it has the answer.
BACK_THEN_AT = "(radio, { view }) => { radio.click(); view.send('at', [0, view.d.placed]); }"


def press(page: Page, name: str) -> None:
    page.locator(".dp").get_by_role("button", name=name, exact=True).click()


def test_a_text_is_written_taken_back_and_continued_otherwise_and_a_phone_shows_every_part(
    visit: Callable[..., Page], server: Server
) -> None:
    page = visit("decode")
    player, new = page.locator(".dp"), page.locator(".dp .text .new")
    expect(new).to_have_count(0)
    expect(player.get_by_text("The caches hold 29 tokens")).to_be_visible()
    expect(player.get_by_text("= 89,088 B; 89,088 B counted in the live tensors")).to_be_visible()
    for n in range(3):  # a step draws one new row at the bottom of each map
        assert player.evaluate(NEWEST) == pytest.approx([(29 + n) / (29 + 24 - 1)] * 8, abs=0.02)
        press(page, "One token on")
    expect(new).to_have_count(3)
    expect(player.get_by_text("The caches hold 32 tokens")).to_be_visible()
    expect(page).to_have_url(re.compile(r"written=\d+\.\d+\.\d+$"))
    press(page, "One token back")
    expect(new).to_have_count(2)
    expect(page).to_have_url(re.compile("shown=2"))
    settle(page)
    first = new.all_inner_texts()

    others = player.locator(".candidates tr:not(.chosen) button")
    expect(player.get_by_role("heading", name=re.compile(r"^Next: “.*”, probability 0\.\d{4}"))).to_be_visible()
    word, dated = others.first.inner_text(), page.get_by_role("heading", name=re.compile("1 token instead of 32"))
    expect(dated).to_be_visible()  # it follows once the player rests
    others.first.click()
    expect(new).to_have_count(3)
    settle(page)
    expect(dated).to_be_visible()
    assert new.all_inner_texts() == [*first, word.replace("·", " ")]
    expect(page.get_by_role("radio", name=re.compile("^Back to “"))).to_be_visible()  # the earlier continuation
    written = parse_qs(urlsplit(page.url).query)["written"]

    player.get_by_label("Tokens per second").select_option("30")
    player.get_by_label("Tokens to run").fill("4")
    press(page, "run")
    expect(new).to_have_count(3 + 4)
    expect(player.get_by_role("button", name="▶ play")).to_be_visible()  # it has stopped
    page.wait_for_timeout(300)  # long enough for nine tokens
    assert new.count() == 3 + 4

    undelayed = page.add_style_tag(content="[data-stale] { transition: none !important; }")
    player.get_by_label("Tokens to run").fill("40")
    page.locator(".st-key-decode-player").evaluate(WATCH)
    player.evaluate("root => { root.view.d.steps.length -= 3 }")  # as if an answer had not reached the browser
    press(page, "run")  # the server generates more during playback
    expect(new).to_have_count(7 + 40, timeout=30_000)
    looks = page.evaluate("looks")
    assert looks["outdated"] and not looks["dimmed"], looks  # a user sees it at full strength throughout
    assert page.locator(".st-key-decode-player").evaluate(CLICKED_ELSEWHERE) == [1, 0.33]
    undelayed.evaluate("style => style.remove()")
    expect(player.get_by_role("button", name="▶ play")).to_be_visible()
    player.get_by_role("button", name="Head 5").click()
    expect(player.get_by_role("button", pressed=True)).to_have_accessible_name(
        re.compile("^Head 5, which reads KV head 2")
    )
    expect(
        player.get_by_role("heading", name=re.compile("Layer 1, H5: query 75 “.*” attends most to key"))
    ).to_be_visible()
    expect(page).to_have_url(re.compile("head=5"))
    settle(page)
    for image in (pixels(player.locator(".caches")), pixels(player.locator(".maps canvas").first)):
        assert painted_fraction(image) > 0.1 and hue_shares(image).max() > 0.01

    expect(page).to_have_url(re.compile(r"written=(\d+\.){46}\d+"))
    page.get_by_role("button", name="Lines of this step").click()
    expect(page.get_by_text("is read with 75 tokens in the cache")).to_be_visible()
    expect(page.locator(".sw")).to_be_visible()
    page.get_by_role("button", name="Back to Decode").click()
    expect(new).to_have_count(7 + 40)
    player.evaluate("root => { window.left = root.view }")
    press(page, "▶ play")
    expect(new).not_to_have_count(7 + 40)
    page.get_by_role("link", name="Overview", exact=True).click()
    page.wait_for_function(
        "!left.root.isConnected && !left.timer"
    )  # the player of a page that was left requests nothing

    go(page, server, f"decode?written={written[0]}")
    written_texts = [*first, word.replace("·", " ")]
    assert new.all_inner_texts() == written_texts

    seed = page.get_by_role("spinbutton", name="Seed")
    seed.fill("5")
    seed.press("Enter")
    expect(new).to_have_count(0)
    late = player.evaluate("({ view }) => [0, view.d.placed]")
    page.get_by_role("radio", name=re.compile("^Back to “.*”, seed 0$")).evaluate(BACK_THEN_AT, player.element_handle())
    expect(new).to_have_text(written_texts)
    page.wait_for_timeout(1500)  # until the player has sent where it is
    player.evaluate("({ view }, late) => view.send('at', late)", late)
    settle(page)
    assert "shown=" not in page.url
    page.reload()
    expect(new).to_have_text(written_texts)
    expect(seed).to_have_value("0")  # it continues as it was sampled

    turn_to(page, f"decode?written={'.'.join(['5'] * (512 - 29))}&window=8")
    expect(player.get_by_text("it is not cached yet. 512 tokens: the maximum here.")).to_be_visible()
    expect(player.get_by_text("Prompt and continuation have 512 tokens; training rows had 256.")).to_be_visible()
    expect(player.get_by_text("The caches hold 511 tokens; the newest query attends to 8")).to_be_visible()

    turn_to(page, "decode?written=384.440.852.748&shown=2&temperature=1&penalty=1.2")
    the_probability_of_the_draw_is_that_of_the_last_column(page)

    page.emulate_media(color_scheme="dark")
    page.set_viewport_size(viewport(NARROW))
    turn_to(page, f"decode?tab=bounded&text=小女孩 found a 🐈.&{SMALL}")
    on_a_phone_it_fits_and_its_parts_are_drawn(page)


def the_probability_of_the_draw_is_that_of_the_last_column(page: Page) -> None:
    player = page.locator(".dp")
    in_model, in_draw = (player.locator(f".candidates .chosen td:{at}") for at in ("nth-child(2)", "last-child"))
    expect(in_model).to_have_text(re.compile(r"^0\.\d{4}$"))
    both = f"probability {in_model.inner_text()} in the model, {in_draw.inner_text()} as sampled"
    assert in_model.inner_text() != in_draw.inner_text()
    expect(player.get_by_role("heading", name=re.compile(f"^Next: “.*”, {re.escape(both)}"))).to_be_visible()
    press(page, "One token on")
    expect(player.get_by_text(f"3 written, the last with {both}")).to_be_visible()
    assert player.locator(".text .new").last.get_attribute("title") == both


# One small layer: what is computed for these tabs is not what is looked at.
SMALL = "model=own&n_layers=1&n_heads=2&n_kv_heads=1&d_model=16"


def on_a_phone_it_fits_and_its_parts_are_drawn(page: Page) -> None:
    expect(page.get_by_role("heading", name=re.compile("^After 48 tokens: loss"))).to_be_visible()
    fits(page)
    expect(page.get_by_test_id("stMain").get_by_label("Seed", exact=True)).to_be_hidden()
    page.get_by_text("min-p, repetition penalty, seed, layer").click()
    expect(page.get_by_test_id("stMain").get_by_label("Seed", exact=True)).to_be_visible()
    fits(page)
    for tab in ("models", "paged", "speculate", "roofline"):
        page.get_by_role("radio", name=PAGES["decode"].tabs[tab], exact=True).click()
        expect(page).to_have_url(re.compile(f"tab={tab}"))
        settle(page)
        expect(page.get_by_test_id("stPlotlyChart").first).to_be_visible()
        fits(page)
        if tab == "speculate":
            each_bar_is_as_long_as_its_number(page)


def each_bar_is_as_long_as_its_number(page: Page) -> None:
    """Accepted and the model's own lie above each other over zero, rejected below."""
    accepted, own, rejected = page.locator(".st-key-figure-rounds").get_by_test_id("stPlotlyChart").evaluate(BARS)
    unit = own[0][2] - own[0][1]
    for value, top, bottom in (*accepted, *own, *rejected):
        assert bottom - top == pytest.approx(abs(value) * unit, abs=0.1)
    zero = max(bottom for _, _, bottom in accepted + own)
    assert any(value for value, _, _ in accepted) and any(value for value, _, _ in rejected)
    assert all(top == pytest.approx(zero, abs=0.1) for value, top, _ in rejected if value)
    assert all(o[2] == pytest.approx(a[1] if a[0] else zero, abs=0.1) for a, o in zip(accepted, own, strict=True))
