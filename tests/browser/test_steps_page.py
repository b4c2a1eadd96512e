"""Step by step page in the browser: from the text to the prediction with the keyboard, without server requests."""

import re
from collections.abc import Callable
from itertools import pairwise

from playwright.sync_api import Page, Request, expect

from tests.browser.conftest import NARROW, WIDE, turn_to, viewport
from tests.browser.painted import fits, hue_shares, painted_fraction, pixels, settle
from tests.browser.sidebar import take_option

WALK = ".sw"


HERE = """walk => [".path b", ".row.here code"].map(name => walk.querySelector(name).innerText.trim()).join(": ")"""


def here(page: Page) -> str:
    """Return the call and the line that are shown."""
    return page.locator(WALK).evaluate(HERE)


# Presses arrow keys until a line has these words: into each call, or over it. Returns the lines. A key that a person
# presses takes a hundred times as long.
PRESSED = f"""(walk, {{ until, into }}) => {{
  const seen = [({HERE})(walk)], down = walk.querySelector("[data-go=into]");
  while (seen.length < 99 && !seen.at(-1).includes(until)) {{
    const key = into && !down.disabled ? "ArrowDown" : "ArrowRight";
    walk.dispatchEvent(new KeyboardEvent("keydown", {{ key, bubbles: true, composed: true }}));
    seen.push(({HERE})(walk));
  }}
  return seen;
}}"""


def pressed(page: Page, until: str, into: bool = False) -> list[str]:
    found = page.locator(WALK).evaluate(PRESSED, {"until": until, "into": into})
    assert until in found[-1]
    return found


def the_keyboard_walks_from_the_embedding_into_attention_and_to_the_logits(page: Page) -> None:
    page.locator(WALK).focus()
    asked: list[str] = []

    def hear(request: Request) -> None:
        if "/static/" not in request.url:
            asked.append(request.url)

    page.on("request", hear)
    assert "def forward" in here(page)
    expect(page.locator(".sw .title")).to_have_text("ids (B, T) = (1, 29)")
    a_docstring_is_folded_to_its_first_line(page)
    pressed(page, "embed")
    for key in ("ArrowRight", "ArrowRight", "ArrowDown"):  # layer 0, the block of layer 1, its first line
        page.keyboard.press(key)
    assert here(page).startswith(("attn_norm", "blocks.1"))
    pressed(page, "self.attn(")
    seen = pressed(page, "F.linear(x", into=True)
    for line in ("q = q_pre_rope", "scores = torch.einsum", "softmax(-1)", "hidden = F.silu"):
        assert any(line in each for each in seen), line
    expect(page.locator(".sw .title")).to_contain_text("vocab_size")
    the_address_says_the_step(page)
    page.remove_listener("request", hear)  # the tests after this one have the same tab
    assert asked == []  # the only message, about the last step, uses the websocket


def a_docstring_is_folded_to_its_first_line(page: Page) -> None:
    rows, fold = page.locator(".sw .docstring"), page.locator(".sw .fold")
    expect(fold).to_have_text(f"… {rows.count()} more lines")
    expect(rows.first).to_be_hidden()
    fold.click()
    expect(rows.last).to_have_text(re.compile('"""$'))
    expect(rows.last).to_be_visible()
    fold.click()
    expect(rows.last).to_be_hidden()
    page.locator(WALK).focus()


# Clicks the main button until the last line; a step is drawn at once. Returns each step and its function.
CLICKED_THROUGH = """walk => {
  const next = walk.querySelector("[data-go=next]"), seen = [];
  while (!next.disabled && seen.length < 999) {
    next.click();
    const at = walk.querySelector("[data-stop][aria-current=step]");
    seen.push([at.dataset.stop, walk.querySelector(".path small").innerText.split(" · ")[0].trim()]);
  }
  return seen;
}"""


def the_main_button_walks_every_line_and_over_passes_calls(page: Page) -> None:
    button = lambda name: page.locator(f".sw [data-go={name}]")  # noqa: E731
    step = page.locator(".sw [data-stop][aria-current=step]")
    n = page.locator(".sw [data-stop]").count()
    page.locator(".sw .tick").first.click()
    expect(button("back")).to_be_disabled()
    expect(button("before")).to_be_disabled()
    button("next").click()
    assert step.get_attribute("data-stop") == "1"
    seen = page.locator(WALK).evaluate(CLICKED_THROUGH)
    assert [stop for stop, _ in seen] == [str(at) for at in range(2, n)]
    functions = {function for _, function in seen}
    assert {"Block.forward", "RMSNorm.forward", "GroupedQueryAttention.forward", "attend", "rotate_pairs"} <= functions
    page.locator(".sw .tick").nth(2).click()
    assert step.get_attribute("data-stop") == "2"  # its function was called by a line that made no tensor
    button("over").click()
    assert here(page).startswith("Transformer: x = self.embed(")
    button("back").click()
    button("out").click()
    assert step.get_attribute("data-stop") == "0"
    page.locator(".sw .tick").last.click()
    for name in ("next", "over", "into"):
        expect(button(name)).to_be_disabled()
    page.locator(WALK).focus()
    page.keyboard.press("ArrowRight")  # there is no further line
    assert step.get_attribute("data-stop") == str(n - 1)
    button("back").click()
    assert step.get_attribute("data-stop") == str(n - 2)
    the_address_says_the_step(page)


