"""User actions on the query-grouping page, and their effects."""

import re
from collections.abc import Callable
from urllib.parse import urlsplit

from playwright.sync_api import Locator, Page, expect

from tests.browser.conftest import NARROW, turn_to
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
    sizes = {"GQA-4": (4, "3,072"), "GQA-2": (2, "1,536"), "MQA": (1, "768"), "MHA": (8, "6,144")}
    for model, (n_kv_heads, n_bytes) in sizes.items():
        choose(page, model)
        expect(kv_heads(page)).to_have_count(n_kv_heads)
        if model != "MHA":  # whose eight hues include two similar ones
            the_diagram_is_painted_in_one_hue_per_kv_head(page, model, n_kv_heads)
        expect(page.get_by_text(f"8 query heads read {n_kv_heads} KV head")).to_be_visible()
        expect(heading(page, f"^W_k and W_v are {24 * n_kv_heads} wide")).to_be_visible()
        expect(heading(page, f"caches {n_bytes} B per token")).to_be_visible()
        work = (
            "attention FLOPs and .* B of cache per decode step" if model == "MHA" else "100% of MHA's attention FLOPs"
        )
        expect(heading(page, work)).to_be_visible()
        expect(page.get_by_role("combobox", name="Model")).to_have_value(re.compile(model, re.IGNORECASE))
        if model != "GQA-4":
            expect(page).to_have_url(re.compile(f"model={model.lower()}(&|$)"))


def buttons_cache_and_heads_share_the_first_screen_of_a_projector(page: Page) -> None:
    page.set_viewport_size({"width": 1280, "height": 720})
    for model in ("MHA", "GQA-4", "GQA-2", "MQA", "MLA"):
        button = page.get_by_role("radio", name=model, exact=True)
        assert button.bounding_box()["y"] + button.bounding_box()["height"] < 720
    for part in (page.locator(".gd svg"), page.locator(".ts .picture").first):
        box = part.bounding_box()
        assert 0 < box["y"] and box["y"] + box["height"] < 720
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


def tiling_shows_the_wrong_partners_and_what_they_do(page: Page) -> None:
    expect(page.locator(".gd .link.wrong")).to_have_count(0)
    expect(page.locator(".gd-index")).to_contain_text("repeat_interleave(4) = 0 0 0 0 1 1 1 1")
    page.get_by_text("Wrong order: repeat() instead").click()
    settle(page)
    expect(page.locator(".gd .link.wrong")).to_have_count(4)
    expect(page.locator(".gd-index")).to_contain_text("repeat(4) = 0 1 0 1 0 1 0 1")
    expect(page.get_by_text("With repeat(), 4 of 8 query heads read the wrong KV head.")).to_be_visible()
    expect(page.get_by_text(re.compile(r"The loss goes from \d+\.\d\d to \d+\.\d\d nats per token"))).to_be_visible()
    expect(page).to_have_url(re.compile("tiled=1"))
    choose(page, "MQA")
    expect(page.get_by_text("With 1 KV head both orders are the same")).to_be_visible()
    expect(page.locator(".gd .link.wrong")).to_have_count(0)


def every_equality_holds_in_both_precisions(page: Page) -> None:
    claims = (
        "K = H equals multi-head",
        "K = 1 equals multi-query",
        "Grouped form = repeat_int",
        "Matches PyTorch's kernel",
    )
    for claim in claims:
        expect(page.get_by_text(re.compile(f"{claim}.*in float32 .tolerance.*in float64 .tolerance"))).to_be_visible()


PARTS = {
    "Compute and memory": ("work", "^MQA reads least: 12.5% of MHA's cache", ["work"]),
    "Loss with fewer KV heads": ("cost", r"^Averaging into 4 KV heads: loss", ["losses", "this-text", "quality"]),
    "Maps before and after merging": ("maps", r"averaging moves \d+% of its attention", ["drift"]),
    "Similarity of heads": ("alike", r"^Averaging neighbours loses \d+% of .* of the keys", ["similarity"]),
    "Multi-head latent attention": ("latent", r"^80 cached numbers become 448", ["latent"]),
}


