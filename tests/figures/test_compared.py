"""The bars of several models' caches have the lengths of the formulas, to one scale, and the captions agree."""

import re
from dataclasses import replace

import pytest

from attnviz.config import ModelConfig
from attnviz.cost import PRECISIONS, kv_cache_bytes, load_presets
from attnviz.figures.cost import caches_panel, kinds_of
from tests.reading import numbers_in, numbers_where

TOY = ModelConfig(
    vocab_size=101,
    d_model=30,
    n_layers=3,
    n_heads=6,
    n_kv_heads=2,
    head_dim=5,
    d_ff=7,
    max_context=64,
    name="Toy GQA-2",
)
CHOSEN = [load_presets()[id] for id in ("llama-2-7b", "gemma-3-27b", "deepseek-v3")]


@pytest.mark.parametrize("precision", PRECISIONS)
@pytest.mark.parametrize("batch", [1, 3])
def test_bars_are_to_scale(precision: str, batch: int) -> None:
    bits, block = PRECISIONS[precision]
    panel = caches_panel([*CHOSEN, TOY], 4099, batch, precision)
    sizes = [kv_cache_bytes(m, 4099, batch, bits, block_size=block) for m in (*CHOSEN, TOY)]
    lengths = [rect[2] for rect in panel["rects"]]
    assert lengths == pytest.approx([n / max(sizes) for n in sizes]) and max(lengths) == panel["width"]
    assert [numbers_where("# B$", rect[6])[0] for rect in panel["rects"]] == sizes
    assert {*sizes} <= {*numbers_in(panel["alt"])}


def test_llama_2_7b_by_hand() -> None:
    """2 · 32 layers · 32 KV heads · 128 · 2 bytes = 524,288 B per token."""
    panel = caches_panel([CHOSEN[0], TOY], 1000, 1, "bf16")
    both = numbers_where("Llama 2 7B # B and Toy GQA-2 # B", panel["alt"])
    assert both == [524_288_000, 120_000]  # 2 · 3 · 2 · 5 · 2 bytes = 120 per token
    assert numbers_where("Llama 2 7B .*# times", panel["title"]) == [4400]  # 524,288,000 / 120,000


def test_the_title_compares_the_largest_with_the_smallest() -> None:
    panel = caches_panel([*CHOSEN, TOY], 2**15, 1, "bf16")
    largest, times, smallest = re.fullmatch(r"(.+) caches ([\d.,]+) times as much as (.+)", panel["title"]).groups()
    sizes = {m.name: kv_cache_bytes(m, 2**15) for m in (*CHOSEN, TOY)}
    ranked = sorted(sizes, key=sizes.__getitem__)
    assert ranked[-1].startswith(largest) and ranked[0].startswith(smallest)
    assert float(times.replace(",", "")) == pytest.approx(max(sizes.values()) / min(sizes.values()), rel=0.05)


def test_one_model_stands_alone() -> None:
    panel = caches_panel([TOY], 17, 1, "fp32")
    assert numbers_in(panel["title"]) == [3.98] and len(panel["rects"]) == 1  # 17 · 240 = 4,080 B in KiB


def test_two_of_the_same_size_are_not_compared() -> None:
    same = replace(CHOSEN[0], name="Other")
    title = caches_panel([CHOSEN[0], same], 2048, 1, "bf16")["title"]
    assert "times" not in title and numbers_where("Llama 2 7B and Other .*# GiB", title) == [1]


def test_each_type_of_attention_is_in_the_legend_once() -> None:
    names = [name for _, name in kinds_of([*CHOSEN, CHOSEN[0], TOY])]
    assert names == ["MHA", "GQA", "MLA"]


def test_bars_beyond_a_models_context_are_faint_and_named():
    panel = caches_panel([*CHOSEN, TOY], 2**15, 1, "bf16")
    beyond = [m.max_context is not None and m.max_context < 2**15 for m in (*CHOSEN, TOY)]
    assert [opacity < 1 for *_, opacity, _ in panel["rects"]] == beyond and True in beyond and False in beyond
    assert numbers_where(r"Faint: # K .* Llama 2 7B \(# K\)", panel["note"]) == [32, 4]
    assert "Faint" not in caches_panel([*CHOSEN, TOY], 17, 1, "bf16")["note"]
