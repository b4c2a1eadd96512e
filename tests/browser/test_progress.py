"""Progress that stays in the browser: reloads, tabs, other people, what is broken, and what it costs."""

import re
from collections.abc import Callable
from dataclasses import replace
from datetime import datetime, timedelta

import pytest
from playwright.sync_api import BrowserContext, Page, expect

from attnviz.compute import routes
from attnviz.exercises import CardState
from attnviz.session.progress import LessonState, MistakeState, Progress, RouteState, parsed
from tests.browser.conftest import NARROW, WIDE, go
from tests.browser.painted import fits, settle
from tests.browser.server import Server

ITEM = "attnviz"
HELD = Progress(
    {"one-head": LessonState(7, "2026-11-28")},
    {"mask_after_softmax": MistakeState(True, "2026-11-28T20:00:00Z")},
    {"shape_of_scores": (5, 7)},
    cards={"why": CardState("2026-11-28", 1, 2.5, 1)},
)
MISSED = "practice?questions=1&question_set=3"


def held(page: Page) -> Progress:
    """Return what the browser holds."""
    text = page.evaluate(f"localStorage.getItem('{ITEM}')")
    read, problem = parsed(text) if text else (Progress(), "")
    assert not problem
    return read


def hold(context: BrowserContext, server: Server, text: str) -> Page:
    """Open a tab whose browser holds this text."""
    page = context.new_page()
    page.goto(f"{server.url}/_stcore/health")
    page.evaluate("([item, text]) => localStorage.setItem(item, text)", [ITEM, text])
    return page


ANSWERED = """n => n === [...document.querySelectorAll("tbody tr")]
    .map((row) => +row.cells[2].innerText).reduce((sum, each) => sum + each, 0)"""


def has_answered(page: Page, n: int) -> None:
    """Wait until the Practice page says that so many questions were answered."""
    page.wait_for_function(ANSWERED, arg=n, polling=50)  # a tab behind another one may have no frames
    settle(page)


def miss_one(page: Page) -> None:
    page.get_by_role("button", name="Start", exact=True).click()
    page.get_by_role("button", name="I do not know").click()
    page.get_by_role("button", name="Score card").click()
    page.get_by_role("button", name="Done").click()
    page.get_by_text("Your progress", exact=True).wait_for()
    settle(page)


def test_progress_survives_a_reload_reaches_other_tabs_and_nobody_else(
    window: Callable[..., Page], watched: Callable[[Page], Page], server: Server
) -> None:
    page, stranger = window(), window()
    go(page, server, MISSED)
    assert page.evaluate(f"localStorage.getItem('{ITEM}')") is None  # nothing was done, so nothing is stored
    miss_one(page)
    has_answered(page, 1)
    assert [asked for _, asked in held(page).drills.values()] == [1]
    page.reload()
    settle(page)
    has_answered(page, 1)
    expect(page.get_by_role("button", name="Repeat 1 missed drill")).to_be_visible()

    other = watched(page.context.new_page())
    go(other, server, MISSED)
    has_answered(other, 1)
    miss_one(other)
    has_answered(other, 2)
    page.bring_to_front()
    has_answered(page, 2)

    go(stranger, server, MISSED)
    has_answered(stranger, 0)
    assert stranger.evaluate(f"localStorage.getItem('{ITEM}')") is None

    page.evaluate("localStorage.setItem('attnviz-calculations', '{\"totals\":true}')")
    page.get_by_text("Save, load or delete your progress").click()
    page.get_by_role("button", name="Delete", exact=True).click()
    page.get_by_role("button", name="Delete it").click()
    expect(page.get_by_test_id("stToast")).to_contain_text("Your progress is deleted")
    expect(page.get_by_role("button", name="Delete it")).to_be_hidden()
    expect(page.get_by_role("button", name="Repeat 1 missed drill")).to_have_count(0)
    settle(page)
    has_answered(page, 0)
    assert page.evaluate(f"[localStorage['{ITEM}'], localStorage['attnviz-calculations']]") == [None, None]
    other.bring_to_front()
    settle(other)
    has_answered(other, 0)
    assert page.evaluate(f"localStorage.getItem('{ITEM}')") is None


def test_what_is_broken_is_replaced_and_a_browser_that_stores_nothing_is_told(
    window: Callable[..., Page], watched: Callable[[Page], Page], server: Server
) -> None:
    context = window().context
    page = watched(hold(context, server, '{"theme": "dark"}'))
    go(page, server, MISSED)
    expect(page.get_by_test_id("stToast")).to_contain_text("could not be read, so a new one was begun")
    settle(page)
    assert held(page) == Progress()

    page = watched(context.new_page())
    page.add_init_script("Storage.prototype.setItem = () => { throw new DOMException('', 'QuotaExceededError') }")
    go(page, server, MISSED)
    miss_one(page)
    expect(page.get_by_text("does not let AttnViz store anything").first).to_be_visible()
    has_answered(page, 1)