def over_stays_in_the_function(page: Page) -> None:
    page.locator(".sw .tick").nth(6).click()
    assert "attend(" not in here(page) and here(page).startswith("blocks.1: x = x + self.attn(")
    page.locator(".sw [data-go=over]").click()
    assert here(page) == "blocks.1: return x + self.ffn(self.ffn_norm(x))"
    page.locator(".sw [data-go=before]").click()
    page.locator(WALK).focus()
    page.keyboard.press("o")
    assert here(page) == "blocks.1: return x + self.ffn(self.ffn_norm(x))"
    page.keyboard.press("Shift+O")
    page.keyboard.press("Shift+O")  # the first line of a function: to the line that called it
    assert "x = block(x" in here(page)
    the_address_says_the_step(page)


def a_link_opens_its_step_the_line_of_the_softmax(page: Page) -> None:
    the_address_says_the_step(page)
    expect(page.locator(".sw .sum")).to_contain_text("exp(")
    expect(page.locator(".sw .chips [aria-pressed=true]")).to_have_text("softmax(…)")
    expect(page.locator(".sw .does")).to_contain_text("What this line is for. Masks the scores")
    expect(page.locator(".sw .from figcaption")).to_have_count(1)
    page.locator(".sw .chips button", has_text="weights").click()
    canvas = page.locator(".sw .main canvas")
    box = canvas.bounding_box()
    canvas.click(position={"x": box["width"] * 0.4, "y": box["height"] * 0.95})
    settle(page)
    expect(page.locator(".sw .chips [aria-pressed=true]")).to_have_text("weights")  # the tensor that was clicked


def the_address_says_the_step(page: Page) -> None:
    step = page.locator(".sw [data-stop][aria-current=step]").get_attribute("data-stop")
    expect(page).to_have_url(re.compile(f"step={step}(&|$)"))


def an_entry_that_is_clicked_is_computed_and_chosen_everywhere(page: Page) -> None:
    go_to(page, "scores = torch.einsum")
    canvas = page.locator(".sw .main canvas")
    box = canvas.bounding_box()
    canvas.click(position={"x": box["width"] * 0.6, "y": box["height"] * 0.9})
    settle(page)
    expect(page).to_have_url(re.compile("query=2[0-9].*key=1[0-9]|key=1[0-9].*query=2[0-9]"))
    place = page.locator(".sw .sum").inner_text()
    query, key = re.search(r"query=(\d+)", page.url)[1], re.search(r"key=(\d+)", page.url)[1]
    assert f"row {query} " in place and f"column {key} " in place
    assert "einsum" in page.locator(".sw .row.here").first.inner_text()


def go_to(page: Page, code: str) -> None:
    page.locator(".sw select").select_option(label=page.locator(".sw option", has_text="attend").first.inner_text())
    page.locator(".sw button.row", has_text=code).click()


def pictures_are_painted_in_the_hue_of_the_kv_head(page: Page) -> None:
    go_to(page, "scores.add_(bias)")
    weights = page.locator(".sw .main canvas")
    assert painted_fraction(pixels(weights)) > 0.1
    first = hue_shares(pixels(weights)).argmax()
    choose(page, "Head", "Head 6")
    assert hue_shares(pixels(page.locator(".sw .main canvas"))).argmax() != first


def choose(page: Page, label: str, option: str) -> None:
    take_option(page.get_by_label(label, exact=True).first, page.get_by_role("option", name=option, exact=True))
    settle(page)


def playing_goes_on_by_itself_and_pauses(page: Page) -> None:
    page.locator(WALK).focus()
    page.keyboard.press(" ")
    line = page.locator(".sw .row.here code").first
    for _ in range(2):
        expect(line).not_to_have_text(line.inner_text(), timeout=5000)
    page.keyboard.press(" ")
    expect(page.locator("[data-go=play]")).to_contain_text("play")
    the_address_says_the_step(page)


def a_cell_of_the_lens_is_clicked_into(page: Page) -> None:
    table = page.get_by_test_id("stDataFrame")
    table.scroll_into_view_if_needed()
    box = table.bounding_box()
    table.click(position={"x": box["width"] / 2, "y": 90})  # the second row of cells: layer 0
    expect(page).to_have_url(re.compile("lens=0"))
    settle(page)
    query = re.search(r"query=(\d+)", page.url)[1]
    assert page.get_by_text(f"next tokens after token {query}, read after layer 0").count() == 1


