"""Practice page in the browser: choosing a cell, moving lines, the interview's clock, the user's own file."""

import re
from collections.abc import Callable

from playwright.sync_api import Page, expect

from attnviz.practice.drills import KINDS, Question, question_set
from tests.browser.conftest import NARROW, turn_to
from tests.browser.painted import fits, painted_fraction, pixels, settle
from tests.browser.server import serve
from tests.browser.test_accessible import is_streamlits_own, serious, show_all
from tests.practice.answers import ANSWERS

ASKS_BEFORE_IT_CLOSES = "!window.dispatchEvent(new Event('beforeunload', { cancelable: true }))"
GAP, TICKS = 24, 18  # of a map: left of its columns, above its rows


def set_with(kind: str, n: int = 2, at: int = 0) -> tuple[str, list[Question]]:
    """Return the URL of a set with this kind of question at a place, by default the first, and its questions."""
    subject, level = KINDS[kind].subject, KINDS[kind].level
    seed = next(s for s in range(999) if question_set(subject, level, n, s)[at].kind == kind)
    address = f"practice?subject={subject}&level={level}&questions={n}&question_set={seed}"
    return address, question_set(subject, level, n, seed)


def press(page: Page, name: str) -> None:
    page.get_by_role("button", name=name, exact=True).click()


def start(page: Page) -> None:
    press(page, "Start")
    page.get_by_text("Question 1 of").wait_for()
    settle(page)


# Lets the countdown, which looks at this clock, run ahead.
FAST_FORWARD = """minutes => {
  const now = performance.now.bind(performance);
  performance.now = () => now() + 60_000 * minutes;
}"""


def test_the_interview_on_a_phone_has_a_clock_and_no_feedback_and_its_link_asks_the_same(
    visit: Callable[..., Page],
) -> None:
    page = visit("practice?tab=interview&question_set=11", NARROW)
    press(page, "Start the interview")
    page.get_by_text("Question 1 of 10").wait_for()
    asked = page.locator("[data-testid=stMain] h2").first
    expect(asked).to_have_text(question_set("", 3, 10, 11)[0].text)
    left = page.get_by_role("timer")
    expect(left).to_have_text(re.compile(r"1[45]:\d\d left"))
    settle(page)
    fits(page)
    assert not page.evaluate(ASKS_BEFORE_IT_CLOSES)  # nothing would be lost
    page.evaluate(FAST_FORWARD, 10)
    expect(left).to_have_text(re.compile(r"[45]:\d\d left"))
    page.evaluate(FAST_FORWARD, 10)
    expect(left).to_have_text(re.compile(r"14:\d\d left"))  # the server's time, which has barely advanced
    expect(page.get_by_text("Question 1 of 10")).to_be_visible()
    press(page, "I do not know")  # all ten: tests/ui/test_practice_page.py
    page.get_by_text("Question 2 of 10").wait_for()
    assert page.get_by_text("The answer is").count() == 0
    settle(page)
    press(page, "End here")
    press(page, "End now")
    page.get_by_text("0 of 10 right").wait_for()
    page.get_by_text("To look at again").wait_for()
    expect(page.get_by_text(re.compile(r"\d:\d\d left"))).to_have_count(0)


# Sees whether one could press Start before the page shows what runs in this tab.
STARTS = """addEventListener("DOMContentLoaded", () => {
  const look = () => {
    const start = document.querySelector(".st-key-start-interview button");
    window.couldStart ||= !!start && getComputedStyle(start).visibility === "visible";
    requestAnimationFrame(look);
  };
  look();
})"""


def test_an_interview_goes_on_after_a_reload_and_in_another_tab_until_it_is_dropped(
    visit: Callable[..., Page], watched: Callable[[Page], Page]
) -> None:
    """All of what is kept: tests/compute/test_unfinished.py and tests/ui/test_practice_kept.py."""
    address, third = "practice?tab=interview&question_set=11", question_set("", 3, 10, 11)[2].text
    page = visit(address)
    press(page, "Start the interview")
    for n in (1, 2):
        page.get_by_text(f"Question {n} of 10").wait_for()
        settle(page)
        press(page, "I do not know")
    page.get_by_text("Question 3 of 10").wait_for()
    settle(page)
    page.evaluate(FAST_FORWARD, 30)  # as a computer that slept: it counts one minute
    page.wait_for_function("+localStorage['attnviz-left']?.split(' ')[1] < 850")  # it is noted each second
    page.add_init_script(STARTS)
    page.reload()
    page.get_by_text("You went on where you were; the time away is not counted.").wait_for()
    expect(page.locator("[data-testid=stMain] h2").first).to_have_text(third)
    expect(page.get_by_role("timer")).to_have_text(re.compile(r"1[34]:\d\d left"))
    assert not page.evaluate("window.couldStart")
    settle(page)

    other = watched(page.context.new_page())
    other.goto(page.url.split("practice")[0])
    offered = other.get_by_role("button", name=re.compile("Go on with the mock interview with 10 questions to compute"))
    expect(offered).to_contain_text("question 3 of 10, 14 minutes left")
    settle(other)
    offered.click()
    expect(other.locator("[data-testid=stMain] h2").first).to_have_text(third)
    press(other, "I do not know")
    other.get_by_text("Question 4 of 10").wait_for()
    page.bring_to_front()
    page.get_by_text("Question 4 of 10").wait_for()  # the first tab follows
    settle(page)
    press(page, "End here")
    press(page, "End now")
    page.get_by_text("0 of 10 right").wait_for()
    press(page, "Done")
    page.get_by_role("button", name="Start the interview").wait_for()
    settle(page)
    other.bring_to_front()
    other.get_by_text("It was ended in another tab").wait_for()
    page.reload()
    page.get_by_role("button", name="Start the interview").wait_for()
    settle(page)
    expect(page.get_by_text("Go on with")).to_have_count(0)


