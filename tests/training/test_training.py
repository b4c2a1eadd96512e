"""Training: batches, learning rate, resuming and scores."""

import math
from dataclasses import replace
from unittest.mock import Mock

import pytest
import torch
from safetensors.torch import load_file

from attnviz.checkpoints import load_checkpoint
from attnviz.config import ModelConfig
from attnviz.cost import cache as cached_numbers
from attnviz.mechanisms import Dense, IndexedGrouped, Layer
from attnviz.modules import Recording, Transformer
from attnviz.training import export, further
from attnviz.training.__main__ import DECAY, FAMILY, PRIMER_AGAIN, config_of, second_steps
from attnviz.training.__main__ import DELTA as DELTA_SHIPPED
from attnviz.training.data import Batches
from attnviz.training.evaluate import bits_per_character, passages, previous_token, repetition_scores
from attnviz.training.export import _cache, _grows, _state, mean_of, quality_svg
from attnviz.training.train import Recipe, _groups, initial, load_weights, train
from tests.mixed import DELTA, HYBRID

VOCAB = 97
TINY = ModelConfig(2, 16, 4, 2, d_ff=24, vocab_size=VOCAB)
LATENT = {"kv_lora_rank": 7, "qk_rope_head_dim": 2, "qk_nope_head_dim": 5, "v_head_dim": 3}
STREAM = torch.arange(5000) * 31 % VOCAB


@pytest.fixture
def batches() -> Batches:
    return Batches(STREAM, VOCAB, seed=3)


def looked_up(ids: torch.Tensor, t: int) -> bool:
    """Check whether the token after position t also followed an earlier occurrence of the token at t."""
    return any(ids[s] == ids[t] and ids[s + 1] == ids[t + 1] for s in range(t))


def test_only_repeated_tokens_count_in_the_primer(batches):
    ids, counts = batches.primer(0, 7, 61)
    assert ids.shape == (7, 62) and counts.shape == (7, 61)
    assert 0.25 < counts.float().mean() < 0.6
    for row, counted in zip(ids.tolist(), counts, strict=True):
        assert all(looked_up(torch.tensor(row), t) for t in counted.nonzero().flatten().tolist())


def test_text_counts_everywhere_and_is_the_streams_own(batches):
    ids, counts = batches.mixture(5, 3, 2, 53)
    assert counts[:3].all() and not counts[3:].all()
    for row in ids[:3]:
        starts = (row[0] == STREAM).nonzero().flatten()
        assert any(torch.equal(STREAM[s : s + 54], row) for s in starts)


def test_a_step_is_the_same_whenever_it_is_drawn(batches):
    for a, b in zip(batches.mixture(5, 3, 2, 53), Batches(STREAM, VOCAB, 3).mixture(5, 3, 2, 53), strict=True):
        assert torch.equal(a, b)
    assert not torch.equal(batches.mixture(5, 3, 2, 53)[0], batches.mixture(6, 3, 2, 53)[0])


def test_the_rate_goes_up_stays_and_comes_down():
    r = Recipe(primer_steps=50, hold_steps=200, decay_steps=100, warmup_steps=10, primer_lr=1.0, peak_lr=3.0)
    assert r.lr(0) == pytest.approx(0.1) and r.lr(9) == r.lr(49) == pytest.approx(1.0)
    assert r.lr(50) == pytest.approx(1.2) and r.lr(59) == r.lr(250) == pytest.approx(3.0)
    assert r.lr(300) == pytest.approx(1.5) and r.lr(349) == pytest.approx(3 * 0.5 * (1 + math.cos(math.pi * 0.99)))


def test_tokens_are_those_that_are_drawn(batches):
    r = Recipe(2, 3, 4, text_rows=5, repeat_rows=2, length=31, primer_rows=7, primer_length=41)
    drawn = [batches.primer(s, 7, 41)[1] for s in range(2)] + [batches.mixture(s, 5, 2, 31)[1] for s in range(7)]
    assert r.tokens == sum(d.numel() for d in drawn)


