"""Sentences of the Cost page on counted numbers, at the settings that show them."""

from __future__ import annotations

import re

import pytest

from attnviz.compute import cost as compute_cost
from attnviz.compute import models
from attnviz.config import ModelConfig
from attnviz.cost import (
    PRECISIONS,
    Serving,
    comparison,
    count_parameters,
    kv_cache_bytes,
    load_accelerators,
    load_presets,
    with_its_scales,
)
from attnviz.cost.hf_architectures import FULL_MHA, UNBIASED
from attnviz.cost.hf_config import read_hf_config
from attnviz.cost.pairs import instructive_pairs
from attnviz.cost.units import bytes_text
from attnviz.experiments.measurement import counted_cache_bytes
from attnviz.figures import cost as figures
from attnviz.figures.cost import captions
from attnviz.figures.cost.captions import is_beyond
from attnviz.session.settings import Settings
from tests.pages import COST
from tests.reading import numbers_in, numbers_where
from tests.walk import Visit, walking

PRESETS, CARDS = load_presets(), load_accelerators()
SMALL = ModelConfig(n_layers=3, d_model=35, n_heads=6, n_kv_heads=2, head_dim=14, d_ff=41, vocab_size=101)


def texts(**changes) -> list[str]:
    """Return all texts of the page at these settings."""
    with walking() as opened:
        return [said.text for said in opened(Visit(COST, Settings(**changes).normalised())).said]


@pytest.mark.parametrize(
    ("precision", "batch", "window"), list(zip(PRECISIONS, (3, 1) * 4, (512, 16) * 4, strict=True))
)
def test_the_headline_is_in_the_chosen_precision_and_for_all_sequences(precision, batch, window):
    settings = Settings(model="gqa-4", context=1000, batch=batch, precision=precision, window=window)
    model = models.config_of(settings)
    bits, block = PRECISIONS[precision]
    full, here = (
        bytes_text(kv_cache_bytes(m, 1000, batch, bits, block_size=block)) for m in (comparison(model)[0], model)
    )
    link = {"context": 1000, "batch": batch, "precision": precision, "window": window}
    # The line is above each tab; this one draws the least.
    there = texts(tab="measured", model="gqa-4", preset="selected", **link)
    (said,) = (text for text in there if text.startswith("For **"))
    assert re.findall(r"\*\*([\d.,]+ \w?i?B)\*\*", said) == [full, here] and with_its_scales(precision) in said


@pytest.mark.parametrize("precision", PRECISIONS)
def test_only_what_was_counted_is_said_to_be_equal(precision):
    settings = Settings(context=70, batch=2, precision=precision)
    models = comparison(SMALL)
    live = compute_cost.counted(models, settings)
    differing = compute_cost.differing(models, live, settings)
    said = figures.counted_text(len(models), *differing, precision, windowed=False)
    assert live.cache == tuple(counted_cache_bytes(m, 70, 2) for m in models)
    assert "bf16" in said and (f"bytes drawn in {with_its_scales(precision)}" in said) == (precision != "bf16")


def test_the_answer_is_for_the_pasted_model_where_it_is_chosen_and_on_its_tab():
    pasted = '{"n_layers": 3, "d_model": 32, "n_heads": 4, "n_kv_heads": 2, "name": "Mine"}'
    asked = {
        tab: [text for text in texts(tab=tab, facts=pasted, **more) if " needs " in text][0]
        for tab, more in (("facts", {}), ("published", {}), ("memory", {"preset": "pasted"}))
    }
    assert [said.startswith("**Mine needs ") for said in asked.values()] == [True, False, True]


def test_nothing_is_said_of_a_config_where_there_is_nothing():
    llama = {"model_type": "llama", **UNBIASED, **FULL_MHA, "head_dim": 128, "num_key_value_heads": 32}
    said = figures.description_texts(read_hf_config(llama))
    assert len(said) == 2 and "assumed" in said[1] and "`" not in said[1]  # it names no field
    assert captions._fields({"mlp_only_layers": [], "n": 3}) == "`mlp_only_layers`: empty, `n` 3"


def test_of_an_unknown_architecture_tied_embeddings_are_said_to_be_possible():
    minicpm = {"architectures": ["MiniCPMForCausalLM"], "model_type": "minicpm", "hidden_size": 2304,
               "intermediate_size": 5760, "num_attention_heads": 36, "num_hidden_layers": 40, "vocab_size": 122753,
               "num_key_value_heads": 36, "max_position_embeddings": 4096, "rms_norm_eps": 1e-5, "scale_emb": 12,
               "dim_model_base": 256, "scale_depth": 1.4}  # fmt: skip
    said = " ".join(figures.description_texts(read_hf_config(minicpm)))
    assert "`tie_word_embeddings` false" in said and numbers_where("# fewer parameters", said) == [122_753 * 2304]
    assert "fewer" not in " ".join(figures.description_texts(read_hf_config(minicpm | {"tie_word_embeddings": True})))


