"""The bars of several models' caches have the lengths of the formulas, to one scale, and the captions agree."""

import re
from dataclasses import replace

import pytest

from attnviz.config import ModelConfig
from attnviz.cost import PRECISIONS, kv_cache_bytes, load_presets
from attnviz.figures.cost import caches_panel, kinds_of

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
    panel = caches_panel(CHOSEN, TOY, 4099, batch, precision)
    sizes = [kv_cache_bytes(m, 4099, batch, bits, block_size=block) for m in (*CHOSEN, TOY)]
    lengths = [rect[2] for rect in panel["rects"]]
    assert lengths == pytest.approx([n / max(sizes) for n in sizes]) and max(lengths) == panel["width"]
    assert [int(re.search(r"([\d,]+) B$", rect[6])[1].replace(",", "")) for rect in panel["rects"]] == sizes
    assert all(f"{n:,} B" in panel["alt"] for n in sizes)


def test_llama_2_7b_by_hand() -> None:
    """2 · 32 layers · 32 KV heads · 128 · 2 bytes = 524,288 B per token."""
    panel = caches_panel(CHOSEN[:1], TOY, 1000, 1, "bf16")
    assert "Llama 2 7B 524,288,000 B and Toy GQA-2 120,000 B" in panel["alt"]  # 2 · 3 · 2 · 5 · 2 bytes = 120 per token
    assert panel["title"] == "Llama 2 7B caches 500 MiB"


def test_the_title_compares_the_largest_with_the_smallest() -> None:
    panel = caches_panel(CHOSEN, TOY, 2**15, 1, "bf16")
    largest, times, smallest = re.fullmatch(r"(.+) caches ([\d.]+) times as much as (.+)", panel["title"]).groups()
    sizes = {m.name: kv_cache_bytes(m, 2**15) for m in CHOSEN}
    ranked = sorted(sizes, key=sizes.__getitem__)
    assert ranked[-1].startswith(largest) and ranked[0].startswith(smallest)
    assert float(times) == pytest.approx(max(sizes.values()) / min(sizes.values()), abs=0.05)


def test_the_model_that_runs_here_stands_alone_where_none_is_chosen() -> None:
    panel = caches_panel([], TOY, 17, 1, "fp32")
    assert panel["title"] == "Toy GQA-2 caches 3.98 KiB" and len(panel["rects"]) == 1  # 17 · 240 = 4,080 B


def test_two_of_the_same_size_are_not_compared() -> None:
    same = replace(CHOSEN[0], name="Other")
    assert caches_panel([CHOSEN[0], same], TOY, 2048, 1, "bf16")["title"] == "Llama 2 7B and Other cache 1 GiB"


def test_each_type_of_attention_is_in_the_legend_once() -> None:
    names = [name for _, name in kinds_of([*CHOSEN, CHOSEN[0], TOY])]
    assert names == ["MHA", "GQA", "MLA"]


def test_bars_beyond_a_models_context_are_faint_and_named():
    panel = caches_panel(CHOSEN, TOY, 2**15, 1, "bf16")
    beyond = [m.max_context is not None and m.max_context < 2**15 for m in (*CHOSEN, TOY)]
    assert [opacity < 1 for *_, opacity, _ in panel["rects"]] == beyond and True in beyond and False in beyond
    assert "Faint: 32 K tokens is beyond the context of Llama 2 7B (4 K)" in panel["note"]
    assert "Faint" not in caches_panel(CHOSEN, TOY, 17, 1, "bf16")["note"]
