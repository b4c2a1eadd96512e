"""RoPE page: clocks run without the server, and every control changes its figures."""

import math
import re
from collections.abc import Callable
from urllib.parse import quote

import pytest
from playwright.sync_api import Locator, Page, expect

from tests.browser.conftest import NARROW, count_messages, turn_to
from tests.browser.painted import cut_off, fits, hue_shares, painted_fraction, pixels, settle, trimmed
from tests.browser.sidebar import pick_model, take_option

TEXT = "one two three one two three"
SLOWEST = 10_000 ** (-22 / 24)  # radians per token, of pair 11 of the shipped checkpoints
HANDS = """(hand, n) => new Promise((resolve) => {
    const seen = [hand.getAttribute("transform")];
    const look = () => {
        const now = hand.getAttribute("transform");
        if (now !== seen[seen.length - 1]) seen.push(now);
        if (seen.length >= n) resolve(seen.map((t) => -parseFloat(t.slice(7)))); else requestAnimationFrame(look);
    };
    look();
})"""


def clock(page: Page, pair: int) -> Locator:
    return page.get_by_role("radio", name=re.compile(rf"^pair {pair}\b"))


def position(page: Page) -> Locator:
    return page.get_by_role("slider", name="Position")


def hand_positions(page: Page, n: int) -> list[float]:
    """Return the next n distinct positions of the hands, from the slowest one, which does not complete a turn."""
    degrees = clock(page, 11).locator(".hand").evaluate(HANDS, n)
    return [math.radians(d) / SLOWEST for d in degrees]


def press(page: Page, component: str, name: str) -> None:
    page.locator(component).get_by_role("button", name=name).click()


def title(page: Page, start: str) -> Locator:
    return page.get_by_role("heading", name=re.compile("^" + start))


def choose(page: Page, part: str) -> None:
    page.get_by_role("radio", name=part, exact=True).click()
    settle(page)


# ---- playback in the browser


def clocks_run(page: Page) -> None:
    position(page).fill("3")
    expect(page.locator(".rc-angle")).to_contain_text("Position 3, “")
    expect(page.locator(".rc .live")).to_contain_text("Position 3, “")
    turned = page.locator(".rc-angle").inner_text()  # 3.2 turns, or 0.48 of a turn
    degrees, turns, unit = re.search(r"by ([\d,.]+)°, ([\d,.]+) (turns?|of a turn);", turned).groups()
    assert float(turns) == pytest.approx(float(degrees.replace(",", "")) / 360, rel=0.05)
    assert unit == ("of a turn" if float(turns) < 1 else "turn" if float(turns) == 1 else "turns")
    expect(position(page)).to_have_attribute("aria-valuetext", re.compile("^3, “"))
    press(page, ".rc", "Play")
    assert any(
        abs(p - round(p)) > 0.02 for p in hand_positions(page, 6)
    )  # between integer positions: continuous motion
    press(page, ".rc", "Pause")
    (stopped,) = hand_positions(page, 1)
    assert stopped == pytest.approx(int(position(page).input_value()), abs=1e-6)


REPAINTS = """(hand, seconds) => new Promise((resolve) => {
    let seen = 0, last = null;
    const from = performance.now();
    const look = (now) => {
        const at = hand.getAttribute("transform");
        seen += at !== last;
        last = at;
        if (now - from < 1000 * seconds) requestAnimationFrame(look); else resolve(seen / seconds);
    };
    requestAnimationFrame(look);
})"""


def clocks_glide(page: Page) -> None:
    """The clocks are drawn up to 30 times per second, if the machine is fast enough."""
    press(page, ".rc", "Play")
    drawn = clock(page, 11).locator(".hand").evaluate(REPAINTS, 1)
    press(page, ".rc", "Pause")
    assert 10 < drawn <= 32  # a busy machine reaches a third; the limit is 30, plus one for timing


def now(page: Page) -> dict[str, tuple[str, str]]:
    """Return the numbers beside the arrows: {row: (unshifted, now)}, row names without the tokens."""
    rows = page.locator(".rp tbody tr").all_inner_texts()
    cells = (row.split("\t") for row in rows)
    return {re.sub(", “.*”", "", what): (unshifted, here) for what, unshifted, here in cells}


def pointing(page: Page, name: str, state: str = "after") -> float:
    """Return the angle of an arrow in radians."""
    turned = page.locator(f".rp .arrow.{name}.{state}").get_attribute("transform")
    return -math.radians(float(turned[len("rotate(") : -1]))


def both_arrows_turn_by_the_same_angle_and_the_score_stays(page: Page) -> None:
    started = now(page)
    angles = {name: pointing(page, name) for name in "qk"}
    page.get_by_role("slider", name="Shift both by").fill("7")
    frequency = 10_000 ** (-2 * pair_of(page) / 24)
    for name in "qk":
        turned = (pointing(page, name) - angles[name] - 7 * frequency) / (2 * math.pi)
        assert turned == pytest.approx(round(turned), abs=1e-4)
    shifted = now(page)
    still = [what for what, (unshifted, here) in shifted.items() if unshifted == here]
    assert still == ["score q·k/√24", f"pair {pair_of(page)} adds to q·k", "distance m − n"]
    assert {what: unshifted for what, (unshifted, _) in shifted.items()} == {
        what: here for what, (_, here) in started.items()
    }
    assert int(shifted["position m of q"][1]) == int(shifted["position m of q"][0]) + 7
    expect(page.locator(".rp .live")).to_contain_text("score q·k/√24: ")
    expect(page.get_by_role("slider", name="Shift both by")).to_have_attribute("aria-valuetext", "both shifted by 7")


