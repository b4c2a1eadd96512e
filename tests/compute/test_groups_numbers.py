"""Numbers printed on the Query grouping page are right, for generated models and masks.

Formulas are evaluated here, without attnviz.equations, and compared with bars, tables and titles, and with the keys
that the live model's mask allows for the last token.
"""

import json
import math
import re
import statistics
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from attnviz.analysis.groups import best_grouping, cosines, gram, lost_share
from attnviz.compute import models
from attnviz.compute import query_groups as compute_groups
from attnviz.config import ModelConfig, divisors
from attnviz.cost import attention_name, count_parameters
from attnviz.cost.decode import attention_flops
from attnviz.cost.variants import with_latent
from attnviz.experiments.equalities import cached_bytes
from attnviz.figures import group_quality, groups, groups_work, latent
from attnviz.figures.group_quality import Member
from attnviz.modules.building import build_attention
from attnviz.modules.masks import attention_mask
from attnviz.session.settings import Settings
from attnviz.text import tokenizer
from tests.arithmetic import results
from tests.pages import GROUPS, opened

MLA = ModelConfig(
    n_layers=3, d_model=35, n_heads=6, attention="mla", kv_lora_rank=13, qk_rope_head_dim=2, qk_nope_head_dim=11,
    v_head_dim=7, d_ff=17, vocab_size=19,
)  # fmt: skip


@st.composite
def invented(draw) -> ModelConfig:
    """Draw a model with prime sizes, any type of attention, with or without a window and full layers."""
    n_heads, n_layers = draw(st.sampled_from([1, 2, 3, 6, 8])), draw(st.integers(1, 5))
    how = {}
    if draw(st.booleans()):
        full = draw(st.sets(st.integers(0, n_layers - 1)))
        how = {
            "sliding_window": draw(st.integers(1, 40)),
            "n_sinks": draw(st.integers(0, 5)),
            "full_layers": tuple(full),
        }
    if draw(st.booleans()):
        return replace(MLA, n_layers=n_layers, n_heads=n_heads, n_kv_heads=n_heads, **how)
    return ModelConfig(
        n_layers=n_layers, d_model=23, n_heads=n_heads, n_kv_heads=draw(st.sampled_from(divisors(n_heads))),
        head_dim=14, d_ff=17, vocab_size=19, **how,
    )  # fmt: skip


def keys_seen(config: ModelConfig, n_tokens: int) -> list[int]:
    """Return the number of keys allowed for the last token in each layer, counted from the modules' mask."""
    seen = []
    for layer in range(config.n_layers):
        window = None if layer in config.full_layers else config.sliding_window
        mask = attention_mask(n_tokens, n_tokens, causal=True, window=window, n_sinks=config.n_sinks if window else 0)
        seen.append(n_tokens if mask is None else int(mask[-1].sum()))
    return seen


def compared(config: ModelConfig) -> list[ModelConfig]:
    mha = config
    if config.attention == "mla":
        how = {name: getattr(config, name) for name in ("sliding_window", "n_sinks", "full_layers", "n_layers")}
        mha = ModelConfig(d_model=23, n_heads=config.n_heads, head_dim=14, d_ff=17, vocab_size=19, **how)
    family = [mha.with_kv_heads(k) for k in divisors(mha.n_heads)]
    return [*family, config] if config.attention == "mla" else family


@settings(max_examples=30, deadline=None)
@given(invented(), st.integers(1, 60))
def test_the_work_printed_is_what_the_mask_allows(config, n_tokens):
    configs = compared(config)
    drawing, panel = groups_work.work(configs, config, n_tokens), groups_work.work_panel(configs, config, n_tokens)
    c, table, here, keys = config, drawing.table, configs.index(config), keys_seen(config, n_tokens)
    latent = c.attention == "mla"
    multiplied = 2 * c.kv_lora_rank + c.qk_rope_head_dim if latent else 2 * 14
    cached = c.kv_lora_rank + c.qk_rope_head_dim if latent else 2 * c.n_kv_heads * 14
    (n_bytes,) = results(drawing.formula)
    flops, _ = results(groups_work.work_caption(configs, config, n_tokens).formula)
    assert (
        flops
        == table["attention FLOPs"][here]
        == attention_flops(c, n_tokens)
        == 2 * c.n_heads * multiplied * sum(keys)
    )
    assert n_bytes == table["cache bytes read"][here] == 4 * cached * sum(keys)
    assert panel["line"].endswith(f"= {n_bytes:,} B") and f"= {flops:,} FLOPs; " in panel["line"]
    assert table["parameters of the model"][here] == count_parameters(c).total
    for rect, what in zip(panel["rects"], list(table)[1:], strict=True):
        assert rect[2] == table[what][here] / table[what][0]
    shown = [label[3] for label in panel["labels"] if label[2].startswith("after")][:2]
    assert all(share in panel["title"] for share in (shown if here else (f"{flops:,}", f"{n_bytes:,}")))
    assert all(re.search(rf"\b{n}\b", drawing.note) for n in keys)  # how many keys are attended to


