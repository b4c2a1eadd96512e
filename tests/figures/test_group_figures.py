"""The figures of query grouping, against live modules and against numbers computed here.

.venv/bin/python -m pytest tests/figures/test_group_figures.py
"""

import math
import re
import statistics
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode

from attnviz import checkpoints
from attnviz.analysis.groups import best_grouping, cosines, gram, kv_heads_read, lost_share, neighbours
from attnviz.config import ModelConfig, divisors
from attnviz.experiments.equalities import cached_bytes
from attnviz.figures import group_quality, groups, groups_work, latent
from attnviz.figures.group_quality import AVERAGED, FIRST, TRAINED
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
    wrong = groups.sharing(6, 2, kv_heads_read(6, 2, tiled=True), selected=0)["queries"][1]
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


def test_the_panel_of_the_cache_is_as_long_as_the_live_one():
    configs = [CONFIG.with_kv_heads(k) for k in divisors(6)] + [MLA]
    measured = {c: cached_bytes(c, 1) for c in configs}
    panel = groups.cache_panel(measured, CONFIG)
    for row, config in enumerate(configs):
        inside = [rect for rect in panel["rects"] if row < rect[1] < row + 1 and rect[1] + rect[3] < row + 1]
        assert sum(rect[2] for rect in inside) == pytest.approx(measured[config])
        assert len(inside) == (2 if config is MLA else config.n_kv_heads)
    totals = [label for label in panel["labels"] if label[2].startswith("after")]
    assert [(label[0], label[3]) for label in totals] == [(n, f"{n:,} B") for n in measured.values()]
    assert [label[2].endswith("strong") for label in totals] == [c == CONFIG for c in configs]


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


def test_in_latent_attention_every_head_reads_the_latent():
    data = latent.latent_sharing(MLA, selected=2)
    assert [q["kv"] for q in data["queries"]] == [0] * 6
    assert numbers_in(data["rows"]["kvs"]) == [14, 2]


def similarity_of(n_kv_heads: int):
    inner = gram(np.random.default_rng(0).normal(size=(6, 7, 5)))
    plain, best = neighbours(6, n_kv_heads), best_grouping(inner, n_kv_heads)
    lost = lost_share(inner, plain), lost_share(inner, best)
    return (
        group_quality.similarity(cosines(inner), plain, best, lost, float(inner.trace()), "keys", 7),
        inner,
        best,
        lost,
    )


def test_similarity_outlines_the_neighbours_and_dots_the_best_grouping():
    drawing, inner, best, lost = similarity_of(3)
    np.testing.assert_allclose(drawing.figure.data[0].z, cosines(inner), rtol=1e-6)
    outlined = [(s.x0, s.x1, s.y0, s.y1) for s in drawing.figure.layout.shapes]
    assert outlined == [(a, a + 2, a, a + 2) for a in (-0.5, 1.5, 3.5)]
    dots = drawing.figure.data[-1]
    assert {(int(y), int(x)) for x, y in zip(dots.x, dots.y, strict=True)} == {
        (a, b) for pair in best for a in pair for b in pair if a != b
    }
    assert numbers_in(drawing.title) == [round(100 * share) for share in lost]
    assert all("+".join(map(str, group)) in drawing.alt for group in best)
    assert drawing.table["cosine"][1] == pytest.approx(cosines(inner)[0, 1])


def test_with_all_kv_heads_nothing_is_merged():
    drawing, *_ = similarity_of(6)
    assert numbers_in(drawing.title) == [6] and results(drawing.formula) == [pytest.approx(0, abs=5e-4)]


def test_the_cosines_are_said_to_depend_on_the_basis_and_they_do():
    """Each head's values in a basis of its own, which W_o undoes: other cosines, the same products with W_o."""
    numbers = np.random.default_rng(19)
    v, w_o = numbers.normal(size=(3, 11, 5)), numbers.normal(size=(3, 5, 7))
    bases = np.linalg.qr(numbers.normal(size=(3, 5, 5)))[0]
    np.testing.assert_allclose((v @ bases) @ (bases.mT @ w_o), v @ w_o)
    assert np.abs(cosines(gram(v @ bases)) - cosines(gram(v))).max() > 0.1
    assert "basis" in similarity_of(3)[0].more