@pytest.mark.slow
def test_a_stopped_run_resumes_with_the_same_result(batches, tmp_path):
    long = Recipe(2, 2, 2, text_rows=3, repeat_rows=1, length=29, primer_rows=3, primer_length=41, warmup_steps=2)
    train(initial(TINY, 0), batches, long, tmp_path / "whole")
    stopped = Recipe(**{**long.__dict__, "decay_steps": 0})
    model = initial(TINY, 0)
    train(model, batches, stopped, tmp_path / "parts")
    train(initial(TINY, 5), batches, long, tmp_path / "parts")  # different initial weights, which must be ignored
    whole, parts = (load_file(tmp_path / name / "state.safetensors") for name in ("whole", "parts"))
    assert (tmp_path / "parts" / "step").read_text() == "6"
    for name in whole:
        torch.testing.assert_close(parts[name], whole[name], rtol=1e-4, atol=1e-6)


@pytest.mark.slow
def test_training_learns(batches, tmp_path):
    recipe = Recipe(0, 40, 0, text_rows=8, repeat_rows=0, length=31, warmup_steps=5, peak_lr=5e-3)
    train(initial(TINY, 0), batches, recipe, tmp_path)
    model = load_weights(Transformer.random(TINY, 1), tmp_path)
    loss = torch.nn.functional.cross_entropy(model(STREAM[None, :60])[0], STREAM[1:61])
    assert loss < 0.8 * math.log(VOCAB)  # the stream is an arithmetic progression, so it is fully predictable


class Fake:
    """A fake model with given weights and logits; it predicts t + 1 after token t with probability p."""

    config = replace(TINY, n_layers=1)

    def __init__(self, key_of, p: float = 0.5) -> None:
        self.key_of, self.p = key_of, p

    def __call__(self, ids, record=None):
        B, T = ids.shape
        if record is not None:
            weights = torch.zeros(B, 2, T, T)
            for i in range(T):
                weights[:, 1, i, max(self.key_of(i), 0)] = 0.75  # head 1 of 2
            none = torch.zeros(0)
            record(q=none, k=none, v=none, q_pre_rope=none, k_pre_rope=none, weights=weights, allowed=None, scale=1)
        logits = torch.full((B, T, VOCAB), math.log((1 - self.p) / (VOCAB - 1)))
        return logits.scatter(2, ((ids + 1) % VOCAB)[..., None], math.log(self.p))


class Letters:
    """A tokenizer with one token per character, its code point."""

    def encode(self, text: str) -> list[int]:
        return [ord(c) - 32 for c in text]


def test_bits_per_character_of_a_known_model():
    text = "".join(chr(32 + i % VOCAB) for i in range(1000))
    assert bits_per_character(Fake(lambda i: i), Letters(), text) == pytest.approx(999 / 1000, rel=1e-5)
    assert bits_per_character(Fake(lambda i: i, 0.25), Letters(), text[:50]) == pytest.approx(2 * 49 / 50, rel=1e-5)


def test_a_head_that_looks_up_is_found_and_scored():
    scored = repetition_scores(Fake(lambda i: i - 13 + 1), torch.randint(VOCAB, (5, 13)))
    assert (scored["layer"], scored["head"]) == (0, 1) and scored["induction"] == pytest.approx(0.75)
    counting = torch.arange(13).expand(5, 13)  # each next token is the one the fake expects, in both copies
    assert repetition_scores(Fake(lambda i: i), counting)["second"] == pytest.approx(math.log(2), rel=1e-5)
    assert repetition_scores(Fake(lambda i: i), counting)["gain"] == pytest.approx(0, abs=1e-5)
    assert repetition_scores(Fake(lambda i: i), counting)["induction"] == 0


def test_a_head_that_looks_one_back_is_found():
    found = previous_token(Fake(lambda i: i - 1), torch.randint(VOCAB, (3, 11)))
    assert (found["head"], found["previous_token"]) == (1, pytest.approx(0.75))