def looking_closer_paints_the_part_and_goes_into_the_link(page: Page) -> None:
    every_equality_holds_in_both_precisions(page)
    for part, (tab, title, charts) in PARTS.items():
        look_closer(page, part)
        expect(page).to_have_url(re.compile(f"tab={tab}"))
        expect(heading(page, title).last).to_be_visible()
        expect(heading(page, title)).to_have_count(1)
        for chart in charts:
            assert painted_fraction(pixels(page.locator(f".st-key-chart-{chart}"))) > 0.02
    link = urlsplit(page.url)
    turn_to(page, "query_groups")
    expect(page.get_by_role("radio", name=part)).not_to_be_checked()
    turn_to(page, f"query_groups?{link.query}")
    expect(page.get_by_role("radio", name=part)).to_be_checked()
    expect(heading(page, title)).to_be_visible()


def keys_and_values_are_compared(page: Page) -> None:
    look_closer(page, "values")
    expect(heading(page, r"^Averaging neighbours loses \d+% of the squared length of the values")).to_be_visible()
    expect(page).to_have_url(re.compile("alike=values"))


def a_map_and_a_layer_are_chosen(page: Page) -> None:
    page.get_by_role("gridcell", name=re.compile("head 6")).first.click()
    settle(page)
    expect(page).to_have_url(re.compile("head=6"))
    expect(query_head(page, 6)).to_have_attribute("aria-pressed", "true")
    look_closer(page, "2")
    expect(heading(page, "^Layer 2: 8 query heads share 4 KV heads")).to_be_visible()
    expect(page).to_have_url(re.compile("layer=2"))


def latent_attention_has_a_button_of_its_own(page: Page) -> None:
    choose(page, "MLA")
    expect(page).to_have_url(re.compile("model=mla"))
    expect(kv_heads(page)).to_have_count(1)
    expect(page.locator(".gd-kvs")).to_contain_text("latent of 64 numbers and a shared RoPE key of 16")
    expect(heading(page, "^MLA caches 1,280 B per token")).to_be_visible()
    expect(page.get_by_text(re.compile("Absorbed form = expanded form.*in float64"))).to_be_visible()


def own_settings_share_over_their_own_divisors(page: Page) -> None:
    expect(kv_heads(page)).to_have_count(3)
    choose(page, "GQA-2 (K=2)")
    expect(kv_heads(page)).to_have_count(2)
    expect(page).to_have_url(re.compile("n_kv_heads=2"))


def the_maps_say_what_each_model_s_heads_read(page: Page) -> None:
    expect(page.get_by_role("gridcell", name=re.compile("^MHA, head 3, reads KV 3, its own"))).to_have_count(1)
    expect(page.get_by_role("gridcell", name=re.compile("^averaged, head 3, reads KV 0$"))).to_have_count(1)
    choose(page, "MLA")
    expect(page.locator(".hg .read").first).to_contain_text("H3 reads keys and values of its own, expanded from the")
    expect(page.get_by_text(re.compile("reads KV|KV 3"))).to_have_count(0)


WALK = {  # {assertion: URL}
    a_button_moves_everything: "query_groups",
    a_head_that_is_pointed_at_or_walked_to_shows_its_partners: "query_groups",
    tiling_shows_the_wrong_partners_and_what_they_do: "query_groups?model=gqa-2",
    looking_closer_paints_the_part_and_goes_into_the_link: "query_groups",
    keys_and_values_are_compared: "query_groups?tab=alike",
    a_map_and_a_layer_are_chosen: "query_groups",
    latent_attention_has_a_button_of_its_own: "query_groups?model=mqa",
    own_settings_share_over_their_own_divisors: "query_groups?model=own&n_heads=6&n_kv_heads=3&d_model=96&n_layers=2",
    the_maps_say_what_each_model_s_heads_read: "query_groups?model=gqa-2&tab=maps",
    buttons_cache_and_heads_share_the_first_screen_of_a_projector: "query_groups",
}


def test_every_control_moves_what_it_is_about(turns: Visit) -> None:
    for each, (_, page) in zip(WALK, turns(WALK.values(), scheme="dark"), strict=True):
        each(page)


def test_sixteen_heads_fit_on_a_phone(visit: Visit) -> None:
    page = visit("query_groups?model=own&n_heads=16&n_kv_heads=16&n_layers=1", width=NARROW)
    assert overflow(page) <= 0
    boxes = [query_head(page, h).locator("circle").bounding_box() for h in range(16)]
    assert boxes[0]["x"] >= 0 and boxes[-1]["x"] + boxes[-1]["width"] <= NARROW
    assert all(a["x"] + a["width"] <= b["x"] + 1 for a, b in zip(boxes, boxes[1:], strict=False))
