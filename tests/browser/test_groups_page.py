"""User actions on the query-grouping page, and their effects."""

import re
from collections.abc import Callable
from itertools import pairwise

from playwright.sync_api import Locator, Page, expect

from tests.browser.conftest import NARROW, viewport
from tests.browser.painted import hue_shares, overflow, painted_fraction, pixels, settle

Visit = Callable[..., Page]


def query_head(page: Page, head: int) -> Locator:
    return page.locator(f".gd .head[data-q='{head}']")


def kv_heads(page: Page) -> Locator:
    return page.locator(".gd .head:not([data-q])")


def heading(page: Page, pattern: str) -> Locator:
    return page.get_by_role("heading", name=re.compile(pattern))


def look_closer(page: Page, part: str) -> None:
    page.get_by_role("radio", name=part, exact=True).or_(
        page.get_by_role("button", name=part, exact=True)
    ).first.click()
    settle(page)


def choose(page: Page, model: str) -> None:
    page.get_by_role("radio", name=model, exact=True).or_(
        page.get_by_role("button", name=model, exact=True)
    ).first.click()
    settle(page)


def a_button_moves_everything(page: Page) -> None:
    """The sentences of the other models: tests/ui/test_groups_controls.py."""
    the_diagram_is_painted_in_one_hue_per_kv_head(page, "GQA-4", 4)
    for model, n_kv_heads in {"MQA": 1, "GQA-2": 2}.items():
        choose(page, model)
        expect(kv_heads(page)).to_have_count(n_kv_heads)
        the_diagram_is_painted_in_one_hue_per_kv_head(page, model, n_kv_heads)
    expect(page.get_by_text("8 query heads read 2 KV heads")).to_be_visible()
    expect(heading(page, "^W_k and W_v are 48 wide")).to_be_visible()
    expect(heading(page, "caches 1,536 B per token")).to_be_visible()
    expect(page.get_by_role("combobox", name="Model")).to_have_value(re.compile("GQA-2"))
    expect(page).to_have_url(re.compile("model=gqa-2(&|$)"))


def buttons_cache_and_heads_share_the_first_screen_of_a_projector(page: Page) -> None:
    page.set_viewport_size({"width": 1280, "height": 720})
    for model in ("MHA", "GQA-4", "GQA-2", "MQA", "MLA"):
        button = page.get_by_role("radio", name=model, exact=True)
        assert button.bounding_box()["y"] + button.bounding_box()["height"] < 720
    for part in (page.locator(".gd svg"), page.locator(".ts .picture").first):
        box = part.bounding_box()
        assert box["y"] > 0 and box["y"] + box["height"] < 720
    expect(page.get_by_text("KV head that each query head reads")).to_be_visible()


def the_diagram_is_painted_in_one_hue_per_kv_head(page: Page, model: str, n_hues: int) -> None:
    shares = hue_shares(pixels(page.locator(".gd svg")), bins=12)
    assert int((shares > 0.002).sum()) == n_hues, model


def a_head_that_is_pointed_at_or_walked_to_shows_its_partners(page: Page) -> None:
    query_head(page, 3).locator("circle").hover()
    expect(page.locator(".gd-readout")).to_have_text("Query head 3 reads KV head 1, together with query head 2.")
    lit = page.locator(".gd .head.on")
    assert [lit.nth(i).get_attribute("data-kv") for i in range(lit.count())] == ["1"] * 3
    expect(query_head(page, 0)).to_have_css("opacity", "0.16")
    expect(query_head(page, 2)).to_have_css("opacity", "1")
    kv_heads(page).nth(3).locator("rect").hover()
    expect(page.locator(".gd-readout")).to_have_text("KV head 3 is read by query heads 6 and 7.")
    page.mouse.move(5, 5)
    expect(page.locator(".gd-readout")).to_contain_text("Point at a head")
    expect(page.locator(".gd .head[tabindex='0']")).to_have_count(1)
    query_head(page, 0).focus()
    for _ in range(5):
        page.keyboard.press("ArrowRight")
    expect(page.locator(".gd-readout")).to_contain_text("Query head 5 reads KV head 2")
    page.keyboard.press("ArrowDown")
    expect(page.locator(".gd-readout")).to_have_text("KV head 2 is read by query heads 4 and 5.")
    page.keyboard.press("ArrowUp")
    page.keyboard.press("Enter")
    settle(page)
    expect(page).to_have_url(re.compile("head=4"))
    expect(query_head(page, 4)).to_have_attribute("aria-pressed", "true")


