"""Check each mistake's symptom against its record, and its metric against an independent computation."""

from dataclasses import replace
from functools import cache
from pathlib import Path

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from attnviz import compute
from attnviz.checkpoints import list_checkpoints
from attnviz.config import FAMILY, SHIPPED, ModelConfig
from attnviz.mechanisms import Dense, IndexedGrouped, Layer
from attnviz.mechanisms.delta import IN_ALL_LAYERS
from attnviz.mistakes import RIGHT, CannotOccur, Change, Symptom, Version, all_mistakes
from attnviz.mistakes.runs import run_padded
from attnviz.modules import Recording, Transformer
from attnviz.session.examples import EXAMPLES
from attnviz.text import tokenizer
from attnviz.trace import trace
from tests.mistakes.by_hand import (
    AS_IT_SHOULD_BE,
    IDS,
    NUMBERS,
    T,
    logits_of,
    loss_of,
    model_of,
    scores_of,
    softmax,
    trace_of,
)
from tests.mistakes.states_by_hand import ONLY_IN
from tests.mixed import HYBRID

MISTAKES = all_mistakes()
LIMIT = 128  # tokens of the page
NOT_IN = {
    "tiled_kv_heads": {"mha", "mqa", "mla"},
    "groups_mixed_up": {"mla"},
    "cache_sized_with_n_heads": {"mha"},
    "fewer_flops_in_gqa": {"mha", "mla"},
    "attention_across_the_batch": {"mla"},
    "dropout_in_evaluation": {"mla"},
    "fused_qkv_per_head": {"mqa", "mla", "shared"},
    "fully_masked_row": {"sinks"},
    "mask_after_softmax": {"sinks"},
    "scale_by_d_model": {"sinks"},
    "softmax_over_queries": {"sinks", "sparse"},
    **{name: {*SHIPPED} - {model} for name, model in ONLY_IN.items()},
}
MODELS = ("mha", "gqa-4", "mqa", "mla")  # gqa-2 runs through the code of gqa-4
WHERE = [(name, model) for name in MISTAKES for model in MODELS if model not in NOT_IN.get(name, ())]
WHERE += ONLY_IN.items()
OF_EACH = [(name, model) for name, model in WHERE if model not in ("mha", "mqa")]  # one of each attention module
LONG = [(name, model) for name, model in OF_EACH if model != "mla" or MISTAKES[name].latent]  # MLA's own lines
SAME_IN = {  # tokens of texts in which the mistake computes the same, which its sentence says
    "values_added_up": {1}, "state_of_a_chunk_dropped": {1}, "top_k_before_the_mask": {1, 2},
}  # fmt: skip


@cache
def symptom_of(name: str, model: str, n: int = T) -> Symptom:
    return MISTAKES[name].symptom(model_of(model), long_text(n))


