"""Numbers on the RoPE page at real URLs, recomputed from the trace."""

import json
import re

import numpy as np
import pytest
from streamlit.testing.v1 import AppTest

from attnviz.checkpoints import load_checkpoint
from attnviz.text import tokenizer
from attnviz.trace import Trace, trace
from tests.arithmetic import check, results
from tests.pages import ROPE, opened, said
from tests.reading import numbers_where

TEXT = "The old man laughed. The little girl found a red ball in the garden, and the old man laughed again at the girl."
MODELS = ["mha", "gqa-4", "mla"]
CELLS = [  # model, layer, head, query, key: before, after and at the query
    ("mha", 1, 3, 21, 5), ("gqa-4", 0, 0, 7, 10), ("mla", 2, 6, 10, 10), ("mla", 1, 3, 21, 5),
]  # fmt: skip


def formulas(app: AppTest) -> list[str]:
    return [re.sub(r"(?:\s*\$\$\s*)+", "\n", element.value).strip() for element in app.main.latex]


def traced(model: str, text: str) -> Trace:
    checkpoint, own = load_checkpoint(model)
    return trace(checkpoint, own.encode(text))


@pytest.mark.slow
@pytest.mark.parametrize(("model", "layer", "head", "query", "key"), CELLS)
def test_every_formula_of_a_score_is_the_score_that_the_model_computed(model, layer, head, query, key):
    link = {"layer": layer, "head": head, "query": query, "key": key}
    app = opened(ROPE, model=model, text=TEXT, **{name: str(value) for name, value in link.items()})
    *_, apart, bound = formulas(app)
    (*_, shifted) = formulas(opened(ROPE, model=model, text=TEXT, tab="equal", **{n: str(v) for n, v in link.items()}))
    expected = float(traced(model, TEXT).layers[layer].scores_of(head)[query, key])
    assert results(shifted) == pytest.approx([expected, expected], abs=1e-4)
    distance, _, score = results(apart)
    assert (distance, score) == (query - key, pytest.approx(expected, abs=0.006))
    assert f"s_{{{query},{key}}}" in shifted and f"s_{{{query},{key}}}" in apart
    (limit,) = results(bound)
    assert abs(expected) <= limit


@pytest.mark.parametrize(("model", "pair"), [("mha", 0), ("gqa-4", 7), ("mla", 2), ("mla", 7)])
def test_the_rotation_of_a_pair_is_that_of_the_model(model, pair):
    """The numbers before and after rotation are the trace's q; the pair's part of q·k is from the trace's q and k."""
    layer, head, m, n = 2, 5, 19, 7
    link = {"layer": layer, "head": head, "query": m, "key": n, "pair": pair}
    rotation = formulas(opened(ROPE, model=model, text=TEXT, **{name: str(value) for name, value in link.items()}))[0]
    traced_here = traced(model, TEXT)
    q, k = traced_here.q[layer, head, m], traced_here.k[layer, traced_here.config.mixer.kv_head_of[head], n]
    before, first = traced_here.q_pre_rope[layer, head, m], 16 if model == "mla" else 0
    a, b = first + pair, first + pair + traced_here.config.rotary_dim // 2
    found = [float(n) for n in re.findall(r"^= (-?\d+\.\d+)$", rotation, re.MULTILINE)]
    assert found[-3:] == pytest.approx([q[a], q[b], q[a] * k[a] + q[b] * k[b]], abs=6e-4)
    assert check(rotation, tex=True) == []
    said = {n.strip("()") for n in re.findall(r"-?\d+\.\d{3}", rotation)}
    assert {f"{before[a]:z.3f}", f"{before[b]:z.3f}", f"{k[a]:z.3f}", f"{k[b]:z.3f}"} <= said
    assert rotation.count("pmatrix") == 6 and f"q'_{{{a}}}" in rotation and f"q'_{{{b}}}" in rotation


@pytest.mark.parametrize("model", MODELS)
def test_the_arrows_are_sent_what_gives_the_score_at_each_shift(model):
    """The score computed from the payload, at the positions of the text and shifted by 40, equals the model's."""
    app = opened(ROPE, model=model, text=TEXT, layer="1", head="6", query="20", key="11")
    sent = json.loads(
        next(n.proto.bytes for n in app._tree if n.type == "bidi_component" and b'"tokens"' in n.proto.bytes)
    )
    turned = np.exp(1j * np.outer(np.array(sent["positions"])[:, None] + [0, 40], sent["frequencies"])).reshape(
        2, 2, -1
    )
    q, k = (np.array(sent[name]) @ [1, 1j] for name in "qk")
    scores = ((q * turned[0] * (k * turned[1]).conj()).real.sum(-1) + sent["unrotated"]) / sent["root"] ** 0.5
    expected = float(traced(model, TEXT).layers[1].scores_of(6)[20, 11])
    assert scores == pytest.approx([expected, expected], abs=1e-4) and sent["positions"] == [20, 11]


