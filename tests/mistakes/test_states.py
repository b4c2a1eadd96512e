"""Mistakes in linear and sparse attention: hand-solved cases of each mistaken line, and their maps and sentences."""

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from attnviz.mistakes import RIGHT, CannotOccur, Version, load_mistake
from attnviz.mistakes.coverage import changed_functions
from attnviz.modules import Transformer
from attnviz.trace import trace
from tests.mistakes.by_hand import IDS, T, logits_of, loss_of, model_of, trace_of
from tests.mistakes.states_by_hand import ON_STATES, RULES, logits_of_rule, read_by, right
from tests.mixed import HYBRID
from tests.reading import numbers_where

B, H, D, V = 1, 2, 3, 5  # of the cases solved by hand
VALUES = 8.0, 4.0, 2.0  # of three tokens with the same key of length 1; decay and β are 0.5
READ = {  # what the query reads that equals the key, after each token, per unit of VALUES
    "right": (4, 3, 1.75),  # 8/2; 4/2 + (4 − 2)/2; 3/2 + (2 − 1.5)/2
    "decay_after_the_write": (2, 1.5, 0.875),  # half of 0 + 8/2; of 2 + (4 − 2)/2; of 1.5 + (2 − 1.5)/2
    "write_strength_left_out": (8, 4, 2),  # the newest value
    "values_added_up": (4, 4, 3),  # 8/2; 4/2 + 4/2; 4/2 + 2/2
}


def of_same_key(rule, **form) -> list[float]:
    """Return what three tokens read that have the same key, one number for all heads and columns of the values."""
    k = F.one_hot(torch.tensor(1), D).float().expand(B, H, 3, D)
    v = torch.tensor(VALUES)[:, None].expand(B, H, 3, V)
    half = torch.full((B, H, 3), 0.5)
    read = rule(k, k, v, half, half, scale=1.0, **form)[0]
    assert read.shape == (B, H, 3, V) and (read == read[:1, :1, :, :1]).all()
    return read[0, 0, :, 0].tolist()


def version_of(name: str) -> Version:
    return RIGHT if name == "right" else load_mistake(name).version()


@pytest.mark.parametrize("name", READ)
def test_each_rule_reads_what_was_solved_by_hand(name):
    assert of_same_key(version_of(name).module("modules.delta").gated_delta_rule) == list(READ[name])


def test_a_chunk_without_the_state_of_the_one_before_reads_its_own_tokens():
    for name, expected in (("right", READ["right"]), ("state_of_a_chunk_dropped", (4, 3, 1))):  # 2/2
        chunked = version_of(name).module("modules.delta").chunked_gated_delta_rule
        assert of_same_key(chunked, chunk=2) == pytest.approx(expected)


def test_a_token_of_the_third_chunk_reads_the_tokens_of_this_chunk():
    """The question: in chunks of 64 tokens, the output at 130 depends on 128 to 130."""
    mistake = load_mistake("state_of_a_chunk_dropped")
    chunked = mistake.version().module("modules.delta").chunked_gated_delta_rule
    draw = torch.Generator().manual_seed(7)
    q, k = F.normalize(torch.randn(2, B, H, 131, D, generator=draw), dim=-1)
    decay, beta = torch.rand(2, B, H, 131, generator=draw)
    one_hot = torch.eye(131).expand(B, H, 131, 131)
    read = chunked(q, k, one_hot, decay, beta)[0][..., 130, :].abs().amax((0, 1))  # (131,), of each token
    assert read.nonzero().flatten().tolist() == [128, 129, 130]
    assert mistake.answers[mistake.answer] == "On 128 to 130"


def test_a_long_key_multiplies_what_is_held_by_its_length():
    """The number of the question: 1 − 0.5 · 3² = −3.5."""
    k, S = torch.tensor([0.0, 3.0, 0.0]).expand(B, H, 1, D), torch.ones(B, H, D, V)
    one, half = torch.ones(B, H, 1), torch.full((B, H, 1), 0.5)
    state = RIGHT.module("modules.delta").gated_delta_rule(k, k, torch.zeros(B, H, 1, V), one, half, S)[1]
    assert state[0, 0, :, 0].tolist() == [1, -3.5, 1]
    of_each = [each.expand(B, H, 101, -1) for each in (k, k, torch.zeros(B, H, 1, V))]
    rates = [each.expand(B, H, 101) for each in (one, half)]
    again = RIGHT.module("modules.delta").gated_delta_rule(*of_each, *rates, S)[1]
    assert again.isnan().any() or again.abs().max() == torch.inf, "3.5 to the 101st is beyond float32"
    mistake = load_mistake("keys_not_normalised")
    assert mistake.answers[mistake.answer] == "−3.5"