def long_text(n: int) -> list[int]:
    return (IDS * (n // T + 1))[:n]


@pytest.mark.parametrize("name", MISTAKES)
def test_where_it_does_not_show_there_is_a_reason(name):
    reasons = {}
    for model in list_checkpoints():
        try:
            MISTAKES[name].symptom(model_of(model), IDS)
        except CannotOccur as reason:
            reasons[model], config = str(reason), model_of(model).config
            assert (MISTAKES[name].refused_by(config) or MISTAKES[name].why_not(config)) in str(reason)
        else:
            assert not MISTAKES[name].why_not(model_of(model).config)
    not_in = NOT_IN.get(name, set()) | ({"hybrid"} if name in IN_ALL_LAYERS else set())
    assert reasons.keys() == not_in & {*list_checkpoints()}
    assert all(reason.endswith(".") and len(reason) > 60 for reason in reasons.values())


def shows_itself_as_its_record_says(name: str, found: Symptom, n: int) -> None:
    """The symptom has the kind of error or numbers that the record names, in a text of n tokens."""
    kind = MISTAKES[name].kind
    known = found.right[:, :-1] if name == "loss_without_shift" else found.right  # the last has no next token
    assert np.isfinite(known).all() and found.sentence.endswith(".") and len(found.sentence) < 500
    if n in SAME_IN.get(name, ()):
        assert found.is_same and found.number == found.expected
        return
    assert found.n_tokens == n and (n == 1 or (found.effect == kind and not found.is_same))
    if kind == "raises":
        runs_with_one_token = name == "view_after_transpose" and n == 1
        assert bool(found.error) != runs_with_one_token and found.wrong is None
        expected = {"attribute_before_assignment": "AttributeError: "}.get(name, "RuntimeError: ")
        assert found.error.startswith(expected) or runs_with_one_token
    elif kind == "nan":
        assert not found.error and np.isnan(found.wrong).any() and found.number > found.expected == 0
    else:
        assert not found.error and np.isfinite(found.wrong).all() and np.isfinite(found.number)
        assert found.wrong.shape == found.right.shape
        if n > 1:
            assert abs(found.number - found.expected) > 1e-3, "the number gives the mistake away"


@pytest.mark.slow
@pytest.mark.parametrize(
    "name, model, n", [(*each, n) for n in (1, 2) for each in OF_EACH] + [(*each, LIMIT) for each in LONG]
)
def test_in_the_shortest_and_longest_texts_it_shows_itself_as_its_record_says(name, model, n):
    if (name, n) == ("mask_after_softmax", 1):
        with pytest.raises(CannotOccur, match=r"in `attend`, did not run. A single token has one key, which is not m"):
            symptom_of(name, model, n)
        return
    shows_itself_as_its_record_says(name, symptom_of(name, model, n), n)


def test_neither_weights_nor_global_random_numbers_change():
    before = {name: {key: p.clone() for key, p in model_of(name).state_dict().items()} for name in ("gqa-4", "mla")}
    random_numbers = torch.random.get_rng_state()
    for name, model in OF_EACH:
        MISTAKES[name].symptom(model_of(model), IDS[:5])
        raises = MISTAKES[name].kind == "raises"  # it may have drawn the weights of a module that it builds
        assert raises or torch.equal(torch.random.get_rng_state(), random_numbers), name
        torch.random.set_rng_state(random_numbers)
    for name, weights in before.items():
        assert all(torch.equal(p, weights[key]) for key, p in model_of(name).state_dict().items())
    assert not any(block.attn.training for block in model_of("gqa-4").blocks)


INDEXED = IndexedGrouped(n_heads=6, n_kv_heads=3, head_dim=6, top_k=5, n_index_heads=2, index_dim=8)
OWN = {
    "one head, one layer": ModelConfig(1, 8, 1, vocab_size=11),
    "MLA of one head": ModelConfig(
        1, 8, 1, vocab_size=11, attention="mla", kv_lora_rank=3, qk_nope_head_dim=2, qk_rope_head_dim=2, v_head_dim=2
    ),
    "no mask, no RoPE": ModelConfig(2, 12, 6, 3, vocab_size=17, causal=False, position="none"),
    "MLA without RoPE and mask": ModelConfig(
        2, 12, 3, vocab_size=17, attention="mla", kv_lora_rank=5, qk_nope_head_dim=3, qk_rope_head_dim=2, v_head_dim=7,
        causal=False, position="none",
    ),
    "a window and sinks": ModelConfig(2, 12, 6, 2, vocab_size=17, sliding_window=2, n_sinks=1),
    "a window of one": ModelConfig(2, 12, 2, vocab_size=17, sliding_window=1),
    "a window without causality": ModelConfig(2, 12, 6, 2, vocab_size=17, sliding_window=2, causal=False),
    "biases, wide heads": ModelConfig(2, 15, 6, 3, head_dim=14, vocab_size=17, qkv_bias=True),
    "seven heads": ModelConfig(1, 98, 7, vocab_size=17),
    "layers with a state": HYBRID,
    "an indexer": replace(HYBRID, n_layers=2, mixed_layers=(Layer((INDEXED, Dense(23)), rope_theta=53.0),) * 2),
}  # fmt: skip


WITHOUT_A_DIFFERENCE = {  # the mistake occurs, and its number is the right one, which its sentence says
    # the rows of the padding are NaN, and only a second layer reads them
    "one head, one layer": {"fully_masked_row"}, "MLA of one head": {"fully_masked_row"},
    "seven heads": {"fully_masked_row"},
    # each query has one key, whose weight is 1 whatever its score
    "a window of one": {"padding_mask_over_queries", "scale_by_d_model", "softmax_over_queries",
                        "keys_rotated_twice", "positions_restart"},
}  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("own", OWN)
@pytest.mark.parametrize("name", MISTAKES)
def test_any_model_has_a_symptom_or_a_reason(name, own):
    model, mistake = Transformer.random(OWN[own], 3), MISTAKES[name]
    for n in (1, 5):
        try:
            found = mistake.symptom(model, list(range(n)))
        except CannotOccur as reason:
            assert str(reason).endswith(".") and name not in WITHOUT_A_DIFFERENCE.get(own, ())
            continue
        if mistake.kind == "nan":
            assert np.isnan(found.wrong).any() and found.expected == 0
        elif mistake.kind == "silent":
            assert np.isfinite(found.wrong).all() and np.isfinite(found.number)
        if n == 5:
            assert not mistake.why_not(model.config), "a reason not to show, and it shows"
            equal = name in WITHOUT_A_DIFFERENCE.get(own, ())
            assert bool(found.error) or (abs(found.number - found.expected) < 1e-3) == equal, (
                f"{found.number} instead of {found.expected} in 5 tokens: give a reason in why_not, or say in the "
                "sentence that the number stays, and add the mistake to WITHOUT_A_DIFFERENCE"
            )


def test_each_mistake_has_a_number_computed_here():
    missing, unknown = MISTAKES.keys() - NUMBERS.keys(), (NUMBERS.keys() | AS_IT_SHOULD_BE.keys()) - MISTAKES.keys()
    assert not missing, f"add to NUMBERS a function that computes the mistaken number of {missing} independently"
    assert not unknown, f"there are no such mistakes: {unknown}"
    assert NOT_IN.keys() <= MISTAKES.keys()


def is_loss(name: str) -> bool:
    return symptom_of(name, ONLY_IN.get(name, "gqa-4")).measure.startswith("Loss")


@pytest.mark.slow
@pytest.mark.parametrize("name, model", WHERE)
def test_a_symptom_is_as_recorded_with_a_number_computed_here_and_the_map_of_the_trace(name, model):
    found = symptom_of(name, model)
    shows_itself_as_its_record_says(name, found, T)
    assert found.number == pytest.approx(NUMBERS[name](model), rel=2e-4, abs=2e-5)
    right = loss_of(torch.tensor(trace_of(model).logits)[None]) if is_loss(name) else 0
    expected = AS_IT_SHOULD_BE[name](model) if name in AS_IT_SHOULD_BE else right
    assert found.expected == pytest.approx(expected, rel=2e-4, abs=2e-5)
    its_right_map_is_that_of_the_trace(name, model, found)


def its_right_map_is_that_of_the_trace(name: str, model: str, found: Symptom) -> None:
    others = ("attention_across_the_batch", "scores_overflow_in_fp16", "top_k_before_the_mask")
    changed = found.n_padding or found.columns or name in others
    if not changed:
        np.testing.assert_allclose(found.right, trace_of(model).weights[found.layer, found.head], atol=1e-5)
    rows = found.right.sum(-1)
    if name == "loss_without_shift":
        logits = torch.tensor(trace_of(model).logits).double().log_softmax(-1)  # (T, V)
        later = [-float(logits[i, token]) for i, token in enumerate(IDS[1:T])]
        np.testing.assert_allclose(found.right, [[*later, np.nan]], rtol=1e-4, atol=1e-4)
        same = [-float(logits[i, token]) for i, token in enumerate(IDS[:T])]
        np.testing.assert_allclose(found.wrong, [same], rtol=1e-4, atol=1e-4)
    elif name not in ("cache_sized_with_n_heads", "fewer_flops_in_gqa") and not found.signed:
        assert np.allclose(rows[found.n_padding :], 1, atol=2e-3), "float16 has three digits"


ROWS = {  # of a softmax: the number and that of the right version, from weights and scores (H, T, T) before the mask
    "mask_never_used": lambda scores: (np.triu(softmax(scores), 1).sum() / scores[..., 0].size, 0),
    "mask_after_softmax": lambda scores: (np.tril(softmax(scores)).sum(-1).min(), 1),
    "softmax_over_queries": lambda scores: (
        softmax(np.where(np.tri(T, dtype=bool), scores, -np.inf), axis=-2).sum(-1).max(), 1
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", ROWS)
def test_rows_are_measured_in_the_first_layer_with_a_softmax(name):
    """The hybrid's layers 0 to 2 have a state: their rows sum to no 1 in the right version either."""
    found, one = symptom_of(name, "hybrid"), trace_of("hybrid").layers[3]
    scores = np.stack([one.scores_of(head) for head in range(8)]).astype(np.float64)
    assert (found.number, found.expected) == pytest.approx(ROWS[name](scores), rel=2e-4, abs=2e-5)
    assert found.layer == 3 and "layer 3" in found.measure and "layer 3" in found.sentence and not found.signed


def test_padding_is_measured_in_the_first_layer_with_a_softmax():
    padded = trace(model_of("hybrid"), [0, 0, 0, *IDS]).layers[3].weights[:, 3:, :3].sum(-1).mean()
    found = symptom_of("padding_mask_over_queries", "hybrid")
    assert found.number == pytest.approx(padded, rel=1e-4) and found.expected == 0
    rows = symptom_of("fully_masked_row", "hybrid")
    assert rows.sentence.startswith(
        "In layer 3, 24 of the 24 rows of padding are NaN and 0 rows of the text, in 8 heads"
    )


def test_the_mistaken_map_of_a_mask_after_the_softmax():
    found = symptom_of("mask_after_softmax", "mha")
    expected = softmax(scores_of("mha"))[found.head] * np.tri(T)
    assert found.layer == 0
    np.testing.assert_allclose(found.wrong, expected, atol=1e-5)
    np.testing.assert_allclose(found.difference, expected - trace_of("mha").weights[0, found.head], atol=1e-5)


def test_nan_of_a_masked_row_comes_from_the_row_itself_and_spreads():
    """By hand: the first layer has NaN only in the padding's rows, the next one everywhere."""
    found = symptom_of("fully_masked_row", "mha")
    assert found.n_padding == 3 and found.layer == 0
    assert np.isnan(found.wrong[:3]).all() and np.isfinite(found.wrong[3:]).all()
    model = MISTAKES["fully_masked_row"].model(model_of("mha"))
    record = Recording()
    mask = (torch.arange(T + 3) >= 3)[None, None, None]
    with torch.inference_mode():
        model(torch.tensor([[0, 0, 0, *IDS]]), mask=mask, record=record)
    assert record[1].weights.isnan().all()


@pytest.mark.parametrize("model", ["mha", "mla"])
def test_a_leak_is_where_another_last_token_moves_a_logit_most(model):
    other = [*IDS[:-1], (IDS[-1] + 1) % 2048]
    wrong = MISTAKES["mask_never_used"].model(model_of(model))
    moved = (logits_of(wrong, other) - logits_of(wrong))[0, :-1].abs().amax(-1)
    sentence = symptom_of("mask_never_used", model).sentence
    assert f"position {int(moved.argmax())} changes by {float(moved.max()):.3f} when token {T - 1} changes" in sentence
    assert F.mse_loss(logits_of(model_of(model), other)[:, :-1], logits_of(model_of(model))[:, :-1]) < 1e-8


# ---- what the records say beside the symptom


@pytest.mark.slow
def test_a_padding_mask_over_queries_raises_some_losses_and_lowers_others():
    name, texts = "padding_mask_over_queries", [tokenizer().encode(text)[:LIMIT] for text in EXAMPLES.values()]
    found = [MISTAKES[name].symptom(model_of(m), ids).sentence for m in ("gqa-4", "mla") for ids in texts]
    assert sum(" falls from " in each for each in found) > 5 and sum(" rises from " in each for each in found) > 5


@pytest.mark.parametrize("model", FAMILY)
def test_the_other_layout_of_rope_raises_the_loss_more_after_many_tokens(model):
    ids = tokenizer().encode((Path(compute.__file__).parent / "long_text.txt").read_text())[:LIMIT]
    right, wrong = (
        F.cross_entropy(logits_of(each, ids)[0, :-1], torch.tensor(ids[1:]), reduction="none")
        for each in (model_of(model), MISTAKES["rope_in_the_other_layout"].model(model_of(model)))
    )
    rise = wrong - right
    assert 0 < 2 * rise[:4].mean() < rise[32:].mean()


def test_a_large_negative_number_leaves_the_logits_of_a_left_padded_text():
    """By hand: rows of padding become uniform, and no token of the text reads them."""
    change = Change(
        "modules/attention.py",
        right="""
            bias = torch.where(mask | ~sees, 0.0, float("-inf"))  # (..., T, S)
            weights = scores.add_(bias).softmax(-1) * sees
        """,
        wrong="weights = scores.masked_fill(~mask, -1e20).softmax(-1)",
    )
    mask = (torch.arange(T + 3) >= 3)[None, None, None]
    with torch.inference_mode():
        a, b = (
            run_padded(each.like(model_of("mha")), IDS, mask) for each in (RIGHT, Version("large number", (change,)))
        )
    assert torch.equal(a.logits[:, 3:], b.logits[:, 3:]) and not torch.equal(a.logits[:, :3], b.logits[:, :3])
    assert torch.allclose(b.weights[0][0, :, :3], torch.tensor(1 / (T + 3)))