def unshifted(page: Page) -> None:
    for name in ("Shift both by", "Shift only k by"):
        page.get_by_role("slider", name=name).fill("0")


def pair_of(page: Page) -> int:
    return int(re.search(r"pair (\d+) adds", page.locator(".rp table").inner_text())[1])


def the_score_changes_where_only_the_key_moves(page: Page) -> None:
    unshifted(page)
    started = now(page)
    page.get_by_role("slider", name="Shift only k by").press("ArrowRight")
    moved = now(page)
    assert moved["score q·k/√24"][1] != moved["score q·k/√24"][0] == started["score q·k/√24"][1]
    assert int(moved["distance m − n"][1]) == int(moved["distance m − n"][0]) - 1


def the_arrows_point_where_the_numbers_say(page: Page) -> None:
    unshifted(page)
    page.get_by_role("slider", name="Shift both by").fill("3")
    for name in "qk":
        written = now(page)[f"pair {pair_of(page)} of {name}, rotated"][1].replace("−", "-")
        x, y = map(float, written.strip("()").split(", "))
        assert math.cos(pointing(page, name) - math.atan2(y, x)) == pytest.approx(1, abs=0.01)


def the_score_stands_still_while_it_plays(page: Page) -> None:
    unshifted(page)
    started = now(page)
    press(page, ".rp", "Play")
    seen = page.locator(".rp .arrow.q.after").evaluate(HANDS, 6)
    assert len(set(seen)) == 6  # continuous motion
    assert now(page)["score q·k/√24"] == started["score q·k/√24"]
    press(page, ".rp", "Pause")


def the_arrows_step_where_less_motion_is_asked_for(page: Page) -> None:
    page.emulate_media(reduced_motion="reduce")
    unshifted(page)
    frequency, start = 10_000 ** (-2 * pair_of(page) / 24), pointing(page, "q")
    press(page, ".rp", "Play")
    seen = page.locator(".rp .arrow.q.after").evaluate(HANDS, 2)
    steps = [(math.radians(degrees) - start) / frequency for degrees in seen]
    turn = 2 * math.pi / frequency
    assert [step % turn for step in steps] == pytest.approx([0, 1], abs=1e-3)


def clocks_step_where_less_motion_is_asked_for(page: Page) -> None:
    page.emulate_media(reduced_motion="reduce")
    press(page, ".rc", "Play")
    stepped = hand_positions(page, 2)
    assert stepped == [pytest.approx(round(p), abs=1e-6) for p in stepped]


SILENT = (
    clocks_run,
    clocks_glide,
    both_arrows_turn_by_the_same_angle_and_the_score_stays,
    the_score_changes_where_only_the_key_moves,
    the_arrows_point_where_the_numbers_say,
    the_score_stands_still_while_it_plays,
    clocks_step_where_less_motion_is_asked_for,
    the_arrows_step_where_less_motion_is_asked_for,
)


RATE = """async () => {
  const of = (e) => e.shadowRoot?.querySelector(".rc") ?? (e.matches(".rc") ? e : null);
  const { state } = [...document.querySelectorAll("*")].map(of).find(Boolean);
  const [from, began] = [state.position, performance.now()];
  await new Promise((later) => setTimeout(later, 1000));
  return (1000 * (state.position - from)) / (performance.now() - began);
}"""


def a_change_does_not_make_the_clocks_run_faster_and_gives_them_the_hue_of_the_kv_head(page: Page) -> None:
    page.get_by_label("Tokens per second").select_option("1")
    position(page).fill("0")
    press(page, ".rc", "Play")
    painted = pixels(clock(page, 0))
    assert painted_fraction(painted) > 0.05
    pick_model(page, "MQA")
    expect(page.get_by_text("8 query heads read 1 KV head")).to_be_visible()
    settle(page)
    assert page.evaluate(RATE) == pytest.approx(1, abs=0.3)
    assert hue_shares(painted).argmax() != hue_shares(pixels(clock(page, 0))).argmax()  # another KV head, another hue


# ---- effects of the controls; of the base, the rotated share and RoPE itself: tests/ui/test_rope_controls.py


def a_chosen_clock_is_the_page_s_pair(page: Page) -> None:
    expect(clock(page, 3)).to_have_attribute("aria-checked", "true")
    clock(page, 0).click()
    expect(title(page, "At position 4, pair 0 of q is rotated by 229°")).to_be_visible()
    expect(page).to_have_url(re.compile("pair=0(&|$)"))
    clock(page, 0).press("ArrowRight")
    expect(title(page, "At position 4, pair 1 of q is rotated by 106°")).to_be_visible()
    settle(page)
    expect(clock(page, 1)).to_be_focused()
    expect(page.locator(".rc-angle")).to_contain_text("pair 1 is rotated by")
    expect(page.locator(".rc-equations")).to_contain_text("= 0.464159 rad per token")


