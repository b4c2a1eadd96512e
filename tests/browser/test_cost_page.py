"""The cost page in a real browser: what links ask for is drawn, controls change it, and measuring can be stopped.

pytest tests/browser/test_cost_page.py
"""

import re

import pytest
from playwright.sync_api import Page, expect

from tests.browser.conftest import NARROW, WIDE
from tests.browser.painted import overflow, painted_fraction, pixels, settle, shoot

TINY = "model=own&n_layers=1&n_heads=2&n_kv_heads=1&d_model=8"


def chart(page: Page, key: str):
    return page.locator(f".st-key-chart-{key}")


def title(page: Page, words: str):
    return page.get_by_role("heading", name=re.compile(words))


PARTS = {"Published models": "alternatives", "What fits in GPU memory": "filling", "Decode speed": "machines"}


@pytest.mark.parametrize("width, scheme", [(WIDE, "light"), (NARROW, "dark")])
def test_every_part_is_painted_and_as_wide_as_its_window(visit, width, scheme):
    page = visit("cost?tab=measured", width=width, scheme=scheme)
    seen = ["attention", "cache"]
    for part, drawn in PARTS.items():
        page.get_by_role("radio", name=part).click()
        expect(chart(page, drawn)).to_be_visible()
        settle(page)
        assert overflow(page) == 0
        for key in (*seen, drawn):
            chart(page, key).scroll_into_view_if_needed()
            settle(page)
            assert painted_fraction(pixels(chart(page, key))) > 0.04
        seen = []
        shoot(page, f"cost-{drawn}-{width}-{scheme}")


def test_the_page_opens_with_published_models_and_the_shipped_one_among_them(visit):
    page = visit("cost")
    heights = [chart(page, key).bounding_box()["y"] for key in ("published", "attention")]
    assert heights[0] < heights[1]
    expect(page.get_by_role("heading", name=re.compile("^AttnViz toy GQA-4"))).to_be_visible()
    for name in ("Llama 3 8B", "DeepSeek-V3", "AttnViz toy GQA-4"):
        expect(chart(page, "published").locator("text", has_text=name).first).to_be_visible()


def test_a_config_json_is_counted_and_what_was_assumed_is_said(visit):
    page = visit("cost?tab=facts")
    field = page.get_by_role("textbox", name=re.compile("config.json"))
    field.fill(
        '{"architectures": ["MistralForCausalLM"], "hidden_size": 4096, "vocab_size": 32768, "sliding_window": null,'
        ' "vision_config": {"hidden_size": 1024}}'
    )
    field.press("Control+Enter")
    expect(title(page, "^mistral: 7,248,023,552 parameters, 131,072 B of cache per token")).to_be_visible()
    expect(page.get_by_text(re.compile("Used from config.json.*hidden_size 4096.*sliding_window null"))).to_be_visible()
    expect(page.get_by_text(re.compile("assumed.*num_hidden_layers 32"))).to_be_visible()
    expect(page.get_by_text(re.compile("Not counted: the image encoder"))).to_be_visible()
    field.fill('{"model_type": "mamba"}')
    field.press("Control+Enter")
    expect(page.get_by_role("alert")).to_contain_text("mamba")


def test_a_link_reopens_a_comparison_with_its_sentence(visit):
    page = visit("cost?context=131072&compare=gemma-3-27b,qwen3-32b")
    expect(page.get_by_text("10.4 GiB instead of 62 GiB")).to_be_visible()
    expect(title(page, "At 128 K tokens: Gemma 3 27B 10.4 GiB and Qwen3 32B 32 GiB")).to_be_visible()
    expect(page.get_by_text("5 live models were built")).to_be_visible()


def test_one_click_compares_two_models_and_the_address_says_so(visit):
    page = visit("cost")
    page.get_by_text("Half the heads", exact=True).click()
    settle(page)
    expect(page.get_by_text("does not depend on the number of heads")).to_be_visible()
    expect(page).to_have_url(re.compile("compare=deepseek-v3%2Ckimi-k2"))
    page.reload()
    settle(page)
    expect(title(page, "At 128 K tokens: .* 8.58 GiB")).to_be_visible()


def test_the_precision_moves_the_cache_and_the_weights_move_the_memory(visit):
    page = visit("cost?tab=memory&context=8192")
    expect(title(page, "holds Llama 3 8B and 56 sequences of 8 K tokens")).to_be_visible()
    page.get_by_role("radiogroup", name="Weights in").get_by_text("int4").click()
    settle(page)
    expect(title(page, "holds Llama 3 8B and 67 sequences of 8 K tokens")).to_be_visible()
    expect(page).to_have_url(re.compile("weights=int4"))
    page.get_by_role("radiogroup", name="Cache in").get_by_text("fp8").click()
    settle(page)
    expect(title(page, "holds Llama 3 8B and 134 sequences of 8 K tokens")).to_be_visible()
    expect(title(page, "GQA-4 caches 6 MiB")).to_be_visible()


def test_the_number_of_sequences_moves_the_cache_and_the_speed(visit):
    page = visit("cost?tab=speed&context=8192")
    before = page.get_by_role("figure").last.get_attribute("aria-label")
    page.get_by_role("slider", name="Sequences at once").press("ArrowRight")
    expect(page).to_have_url(re.compile("batch=2"))
    expect(page.get_by_role("figure").last).not_to_have_attribute("aria-label", before)
    expect(title(page, "GQA-4 caches 24 MiB")).to_be_visible()


def test_decoding_is_measured_and_the_counted_cache_stands_beside_it(visit):
    page = visit(f"cost?tab=measured&{TINY}")
    page.get_by_role("button", name="Measure").click()
    expect(title(page, "MHA takes .* ms per token after 8 K tokens")).to_be_visible(timeout=90_000)
    settle(page)
    assert painted_fraction(pixels(chart(page, "measured"))) > 0.01


LONG = "model=own&n_layers=8&d_model=384&n_heads=16&n_kv_heads=16"  # takes seconds to measure


def begin_to_measure(page: Page) -> None:
    """Press the button and see the first results come, which stand for less than a second."""
    page.get_by_role("button", name="Measure", exact=True).click()
    page.wait_for_function("document.querySelector('[data-testid=stProgress]')?.innerText.includes('tokens:')")


def test_a_measurement_can_be_stopped_and_started_again(visit):
    page = visit(f"cost?tab=measured&{LONG}")
    for _ in range(2):
        begin_to_measure(page)
        page.get_by_role("button", name="Stop measuring").click()
        expect(page.get_by_role("progressbar")).to_have_count(0)
        settle(page)
        name = page.get_by_role("figure", name=re.compile("^MHA takes")).get_attribute("aria-label")
        assert "after 256 tokens" in name and "after 8,192 tokens" not in name  # it ended before its end
    expect(page.get_by_text("Somebody else is measuring")).to_have_count(0)
