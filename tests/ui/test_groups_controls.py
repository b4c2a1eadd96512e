"""Controls of the query-grouping page: each moves the sentences and the drawings that it is about."""

import re

import pytest
from streamlit.testing.v1 import AppTest

from tests.pages import GROUPS, behind, in_the_open, opened, said, shown, titles
from tests.reading import numbers_where

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("no_links_to_pages")]


def choose(app: AppTest, key: str, value: object) -> str:
    """Choose an option of a segmented control; return what the parts that depend on it say: the others do not rerun."""
    app.segmented_control(key=key).set_value(value).run()
    assert not app.exception
    return shown(app)


@pytest.mark.parametrize(
    ("button", "model", "n_kv_heads", "n_bytes"),
    [(0, "mha", 8, 6144), (2, "gqa-2", 2, 1536), (3, "mqa", 1, 768)],
)
def test_a_button_moves_the_model_its_projections_its_cache_and_its_work(button, model, n_kv_heads, n_bytes):
    app = opened(GROUPS)
    before = shown(app)
    assert numbers_where("# query heads read # KV heads", before) == [8, 4]
    assert numbers_where("caches # B per token", before) == [3072]
    there = choose(app, "kv-heads", button)
    assert app.query_params["model"] == model
    assert numbers_where("# query heads read # KV head", there) == [8, n_kv_heads]
    assert numbers_where("W_k and W_v are # wide", there) == [24 * n_kv_heads]
    assert numbers_where("caches # B per token", there) == [n_bytes]
    work = r"attention FLOPs and .* of cache per decode step" if model == "mha" else "100% of MHA's attention FLOPs"
    assert re.search(work, there.replace("\\u2019", "'"))


def test_latent_attention_has_a_button_of_its_own():
    there = choose(opened(GROUPS, model="mqa"), "kv-heads", 4)
    assert numbers_where("latent of # numbers .* RoPE key of #", there) == [64, 16]
    assert numbers_where("MLA caches # B per token", there) == [1280]
    checks = {tab: choose(opened(GROUPS, model="mla"), "control-tab", tab) for tab in ("latent", "equal")}
    claims = {
        tab: {claim for claim in ("Absorbed form = expanded form", "Matches PyTorch's kernel")
              if re.search(f":material/check: .*{claim}", text)}
        for tab, text in checks.items()
    }  # fmt: skip
    assert claims == {"latent": {"Absorbed form = expanded form"}, "equal": {"Matches PyTorch's kernel"}}


@pytest.mark.parametrize("tab", ["maps", "alike"])
def test_beside_latent_attention_the_heads_of_mha_are_merged_to_a_cache_of_its_size(tab):
    there = choose(opened(GROUPS, model="mla"), "control-tab", tab)
    assert numbers_where("2 · 2 · 24 = # numbers per token and layer beside #", there) == [96, 80]
    assert "nothing is averaged" not in there


def test_own_settings_share_over_their_own_divisors():
    app = opened(GROUPS, model="own", n_heads="6", n_kv_heads="3", d_model="96", n_layers="2")
    assert list(app.segmented_control(key="kv-heads").options) == [
        "MHA (K=6)", "GQA-3 (K=3)", "GQA-2 (K=2)", "MQA (K=1)", "MLA"
    ]  # fmt: skip
    assert numbers_where("# query heads read # KV heads", choose(app, "kv-heads", 2)) == [6, 2]
    assert app.query_params["n_kv_heads"] == "2"


def test_tiling_is_said_with_what_it_does_to_the_loss_and_to_be_nothing_for_one_kv_head():
    app = opened(GROUPS, model="gqa-2")
    assert "With repeat()" not in shown(app)
    app.toggle(key="control-tiled").set_value(True).run()
    there = shown(app)
    assert app.query_params["tiled"] == "1"
    assert numbers_where(r"With repeat\(\), # of # query heads", there) == [4, 8]
    before, after = numbers_where(r"loss goes from # to \**#\** nats", there)
    assert after > before
    assert "With 1 KV head both orders are the same" in shown(opened(GROUPS, model="mqa", tiled="1"))


def test_every_equality_holds_in_both_precisions():
    app = opened(GROUPS)
    for claim in ("K = H equals multi-head", "K = 1 equals multi-query", "Grouped form = repeat_int",
                  "Matches PyTorch's kernel"):  # fmt: skip
        assert re.search(rf":material/check: \*\*{claim}", said(app)), claim
        assert re.search(rf"{claim}.*in float32 \(tolerance.*in float64 \(tolerance", behind(app)), claim
    assert in_the_open(said(app)) == []


def test_every_tab_has_a_title_of_its_own_and_goes_into_the_link():
    app, found = opened(GROUPS), {}
    for tab in ("work", "cost", "maps", "alike", "latent"):
        choose(app, "control-tab", tab)
        assert app.query_params["tab"] == tab
        found[tab] = titles(app).splitlines()
    for tab, own in found.items():
        others = {title for other in found if other != tab for title in found[other]}
        assert len(own) == len({*own}) and {*own} - others, tab


def test_keys_and_values_are_compared():
    there = choose(opened(GROUPS, tab="alike"), "control-alike", "values")
    assert "squared length of the values" in there and "of the keys" not in there


def test_a_layer_is_chosen():
    app = opened(GROUPS)
    there = choose(app, "control-layer", 2)
    assert numbers_where("Layer #: # query heads share # KV heads", there) == [2, 8, 4]
    assert app.query_params["layer"] == "2"
