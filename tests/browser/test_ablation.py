"""Ablating each head of a large model: progress, stopping and resuming."""

import re
from collections.abc import Callable

import pytest
from playwright.sync_api import Page, expect

from tests.browser.painted import settle
from tests.browser.sidebar import the_text

pytestmark = pytest.mark.slow

LARGE = "heads?tab=off&model=own&n_layers=8&n_heads=16&text=the old man saw a "
WATCH = """() => {
  const old = new Map([...document.querySelectorAll("[data-testid=stMain] h2")].map(h => [h, h.innerText]));
  window.seen = [];  // every 20 ms: milliseconds since the run began, old headings at more than half their strength
  let began = null;
  const look = () => {
    const now = performance.now();
    const running = document.querySelector("[data-testid=stApp]").dataset.testScriptState === "running";
    began ??= running ? now : null;
    const strong = [...old].filter(([h, said]) => h.isConnected && h.innerText === said &&
      getComputedStyle(h.closest("[data-testid=stElementContainer]")).opacity > 0.5);
    if (began !== null) window.seen.push([now - began, strong.map(([, said]) => said)]);
    if (began === null || running) setTimeout(look, 20);
  };
  look();
  return [...old.values()];
}"""
FOUND = re.compile(r"^Ablating L\d+ H\d+ raises the loss most|^No ablation raises")


def test_no_old_number_stays_at_full_strength_and_a_stopped_measurement_goes_on(visit: Callable[..., Page]) -> None:
    page = visit(LARGE)  # with a short text, which is fast
    expect(page.get_by_role("heading", name=FOUND)).to_be_visible()
    assert page.get_by_role("button", name="Stop ablating").count() == 0
    the_text(page).fill("Two cats and " + "the old man saw a " * 90)
    old = page.evaluate(WATCH)
    assert len(old) >= 3
    the_text(page).press("Control+Enter")
    stop = page.get_by_role("button", name="Stop ablating")
    expect(page.get_by_text(re.compile(r"Ablating each head: \d+% done, about \d+ seconds? left"))).to_be_visible()
    expect(page.get_by_role("button", name="Stop")).to_have_count(1)  # not Streamlit's own beside it
    expect(page.get_by_role("heading", name="Without L1 H3, the loss goes from")).to_be_visible()
    expect(page.get_by_role("heading", name=re.compile(r"^After \d+ of 128 heads"))).to_be_visible()
    stop.click()
    go_on = page.get_by_role("button", name=re.compile(r"^Ablate the other \d+ heads"))
    expect(go_on).to_be_visible()
    settle(page)
    frames = page.evaluate("window.seen")
    assert len(frames) > 5 and [strong for after, strong in frames if after > 500 and strong] == []
    left = int(re.search(r"\d+", go_on.inner_text())[0])
    done = int(re.search(r"After (\d+) of", page.get_by_role("heading", name=re.compile("^After")).inner_text())[1])
    assert left + done == 128 and 0 < done < 128 and done % 16 == 0
    go_on.click()
    expect(page.get_by_role("heading", name=FOUND)).to_be_visible()
    expect(stop).to_have_count(0)
    expect(go_on).to_have_count(0)