@settings(max_examples=30)
@given(st.sampled_from([1, 2, 3, 6, 8]).flatmap(lambda n: st.tuples(st.just(n), st.sampled_from(divisors(n)))))
def test_the_projections_printed_are_those_of_the_live_layer(heads):
    config = ModelConfig(n_layers=1, d_model=23, n_heads=heads[0], n_kv_heads=heads[1], head_dim=14, vocab_size=19)
    caption, attn = groups.projections_caption(config), build_attention(config)
    (weights,) = results(caption.formula)
    assert weights == sum(caption.table["weights"]) == sum(getattr(attn, f"{p}_proj").weight.numel() for p in "qkvo")
    width = attn.k_proj.weight.shape[0]
    assert (
        re.search(rf"are {width} wide", caption.title) and width * heads[0] // heads[1] == attn.q_proj.weight.shape[0]
    )


@settings(max_examples=20, deadline=None)
@given(invented())
def test_the_cache_printed_is_the_one_a_live_model_fills(config):
    measured = {c: cached_bytes(c, 1) for c in compared(config)}
    drawing, panel = groups.cache_caption(measured, config), groups.cache_panel(measured, config)
    assert results(drawing.formula) == [measured[config]] and f" {measured[config]:,} B" in drawing.title
    share = re.search(r"([\d.]+)% of", drawing.title)
    assert not share or float(share[1]) == pytest.approx(100 * measured[config] / max(measured.values()), abs=0.051)
    row = list(measured).index(config)
    bars = [rect for rect in panel["rects"] if row <= rect[1] < row + 1]
    assert sum(rect[2] for rect in bars) == pytest.approx(measured[config])


@settings(max_examples=30)
@given(invented())
def test_the_numbers_of_mla_are_its_own(config):
    if config.attention != "mla":
        config = with_latent(config)
    drawing = latent.latent(config)
    cached, read = results(drawing.formula)
    attn = build_attention(config)
    assert cached == attn.kv_a_proj.weight.shape[0]
    assert read == config.n_heads * config.qk_rope_head_dim + attn.kv_b_proj.weight.shape[0]
    assert f"{cached:,} cached" in drawing.title and f"{read:,}:" in drawing.title


LOSSES = st.integers(1, 40).flatmap(
    lambda n: st.tuples(*[st.lists(st.floats(0.01, 20), min_size=n, max_size=n) for _ in range(2)])
)


@settings(max_examples=40)
@given(LOSSES, st.floats(0.25, 900))
def test_losses_printed_are_those_drawn(both, n_characters):
    mha, other = map(np.array, both)
    members = [Member("MHA", "mha", 12, 1.5, mha), Member("MQA", "mqa", 3, 1.6, other)]
    drawing = group_quality.this_text(members, "MQA", n_characters, "this text")
    bits = sum(both[1]) / math.log(2) / n_characters
    assert drawing.table["bits per character"][1] == pytest.approx(bits)
    assert float(drawing.formula.split("=")[-1].replace("{,}", "")) == pytest.approx(bits, abs=6e-4)
    apart = [b - a for a, b in zip(*both, strict=True)]
    mean, error = drawing.table["minus MHA"][1], drawing.table["standard error"][1]
    assert mean == pytest.approx(sum(apart) / math.log(2) / n_characters) == drawing.chart.data[0]["y"][1]
    if len(apart) > 1:
        expected = statistics.stdev(apart) * math.sqrt(len(apart)) / math.log(2) / n_characters
        assert error == pytest.approx(expected, abs=1e-9) and f"± {error:.2f} " in drawing.title
        assert ("no clear" in drawing.title) == (abs(mean) <= 2 * error)
    else:
        assert error is None and "±" not in drawing.title
    assert f"{abs(mean):.2f}" in drawing.title and ("−" in drawing.title) == f"{mean:z.2f}".startswith("-")