@pytest.mark.slow
def test_models_beyond_their_context_are_marked_in_table_and_words():
    over = [m for m in PRESETS.values() if is_beyond(m, 32_768)]
    assert len(over) == 36
    totals = figures.totals(list(PRESETS.values()), 32_768)
    assert sum(totals.table["32 K is beyond that"]) == 36
    assert all(figures.short_name(m) in totals.alt for m in over)
    for model in PRESETS.values():
        serving = Serving(model, CARDS["b200"].times(64), 32_768)
        drawings = [figures.filling(serving), figures.speed(serving), figures.roof(serving),
                    figures.machines([CARDS["t4"]], serving)]  # fmt: skip
        drawings += [] if model.mixed_layers else [figures.alternatives(model, 32_768)]
        for drawing in drawings:
            assert ("beyond that" in drawing.note) == (model in over)


def test_the_memory_of_an_accelerator_is_said_with_its_source_and_the_other_reading():
    model = PRESETS["llama-3-8b"]
    for card in CARDS.values():
        serving = Serving(model, card, 8192)
        note, other = figures.filling(serving).more, serving.on(card.by_data_sheet()).plan().n_users
        assert card.data_sheet_gb in numbers_in(note)
        if card.reported_by:
            assert card.reported_by in note and {card.memory // 2**20, other} <= {*numbers_in(note)}
        else:
            assert "MiB" not in note and "not known" in note


@pytest.mark.parametrize(
    "card, weights, precision, tflops, named",
    [
        ("h100-sxm", "fp8", "fp8", 1979, "fp8"),
        ("h100-sxm", "fp8", "bf16", 989, "widened to 16 bits"),
        ("a100-80gb", "fp8", "fp8", 312, "no fp8 peak"),
        ("h100-sxm", "int4", "int4", 989, "int4 numbers are widened to 16 bits"),
        ("h100-sxm", "bf16", "bf16", 989, "16-bit"),
        ("h100-sxm", "fp32", "fp32", 989, "fp32"),
    ],
)
def test_the_peak_that_is_used_is_said(card, weights, precision, tflops, named):
    serving = Serving(PRESETS["llama-3-8b"], CARDS[card], 8192, precision, weights)
    for drawing in (figures.speed(serving), figures.roof(serving)):
        assert numbers_where("# TFLOP/s", drawing.more) == [tflops] and named in drawing.more


@pytest.mark.parametrize("precision, words", [("int4", "zero point"), ("fp8", "per head")])
def test_conventions_of_scales_are_said_to_be_assumed(precision, words):
    note = figures.cache(comparison(SMALL), SMALL, None, 70, 2, precision).more
    assert "Assumed" in note and words in note
    assert "Assumed" not in figures.cache(comparison(SMALL), SMALL, None, 70, 2, "bf16").more


def test_each_mla_is_named_by_its_widths():
    latent = comparison(SMALL)[-1]
    cache = figures.cache(comparison(SMALL), SMALL, None, 70)
    widths = "kv_lora_rank # and qk_rope_head_dim #"
    assert numbers_where(widths, cache.more) == [latent.kv_lora_rank, latent.qk_rope_head_dim]
    assert "what-if" in cache.note and "not a trained checkpoint" in cache.note
    trained = models.config_of(Settings(model="mla"))
    own = figures.cache(comparison(trained), trained, None, 70)
    assert numbers_where(widths, own.more) == [64, 16] and "what-if" not in own.note


def test_pairs_claim_no_years_and_hold():
    for pair in instructive_pairs():
        assert "year" not in pair.name.lower()
    (said,) = (p.sentence for p in instructive_pairs() if p.ids == ("command-r-v01", "command-r-08-2024"))
    assert {163_840, 1_310_720, 12.5} <= {*numbers_in(said)}


def test_the_table_of_published_models_says_what_a_token_uses():
    table = figures.published([PRESETS["gpt-oss-20b"]], [], "parameters").table
    (column,) = (values for name, values in table.items() if name.startswith("used per token"))
    assert column == [count_parameters(PRESETS["gpt-oss-20b"]).used_per_token]
    assert column[0] == pytest.approx(3.61e9, rel=2e-3)


def test_no_title_on_the_page_is_long():
    model = PRESETS["llama-3-8b"]
    serving = Serving(model, CARDS["h100-sxm"], 8192)
    drawings = [figures.filling(serving), figures.speed(serving), figures.roof(serving),
                figures.machines(list(CARDS.values()), serving), figures.alternatives(model, 8192),
                figures.cache(comparison(SMALL), SMALL, None, 70, 3), figures.precisions(SMALL, 70)]  # fmt: skip
    for drawing in drawings:
        bare = drawing.title.replace(model.name, "it").replace(CARDS["h100-sxm"].name, "it").replace("8 K", "8K")
        assert len(bare.split()) <= 12, drawing.title


def test_the_measurement_names_the_attentions_that_are_timed():
    shown = texts(tab="measured", model="own", n_layers=1, n_heads=2, n_kv_heads=1, d_model=8)
    (said,) = (text for text in shown if text.startswith("Time one decode step"))
    assert "MHA, MQA and MLA" in said and "GQA" not in said