def test_the_share_of_uptraining_is_that_of_the_model_card():
    card = " ".join((Path(checkpoints.__file__).parent / "README.md").read_text(encoding="utf-8").split())
    said = re.search(r"([\d,]+) for every variant", card)[1], re.search(r"share one run up to ([\d,]+)", card)[1]
    whole, shared = (int(number.replace(",", "")) for number in said)
    drawing, drift = (
        group_quality.losses(WAYS, 2, "this text"),
        group_quality.drift({TRAINED: np.ones(3)}, list("abc"), 2),
    )
    assert drawing.figure.data[0].name == drift.figure.data[0].name == TRAINED == "uptrained"
    share = round(100 * (whole - shared) / whole)
    assert numbers_where("last #% of the training tokens", drift.more) == [share]
    assert numbers_where("last #% of the training tokens.*about #%", drawing.more) == [share, 5]


def test_the_mha_checkpoint_is_not_said_to_be_averaged():
    """With 6 of 6 KV heads the drawn point is the MHA checkpoint itself; a model of one's own has none uptrained."""
    drawing = group_quality.losses(WAYS, 2, "this text")
    assert re.search("6 KV heads.*MHA", drawing.more)
    assert [column for column in drawing.table if "uptrained" in column] == [
        "uptrained, nats per token", "uptrained, minus MHA", "uptrained, standard error"
    ]  # fmt: skip
    others = {way: by for way, by in WAYS.items() if way != TRAINED}
    assert "ptrained" not in group_quality.losses(others, 2, "this text").more
    assert group_quality.drift({AVERAGED: np.ones(3)}, list("abc"), 2).more == ""


MHA_LOSSES = np.array([1.0, 2.0, 4.0])
WAYS = {  # K -> losses of three predicted tokens; from MHA's they differ by 0 ± 1/√3 and more
    TRAINED: {6: MHA_LOSSES, 2: MHA_LOSSES + [0, 0, 0.75], 1: MHA_LOSSES + 0.5},
    AVERAGED: {6: MHA_LOSSES, 3: MHA_LOSSES + 1, 2: MHA_LOSSES + [0.5, 1.5, 2.5], 1: MHA_LOSSES + [1, 2, 6]},
    FIRST: {6: MHA_LOSSES, 3: MHA_LOSSES + 1.5, 2: MHA_LOSSES + 2, 1: MHA_LOSSES + 3},
}


def test_losses_are_drawn_less_those_of_mha_with_their_spread():
    drawing = group_quality.losses(WAYS, 2, "this text")
    assert numbers_in(drawing.title) == [2, 1.5, 0.58]
    trained, averaged, _ = drawing.figure.data
    assert list(trained.x) == [0, 2, 3] and list(trained.y) == pytest.approx([0, 0.25, 0.5])
    assert list(averaged.error_y.array) == pytest.approx([0, 0, 1 / math.sqrt(3), statistics.stdev([1, 2, 6]) / 3**0.5])
    table = drawing.table
    assert table["KV heads"] == [6, 3, 2, 1]
    assert table[f"{TRAINED}, nats per token"] == [7 / 3, None, pytest.approx(31 / 12), pytest.approx(17 / 6)]
    assert table[f"{AVERAGED}, minus MHA"] == list(averaged.y)
    assert table[f"{AVERAGED}, standard error"] == list(averaged.error_y.array)
    assert {3, 2.33} <= {*numbers_in(drawing.note)}  # predicted tokens, MHA's loss
    band = drawing.figure.layout.shapes[0]
    assert band.x0 < 2 < band.x1
    assert numbers_in(group_quality.losses(WAYS, 6, "").title)[:2] == [1, 3]


def test_a_single_prediction_has_no_spread():
    ways = {way: {k: losses[:1] for k, losses in by.items()} for way, by in WAYS.items()}
    drawing = group_quality.losses(ways, 2, "this text")
    assert numbers_in(drawing.title) == [2, 0.5] and drawing.table[f"{AVERAGED}, standard error"] == [None] * 4


