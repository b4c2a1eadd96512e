"""Controls of the query-grouping page: each moves the sentences and the drawings that it is about."""

import re

import pytest
from streamlit.testing.v1 import AppTest

from tests.ui.test_pages import opened

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("no_links_to_pages")]

GROUPS = "pages/2_query_groups.py"


def said(app: AppTest) -> str:
    """Return all texts of the page and what its components and charts are sent, one per line."""
    drawn = [each.proto.bytes.decode(errors="ignore") for each in app.get("bidi_component")]
    charts = [chart.proto.alt for chart in app.get("plotly_chart")]
    return "\n".join([each.value for each in (*app.markdown, *app.caption)] + drawn + charts)


def choose(app: AppTest, key: str, value: object) -> str:
    """Choose an option of a segmented control; return what the parts that depend on it say: the others do not rerun."""
    app.segmented_control(key=key).set_value(value).run()
    assert not app.exception
    return said(app)


@pytest.mark.parametrize(
    ("button", "model", "n_kv_heads", "n_bytes"),
    [(0, "mha", 8, "6,144"), (2, "gqa-2", 2, "1,536"), (3, "mqa", 1, "768")],
)
def test_a_button_moves_the_model_its_projections_its_cache_and_its_work(button, model, n_kv_heads, n_bytes):
    app = opened(GROUPS)
    before = said(app)
    assert "8 query heads read 4 KV heads" in before and "caches 3,072 B per token" in before
    there = choose(app, "kv-heads", button)
    assert app.query_params["model"] == model
    assert f"8 query heads read {n_kv_heads} KV head" in there
    assert f"W_k and W_v are {24 * n_kv_heads} wide" in there
    assert f"caches {n_bytes} B per token" in there
    work = r"attention FLOPs and .* of cache per decode step" if model == "mha" else "100% of MHA's attention FLOPs"
    assert re.search(work, there.replace("\\u2019", "'"))


def test_latent_attention_has_a_button_of_its_own():
    there = choose(opened(GROUPS, model="mqa"), "kv-heads", 4)
    assert "latent of 64 numbers and a shared RoPE key of 16" in there
    assert "MLA caches 1,280 B per token" in there
    checks = {tab: choose(opened(GROUPS, model="mla"), "control-tab", tab) for tab in ("latent", "equal")}
    claims = {
        tab: {claim for claim in ("Absorbed form = expanded form", "Matches PyTorch's kernel")
              if re.search(f"{claim}.*in float64", text)}
        for tab, text in checks.items()
    }  # fmt: skip
    assert claims == {"latent": {"Absorbed form = expanded form"}, "equal": {"Matches PyTorch's kernel"}}


@pytest.mark.parametrize("tab", ["maps", "alike"])
def test_beside_latent_attention_the_heads_of_mha_are_merged_to_a_cache_of_its_size(tab):
    there = choose(opened(GROUPS, model="mla"), "control-tab", tab)
    assert "MLA merges no heads" in there and "2 · 2 · 24 = 96 numbers per token and layer beside 80" in there
    title = "averaging moves" if tab == "maps" else "Averaging neighbours loses"
    assert title in there and "nothing is averaged" not in there


def test_own_settings_share_over_their_own_divisors():
    app = opened(GROUPS, model="own", n_heads="6", n_kv_heads="3", d_model="96", n_layers="2")
    assert list(app.segmented_control(key="kv-heads").options) == [
        "MHA (K=6)", "GQA-3 (K=3)", "GQA-2 (K=2)", "MQA (K=1)", "MLA"
    ]  # fmt: skip
    assert "6 query heads read 2 KV heads" in choose(app, "kv-heads", 2)
    assert app.query_params["n_kv_heads"] == "2"


def test_tiling_is_said_with_what_it_does_to_the_loss_and_to_be_nothing_for_one_kv_head():
    app = opened(GROUPS, model="gqa-2")
    assert "With repeat()" not in said(app)
    app.toggle(key="control-tiled").set_value(True).run()
    there = said(app)
    assert app.query_params["tiled"] == "1"
    assert "With repeat(), 4 of 8 query heads read the wrong KV head." in there
    assert re.search(r"The loss goes from \d+\.\d\d to \**\d+\.\d\d\** nats per token", there)
    assert "With 1 KV head both orders are the same" in said(opened(GROUPS, model="mqa", tiled="1"))


def test_every_equality_holds_in_both_precisions():
    there = said(opened(GROUPS))
    for claim in ("K = H equals multi-head", "K = 1 equals multi-query", "Grouped form = repeat_int",
                  "Matches PyTorch's kernel"):  # fmt: skip
        assert re.search(rf"{claim}.*in float32 \(tolerance.*in float64 \(tolerance", there), claim


TITLES = {
    "work": "GQA-4 reads 50% of MHA's cache, with 100% of MHA's attention FLOPs",
    "cost": "Averaging into 4 KV heads: loss",
    "maps": r"averaging moves \d+% of its attention",
    "alike": r"Averaging neighbours loses \d+% of .* of the keys",
    "latent": "80 cached numbers become 448",
}


def test_every_tab_has_its_title_once_and_goes_into_the_link():
    app = opened(GROUPS)
    for tab, title in TITLES.items():
        there = choose(app, "control-tab", tab)
        assert app.query_params["tab"] == tab
        assert len([line for line in there.splitlines() if line.startswith("#") and re.search(title, line)]) == 1, tab


def test_keys_and_values_are_compared():
    there = choose(opened(GROUPS, tab="alike"), "control-alike", "values")
    assert re.search(r"Averaging neighbours loses \d+% of the squared length of the values", there)


def test_a_layer_is_chosen():
    app = opened(GROUPS)
    assert "## Layer 2: 8 query heads share 4 KV heads" in choose(app, "control-layer", 2)
    assert app.query_params["layer"] == "2"