def test_a_cell_is_clicked_lines_are_moved_and_the_card_is_saved(visit: Callable[..., Page]) -> None:
    address, (question, _) = set_with("strongest_key")
    page = visit(address)
    start(page)
    canvas = page.locator(".am canvas").first
    assert painted_fraction(pixels(canvas)) > 0.2
    (row, column), n = question.answer.cell, len(question.answer.values)
    size = min(42, (canvas.bounding_box()["width"] - GAP - 2) / n)
    canvas.click(position={"x": GAP + (column + 0.5) * size, "y": TICKS + (row + 0.5) * size})
    page.get_by_text(f"Chosen: query {row}, key {column}").wait_for()
    show_all(page)
    assert [each for each in serious(page) if not is_streamlits_own(each)] == []
    press(page, "Answer")
    page.get_by_text("Right:").wait_for()
    next_question = page.get_by_role("button", name="Next question")
    expect(next_question).to_be_focused()  # the pressed button is gone
    page.keyboard.press("Enter")
    page.get_by_text("Question 2 of 2").wait_for()
    field = page.locator("[data-testid=stForm]").locator("input, button").first
    expect(field).to_be_focused()
    page.get_by_role("link", name="Lessons", exact=True).first.click()
    page.get_by_role("heading", name="Lessons", level=1).wait_for()
    settle(page)
    turn_to(page, address)  # the question is open again, and nothing has the focus
    expect(field).to_be_focused()
    press(page, "I do not know")
    press(page, "Score card")
    page.get_by_text("1 of 2 right").wait_for()
    with page.expect_download() as started:
        press(page, "Save the score card for printing")
    assert "1 of 2 right" in started.value.path().read_text(encoding="utf-8")

    address, (question, _) = set_with("lines_of_attention")
    press(page, "Done")
    settle(page)
    turn_to(page, address)
    start(page)
    lines = page.locator(".ol li")
    expect(lines).to_have_count(6)
    for place, item in enumerate(question.answer.order):  # each line is moved up to its place with its button
        line = lines.filter(has_text=question.answer.items[item])
        while not lines.nth(place).inner_text().count(question.answer.items[item]):
            line.get_by_role("button", name="Move up").click()
    settle(page)
    press(page, "Answer")
    page.get_by_text("Right: the order below").wait_for()


def test_the_first_line_has_the_focus_so_that_enter_does_not_submit_the_shuffled_order(
    visit: Callable[..., Page],
) -> None:
    address, (_, question) = set_with("lines_of_attention", at=1)
    page = visit(address)
    start(page)
    press(page, "I do not know")
    expect(page.get_by_role("button", name="Next question")).to_be_focused()
    page.keyboard.press("Enter")
    line = page.locator(".ol li").first
    expect(line.get_by_role("button", name="Move up")).to_be_focused()
    page.keyboard.press("Enter")  # the first line cannot move up
    settle(page)
    expect(line).to_contain_text(question.answer.items[0])
    press(page, "Answer")
    page.get_by_text("Wrong: your order.").wait_for()
    page.get_by_text("Your order", exact=True).wait_for()
    page.get_by_text("Right order", exact=True).wait_for()


# A spinner that turns while the file is run for seconds takes as much processor time as all the rest.
STILL = """addEventListener("DOMContentLoaded", () => {
  const still = new CSSStyleSheet();
  still.replaceSync("*, ::before, ::after { animation: none !important }");
  document.adoptedStyleSheets.push(still);
})"""


def test_ones_own_file_is_shown_at_every_save(tmp_path, tab: Callable[..., Page]) -> None:
    file, right = tmp_path / "gqa.py", ANSWERS["gqa"][0]
    tiled = right.replace(
        "repeat_interleave(self.n_heads // self.n_kv_heads, 1)", "repeat(1, self.n_heads // self.n_kv_heads, 1, 1)"
    )
    file.write_text(f'TASK = "gqa"\n{tiled}')
    with serve(env={"ATTNVIZ_CODE": str(file)}) as own:
        page = tab()
        page.add_init_script(STILL)
        page.goto(f"{own.url}/practice?tab=write&layer=1&head=3")
        page.get_by_text("KV heads tiled").wait_for()
        page.get_by_text("They differ by up to").wait_for()
        page.get_by_text("3: yours ✗").wait_for()
        page.locator(".sw .row").first.wait_for()
        assert painted_fraction(pixels(page.locator(".st-key-own-head canvas").first)) > 0.2
        page.locator(".sw [data-go=next]").click()
        expect(page.locator(".sw .title")).to_contain_text("q[0, 3] (B, H, T, D) = (1, 8, 29, 24)")
        file.write_text(f'TASK = "gqa"\n{right}')
        page.get_by_text(re.compile(r"All \d+ checks passed")).wait_for()
        page.get_by_text("They are equal").wait_for()
        file.write_text(f'TASK = "gqa"\n{right}(')
        page.get_by_text("SyntaxError in line").wait_for()
        assert own.tracebacks() == []
