"""Weights are masked after the softmax, which has already given weight to the masked keys."""

from attnviz.config import ModelConfig
from attnviz.mistakes.mistake import Mistake, Source, Symptom
from attnviz.mistakes.runs import format_number, leak, leak_sentence, maps, run
from attnviz.mistakes.versions import Change, Version
from attnviz.modules import Transformer


def compare(right: Version, wrong: Version, model: Transformer, ids: list[int]) -> Symptom:
    a, b = run(right.like(model), ids), run(wrong.like(model), ids)
    before, after = (float(each.weights[a.softmax_layer].sum(-1).min()) for each in (a, b))
    sentence = (
        f"The smallest sum of a row in all heads of layer {a.softmax_layer} is {format_number(after)} instead of 1. "
    )
    if len(ids) == 1:
        sentence = "A single token has one key, which is not masked: its row sums to 1 in both versions."
    elif model.config.causal:
        sentence += leak_sentence(leak(wrong.like(model), ids, b.logits), ids)
    measure = f"Smallest sum of a row, all heads of layer {a.softmax_layer}"
    return Symptom(
        **maps(a, b), measure=measure, expected=before, number=after,
        sentence=sentence.strip(),
    )  # fmt: skip


def why_not(config: ModelConfig) -> str:
    masked = config.causal or bool(config.windows)
    return "" if masked else "Nothing is masked here: this model is not causal and has no sliding window."


MISTAKE = Mistake(
    title="Masked after the softmax",
    subject="mask",
    kind="silent",
    changes=(
        Change(
            "modules/attention.py",
            right="""
                sees = mask.any(-1, keepdim=True)  # (..., T, 1)
                bias = torch.where(mask | ~sees, 0.0, float("-inf"))  # (..., T, S)
                weights = scores.add_(bias).softmax(-1) * sees
            """,
            wrong="weights = scores.softmax(-1) * mask",
        ),
    ),
    question="The mask is causal, without a sliding window. Which rows of the weights sum to 1?",
    answers=(
        "All of them: a masked key has weight 0 in both versions",
        "Only the first, whose query has a single key",
        "Only the last",
        "None of them",
    ),
    answer=2,
    what="The softmax divides by a sum over all keys. Setting masked weights to 0 afterwards does not change that "
    "sum: the weight given to later tokens is missing from the row. Only the last query has no later tokens, so its "
    "row keeps its sum of 1. The sum also depends on later tokens, so the future leaks although no later token has "
    "any weight.",
    sources=(Source("Vaswani et al., section 3.2.3: mask inside of the softmax", "https://arxiv.org/abs/1706.03762"),),
    noticed="Not by the training loss, which looks good: it falls below that of the right version, because the "
    "denominator leaks the next token. Decoding is worse. Summing rows or changing a later token reveals it.",
    interview="“Why −∞ before the softmax and not 0 after it?” With 0 after it, rows no longer sum to 1, which is "
    "the first half of the answer; the leak through the denominator is the second. Dividing each row by its sum "
    "again would repair both on paper; where a masked score is far larger than the visible ones, their weights are "
    "rounded to 0 first, and the row is lost.",
    test="""
import torch
from attnviz.modules import attend

def test_rows_sum_to_one_under_a_mask():
    q, k, v = torch.randn(3, 1, 2, 7, 5)
    weights = attend(q, k, v, torch.ones(7, 7, dtype=torch.bool).tril()).weights
    torch.testing.assert_close(weights.sum(-1), torch.ones(1, 2, 7))
""",
    compare=compare,
    why_not=why_not,
)
