"""The tab Aloud in the browser: the timer, a recording of one's own, ticks, a grade that stays."""

import json
import re
from collections.abc import Callable

from playwright.sync_api import Page, expect

from tests.browser.conftest import NARROW
from tests.browser.painted import fits, settle
from tests.browser.test_accessible import is_streamlits_own, serious, show_all

CARD = "practice?tab=aloud&card=does-it-fit"
FAST_FORWARD = """seconds => {
  const now = performance.now.bind(performance);
  performance.now = () => now() + 1000 * seconds;
}"""
# A microphone without a device: a tone, of which the page makes a recording.
MICROPHONE = """() => {
  const get = async () => {
    window.asked = (window.asked ?? 0) + 1;
    const audio = new AudioContext(), tone = audio.createOscillator(), out = audio.createMediaStreamDestination();
    tone.connect(out);
    tone.start();
    window.tracks = out.stream.getTracks();
    return out.stream;
  };
  Object.defineProperty(navigator, "mediaDevices", { configurable: true, value: { getUserMedia: get } });
}"""
REFUSED = """() => Object.defineProperty(navigator, "mediaDevices", {
  configurable: true, value: { getUserMedia: async () => { throw new DOMException("", "NotAllowedError"); } },
})"""


def test_the_timer_stops_when_the_points_are_shown(visit: Callable[..., Page]) -> None:
    page = visit(CARD)
    settle(page)
    page.locator(".spt-start").click()
    expect(page.locator(".spt-time")).to_have_text(re.compile(r"0:0[1-9]"))
    page.locator(".st-key-points button").click()
    expect(page.locator(".spt-start")).to_have_text("Start again")
    page.locator(".spt-start").click()  # and it may be started again, which a tick does not stop
    page.locator("[class*=st-key-point-] label").first.click()
    expect(page.get_by_text("1 of")).to_be_visible()
    expect(page.locator(".spt-start")).to_have_text("Stop")


def test_an_answer_is_timed_recorded_ticked_and_graded(visit: Callable[..., Page]) -> None:
    page = visit(CARD)
    start, time = page.locator(".spt-start"), page.locator(".spt-time")
    expect(start).to_have_text("Start")
    settle(page)
    start.focus()
    page.keyboard.press("Enter")
    expect(time).to_have_text(re.compile(r"0:0[1-9]"))
    page.evaluate(FAST_FORWARD, 90)
    expect(time).to_have_text(re.compile(r"1:3\d"))
    note = page.locator(".spt-note")
    expect(note).to_have_text("90 seconds are over: come to an end.")
    page.locator("[data-seconds='120']").click()
    expect(page.locator(".spt-of")).to_have_text("of 2:00")
    start.click()
    expect(start).to_have_text("Start again")
    assert page.evaluate("window.asked") is None  # for the microphone

    page.evaluate(MICROPHONE)
    record = page.locator(".spt-record")
    record.click()
    expect(record).to_have_text("Stop recording")
    expect(time).to_have_text(re.compile(r"0:0[1-9]"))
    record.click()
    audio = page.locator(".spt-audio")
    expect(audio).to_be_visible()
    expect(note).to_have_text(re.compile("sent nowhere"))
    assert audio.get_attribute("src").startswith("blob:")
    assert page.evaluate("[window.asked, ...window.tracks.map(track => track.readyState)]") == [1, "ended"]

    page.get_by_role("button", name="Show the points").click()
    box = page.locator("[class*=st-key-point-]").first
    box.locator("label").click()
    expect(page.get_by_text("1 of 5 points said")).to_be_visible()
    expect(audio).to_be_visible()  # the recording stays while the points are read
    page.get_by_text("A model answer of 90 seconds").click()
    expect(page.get_by_text("I do it in three lines.")).to_be_visible()
    page.locator(".st-key-grade-2 button").click()
    expect(audio).to_be_hidden()
    expect(time).to_have_text("0:00")
    page.wait_for_function("localStorage.attnviz?.includes('does-it-fit')")
    assert json.loads(page.evaluate("localStorage.attnviz"))["cards"]["does-it-fit"]["interval_days"] == 1
    assert "card=" in page.url and "does-it-fit" not in page.url

    record.click()
    expect(record).to_have_text("Stop recording")
    page.get_by_role("radio", name="Drills").click()  # another tab of the page: the microphone is given back
    expect(record).to_have_count(0)
    page.wait_for_function("window.asked === 2 && window.tracks.every(track => track.readyState === 'ended')")


def test_on_a_phone_without_a_microphone_a_sentence_says_so_and_all_is_accessible(visit: Callable[..., Page]) -> None:
    page = visit(CARD, NARROW)
    page.locator(".spt-start").wait_for()
    settle(page)
    page.evaluate(REFUSED)
    page.locator(".spt-record").click()
    expect(page.locator(".spt-note")).to_have_text(re.compile("did not give this page the microphone"))
    page.evaluate("() => Object.defineProperty(navigator, 'mediaDevices', { configurable: true, value: undefined })")
    page.locator(".spt-record").click()
    expect(page.locator(".spt-note")).to_have_text(re.compile("no microphone: it needs https"))
    page.get_by_role("button", name="Show the points").click()
    page.get_by_text("What a good answer says").wait_for()
    settle(page)
    fits(page)
    small = page.eval_on_selector_all(
        "[class*=st-key-spoken-grades] button", "all => all.filter(each => each.offsetHeight < 40).length"
    )
    assert small == 0
    show_all(page)
    assert [each for each in serious(page) if not is_streamlits_own(each)] == []


LOW = {"width": 1280, "height": 720}
COLOUR = "each => getComputedStyle(each).backgroundColor"


def test_the_primary_button_is_the_timers_and_then_the_points_whose_grades_come_to_sight(
    visit: Callable[..., Page],
) -> None:
    page = visit("practice?tab=aloud&card=speculative-exactness")
    page.set_viewport_size(LOW)
    start, points = page.locator(".spt-start"), page.locator(".st-key-points button")
    settle(page)
    dark, plain = start.evaluate(COLOUR), points.evaluate(COLOUR)
    assert dark != plain
    start.click()
    expect(page.locator("html")).to_have_attribute("data-spoken", "")
    settle(page)
    assert points.evaluate(COLOUR) == dark != start.evaluate(COLOUR)
    points.click()
    expect(page.locator(".st-key-grade-3 button")).to_be_in_viewport(ratio=1)
    expect(page.locator("[class*=st-key-point-] label").first).to_be_in_viewport(ratio=1)


def test_an_interviews_code_leaves_room_for_the_answer_and_its_card_begins_at_the_top(
    visit: Callable[..., Page],
) -> None:
    page = visit("practice?tab=interview&interview=15&question_set=11")
    page.set_viewport_size(LOW)
    page.locator(".st-key-start-interview button").click()
    not_known = page.get_by_role("button", name="I do not know")
    for number in range(1, 9):
        expect(page.get_by_text(f"Question {number} of 8")).to_be_visible()
        settle(page)
        if number == 3:
            excerpt = page.locator(".st-key-attempt-question pre").first  # then the whole function
            expect(excerpt).to_be_in_viewport(ratio=1)
            assert excerpt.evaluate("each => each.scrollHeight <= each.clientHeight")
            expect(page.get_by_role("heading", level=2).last).to_be_in_viewport(ratio=1)
            expect(not_known).to_be_in_viewport(ratio=1)
        if number == 8:
            page.set_viewport_size({"width": 1280, "height": 400})
            settle(page)
        not_known.click()
    expect(page.get_by_role("heading", name="0 of 8 right in")).to_be_in_viewport(ratio=1)
