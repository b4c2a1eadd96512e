"""A layer with a state in the browser: effective weights with their sign, and a state that does not grow."""

import re
from collections.abc import Callable

import numpy as np
from playwright.sync_api import Page, expect

from attnviz.checkpoints import load_checkpoint
from attnviz.figures import theme
from attnviz.figures.numbers import printed
from attnviz.session.settings import Settings
from attnviz.trace import trace
from tests.browser.conftest import turn_to
from tests.browser.painted import pixels, settle

LAYER = 1


def test_effective_weights_have_a_sign_and_the_state_stays_as_it_is(visit: Callable[..., Page]) -> None:
    model, tokenizer = load_checkpoint("hybrid")
    weights = trace(model, tokenizer.encode(Settings().text)).layers[LAYER].weights
    head, query, key = (int(i) for i in np.unravel_index(weights.argmin(), weights.shape))
    page = visit(f"heads?model=hybrid&layer={LAYER}&head={head}&query={query}&key={key}")
    expect(page.locator(".hv .read")).to_contain_text(printed(weights[head, query, key]))
    assert printed(weights[head, query, key]).startswith("−")
    expect(page.locator(".hv .bar")).to_contain_text("effective weight")
    bar = page.locator(".hv .bar div")
    expect(bar).to_have_text(re.compile("^−0.*0.*0"))
    read = model.config.layers[LAYER].mixer.kv_head_of[head]
    map_ = page.locator(".hv .map canvas")
    map_.scroll_into_view_if_needed()
    settle(page)
    painted = {tuple(colour) for colour in pixels(map_).reshape(-1, 3).tolist()}
    grey, hue = (ramp[255] for ramp in theme.diverging_ramps(read, model.config.n_kv_heads, "light"))
    assert tuple(grey if abs(weights[head].min()) > weights[head].max() else hue) in painted  # the largest size
    turn_to(page, f"decode?model=hybrid&layer={LAYER}")
    caches = page.locator(".dp .caches")
    expect(caches).to_have_attribute(
        "aria-label", re.compile("3 layers with a state that .*: state and convolution: 4,608")
    )
    before = page.locator(".dp .sum").inner_text()
    page.get_by_role("button", name="one token on").click()
    settle(page)
    expect(page.locator(".dp .sum")).not_to_have_text(before)
    expect(caches).to_have_attribute("aria-label", re.compile("state and convolution: 4,608"))
