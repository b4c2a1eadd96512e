"""The figures of query grouping, against live modules and against numbers computed here.

.venv/bin/python -m pytest tests/figures/test_group_figures.py
"""

from dataclasses import replace

import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode

from attnviz.analysis.groups import kv_heads_read
from attnviz.config import ModelConfig, divisors
from attnviz.experiments.equalities import cached_bytes
from attnviz.figures import groups, groups_work, latent
from attnviz.figures.theme import kv_colour
from attnviz.modules import KVCache, Recording, Rope, Transformer, rope_frequencies
from tests.arithmetic import results
from tests.reading import numbers_in, numbers_where

CONFIG = ModelConfig(n_layers=3, d_model=35, n_heads=6, n_kv_heads=2, head_dim=10, d_ff=17, vocab_size=19)
MLA = ModelConfig(
    n_layers=3, d_model=35, n_heads=6, attention="mla", kv_lora_rank=14, qk_rope_head_dim=2, qk_nope_head_dim=11,
    v_head_dim=13, d_ff=17, vocab_size=19,
)  # fmt: skip
IDS = [3, 1, 4, 1, 5, 9, 2]


@pytest.mark.parametrize("n_kv_heads", divisors(6))
@pytest.mark.parametrize("tiled", [False, True])
def test_the_diagram_draws_who_reads_whom(n_kv_heads, tiled):
    read = kv_heads_read(6, n_kv_heads, tiled=tiled)
    data = groups.sharing(6, n_kv_heads, read, selected=3)
    heads = torch.arange(n_kv_heads)
    expected = heads.repeat(6 // n_kv_heads) if tiled else heads.repeat_interleave(6 // n_kv_heads)
    assert [q["kv"] for q in data["queries"]] == expected.tolist()
    assert [q["wrong"] for q in data["queries"]] == [kv != h * n_kv_heads // 6 for h, kv in enumerate(read)]
    assert [kv["colour"] for kv in data["kvs"]] == [kv_colour(j, n_kv_heads) for j in range(n_kv_heads)]
    assert data["rows"]["index"].endswith("= " + " ".join(map(str, expected.tolist())))


def test_the_diagram_names_partners_and_strangers():
    data = groups.sharing(6, 2, kv_heads_read(6, 2), selected=0)
    assert data["queries"][4]["description"] == "Query head 4 reads KV head 1, together with query heads 3 and 5."
    assert data["kvs"][0]["description"] == "KV head 0 is read by query heads 0, 1 and 2."
    alone = groups.sharing(6, 6, kv_heads_read(6, 6), selected=0)
    assert alone["queries"][4]["description"] == "Query head 4 reads KV head 4, alone."
    tiled = groups.sharing(6, 2, kv_heads_read(6, 2, tiled=True), selected=0)
    assert "dashed" in tiled["rows"]["reads"] and "dashed" not in data["rows"]["reads"]
    wrong = tiled["queries"][1]
    assert wrong["wrong"] and "with repeat_interleave() it reads KV head 0" in wrong["description"]


@pytest.mark.parametrize("n_kv_heads", divisors(6))
def test_the_projections_are_drawn_to_the_scale_of_the_live_ones(n_kv_heads):
    config = CONFIG.with_kv_heads(n_kv_heads)
    attn, caption = Transformer.random(config, 0).blocks[0].attn, groups.projections_caption(config)
    for name, rects in rects_of(groups.projections_panel(config)).items():
        n_out, n_in = getattr(attn, f"{name[-1]}_proj").weight.shape
        assert len(rects) == (n_kv_heads if name in ("W_k", "W_v") else 6)
        assert sum(width * height for _, _, width, height, *_ in rects) == pytest.approx(n_in * n_out)
        left, right = min(x for x, *_ in rects), max(x + w for x, _, w, *_ in rects)
        assert right - left == pytest.approx(n_out)
        assert max(y + h for _, y, _, h, *_ in rects) == pytest.approx(n_in)
    weights = [getattr(attn, f"{part}_proj").weight.numel() for part in "qkvo"]
    assert caption.table["weights"] == weights
    assert results(caption.formula) == results(caption.line) == [sum(weights)]
    assert f"{sum(weights):,}" in caption.alt


def test_every_stripe_has_the_hue_of_its_kv_head():
    hues = {name: [each[4] for each in rects] for name, rects in rects_of(groups.projections_panel(CONFIG)).items()}
    assert hues["W_q"] == hues["W_o"] == [kv_colour(h // 3, 2) for h in range(6)]
    assert hues["W_k"] == hues["W_v"] == [kv_colour(0, 2), kv_colour(1, 2)]


def test_the_cache_is_drawn_as_long_as_the_live_one():
    configs = [CONFIG.with_kv_heads(k) for k in divisors(6)] + [MLA]
    measured = {c: cached_bytes(c, 1) for c in configs}
    panel, caption = groups.cache_panel(measured, CONFIG), groups.cache_caption(measured, CONFIG)
    for row, config in enumerate(configs):
        segments = [(x, width) for x, y, width, *_ in panel["rects"] if int(y) == row]
        assert len(segments) == (2 if config is MLA else config.n_kv_heads)
        ends = [start + length for start, length in segments]
        assert [start for start, _ in segments] == pytest.approx([0, *ends[:-1]])
        assert ends[-1] == pytest.approx(measured[config])
    totals = [label for label in panel["labels"] if label[2].startswith("after")]
    assert [(label[0], label[3]) for label in totals] == [(n, f"{n:,} B") for n in measured.values()]
    assert [label[2].endswith("strong") for label in totals] == [c == CONFIG for c in configs]
    assert caption.table["bytes per token, counted"] == caption.table["bytes per token, by formula"]
    assert numbers_in(caption.title) == [480, 33.3]
    assert [int(y) for _, y, where, *_ in panel["labels"] if where == "before strong"] == [configs.index(CONFIG)]
    assert results(caption.formula) == [measured[CONFIG]] == [480]
    assert results(groups.cache_caption(measured, MLA).formula) == [measured[MLA]] == [3 * (14 + 2) * 4]
    assert caption.line.replace("\u2009", "") == "L·2·K·D·b = 3·2·2·10·4 = 480 B"
    assert groups.cache_caption(measured, MLA).line.replace("\u2009", "") == "L·(R + P)·b = 3·(14 + 2)·4 = 192 B"
    assert numbers_where("kv_lora_rank #, qk_rope_head_dim #", caption.note) == [14, 2]  # which MLA it is


def rects_of(panel: dict) -> dict[str, list[list]]:
    """Return the rectangles [x, y, width, height, …] by the first words of their hover text."""
    found = {}
    for rect in panel["rects"]:
        found.setdefault(rect[-1].split(",")[0], []).append(rect)
    return found


@pytest.mark.parametrize("selected", [CONFIG, MLA])
def test_the_panel_of_the_work_is_a_share_of_the_first(selected):
    configs = [CONFIG.with_kv_heads(6), CONFIG, MLA]
    panel, table = groups_work.work_panel(configs, selected, 23), groups_work.work(configs, selected, 23).table
    expected = [table[what][configs.index(selected)] / table[what][0] for what in list(table)[1:]]
    assert [rect[2] for rect in panel["rects"]] == expected
    assert panel["width"] == max(1, *expected)  # MLA has more FLOPs
    assert ("latent" in panel["note"]) == (selected is MLA)


def attention_core_flops(config: ModelConfig, n_tokens: int) -> int:
    """Count one new token's FLOPs for scores and weighted sum in the live modules, all layers, by torch's counter."""
    with torch.device("meta"):
        model = Transformer(config)
        cache = model.new_cache()
        model(torch.zeros(1, n_tokens - 1, dtype=torch.long), cache=cache)
        with FlopCounterMode(display=False) as counter:
            model(torch.zeros(1, 1, dtype=torch.long), cache=cache)
    counts = counter.get_flop_counts()
    # scores and weighted sum are the batched products; projections, feed-forward and logits are plain ones
    return sum(n for op, n in counts["Global"].items() if "bmm" in str(op))


def test_fewer_kv_heads_change_the_cache_and_not_the_work():
    configs = [CONFIG.with_kv_heads(k) for k in divisors(6)]
    drawing = groups_work.work(configs, CONFIG, n_tokens=23)
    assert drawing.table["attention FLOPs"] == [attention_core_flops(c, 23) for c in configs]
    assert len(set(drawing.table["attention FLOPs"])) == 1
    live = [Transformer.random(c, 0) for c in configs]
    assert drawing.table["parameters of the model"] == [sum(p.numel() for p in m.parameters()) for m in live]
    assert drawing.table["cache bytes read"] == [cached_bytes(c, 23) for c in configs]
    above = groups_work.work_panel(configs, CONFIG, 23)
    assert numbers_in(drawing.title) == [33.3, 100] and numbers_in(above["title"]) == [100, 33.3]
    assert "FLOPs" in above["line"] and "FLOPs" not in drawing.formula
    assert results(drawing.formula) == [drawing.table["cache bytes read"][configs.index(CONFIG)]]


def test_the_title_is_on_the_selected_attention_and_the_note_on_the_one_that_reads_least():
    """Shares by hand, of 6 KV heads: a latent and a RoPE key against 2·6·D numbers, H·(2 R + P) against 2·H·D FLOPs."""
    wide = replace(MLA, kv_lora_rank=23)
    configs, numbers, flops = [*(CONFIG.with_kv_heads(k) for k in (6, 1)), wide], 2 * 6 * 10, 2 * 6 * 10
    assert (f"{(23 + 2) / numbers:.1%}", f"{6 * (2 * 23 + 2) / flops:.0%}") == ("20.8%", "240%")
    mha, mqa, latent = (groups_work.work(configs, config, 23) for config in configs)
    assert [numbers_in(each.title) for each in (latent, mqa, mha)] == [
        [20.8, 240], [16.7, 100], [cached_bytes(configs[0], 23)]
    ]  # fmt: skip
    for drawing, name in ((mha, "MHA"), (mqa, "MQA"), (latent, "MLA")):
        assert drawing.title.startswith(name) and numbers_where("MQA reads the least .*: #%", drawing.note) == [16.7]
    least = groups_work.work([*configs[:2], MLA], MLA, 23).note
    assert numbers_where("MLA reads the least .*: #%", least) == [13.3]
    assert "least" not in groups_work.work([CONFIG], CONFIG, 23).note


def test_the_absorbed_products_that_are_not_counted_are_said():
    """By torch's counter: each head's query times W_UK, and its weighted latents times W_UV."""
    H, R, N, V = MLA.n_heads, MLA.kv_lora_rank, MLA.qk_nope_head_dim, MLA.v_head_dim
    with FlopCounterMode(display=False) as counter:
        torch.einsum("hn,hnr->hr", torch.empty(H, N), torch.empty(H, N, R))
        torch.einsum("hr,hrv->hv", torch.empty(H, R), torch.empty(H, R, V))
    for note in (groups_work.work([CONFIG, MLA], MLA, 23).more, groups_work.work_panel([CONFIG, MLA], MLA, 23)["note"]):
        assert numbers_where("# FLOPs per token, are not included", note) == [MLA.n_layers * counter.get_total_flops()]
    assert "W_UK" not in groups_work.work([CONFIG, MLA], CONFIG, 23).more


def test_latent_attention_is_drawn_to_the_scale_of_its_live_tensors():
    model, record = Transformer.random(MLA, 0), Recording()
    with torch.no_grad():
        model(torch.tensor([IDS]), record=record)
    drawing = latent.latent(MLA)
    cached, key, k_latent, k_rotated, value = drawing.figure.data
    assert (cached.x[0] + key.x[0]) * 4 * MLA.n_layers == cached_bytes(MLA, 1)
    assert k_latent.x[0] + k_rotated.x[0] == record[0].k.shape[-1]
    assert value.x[0] == record[0].v.shape[-1]
    assert len(k_latent.y) == record[0].k.shape[1]
    expanded = record[0].k[0, :, 0].numel() + record[0].v[0, :, 0].numel()
    assert numbers_in(drawing.title) == [16, expanded, 6] and results(drawing.formula)[-1] == expanded


@pytest.mark.parametrize("n_tokens", [2, 23])  # for one key torch multiplies entries, which its counter leaves out
def test_absorbed_and_expanded_flops_are_those_that_torch_counts(n_tokens):
    """One decode step of the live module, in both forms, without the projections that both have."""
    attn = Transformer.random(MLA, 0).blocks[0].attn
    x = torch.randn(1, n_tokens, MLA.d_model, generator=torch.Generator().manual_seed(3))
    rope = Rope(rope_frequencies(MLA.qk_rope_head_dim))
    counted, shared = {}, {}
    for absorbed in (True, False):
        cache = KVCache()
        with torch.no_grad():
            if n_tokens > 1:
                attn(x[:, :-1], causal=True, rope=rope, cache=cache)
            with FlopCounterMode(display=False) as counter:
                attn(x[:, -1:], causal=True, rope=rope, cache=cache, absorbed=absorbed)
            with FlopCounterMode(display=False) as projections:
                attn._queries(x[:, -1:])
                attn.kv_a_proj(x[:, -1:])
                attn.o_proj(torch.zeros(1, 1, MLA.n_heads * MLA.v_head_dim))
        counted[absorbed], shared[absorbed] = counter.get_total_flops(), projections.get_total_flops()
    assert shared[True] == shared[False]
    assert latent.absorbed_flops(MLA, n_tokens).value == counted[True] - shared[True]
    assert latent.expanded_flops(MLA, n_tokens).value == counted[False] - shared[False]
    drawing = latent.absorbing(MLA, n_tokens)
    assert list(drawing.figure.data[0].x) == [counted[True] - shared[True], counted[False] - shared[False]]


def test_each_head_reads_both_cached_tensors_of_latent_attention():
    data = latent.latent_sharing(MLA, selected=2)
    cached = {"latent": MLA.kv_lora_rank, "RoPE key": MLA.qk_rope_head_dim}
    assert [box["name"] for box in data["kvs"]] == [f"{name} ({n})" for name, n in cached.items()]
    assert sum(cached.values()) * 4 * MLA.n_layers == cached_bytes(MLA, 1)
    assert numbers_in(data["rows"]["kvs"]) == [*cached.values()]
    assert all([q["kv"], *q["also"]] == [0, 1] for q in data["queries"]) and len(data["queries"]) == MLA.n_heads
