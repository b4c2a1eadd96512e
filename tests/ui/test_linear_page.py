"""The Linear and sparse page on small models with each kind of layer, without a browser."""

import json
import re
from dataclasses import replace

import numpy as np
import pytest

from attnviz.analysis.sparse import softmax
from attnviz.checkpoints import load_checkpoint
from attnviz.compute import linear, models, sparse
from attnviz.compute.view import View
from attnviz.config import ModelConfig
from attnviz.figures.linear import kept_text, layers_sentence
from attnviz.mechanisms import Dense, GatedDelta, Grouped, IndexedGrouped, Layer
from attnviz.session.settings import Settings
from attnviz.ui.components import linked_maps, state_player
from tests.pages import LINEAR as PAGE
from tests.pages import opened, pictures, sent, sentences, titles

TEXT = "the cat that the dog saw and the cat that the bird saw"
SIZES = dict(d_model=37, n_heads=6, n_kv_heads=3, head_dim=6, d_ff=23, vocab_size=2048)
DENSE = Dense(23)
DELTA = Layer((GatedDelta(n_heads=6, n_key_heads=3, key_dim=5, head_dim=7, taps=4), DENSE))
GQA = Grouped(6, n_kv_heads=3, head_dim=6)
INDEXED = IndexedGrouped(n_heads=6, n_kv_heads=3, head_dim=6, top_k=5, n_index_heads=2, index_dim=8)
MODELS = {
    "linear": [DELTA, Layer((GQA, DENSE), rope_theta=53.0), DELTA],
    "indexed": [Layer((INDEXED, DENSE), rope_theta=53.0)] * 2,
    "sinks": [Layer((replace(GQA, sink_logits=True, window=4), DENSE), rope_theta=53.0),
              Layer((replace(GQA, sink_logits=True), DENSE), rope_theta=53.0)],
    "shared": [Layer((GQA, DENSE), rope_theta=53.0),
               Layer((replace(GQA, reads_cache=True), DENSE), rope_theta=53.0, shares_cache_of=0)],
    "pure": [DELTA, DELTA],
}  # fmt: skip


@pytest.fixture
def run(monkeypatch):
    """run(name): let all settings run one of MODELS, untrained."""

    def chosen(name: str) -> View:
        layers = MODELS[name]
        config = ModelConfig(n_layers=len(layers), mixed_layers=tuple(layers), **SIZES)
        monkeypatch.setattr(models, "config_of", lambda settings: config)
        monkeypatch.setattr(models, "run_of", lambda settings: models.Run(("own", config, 3), config))
        return View(Settings(text=TEXT, model="own"))

    return chosen


SAID = {
    "linear": "Layers 0 and 2 keep a state of 35 numbers per head whatever the length, layer 1 caches 36 numbers per "
    "token.",
    "indexed": "Layers 0 and 1 cache 44 numbers per token and read the top 5 keys.",
    "sinks": "Layer 0 caches 36 numbers for each of the last 4 tokens, layer 1 caches 36 numbers per token.",
    "shared": "Layer 0 caches 36 numbers per token, layer 1 reads the cache of layer 0.",
    "pure": "Layers 0 and 1 keep a state of 35 numbers per head whatever the length.",
}


@pytest.mark.parametrize("model", MODELS)
def test_the_sentence_at_the_top_is_about_the_layers(run, model):
    assert layers_sentence(run(model).config) == SAID[model]


DRAWN = {
    "state": ("linear", "state-player"), "remembers": ("linear", "chart-recall"),
    "indexer": ("indexed", "indexer-maps"),
    "sinks": ("sinks", "sink-maps"), "shared": ("shared", "chart-sharing-layers"),
    "context": ("pure", "chart-memory-of-context"),
}  # fmt: skip
TEXTS = (TEXT, "a", "小女孩在花园里 👩‍👩‍👧", "word " * 300)


@pytest.mark.slow
@pytest.mark.parametrize("tab", DRAWN)
def test_each_tab_draws_any_text(run, tab):
    model, key = DRAWN[tab]
    run(model)
    for text in TEXTS:
        app = opened(PAGE, model="own", text=text, tab=tab)
        assert not app.error and any(each.endswith(key) for each in pictures(app)), text
    assert opened(PAGE, model="own", text="", tab=tab).info


@pytest.mark.parametrize("tab", ["state", "remembers", "indexer", "sinks"])
def test_a_model_without_such_a_layer_says_so(run, tab):
    run("shared")
    assert "has no layer with" in sentences(opened(PAGE, model="own", text=TEXT, tab=tab))


def test_the_map_that_is_sent_is_that_of_the_chosen_heads(run):
    view = run("linear")
    app = opened(PAGE, model="own", text=TEXT, linear_head="2.4", softmax_head="1.5", tab="state")
    assert "L1 H5, softmax: each row sums to 1" in sent(app) and "L2 H4, linear" in sent(app)
    found = linear.implied_of(view, (2, 4))
    assert found.difference < 1e-6
    assert "up to 4 tokens" in sent(app)
    assert "differ by at most" in app.selectbox(key="control-linear_head").proto.help