def the_key_is_chosen_by_its_select_box(page: Page) -> None:
    assert now(page)["distance m − n"][0] == "3"
    box = page.get_by_role("combobox", name="Key token")
    box.scroll_into_view_if_needed()
    settle(page)  # a list opened while the page scrolls closes again
    listed = page.get_by_test_id("stSelectboxVirtualDropdown")  # the clocks' own selects have options too
    take_option(box, listed.get_by_role("option", name="0 one", exact=True), typed="0 one")
    settle(page)
    assert now(page)["distance m − n"][0] == "4"
    expect(page).to_have_url(re.compile("key=0(&|$)"))


def many_pairs_are_thinned_until_all_are_asked_for(page: Page) -> None:
    clocks = page.locator(".rc-clocks [role=radio]")
    expect(clocks).to_have_count(12)
    page.get_by_role("button", name="Show all 32 pairs").click()
    expect(clocks).to_have_count(32)
    page.get_by_role("button", name="Show 12 of 32 pairs").click()
    expect(clocks).to_have_count(12)


def test_clocks_and_arrows_turn_in_the_browser_alone_and_choices_reach_the_page(visit: Callable[..., Page]) -> None:
    page = visit(f"rope?tab=equal&text={quote(TEXT)}&query=4&key=1&pair=3")  # a tab with one chart
    page.emulate_media(reduced_motion="no-preference")
    sent = count_messages(page)
    for each in SILENT:
        each(page)
        assert sent() == 0, f"the server was asked: {each.__name__}"
    page.emulate_media(reduced_motion="no-preference")
    a_chosen_clock_is_the_page_s_pair(page)
    assert sent() > 0  # a choice sends a message, so the counter works
    the_key_is_chosen_by_its_select_box(page)
    a_change_does_not_make_the_clocks_run_faster_and_gives_them_the_hue_of_the_kv_head(page)
    turn_to(page, "rope?tab=equal&model=own&d_model=384&n_heads=6&n_layers=1")
    many_pairs_are_thinned_until_all_are_asked_for(page)


# ---- layout

PARTS = {  # {tab: beginning of a title on it}
    "Why values aren't rotated": "Over 11 shifts this output",
    "Two layouts": "Half-split pairs dimension 16 with 24, interleaved with 17",
    "Context extension": "Beyond 256 tokens the loss is",
    "No RoPE / partial RoPE": "Without RoPE: weights change by up to",
    "Decoupled RoPE (MLA)": "RoPE part: standard deviation",
    "Numerical checks": "Over 11 shifts up to 100,000 this score",
    "Only distance counts": "“.*” and “.*”: score",
}
BELOW_THE_TABS = "//h2[contains(., 'Look closer')]/following::*[@data-testid='stElementContainer']"


def whole(page: Page, part: str) -> None:
    """Expect the tab inside the window, without cut-off text."""
    fits(page)
    assert cut_off(page) == [], f"cut off in {part}"


SMALL = """() => {
  const found = [], look = (root) => {
    for (const e of root.querySelectorAll("*")) {
      if (e.shadowRoot) look(e.shadowRoot);
      const written = [...e.childNodes].some((c) => c.nodeType === Node.TEXT_NODE && c.data.trim());
      if (!written || !e.getBoundingClientRect().width || e.closest(".katex, script, style")) continue;
      const scale = e.ownerSVGElement ? Math.hypot(e.getScreenCTM().a, e.getScreenCTM().b) : 1;
      const size = scale * parseFloat(getComputedStyle(e).fontSize);
      if (size < 12) found.push([e.textContent.trim(), size]);
    }
  };
  look(document.querySelector("[data-testid=stMain]"));
  return found;
}"""


MAPS_OF_MLA = ("content", "position", "sum")


def test_every_part_fits_on_a_phone_and_its_labels_can_be_read_from_afar(visit: Callable[..., Page]) -> None:
    """A wide window: once for all, since no chart is narrower there. What is not in the window is not drawn."""
    page = visit("rope?model=mla", width=NARROW, scheme="dark")
    page.set_viewport_size({"width": NARROW, "height": 4500})
    for part, found in PARTS.items():
        choose(page, part)
        expect(title(page, found)).to_be_visible()
        whole(page, part)
        page.wait_for_function(f"() => ({SMALL})().length === 0", polling=50)
        assert trimmed(page.locator(BELOW_THE_TABS)) == [], f"cut off in {part}"
    page.set_viewport_size({"width": 1280, "height": 4500})
    settle(page)
    whole(page, "Only distance counts")
    assert trimmed(page) == []
    choose(page, "Decoupled RoPE (MLA)")
    whole(page, "Decoupled RoPE (MLA)")
    page.wait_for_function(f"() => ({SMALL})().length === 0", polling=50)
    assert len({page.locator(f".st-key-figure-mla-{key}").bounding_box()["y"] for key in MAPS_OF_MLA}) == 1