def test_similar_heads_are_grouped_once_for_all_models_of_a_family(monkeypatch):
    shared, ids = Settings(model="gqa-2"), tuple(range(31))
    trace = models.trace_of(Settings(model="mha"), ids)
    inner = gram(trace.v[1])
    found = compute_groups.grouping_of(shared, ids, 1, "values", 2)
    np.testing.assert_array_equal(found.cosines, cosines(inner))
    assert found.neighbours == ((0, 1, 2, 3), (4, 5, 6, 7)) and found.best == best_grouping(inner, 2)
    assert found.lost == (lost_share(inner, found.neighbours), lost_share(inner, found.best))
    assert found.lost[1] <= found.lost[0] and found.total == pytest.approx(float(np.square(trace.v[1]).sum()))
    monkeypatch.setattr(compute_groups, "grams", lambda *given: pytest.fail("this was computed before"))
    assert compute_groups.grouping_of(replace(shared, head=3), ids, 1, "values", 2) is found
    with pytest.raises(pytest.fail.Exception):
        compute_groups.grouping_of(shared, ids, 1, "keys", 2)


@pytest.mark.parametrize("model", ["mha", "gqa-2", "mla"])
def test_models_with_kv_heads_are_compared_and_mla_if_it_is_selected(model):
    names = [attention_name(config) for config in compute_groups.compared(Settings(model=model))]
    assert names == ["MHA", "GQA-4", "GQA-2", "MQA"] + ["MLA"] * (model == "mla")


@given(st.text(alphabet="a é好👩🏽\u200d\n.", min_size=1, max_size=30))
def test_the_characters_of_the_tokens_are_those_of_the_text(text):
    ids = tokenizer().encode(text)
    found = tokenizer().characters(ids)
    assert sum(found) == pytest.approx(len(text))
    by_byte = [1 / len(c.encode()) for c in text for _ in c.encode()]
    first = len(tokenizer().token_bytes(ids)[0])
    assert compute_groups.predicted_characters(Settings(), tuple(ids)) == pytest.approx(sum(by_byte[first:]))


def test_bits_per_character_leave_out_the_first_token():
    ids = tuple(tokenizer().encode("好a"))
    assert len(ids) == 4 and compute_groups.predicted_characters(Settings(), ids) == pytest.approx(2 / 3 + 1)
    long = tuple(tokenizer().encode("a" * 3000))
    assert compute_groups.predicted_characters(Settings(), long) < 3000  # the tokens compared only


def header_of(message: bytes) -> dict:
    """Return the header of a head grid's message."""
    return json.loads(message[4 : 4 + int.from_bytes(message[:4], "little")])


@pytest.mark.parametrize("model", ["mla", "gqa-2"])
def test_no_head_is_said_to_read_another_ones_keys(model):
    """MLA has no KV heads, and MHA's are not shared."""
    app = opened(GROUPS, model=model, closer="maps")
    grids = {
        p.proto.id.split("-")[-1]: p.proto for p in app.get("bidi_component") if "head_grid" in p.proto.component_name
    }
    headers = [header_of(proto.bytes) for proto in grids.values()]
    layer = next(h for h in headers if h["rows"] == ["Layer 1"])
    if model == "mla":
        assert all("latent" in reads for reads in layer["reads"][0]) and not any("KV" in n for n in layer["kvNames"])
    else:
        merged = next(h for h in headers if "MHA" in h["rows"])
        assert [int(re.search(r"KV (\d)", text)[1]) for text in merged["reads"][0]] == list(range(8))
        assert [int(re.search(r"KV (\d)", text)[1]) for text in merged["reads"][1]] == [0] * 4 + [1] * 4


@given(st.floats(0, 1), st.floats(1e-6, 1e6))
def test_the_lost_share_printed_is_a_quotient_of_what_is_printed(lost, total):
    above, below, result = re.findall(r"[\d,.]+", group_quality.lost_share_equation(lost, total).text())
    (above, exact), (below, _) = (
        (float(x.replace(",", "")), 0.5 * 10.0 ** -len(x.split(".")[1])) for x in (above, below)
    )
    slack = 2 * exact / below + 5.01e-4
    assert abs(above / below - float(result)) <= slack < 6e-3 and float(result) == round(lost, 3)