def test_a_pair_that_a_model_does_not_have_becomes_its_last():
    app = opened(ROPE, text=TEXT, pair="99")
    assert app.selectbox(key="control-pair").value == 11
    assert any("0 to 11" in warning.value and "pair 11" in warning.value for warning in app.warning)


@pytest.mark.slow
@pytest.mark.parametrize("turning", ["distance", "values", "layouts", "without", "latent", "equal"])
def test_latent_attention_is_said_to_read_no_kv_head(turning):
    assert "KV head" not in said(opened(ROPE, model="mla", text=TEXT, turning=turning))


def test_grouped_query_attention_is_said_to_read_a_kv_head():
    assert "KV head" in said(opened(ROPE, model="gqa-4", text=TEXT, turning="distance"))


@pytest.mark.parametrize("tab", ["without", "layouts"])
def test_maps_say_whose_they_are_and_what_a_row_is(tab):
    app = opened(ROPE, model="gqa-2", text=TEXT, tab=tab, layer="2", head="5")
    ends = [json.loads(chart.proto.spec)["layout"]["xaxis3"]["ticktext"][-1] for chart in app.main.get("plotly_chart")
            if "xaxis3" in chart.proto.spec]  # fmt: skip
    assert len(ends) > 1 and all(f"The colour scale ends at {end}." in said(app) for end in ends)
    assert numbers_where(r"Layer #, head # \(KV head #\).*sum to #", said(app)) == [2, 5, 1, 1]


def multiplied_by_yarn(app: AppTest) -> str:
    """Return the sentence on what YaRN's factor multiplies."""
    return next(m.value for m in app.main.markdown if "1.0693" in m.value and "1.1434" in m.value)


@pytest.mark.slow
def test_yarns_factor_and_softmax_scale_are_said_for_latent_attention():
    app = opened(ROPE, model="mla", text=TEXT, turning="longer")
    assert "16 of 32" in multiplied_by_yarn(app) and "KV head" not in said(app)
    scaling = (
        '{"type": "yarn", "factor": 40, "original_max_position_embeddings": 4096, "mscale": 1, "mscale_all_dim": 1}'
    )
    app.text_input(key="pasted-scaling").set_value(scaling).run()
    assert not app.exception and not app.error
    assert f"{(0.1 * np.log(40) + 1) ** 2:.4f}" in said(app)


@pytest.mark.slow
def test_longer_texts_take_a_factor_and_a_pasted_scaling():
    app = opened(ROPE, text=TEXT, tab="longer")
    assert "each score by" in multiplied_by_yarn(app)
    app.slider(key="control-factor").set_value(app.slider(key="control-factor").value + 1).run()
    assert "1.1099" in next(m.value for m in app.main.markdown if "YaRN also multiplies" in m.value)
    longrope = {"rope_type": "longrope", "factor": 2, "original_max_position_embeddings": 4096}
    paste = app.text_input(key="pasted-scaling")
    paste.set_value(json.dumps({**longrope, "short_factor": [1], "long_factor": [2]})).run()
    assert "long_factor must hold 12 numbers, one per pair, not 1" in app.error[0].value.replace("\\", "")
    lists = {"short_factor": [2] * 12, "long_factor": [2] * 12}
    app.text_input(key="pasted-scaling").set_value(json.dumps(longrope | lists)).run()
    assert not app.error and not app.exception
    assert re.search("7 of 12 pairs pass their trained angle; .*pasted.*: 0", said(app))


@pytest.mark.parametrize("words", [257, 258])
def test_a_loss_beyond_training_needs_a_prediction_beyond_training(words):
    """A training row has 256 tokens and the one after them: a text of 257 has no prediction beyond."""
    text = " ".join(["a"] * words)
    assert len(tokenizer().encode(text)) == words
    app = opened(ROPE, text=text, turning="longer")
    assert "nan" not in said(app)
    own = [caption.value for caption in app.main.caption if caption.value.startswith("Text:")]
    assert ["your own" in caption for caption in own] == [words > 257]


def test_keys_ahead_of_the_query_are_counted_where_they_are_allowed():
    n = len(tokenizer().encode(TEXT))
    pairs = {causal: re.search(r"The (\d+) pairs", said(opened(ROPE, text=TEXT, causal=causal))) for causal in "01"}
    assert {causal: int(found[1]) for causal, found in pairs.items()} == {"0": n * n, "1": n * (n + 1) // 2}
