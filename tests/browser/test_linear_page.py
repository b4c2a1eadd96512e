"""Linear and sparse page: the state plays without the server, and one pointer marks a cell in both maps."""

import re
from collections.abc import Callable

import numpy as np
import pytest
from playwright.sync_api import Page, expect

from attnviz.compute import linear
from attnviz.compute.view import View
from attnviz.session.settings import Settings
from tests.browser.conftest import count_messages
from tests.browser.painted import settle

pytestmark = pytest.mark.slow

NUMBERS = re.compile(r"norm of ([\d.]+), decay removed ([\d.]+); the state’s norm is (\d+\.\d+)")


def numbers(page: Page) -> list[float]:
    """Return the norms of what the token added, of what decay removed, and of the state."""
    return [float(each) for each in NUMBERS.search(page.locator(".finding").inner_text()).groups()]


def test_the_state_is_played_in_the_browser_and_both_maps_follow_the_pointer(visit: Callable[..., Page]) -> None:
    page = visit("linear?model=hybrid&linear_head=1.3&tab=state")
    settle(page)
    written = linear.written_of(View(Settings(model="hybrid")), (1, 3))
    sent = count_messages(page)
    slider = page.get_by_role("slider", name="After token")
    for t in (9, 2):  # forwards and backwards
        slider.fill(str(t))
        before, now = (written.state(t - 1), written.state(t))
        decay = written.decay[t]
        added = np.outer(written.k[t], written.writes[t])
        norms = [float(np.linalg.norm(each)) for each in (added, (1 - decay) * before, now)]
        assert numbers(page) == pytest.approx(norms, abs=1e-4)
    page.locator(".sp .play").click()
    expect(page.locator(".finding")).to_contain_text("After token 5", timeout=20_000)
    page.locator(".sp .play").click()
    assert sent() == 0

    maps, marks = page.locator(".lm .map"), page.locator(".lm .mark")
    box = maps.nth(0).bounding_box()
    page.mouse.move(box["x"] + 0.45 * box["width"], box["y"] + 0.7 * box["height"])
    said = page.locator(".lm .read").inner_text()
    assert re.match(r"Query \d+ “.+” → key \d+ “", said)
    inside = [
        (mark["x"] - at["x"], mark["y"] - at["y"])
        for mark, at in zip(*([each.nth(i).bounding_box() for i in (0, 1)] for each in (marks, maps)), strict=True)
    ]
    assert inside[0] == pytest.approx(inside[1], abs=3)  # the same cell in both
    assert sent() == 0