FIRST_VIEW = """() => {
  window.seen = new Set();
  const turn = () => {
    const maps = document.querySelector(".st-key-front-grid");
    for (const each of document.querySelectorAll(".st-key-first-lesson, .st-key-routes button, .st-key-go-on button")) {
      if (each.checkVisibility({ checkVisibilityCSS: true })) seen.add(each.innerText.replace(/.*\\n/, "").trim());
    }
    if (maps?.offsetHeight > 100) seen.add(Math.round(maps.getBoundingClientRect().top));
    requestAnimationFrame(turn);
  };
  turn();
}"""


@pytest.mark.parametrize("width", [WIDE, NARROW])
def test_a_person_who_comes_back_is_not_shown_what_is_for_others_and_nothing_moves(
    window: Callable[..., Page], watched: Callable[[Page], Page], server: Server, width: int
) -> None:
    route = RouteState("2026-11-28T20:00:00Z", "2026-11-28T20:00:00Z")
    page = watched(hold(window(width).context, server, replace(HELD, routes={"interview-60": route}).json()))
    page.set_viewport_size({"width": width, "height": 844})
    page.add_init_script(f"addEventListener('DOMContentLoaded', {FIRST_VIEW})")
    go(page, server, "")
    expect(page.locator(".st-key-go-on")).to_contain_text("minutes”: Why keys and values are shared")
    settle(page)
    seen = page.evaluate("[...seen].map(String)")
    assert any("Go on: 60 minutes" in each for each in seen) and len([each for each in seen if each.isdecimal()]) == 1
    assert not [each for each in seen if "New to attention" in each or each == "60 minutes"], seen


def sent_on_opening(page: Page, server: Server, address: str) -> list[bytes]:
    """Open a page and return the messages that it sends to the server, to which later ones are added."""
    frames: list[bytes] = []
    page.on("websocket", lambda socket: socket.on("framesent", lambda sent: frames.append(bytes(sent))))
    go(page, server, address)
    page.wait_for_timeout(500)
    settle(page)
    return frames


def test_a_browser_sends_what_it_holds_once_nothing_if_it_is_nothing_and_the_day_once_it_is_another_one(
    window: Callable[..., Page], server: Server
) -> None:
    sent = {}
    for text in ("", HELD.json()):
        context = window().context
        page = hold(context, server, text) if text else context.new_page()
        sent[text] = sent_on_opening(page, server, "lessons")
    n = len(sent[HELD.json()])
    assert n - len(sent[""]) == 1
    assert held(page) == HELD
    tomorrow = datetime.now().astimezone() + timedelta(days=1)
    page.clock.set_fixed_time(tomorrow)
    for _ in range(2):
        page.evaluate("document.dispatchEvent(new Event('visibilitychange'))")
        page.wait_for_timeout(500)
        settle(page)
    assert len(sent[HELD.json()]) == n + 1 and tomorrow.date().isoformat().encode() in sent[HELD.json()][-1]


def test_a_route_leads_on_passes_over_what_is_done_and_is_found_again_the_next_day(
    window: Callable[..., Page], watched: Callable[[Page], Page], server: Server
) -> None:
    route = routes.routes()["interview-20"]
    lesson, mistake, aloud, questions = route.items
    through = LessonState(99, "2026-11-28")
    page = watched(hold(window(NARROW).context, server, Progress({lesson.link["lesson"]: through}).json()))
    go(page, server, "")
    expect(page.get_by_text("lessons done")).to_be_visible()  # the browser has sent what it holds
    page.get_by_role("button", name="20 minutes").click()
    for n, item in ((2, mistake), (3, aloud), (4, questions)):
        expect(page.get_by_role("heading", name=item.title)).to_be_visible()
        expect(page.get_by_text(f"Item {n} of 4,")).to_be_visible()
        expect(page).to_have_url(re.compile(f"route=interview-20&route_item={n}"))
        settle(page)
        fits(page)
        if n == 3:  # leave in the middle, and come back
            page.goto(f"{server.url}/lessons")
            expect(page.get_by_text("1 of 4 done, 1 skipped")).to_be_visible()
            page.get_by_role("button", name="Go on", exact=True).click()
            expect(page.get_by_text("Item 3 of 4,")).to_be_visible()
        page.locator(".st-key-route-next button").click()
    expect(page.get_by_role("heading", name=f"{route.title}: 1 done, 3 skipped")).to_be_visible()
    page.wait_for_function(
        f"localStorage.getItem('{ITEM}').includes('{questions.id}')"
    )  # written after the page is drawn
    assert held(page).routes["interview-20"].skipped == tuple(sorted(item.id for item in (mistake, aloud, questions)))