def test_the_numbers_of_the_questions_are_those_of_the_mistaken_rules():
    """Three tokens after a write of 1 under a key that comes once; and 3, then 5, under the same key."""
    k = torch.eye(3)[None, None].expand(B, H, 3, 3)
    v = torch.tensor([1.0, 0.0, 0.0])[:, None].expand(B, H, 3, V)
    one, half = torch.ones(B, H, 3), torch.full((B, H, 3), 0.5)
    q = k[:, :, :1].expand(B, H, 3, 3)
    late = load_mistake("decay_after_the_write")
    read = late.version().module("modules.delta").gated_delta_rule(q, k, v, half, one, scale=1.0)[0][0, 0, :, 0]
    assert read.tolist() == [0.5, 0.25, float(late.answers[late.answer])]
    added = load_mistake("values_added_up")
    twice = torch.tensor([3.0, 5.0])[:, None].expand(B, H, 2, V)
    read = added.version().module("modules.delta").gated_delta_rule(
        q[:, :, :2], q[:, :, :2], twice, one[:, :, :2], one[:, :, :2], scale=1.0
    )[0]  # fmt: skip
    assert read[0, 0, 1, 0] == float(added.answers[added.answer])


def test_a_query_with_better_later_keys_keeps_fewer_or_none():
    """The scores of the question, and a query all of whose best keys are later ones."""
    mistake = load_mistake("top_k_before_the_mask")
    scores = torch.tensor([0.1, 0.7, 0.2, 0.9, 0.8, 0.6, 0.5, 0.3]).expand(1, 8, 8)
    causal = torch.ones(8, 8, dtype=torch.bool).tril()
    kept = {v.name: v.module("modules.sparse").top_k_mask(scores, 4, causal)[0, 0] for v in (RIGHT, mistake.version())}
    assert kept["right"][2].tolist() == [True] * 3 + [False] * 5
    assert kept[mistake.id][2].nonzero().flatten().tolist() == [1]
    assert mistake.answers[mistake.answer] == "1" and not kept[mistake.id][0].any()


# ---- on the text


def test_the_rules_by_hand_are_right_where_nothing_is_mistaken():
    torch.testing.assert_close(
        logits_of_rule(model_of("hybrid"), IDS), logits_of(model_of("hybrid")), rtol=0, atol=1e-4
    )


@pytest.mark.parametrize("name", ON_STATES)
def test_the_maps_are_effective_weights_whose_product_with_v_is_the_rules_output(name):
    found = load_mistake(name).symptom(model_of("hybrid"), IDS)
    layer, head = found.layer, found.head
    assert found.signed and found.picture == f"Effective weights of layer {layer}, head {head}"
    one = trace_of("hybrid").layers[layer]
    np.testing.assert_allclose(found.right, one.weights[head], atol=1e-6)
    assert layer == 0, "so q, k and v are those of the right version"
    if name in RULES and name != "keys_not_normalised":
        q, k, v, decay, beta = (
            torch.tensor(each).double()
            for each in (one.q[head], one.k[one.mixer.kv_head_of[head]], one.v[head], one.own["decay"][head],
                         one.own["beta"][head])
        )  # fmt: skip
        expected = read_by(RULES[name], q, k, v, decay, beta)
        np.testing.assert_allclose(found.wrong @ one.v[head], expected.numpy(), atol=1e-5)
        assert np.abs(read_by(right, q, k, v, decay, beta).numpy() - expected.numpy()).max() > 1e-3


def decays(head: int) -> Tensor:
    return torch.tensor(trace_of("hybrid").layers[0].own["decay"][head])


