"""What run_of takes and what it refuses; sizes are distinct primes: layers 2, heads 3, queries 5, keys 7."""

import subprocess
import sys
from typing import Any

import numpy as np
import pytest

from attnviz.runs.run import AttentionKind, AttentionRun, run_of

L, H, T, S = 2, 3, 5, 7
RANDOM = np.random.default_rng(11)


def rows(*shape: int) -> np.ndarray:
    """Random weights whose rows sum to 1."""
    weights = RANDOM.random(shape, dtype=np.float32) + 0.01
    return weights / weights.sum(-1, keepdims=True)


def names(n: int, letter: str = "t") -> list[str]:
    return [f"{letter}{i}" for i in range(n)]


SQUARE = rows(L, H, T, T)


def tensors(dtype: str) -> list[Any]:
    import torch

    return [torch.tensor(layer[None], dtype=getattr(torch, dtype), requires_grad=True) for layer in SQUARE]


@pytest.mark.parametrize(
    "given",
    [
        pytest.param(lambda: SQUARE, id="stacked"),
        pytest.param(lambda: SQUARE[:, None], id="stacked, a batch of one"),
        pytest.param(lambda: list(SQUARE), id="list"),
        pytest.param(lambda: tuple(layer[None] for layer in SQUARE), id="tuple with batches of one"),
        pytest.param(lambda: SQUARE.astype(np.float64), id="float64"),
        pytest.param(lambda: tensors("float32"), id="torch with gradients"),
        pytest.param(lambda: {"attentions": tensors("float32"), "logits": None}, id="what a model returned"),
    ],
)
def test_weights_in_every_form(given: Any) -> None:
    kind = run_of(given(), names(T)).kinds[0]
    assert (kind.name, kind.n_layers, kind.n_heads, kind.tokens) == ("self", L, (H, H), tuple(names(T)))
    assert all((layer == expected).all() for layer, expected in zip(kind.layers, SQUARE, strict=True))
    assert all(layer.dtype == np.float32 and not layer.flags.writeable for layer in kind.layers)


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
def test_half_precision_is_exact(dtype: str) -> None:
    import torch

    kind = run_of(tensors(dtype), names(T)).kinds[0]
    assert (kind.layers[1] == torch.tensor(SQUARE[1]).to(getattr(torch, dtype)).float().numpy()).all()
    assert kind.sums_note == ""  # rounding is not said


def test_one_layer() -> None:
    assert [layer.shape for layer in run_of(rows(H, T, T), names(T)).kinds[0].layers] == [(H, T, T)]


def test_layers_may_differ_in_heads() -> None:
    kind = run_of([rows(3, T, T), rows(2, T, T)], names(T), n_kv_heads=[1, 2]).kinds[0]
    assert (kind.n_heads, kind.n_kv_heads) == ((3, 2), (1, 2))


def test_what_was_given_stays_writable() -> None:
    mine = rows(H, T, T)
    run_of(mine, names(T))
    mine[0, 0, 0] = 0.5


# ---- texts


def test_a_key_list_makes_cross_attention() -> None:
    kind = run_of(rows(L, H, T, S), names(T), key_tokens=names(S, "s")).kinds[0]
    assert (kind.name, kind.cross, kind.causal, kind.key_tokens) == ("cross", True, False, tuple(names(S, "s")))


def test_three_kinds_of_an_encoder_decoder() -> None:
    weights = {"encoder": rows(L, H, S, S), "decoder": rows(L, H, T, T), "cross": rows(L, H, T, S)}
    decoder, encoder = names(T), names(S, "s")
    for run in (
        run_of(weights, {"encoder": encoder, "decoder": decoder}),
        run_of(weights, decoder, key_tokens=encoder),
    ):
        assert [(kind.name, len(kind.tokens), len(kind.key_tokens)) for kind in run.kinds] == [
            ("encoder", S, S), ("decoder", T, T), ("cross", T, S)
        ]  # fmt: skip
        assert run.kind("cross").tokens == tuple(decoder) and run.kind("cross").key_tokens == tuple(encoder)