STEPPED = {  # {assertion: URL, or "" to go on where the one before has ended}
    a_link_opens_its_step_the_line_of_the_softmax: "steps?step=24",
    an_entry_that_is_clicked_is_computed_and_chosen_everywhere: "",
    pictures_are_painted_in_the_hue_of_the_kv_head: "",
    the_keyboard_walks_from_the_embedding_into_attention_and_to_the_logits: "steps?step=0",
    the_main_button_walks_every_line_and_over_passes_calls: "",
    over_stays_in_the_function: "",
    playing_goes_on_by_itself_and_pauses: "",
}


def test_the_steps_are_walked_played_and_clicked(turns: Callable) -> None:
    opened = turns(filter(None, STEPPED.values()))
    for each, address in STEPPED.items():
        if address:
            _, page = next(opened)
        each(page)


# Repaints the tensor by stepping on and back and returns the numbers of its columns: [left, right].
NUMBERED = """walk => {
  const canvas = walk.querySelector("canvas"), pen = CanvasRenderingContext2D.prototype;
  const { fillText, scale } = pen, found = [];
  pen.scale = function (...ratio) {
    if (this.canvas === canvas) found.length = 0;  // a drawing begins
    scale.apply(this, ratio);
  };
  pen.fillText = function (text, x, y) {
    const half = this.measureText(text).width / 2;
    if (this.canvas === canvas && y === 8) found.push([x - half, x + half, text]);
    fillText.apply(this, arguments);
  };
  for (const key of ["ArrowRight", "ArrowLeft"])
    walk.dispatchEvent(new KeyboardEvent("keydown", { key, bubbles: true, composed: true }));
  Object.assign(pen, { fillText, scale });
  return [canvas.getBoundingClientRect().width, found.sort((a, b) => a[0] - b[0])];
}"""


def test_the_numbers_of_columns_are_whole_and_apart(visit: Callable[..., Page]) -> None:
    addresses = (
        (f"steps?step=0&query=127&text={'The+king+said+no.+' * 60}", "(1, 128)"),
        ("steps?tab=step&step=0", "logits"),
    )
    for address, title in addresses:  # three digits, the marked one last; those of the vocabulary
        page = visit(address, width=WIDE)
        expect(page.locator(".sw .title")).to_contain_text(title)
        expect(page.locator(".sw")).to_contain_text(
            re.compile(r"Drawn: columns \d+ to \d+ of (128|2048)\.")
        )  # all its rows are
        width, numbers = page.locator(WALK).evaluate(NUMBERED)
        assert len(numbers) > 3 and numbers[-1][1] <= width + 0.5, (address, width, numbers)
        assert all(after[0] - before[1] > 2 for before, after in pairwise(numbers)), (address, numbers)


HOSTILE = "%3Cscript%3Ealert(1)%3C%2Fscript%3E%20%F0%9F%91%A9%E2%80%8D%F0%9F%91%A9%E2%80%8D%F0%9F%91%A7%20%E4%B8%AD"
PARTS = [  # with any text
    "tab=tiles&model=own&text=a",
    f"tab=residual&model=own&text={HOSTILE}",
    f"tab=lens&causal=0&query=120&text={'The+king+said+no.+' * 60}",  # only a part is recorded; no mask
]


def test_it_fits_with_any_text_on_a_phone_the_source_is_above_and_a_cell_of_the_lens_is_clicked(
    visit: Callable[..., Page],
) -> None:
    page = visit(f"steps?step=30&text={HOSTILE}", width=1280)
    source, made = boxes(page)
    assert source["x"] + source["width"] <= made["x"]
    page.set_viewport_size(viewport(NARROW))
    settle(page)
    source, made = boxes(page)
    assert source["y"] + source["height"] <= made["y"]
    for part in PARTS:
        turn_to(page, f"steps?{part}")
        expect(page.get_by_test_id("stPlotlyChart").first).to_be_visible()
        fits(page)
    page.set_viewport_size(viewport(WIDE))
    turn_to(page, "steps?tab=lens")
    a_cell_of_the_lens_is_clicked_into(page)
    page.set_viewport_size({"width": 1280, "height": 720})
    what_is_scrolled_behind_the_header_can_be_used(page)


def what_is_scrolled_behind_the_header_can_be_used(page: Page) -> None:
    """As after a link to a tab, which opens with the tabs at the window's top."""
    box = page.get_by_role("combobox", name="Query token").first
    box.evaluate("box => box.scrollIntoView()")
    settle(page)
    at = box.bounding_box()
    assert at["y"] + at["height"] / 2 < page.get_by_test_id("stHeader").bounding_box()["height"]
    page.mouse.click(at["x"] + 9, at["y"] + 9)
    expect(page.get_by_role("option").first).to_be_visible()
    page.keyboard.press("Escape")


def boxes(page: Page) -> tuple[dict, dict]:
    """Check that the pictures are painted inside the window; return the boxes of the source and of the tensors."""
    fits(page)
    assert all(painted_fraction(pixels(canvas)) > 0.005 for canvas in page.locator(".sw canvas:visible").all())
    return page.locator(".sw .code").bounding_box(), page.locator(".sw .made").bounding_box()
