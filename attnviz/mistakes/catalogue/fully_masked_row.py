"""A fully masked query: softmax over a row of −∞ gives NaN."""

from attnviz.config import ModelConfig
from attnviz.mistakes.mistake import Mistake, Source, Symptom
from attnviz.mistakes.runs import N_PADDING, is_token, maps, run_padded
from attnviz.mistakes.usage import padding_mask
from attnviz.mistakes.versions import Change, Version
from attnviz.modules import Transformer
from attnviz.phrases import count


def compare(right: Version, wrong: Version, model: Transformer, ids: list[int]) -> Symptom:
    mask = padding_mask(is_token(len(ids)))
    a, b = (run_padded(each.like(model), ids, mask) for each in (right, wrong))
    is_nan = b.weights[b.softmax_layer][0].isnan().any(-1)  # (H, T)
    rows = int(is_nan[:, :N_PADDING].sum())
    before, after = (int(each.logits[0, N_PADDING:].isnan().any(-1).sum()) for each in (a, b))
    sentence = (
        f"In layer {b.softmax_layer}, {rows} of the {N_PADDING * len(is_nan)} rows of padding are NaN and "
        f"{int(is_nan.sum()) - rows} rows of the text, in {count(len(is_nan), 'head')}. After "
        f"{count(model.config.n_layers, 'layer')}, the logits of {after} of {count(len(ids), 'text token')} are NaN."
    )
    return Symptom(
        **maps(a, b), measure="Text tokens whose logits are NaN", expected=before, number=after, sentence=sentence,
    )  # fmt: skip


def why_not(config: ModelConfig) -> str:
    shows = config.causal or bool(config.windows)
    return "" if shows else "This model is not causal: a query of the padding attends to the text after it."


MISTAKE = Mistake(
    title="A fully masked row",
    subject="mask",
    kind="nan",
    n_padding=N_PADDING,
    changes=(
        Change(
            "modules/attention.py",
            right="""
                sees = mask.any(-1, keepdim=True)  # (..., T, 1)
                bias = torch.where(mask | ~sees, 0.0, float("-inf"))  # (..., T, S)
                weights = scores.add_(bias).softmax(-1) * sees
            """,
            wrong="""
                bias = torch.where(mask, 0.0, float("-inf"))  # (..., T, S)
                weights = scores.add_(bias).softmax(-1)
            """,
        ),
    ),
    question="A text has three padding tokens on the left, masked for all queries; the model is causal and has at "
    "least two layers. At which positions are the logits NaN?",
    answers=(
        "At none: the softmax of a row of −∞ is a row of zeros",
        "At the three padding positions, which no query attends to",
        "At the first token of the text and before it",
        "At all positions",
    ),
    answer=3,
    what="A padding token before the text may attend neither to padding nor to later tokens, so its whole row is "
    "−∞, and softmax computes −∞ − (−∞), which is NaN. In the next layer its key and value are NaN. A score with "
    "that key is NaN although it is masked (NaN − ∞), and softmax spreads it over the row; with masked_fill the "
    "weight would be 0, but 0 · NaN is NaN as well. With −1e20 instead of −∞ (in float32) nothing is NaN: the row "
    "is a uniform average over all keys, although all are masked. The right version returns a row of zeros.",
    sources=(
        Source("PyTorch issue 41508: NaN where all keys are masked", "https://github.com/pytorch/pytorch/issues/41508"),
    ),
    noticed="The loss is NaN in the first batch with left padding, but not in a batch of texts of equal length, "
    "which has no padding. With −1e20 the text's logits are right, because no text token attends to padding; only "
    "the padding's own outputs differ.",
    interview="“What does softmax return for a row of −∞, and how far does it spread?” Say NaN, then that masking "
    "does not stop it, because 0 · NaN is NaN, then that a row of zeros avoids it.",
    test="""
import torch
from attnviz.modules import attend

def test_a_query_that_sees_nothing_gets_zeros():
    q, k, v = torch.randn(3, 1, 2, 7, 5)
    mask = torch.ones(7, 7, dtype=torch.bool).tril()
    mask[2] = False
    assert (attend(q, k, v, mask).output[:, :, 2] == 0).all()
""",
    compare=compare,
    why_not=why_not,
)