def test_passages_are_spread_over_the_whole_text():
    p = passages(torch.arange(101), 3, 11)
    assert p[:, 0].tolist() == [0, 45, 90] and p[2, -1] == 100


@pytest.mark.parametrize(
    "config",
    [
        TINY,
        ModelConfig(3, 16, 4, vocab_size=11, attention="mla", **LATENT),
        HYBRID,
    ],
)
def test_the_cards_cache_is_what_a_live_cache_holds(config):
    model = Transformer.random(config, 0)
    cache = model.new_cache()
    model(torch.tensor([[1, 2, 3, 4, 5]]), cache=cache)
    assert cached_numbers(config, 5).value == sum(t.numel() for layer in cache for t in layer.tensors)


def test_the_card_tells_a_state_from_what_grows():
    state = sum(int(each.numbers.value) for each in DELTA.state())
    assert _grows(HYBRID) == 2 * 3 * 13 and _state(HYBRID) == {"state_numbers": 2 * state} and _state(TINY) == {}
    assert _cache({"cache_numbers_per_token": 78, "state_numbers": 2 * state}) == f"78, and a state of {2 * state:,}"


def test_heads_with_effective_weights_are_not_scored():
    ids = torch.randint(HYBRID.vocab_size, (3, 11))
    assert previous_token(Transformer.random(HYBRID, 0), ids)["layer"] == 1
    assert repetition_scores(Transformer.random(HYBRID, 0), ids)["layer"] == 1


def test_the_rates_of_a_state_are_not_decayed():
    decayed, kept = _groups(Transformer.random(HYBRID, 0), Recipe())
    assert kept["weight_decay"] == 0 and [tuple(p.shape) for p in kept["params"]] == [(6,)] * 4
    assert decayed["weight_decay"] == Recipe().weight_decay and len(_groups(Transformer.random(TINY, 0), Recipe())) == 1


def test_the_hybrid_has_attention_in_its_last_layer_only():
    config = config_of("hybrid")
    assert [layer.mixer.attends for layer in config.layers] == [False, False, False, True]
    assert config.layers[3] == config_of("gqa-4").layers[3] and config.n_kv_heads == DELTA_SHIPPED.n_key_heads
    conv = initial(config, 1).blocks[0].attn.conv
    assert 0.2 < conv.std() < 0.4  # uniform in ± 1 / sqrt(taps), not 0.02


def test_the_cards_plot_names_every_variant():
    scores = {n: {"cache_numbers_per_token": c, "bits_per_character": b} for n, c, b in (("a", 8, 1.5), ("b", 1, 1.6))}
    svg = quality_svg(scores)
    assert ">a 1.500<" in svg and ">b 1.600<" in svg and svg.count("<circle") == 2


def test_dropout_acts_in_training_alone_and_leaves_the_weights_shipped_as_they_are(batches, tmp_path):
    model = initial(TINY, seed=1)
    names = set(model.state_dict())
    train(model, batches, Recipe(decay_steps=2, dropout=0.5, text_rows=2, length=29, seed=3), tmp_path)
    ids = torch.arange(23)[None]
    torch.manual_seed(0)
    assert not torch.equal(model.train()(ids), model(ids))  # dropout differs in each run
    assert torch.equal(model.eval()(ids), model(ids))
    assert set(model.state_dict()) == names


def test_the_mean_of_two_models_lies_between_their_weights():
    one, other = Transformer.random(TINY, 1), Transformer.random(TINY, 2)
    mean = mean_of(one, other).state_dict()
    for name, weight in one.state_dict().items():
        assert torch.allclose(mean[name] - weight, other.state_dict()[name] - mean[name], atol=1e-6)


def test_every_variant_sees_the_same_number_of_tokens():
    """MQA had the primer once more before the second cosine schedule; the others only the shared part."""
    totals = {
        variant: Recipe(PRIMER_AGAIN.get(variant, 0), 0, DECAY).tokens
        + Recipe(decay_steps=second_steps(variant)).tokens
        for variant in FAMILY
    }
    assert len(set(totals.values())) == 1