def test_the_sentences_print_what_the_right_version_computed():
    """Of the head that is drawn: decay, β, lengths of keys."""
    symptoms = {name: load_mistake(name).symptom(model_of("hybrid"), IDS) for name in ON_STATES}
    late = symptoms["decay_after_the_write"]
    (printed,) = numbers_where("by its decay α, # on average", late.sentence)
    assert printed == pytest.approx(decays(late.head).mean().item(), abs=6e-4)
    ratio = late.wrong.diagonal() / late.right.diagonal()
    np.testing.assert_allclose(ratio, decays(late.head).numpy(), rtol=1e-3)
    one = trace_of("hybrid").layers[0]
    full = symptoms["write_strength_left_out"]
    (printed,) = numbers_where("β, # on average", full.sentence)
    assert printed == pytest.approx(one.own["beta"][full.head].mean(), abs=6e-4)
    long = symptoms["keys_not_normalised"]
    attn, key_head = model_of("hybrid").blocks[0].attn, one.mixer.kv_head_of[long.head]
    with torch.inference_mode():
        x = model_of("hybrid").blocks[0].attn_norm(model_of("hybrid").embed(torch.tensor([IDS])))
        projected = attn.k_proj(x)[0].T[None]  # (1, K·D, T)
        taps = attn.conv[attn.widths[0] : attn.widths[0] + attn.widths[1], None]
        keys = F.silu(F.conv1d(F.pad(projected, (attn.taps - 1, 0)), taps, groups=len(taps)))[0]
    lengths = keys.unflatten(0, (attn.n_key_heads, -1))[key_head].norm(dim=0)
    least = (1 - torch.tensor(one.own["beta"][long.head]) * lengths**2).min()
    found = numbers_where("lengths of # to # instead of 1; the smallest .*² is #", long.sentence)
    assert found == pytest.approx([lengths.min().item(), lengths.max().item(), least.item()], abs=6e-4)


def test_a_state_that_adds_up_values_has_the_logits_of_its_rule_and_says_how_much_it_grows():
    """Its losses are those of the rule by hand; its number, the norm of the state, is tested with the others."""
    found = load_mistake("values_added_up").symptom(model_of("hybrid"), IDS)
    assert found.number > 1.5 * found.expected and found.measure.startswith("Norm of this head's state")
    growth, *losses = numbers_where("norm is # times that .* from # to # nats", found.sentence)
    assert growth == pytest.approx(found.number / found.expected, abs=6e-4)
    of_rule = loss_of(logits_of_rule(model_of("hybrid"), IDS, "values_added_up"))
    assert losses == pytest.approx([loss_of(logits_of(model_of("hybrid"))), of_rule], abs=6e-4)


def test_dropped_states_leave_blocks_on_the_diagonal():
    found = load_mistake("state_of_a_chunk_dropped").symptom(model_of("hybrid"), IDS)
    n_first, n_later, n = numbers_where("in chunks of #, # tokens of # come after", found.sentence)
    assert (n_first, n_first + n_later, n) == (15, T, T) and found.number == 0 < 0.02 < found.expected
    blocks = np.arange(T) // 15
    same = blocks[:, None] == blocks
    np.testing.assert_allclose(found.wrong, np.where(same, found.right, 0), atol=1e-6)


def test_the_numbers_of_keys_in_the_sentence_are_those_of_the_map():
    found = load_mistake("top_k_before_the_mask").symptom(model_of("sparse"), IDS)
    k, own, fewer, n, none = numbers_where(
        "With k = # .the layer's is #, .*fewer keys than they could: # of #; without any key: #", found.sentence
    )
    kept, left = ((each > 0).sum(-1) for each in (found.right, found.wrong))
    assert (k, own, n) == (7, 32, T) and kept.tolist() == [min(7, i + 1) for i in range(T)]
    assert fewer == (left < kept).sum() and none == (left == 0).sum()
    assert found.number == pytest.approx(left.mean()) and found.expected == pytest.approx(kept.mean())


@pytest.mark.parametrize("name", ON_STATES)
def test_the_drawn_layer_has_a_state_also_where_an_attention_layer_differs_more(name):
    model = Transformer.random(HYBRID, 3)
    found = load_mistake(name).symptom(model, list(range(17)))
    assert found.signed and not HYBRID.layers[found.layer].mixer.attends and np.isfinite(found.number)
    np.testing.assert_allclose(
        found.right, trace(model, list(range(17))).layers[found.layer].weights[found.head], atol=1e-5
    )


def test_without_a_state_or_an_indexer_the_sentence_says_so():
    for name, model, word in (("values_added_up", "sparse", "state"), ("top_k_before_the_mask", "hybrid", "indexer")):
        with pytest.raises(CannotOccur, match=f"It needs .* {word}"):
            load_mistake(name).symptom(model_of(model), IDS)


def test_a_line_that_is_only_moved_counts_as_changed_code():
    assert changed_functions(load_mistake("decay_after_the_write").version()) == ("gated_delta_rule",)