def test_a_continued_prompt_counts_on() -> None:
    """Five rows of seven tokens: the rows are the last ones, 2 to 6, whichever way the tokens are given."""
    weights = rows(L, H, T, S) * np.tri(T, S, S - T, dtype=np.float32)
    for run in (run_of(weights, names(S)), run_of(weights, names(S)[2:], key_tokens=names(S))):
        kind = run.kinds[0]
        assert (kind.name, kind.first_row, kind.tokens[0], kind.causal) == ("self", 2, "t2", True)


def test_decoding_steps_are_joined() -> None:
    """As generate() returns them: the prompt's five rows, then one row per step over one more key."""
    whole = rows(L, H, S, S) * np.tri(S, dtype=np.float32)
    steps = [[layer[None, :, :T, :T] for layer in whole]]
    steps += [[layer[None, :, t : t + 1, : t + 1] for layer in whole] for t in range(T, S)]
    kind = run_of(steps, names(S)).kinds[0]
    assert kind.first_row == 0 and all((a == b).all() for a, b in zip(kind.layers, whole, strict=True))


def test_decoding_steps_of_cross_attention() -> None:
    whole = rows(L, H, T, S)
    steps = [[layer[None, :, t : t + 1] for layer in whole] for t in range(T)]
    run = run_of({"cross": steps}, {"encoder": names(S, "s"), "decoder": names(T)})
    assert all((a == b).all() for a, b in zip(run.kinds[0].layers, whole, strict=True))


def test_the_last_token_that_generate_writes_has_no_row() -> None:
    whole = rows(L, H, S, S) * np.tri(S, dtype=np.float32)
    steps = [[layer[None, :, :T, :T] for layer in whole]]
    steps += [[layer[None, :, t : t + 1, : t + 1] for layer in whole] for t in range(T, S)]
    with pytest.raises(ValueError, match=r"7 rows, but 8 tokens.*does not read the last.*tokens\[:-1\]"):
        run_of({"attentions": steps, "sequences": None}, names(S + 1))
    with pytest.raises(ValueError, match="9 tokens were given$"):
        run_of(steps, names(S + 2))


def test_kinds_that_a_model_did_not_compute_are_left_out() -> None:
    """BertModel's output has cross_attentions=()."""
    run = run_of({"attentions": tuple(SQUARE), "cross_attentions": (), "encoder_attentions": None}, names(T))
    assert [kind.name for kind in run.kinds] == ["self"]


@pytest.mark.parametrize("attention", ["eager", "sdpa"])
def test_what_bert_returns(attention: str) -> None:
    import torch
    from transformers import BertConfig, BertModel

    sizes = dict(vocab_size=13, hidden_size=15, num_hidden_layers=2, num_attention_heads=3, intermediate_size=17)
    model = BertModel(BertConfig(**sizes, attn_implementation=attention)).eval()
    with torch.no_grad():
        outputs = model(torch.tensor([[2, 5, 7, 11, 3]]), output_attentions=True)
    if attention == "eager":
        (kind,) = run_of(outputs, names(T)).kinds
        assert (kind.name, kind.n_layers) == ("self", 2)
        assert all((a == b[0].numpy()).all() for a, b in zip(kind.layers, outputs.attentions, strict=True))
    else:
        with pytest.raises(ValueError, match='attn_implementation="eager".*attnviz.run'):
            run_of(outputs, names(T))


def test_layers_without_weights_keep_their_numbers() -> None:
    assert run_of([None, SQUARE[0], None, SQUARE[1]], names(T)).names == ("Layer 1", "Layer 3")
    assert run_of([None, SQUARE[0]], names(T), names=["mamba", "attention"]).names == ("attention",)


@pytest.mark.parametrize(
    ("tokens", "labels"),
    [
        (["The", "Ġcat", "Ċ", "åºĬ", "Ġ"], ["The", "·cat", "⏎", "床", "·"]),  # byte-level; the bytes of 床 are E5 BA 8A
        (["å", "º", "Ĭ", "Ġa", "b"], ["床 1/3", "床 2/3", "床 3/3", "·a", "b"]),
        (["▁The", "▁cat", "<0xE5>", "<0xBA>", "<0x8A>"], ["·The", "·cat", "床 1/3", "床 2/3", "床 3/3"]),
        (["[CLS]", "ma", "##t", "å", "a b"], ["[CLS]", "ma", "##t", "å", "a b"]),  # as given
    ],
)
def test_tokens_of_a_vocabulary_are_labelled_as_their_text(tokens: list[str], labels: list[str]) -> None:
    assert run_of(SQUARE, tokens).kinds[0].tokens == tuple(labels)