def header(data: bytes) -> tuple[dict, bytes]:
    n = int.from_bytes(data[:4], "little")
    return json.loads(data[4 : 4 + n]), data[4 + n :]


def test_linked_maps_keep_four_digits_of_numbers_of_any_size():
    values = np.array([[0.5, 0], [-1e-6, 30.0]])
    for scaled in (values, values * 1e-5):
        one = linked_maps.LinkedMap(scaled, np.tri(2, dtype=bool), "", "", "", "")
        told, body = header(linked_maps.pack([one], ["a", "b"], (0, 0)))
        cells = np.frombuffer(body, "<u2").astype(float)  # the lower triangle
        assert cells[2] == told["steps"] and told["maps"][0]["factor"] == pytest.approx(np.abs(scaled).max())
        assert told["maps"][0]["below"] and cells[0] == round(0.5 / 30 * told["steps"])


def test_the_player_is_sent_what_makes_up_the_states(run):
    view = run("linear")
    written = linear.written_of(view, (0, 3))
    caption = linear_caption(written)
    told, body = header(state_player.pack(written, view.labels, 2, (1, 3), caption))
    numbers, T = np.frombuffer(body, "<f4"), len(view.labels)
    D, V = told["D"], told["V"]
    k, w, decay = np.split(numbers, [T * D, T * (D + V)])
    state = np.zeros((D, V))
    for t in range(T):
        state = decay[t] * state + np.outer(k[t * D : (t + 1) * D], w[t * V : (t + 1) * V])
    np.testing.assert_allclose(state, view.trace.layers[0].own["state"][3], atol=1e-5)


def linear_caption(written):
    from attnviz.figures.linear import state_caption

    caption = state_caption(written, [str(t) for t in range(len(written.k))], "L0 H3", "")
    assert caption.title.startswith("L0 H3: 5 × 7 = 35 numbers after any of ")
    return caption


def test_k_keys_of_the_layer_give_the_output_that_it_computed(run):
    view = run("indexed")
    found, one = sparse.indexed_of(view, (0, 4)), view.trace.layers[0]
    ran = one.weights_of(4) @ one.values_of(4)
    whole = found.dense @ one.values_of(4)
    off = np.linalg.norm(ran - whole, axis=1) / np.linalg.norm(whole, axis=1)
    assert found.errors["index scores"][INDEXED.top_k - 1] == pytest.approx(off.mean(), rel=1e-4)
    assert all(errors[-1] == pytest.approx(0, abs=1e-9) for errors in found.errors.values())
    assert ((found.rank < INDEXED.top_k) == one.allowed).all()
    assert sparse.keep(view, (0, 4)) == 5 and sparse.keep(view.but(keep=3), (0, 4)) == 3


def test_sinks_take_what_the_rows_lack(run):
    view = run("sinks")
    found, one = sparse.sunk_of(view, (0, 2)), view.trace.layers[0]
    np.testing.assert_allclose(found.with_logit.sum(-1) + found.share, 1, atol=1e-6)
    np.testing.assert_allclose(found.without, found.with_logit / (1 - found.share)[:, None], atol=1e-6)
    first = one.allowed.copy()
    first[:, :4] |= np.tri(len(first), 4, dtype=bool)
    np.testing.assert_allclose(found.first_tokens, softmax(one.scores_of(2), first))
    shares = sparse.sink_shares_of(view)
    assert sparse.sinking_head(view) == np.unravel_index(shares.argmax(), shares.shape)


def test_a_title_names_the_context_from_which_a_state_takes_less(run):
    run("pure")
    app = opened(PAGE, model="own", text=TEXT, tab="context")
    assert "My own settings takes less memory than GQA-4 from" in titles(app)


def test_a_state_is_compared_with_a_cache_in_bytes():
    """By hand: 8 heads of 24 × 24 numbers in float32; 4 inputs of the convolution of q, k and v in bf16."""
    config = load_checkpoint("hybrid")[0].config
    mixer, said = config.layers[0].mixer, kept_text(config, 0)
    size = 4 * mixer.n_heads * mixer.key_dim * mixer.head_dim
    size += 2 * 4 * (2 * mixer.n_key_heads * mixer.key_dim + mixer.n_heads * mixer.head_dim)
    per_token = 2 * 2 * config.layers[3].mixer.n_kv_heads * config.layers[3].mixer.head_dim
    first = next(n for n in range(1, 10_000) if n * per_token > size)
    assert [int(n.replace(",", "")) for n in re.findall(r"\d[\d,]*", said)] == [0, size, 3, per_token, first]


def test_a_model_without_shared_caches_offers_one(run):
    run("indexed")
    buttons = opened(PAGE, model="own", text=TEXT, tab="shared").main.button
    assert any("Shared cache checkpoint" in each.label for each in buttons)