def tiling_shows_the_wrong_partners(page: Page) -> None:
    expect(page.locator(".gd .link.wrong")).to_have_count(0)
    expect(page.locator(".gd-index")).to_contain_text("repeat_interleave(4) = 0 0 0 0 1 1 1 1")
    page.get_by_text("Wrong order: repeat() instead").click()
    settle(page)
    expect(page.locator(".gd .link.wrong")).to_have_count(4)
    expect(page.locator(".gd-index")).to_contain_text("repeat(4) = 0 1 0 1 0 1 0 1")
    expect(page.get_by_text("With repeat(), 4 of 8 query heads read the wrong KV head.")).to_be_visible()
    expect(page).to_have_url(re.compile("tiled=1"))


PARTS = {  # {name: (value in the address, charts)}, the one without a chart of its own aside
    "Compute and memory": ("work", ["work"]),
    "Loss with fewer KV heads": ("cost", ["losses", "this-text", "quality"]),
    "Similarity of heads": ("alike", ["similarity"]),
    "Multi-head latent attention": ("latent", ["latent"]),
    "Maps before and after merging": ("maps", ["drift"]),
}


def looking_closer_paints_the_part_and_goes_into_the_link(page: Page) -> None:
    for part, (tab, charts) in PARTS.items():
        look_closer(page, part)
        expect(page).to_have_url(re.compile(f"tab={tab}"))
        for chart in charts:
            assert painted_fraction(pixels(page.locator(f".st-key-chart-{chart}"))) > 0.02


def a_map_and_a_layer_are_chosen(page: Page) -> None:
    page.get_by_role("gridcell", name=re.compile("head 6")).first.click()
    settle(page)
    expect(page).to_have_url(re.compile("head=6"))
    expect(query_head(page, 6)).to_have_attribute("aria-pressed", "true")
    look_closer(page, "2")
    expect(heading(page, "^Layer 2: 8 query heads share 4 KV heads")).to_be_visible()
    expect(page).to_have_url(re.compile("layer=2"))


def the_maps_say_what_each_model_s_heads_read(page: Page) -> None:
    expect(page.get_by_role("gridcell", name=re.compile("^MHA, head 3, reads KV 3, its own"))).to_have_count(1)
    expect(page.get_by_role("gridcell", name=re.compile("^averaged, head 3, reads KV 1$"))).to_have_count(1)
    choose(page, "MLA")
    expect(page.locator(".hg .read").first).to_contain_text("H6 reads keys and values of its own, expanded from the")
    expect(page.locator(".hg").first.get_by_text(re.compile("reads KV|KV 3"))).to_have_count(0)
    expect(kv_heads(page)).to_have_count(2)
    expect(page.locator(".gd-kvs")).to_contain_text("latent of 64 numbers and a shared RoPE key of 16")


def sixteen_heads_fit_on_a_phone(page: Page) -> None:
    page.set_viewport_size(viewport(NARROW))
    settle(page)
    assert overflow(page) <= 0
    boxes = [query_head(page, h).locator("circle").bounding_box() for h in range(16)]
    assert boxes[0]["x"] >= 0 and boxes[-1]["x"] + boxes[-1]["width"] <= NARROW
    assert all(a["x"] + a["width"] <= b["x"] + 1 for a, b in pairwise(boxes))


WALK = {  # {assertion: URL, or "" to go on where the one before has ended}
    buttons_cache_and_heads_share_the_first_screen_of_a_projector: "query_groups",
    a_button_moves_everything: "",
    tiling_shows_the_wrong_partners: "",
    a_head_that_is_pointed_at_or_walked_to_shows_its_partners: "query_groups",
    a_map_and_a_layer_are_chosen: "",
    looking_closer_paints_the_part_and_goes_into_the_link: "",
    the_maps_say_what_each_model_s_heads_read: "",
    sixteen_heads_fit_on_a_phone: "query_groups?model=own&n_heads=16&n_kv_heads=16&n_layers=1",
}


def test_every_control_moves_what_it_is_about_and_sixteen_heads_fit_on_a_phone(turns: Visit) -> None:
    opened = turns(filter(None, WALK.values()), width=1280, scheme="dark")  # as wide as a projector: no resizing
    for each, address in WALK.items():
        if address:
            _, page = next(opened)
        each(page)