def test_tokens_that_the_model_wrote_are_marked_as_output() -> None:
    weights = rows(L, H, T, S) * np.tri(T, S, S - T, dtype=np.float32)
    run = run_of(weights, names(S), output_from=4)
    assert run.positions(run.kinds[0]) == (
        ["2", "3", "4 out", "5 out", "6 out"],
        ["0", "1", "2", "3", "4 out", "5 out", "6 out"],
    )
    cross = run_of({"cross": rows(L, H, T, S)}, {"encoder": names(S), "decoder": names(T)}, output_from=1)
    assert cross.positions(cross.kinds[0])[0][:2] == ["0", "1 out"]
    assert cross.positions(cross.kinds[0])[1] == names(S, "")


# ---- what is said


def test_causal_is_measured() -> None:
    assert run_of(np.tril(SQUARE), names(T)).kinds[0].causal
    almost = np.tril(SQUARE)
    almost[1, 2, 3, 4] = 1e-6
    assert not run_of(almost, names(T)).kinds[0].causal


def test_rows_that_do_not_sum_to_1_are_said() -> None:
    weights = SQUARE.copy()
    weights[0, 1, 2] *= 0.75
    weights[1, 0, 4] *= 1.25
    run = run_of(weights, names(T))
    assert np.allclose(run.kinds[0].row_sums, (0.75, 1.25))
    assert [s for s in run.sentences if "0.75 to 1.25" in s] and not run_of(SQUARE, names(T)).sentences


def test_kv_heads_follow_from_the_keys() -> None:
    keys = rows(L, 2, T, 13)
    run = run_of(rows(L, 6, T, T), names(T), k=keys, q=rows(L, 6, T, 13), v=rows(L, 2, T, 17), logits=rows(1, T, 19))
    assert run.kinds[0].n_kv_heads == (2, 2) and (run.k["self"][1] == keys[1]).all()
    assert run.logits is not None and run.logits.shape == (T, 19)
    assert run_of(rows(L, 6, T, T), names(T), n_kv_heads=3).kinds[0].n_kv_heads == (3, 3)


def test_a_picture_cut_into_patches() -> None:
    picture = np.zeros((28, 42, 3), np.uint8)
    run = run_of(rows(L, H, S, S), names(S), picture=picture, patches=(2, 3), n_before=1)
    assert run.patches == (2, 3) and run.picture is not None


def test_a_run_is_taken_as_it_is() -> None:
    run = run_of(SQUARE, names(T))
    assert run_of(run) is run and run_of(run, title="Mine").title == "Mine"


# ---- what is refused


def nan(value: float = np.nan) -> np.ndarray:
    weights = SQUARE.copy()
    weights[1, 2, 3, 4] = value
    return weights