# --- checkpoints that continue from GQA-4 -----------------------------------------------------------------------------


@pytest.mark.parametrize("variant", ["sinks", "shared", further.INDEXER])
def test_a_variant_begins_with_the_weights_that_fit(variant):
    start, _ = load_checkpoint(further.START)
    model, recipe = further.start_of(variant, 1, Mock())
    known = start.state_dict()
    for name, p in model.named_parameters():
        assert name not in known or torch.equal(p, known[name])
    new = [name for name, _ in model.named_parameters() if name not in known]
    assert {"sinks": 4, "shared": 0}.get(variant, 4 * 5) == len(new) and recipe.tokens == recipe.steps * 2560
    trained = [name for name, p in model.named_parameters() if p.requires_grad]
    assert trained == (new if variant == further.INDEXER else [name for name, _ in model.named_parameters()])


def test_an_indexer_learns_from_the_mean_weights_of_the_heads_alone():
    mixer = IndexedGrouped(n_heads=4, n_kv_heads=2, head_dim=4, top_k=5, n_index_heads=3, index_dim=6)
    model = Transformer.random(replace(TINY, mixed_layers=(Layer((mixer, Dense(24)), rope_theta=53.0),) * 2), 3)
    ids, record = STREAM[None, :14], Recording()
    counts = torch.ones(1, 13, dtype=torch.bool)
    further.index_loss(model, ids, counts, text=False).backward()
    moved = {name for name, p in model.named_parameters() if p.grad is not None and p.grad.abs().max() > 0}
    assert moved == {name for name, _ in model.named_parameters() if "indexer" in name}
    text = torch.nn.functional.cross_entropy(model(ids[:, :-1], record=record)[0], ids[0, 1:])
    expected = 0.0
    for one in record:
        mean, scores = one.weights[0].mean(0).detach().double(), one.own["index_scores"][0].detach().double()
        for t in range(13):  # over the keys that are kept
            keys = one.allowed[0, 0, t].nonzero()[:, 0]
            odds = scores[t, keys].exp() / scores[t, keys].exp().sum()
            expected += float((mean[t, keys] * (mean[t, keys] / odds).log()).sum()) / 13
    assert float(further.index_loss(model, ids, counts)) == pytest.approx(float(text) + expected, abs=1e-4)


def test_weights_that_are_not_trained_stay_what_they_are(batches, tmp_path):
    model = initial(TINY, 0)
    for p in model.blocks[0].parameters():
        p.requires_grad_(False)
    before = {name: p.clone() for name, p in model.named_parameters()}
    recipe = Recipe(decay_steps=2, text_rows=2, repeat_rows=1, length=23, warmup_steps=1)
    train(model, batches, recipe, tmp_path)
    for name, p in load_weights(initial(TINY, 1), tmp_path).named_parameters():
        assert torch.equal(p, before[name]) == name.startswith("blocks.0.")


def test_a_card_keeps_what_is_not_exported_again(tmp_path, monkeypatch):
    monkeypatch.setattr(export, "SCORES", tmp_path / "scores.json")
    monkeypatch.setattr(export, "FOLDER", tmp_path)
    before = {"mha": {"made": "a machine; an hour", "bits_per_character": 1.5}, "mqa": {"bits_per_character": 1.6}}
    export.write_scores(before)
    monkeypatch.setattr(export, "load_checkpoint", lambda name: (Transformer.random(TINY, 0), None))
    monkeypatch.setattr(export, "evaluate", lambda *_: {"bits_per_character": 1.7})
    scores = export.score(["mqa"], "text")
    assert scores["mha"] == before["mha"] and scores["mqa"]["bits_per_character"] == 1.7
    assert "made" not in scores["mqa"] and list(scores) == ["mha", "mqa"]