MEMBERS = [
    group_quality.Member("MHA", "mha", 6144, 1.25, MHA_LOSSES),
    group_quality.Member("GQA-2", "gqa", 1536, 1.26, MHA_LOSSES + [0.5, -1.5, 0.25]),
    group_quality.Member("MQA", "mqa", 768, 1.3, MHA_LOSSES + 1),
]


def test_labels_of_near_sizes_stand_in_two_lines():
    latent_too = [*MEMBERS, group_quality.Member("MLA", "mla", 1280, 1.27, MHA_LOSSES)]
    chart = group_quality.quality(latent_too, "GQA-2", 1000).chart
    axis = chart.layout["xaxis"]
    assert dict(zip(axis["tickvals"], axis["ticktext"], strict=True)) == {
        768: "768", 1280: "1,280", 1536: "<br>1,536", 6144: "6,144"
    }  # fmt: skip
    for trace in chart.data:
        assert trace["textposition"] == [*["top center"] * 3, "bottom center"]


def test_quality_says_the_price_of_the_smallest_cache():
    drawing = group_quality.quality(MEMBERS, "GQA-2", 281_636)
    assert drawing.title.startswith("MQA") and numbers_in(drawing.title) == [12.5, 0.05]
    (held_out,) = drawing.figure.data
    assert list(held_out.x) == [6144, 1536, 768] and list(held_out.y) == [1.25, 1.26, 1.3]
    assert held_out.text[1] == "<b>GQA-2</b>" and held_out.text[0] == "MHA"
    assert len(set(held_out.marker.symbol)) == 3 and 281_636 in numbers_in(drawing.note)
    assert numbers_in(group_quality.quality([replace(MEMBERS[0], held_out=None)], "MHA", 0).title) == [1]


def test_on_this_text_models_are_compared_with_their_spread():
    drawing = group_quality.this_text(MEMBERS, "GQA-2", 11, "this text")
    factor = 3 / math.log(2) / 11
    differences = [0, -0.25 * factor, factor]
    error = statistics.stdev([0.5, -1.5, 0.25]) / math.sqrt(3) * factor
    assert drawing.table["minus MHA"] == pytest.approx(differences) == list(drawing.figure.data[0].y)
    assert drawing.table["standard error"] == pytest.approx([0, error, 0])
    assert drawing.table["bits per character"] == pytest.approx([7 * factor / 3, 6.25 * factor / 3, 10 * factor / 3])
    assert numbers_in(drawing.title) == pytest.approx([-0.25 * factor, error], abs=0.0051)
    clear = group_quality.this_text(MEMBERS, "MQA", 11, "this text")
    assert numbers_in(clear.title) == pytest.approx([factor, 0], abs=0.0051)
    assert [("no clear" in each.title) for each in (drawing, clear)] == [True, False]
    assert results(drawing.formula) == [pytest.approx(6.25 * factor / 3, abs=6e-4)] and 3 in numbers_in(drawing.note)
    alone = group_quality.this_text(MEMBERS, "MHA", 11, "").title
    assert numbers_in(alone)[0] == pytest.approx(7 * factor / 3, abs=6e-4)


def test_drift_names_the_way_and_the_token_that_drift_farthest():
    labels = ["a", "<b>x", "c"]
    divergences = {TRAINED: np.array([0.1, 0.2, 0.3]), AVERAGED: np.array([0.5, 2.0, 0.5])}
    drawing = group_quality.drift(divergences, labels, 2)
    assert numbers_in(drawing.title) == [2, 1] and AVERAGED in drawing.title
    assert numbers_where("after token #", drawing.alt) == [1] and numbers_where(f"{TRAINED}: mean #", drawing.alt) == [
        0.2
    ]
    assert drawing.figure.layout.xaxis.ticktext[1] == "\u2068&lt;b&gt;x\u2069 1"


@pytest.mark.parametrize("n_tokens", [1, 40, 41, 512])
def test_drift_labels_at_most_forty_tokens(n_tokens):
    drawing = group_quality.drift({"averaged": np.ones(n_tokens)}, ["t"] * n_tokens, 1)
    ticks = drawing.figure.layout.xaxis.tickvals
    assert len(ticks) == len(drawing.figure.layout.xaxis.ticktext) <= 40


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
    assert all([q["kv"], *q["also"]] == [0, 1] for q in data["queries"]) and len(data["queries"]) == MLA.n_heads