ALL = {"encoder": rows(L, H, S, S), "cross": rows(L, H, T, S)}
REFUSED = [
    ((rows(T, T), names(T)), {}, ["(5, 5)", "(layers, heads, queries, keys)", "attention[None]"]),
    ((rows(L, 4, H, T, T), names(T)), {}, ["(2, 4, 3, 5, 5)", "batch of 4", "attention[:, 0]"]),
    (([rows(4, H, T, T)], names(T)), {}, ["layer 0", "batch of 4", "layer[0] for layer"]),
    (([rows(H, T, T), rows(H, T, S)], names(T)), {}, ["layer 1", "7 keys", "5 tokens were given"]),
    (([rows(H, T, T), rows(H, S, T)], names(T)), {}, ["layer 1", "7 rows", "5 tokens"]),
    ((SQUARE, names(S)), {}, ["layer 0", "5 keys", "7 tokens were given"]),
    ((rows(L, H, T, S), names(T)), {}, ["5 queries", "7 keys", "key_tokens"]),
    ((rows(L, H, T, S), names(T)), {"key_tokens": names(6)}, ["7 keys", "6 key tokens were given"]),
    ((nan(), names(T)), {}, ["layer 1", "NaN"]),
    ((nan(np.inf), names(T)), {}, ["layer 1", "infinity"]),
    ((nan(-0.25), names(T)), {}, ["layer 1", "negative", "-0.25"]),
    (([], names(T)), {}, ["no layers"]),
    (((None, None), names(T)), {}, ["None", 'attn_implementation="eager"']),
    ((None, names(T)), {}, ["output_attentions=True", 'attn_implementation="eager"', "attnviz.run"]),
    (({"last_hidden_state": 0, "attentions": ()}, names(T)), {}, ['attn_implementation="eager"', "attnviz.run"]),
    (({"attentions": (None, None)}, names(T)), {}, ["no attention weights", "attnviz.run"]),
    ((SQUARE[:0], names(T)), {}, ["(0, 3, 5, 5)", "empty"]),
    (("weights", names(T)), {}, ["numbers"]),
    ((SQUARE, "five!"), {}, ["list of strings", "five!"]),
    ((SQUARE, list(range(T))), {}, ["strings", "convert_ids_to_tokens"]),
    ((SQUARE,), {}, ["tokens are missing", "5"]),
    ((SQUARE, names(T)), {"n_kv_heads": 2}, ["3", "divide"]),
    ((SQUARE, names(T)), {"n_kv_heads": [1, 1, 1]}, ["3 numbers", "2 layers"]),
    ((SQUARE, names(T)), {"names": ["one"]}, ["1 layer name", "2 layers"]),
    ((SQUARE, names(T)), {"q": rows(L, H, S, 11)}, ["q of layer 0", "(3, 7, 11)", "(3, 5, width)"]),
    ((SQUARE, names(T)), {"gradients": rows(L, H, T, S)}, ["gradients of layer 0", "(3, 5, 5)"]),
    ((SQUARE, names(T)), {"v": {"cross": rows(L, H, T, T)}}, ["'cross'", "no weights"]),
    ((SQUARE, names(T)), {"logits": rows(T)}, ["(5,)", "vocabulary"]),
    ((SQUARE, names(T)), {"output_from": 6}, ["0 to 5", "6"]),
    ((SQUARE, names(T)), {"first_row": 1}, ["first_row", "not 1"]),
    ((SQUARE, names(T)), {"patches": (2, 3)}, ["2 × 3", "6 tokens", "5"]),
    ((SQUARE, names(T)), {"picture": np.zeros((4, 4, 3), np.uint8)}, ["patches=(rows, columns)"]),
    ((SQUARE, names(T)), {"picture": np.zeros((4, 4)), "patches": (1, 5)}, ["(4, 4)", "float64"]),
    (({"self-attention": SQUARE}, names(T)), {}, ["'self-attention'", "self, encoder, decoder and cross"]),
    ((ALL, {"encoder": names(S)}), {}, ["'encoder'", "'decoder'"]),
    ((ALL, names(T)), {}, ["key"]),
]


@pytest.mark.parametrize(("given", "besides", "said"), REFUSED, ids=lambda case: None)
def test_refused_in_a_sentence(given: tuple, besides: dict, said: list[str]) -> None:
    with pytest.raises(ValueError) as caught:
        run_of(*given, **besides)
    assert [part for part in said if part not in str(caught.value)] == [], str(caught.value)


def test_a_run_with_other_tokens_is_refused() -> None:
    with pytest.raises(ValueError, match="its own tokens"):
        run_of(run_of(SQUARE, names(T)), names(T))


def test_values_made_directly_are_checked_too() -> None:
    with pytest.raises(ValueError, match="7 keys"):
        AttentionKind("self", (rows(H, T, S),), tuple(names(T)), tuple(names(T)))
    with pytest.raises(ValueError, match="at least one"):
        AttentionRun(())


def test_import_attnviz_imports_nothing_heavy() -> None:
    """And what is noticed if it did: the same list after `attnviz.save_run`, which needs numpy, and only that."""
    heavy = "sorted({'torch', 'streamlit', 'plotly', 'numpy', 'safetensors'} & {m.split('.')[0] for m in sys.modules})"
    code = f"import sys, attnviz; print({heavy}); attnviz.save_run; print({heavy}); print('show' in dir(attnviz))"
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split("\n")
    assert out[:3] == ["[]", "['numpy']", "True"]
