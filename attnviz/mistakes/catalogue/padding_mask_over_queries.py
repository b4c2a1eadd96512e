"""The padding mask masks rows, which are queries, instead of columns, which are keys."""

from attnviz.mistakes.mistake import Mistake, Source, Symptom
from attnviz.mistakes.runs import N_PADDING, is_token, loss_metric, maps, percent, run_padded
from attnviz.mistakes.versions import Change, Version
from attnviz.modules import Transformer


def compare(right: Version, wrong: Version, model: Transformer, ids: list[int]) -> Symptom:
    tokens = is_token(len(ids))
    masks = [each.module("mistakes.usage").padding_mask(tokens) for each in (right, wrong)]
    a, b = (run_padded(model, ids, mask) for mask in masks)
    before, after = (
        float(each.weights[a.softmax_layer][0, :, N_PADDING:, :N_PADDING].sum(-1).mean()) for each in (a, b)
    )  # weight of the text's queries on padding keys
    metric = loss_metric(a.logits[:, N_PADDING:], b.logits[:, N_PADDING:], ids)
    sentence = f"In layer {a.softmax_layer}, the text's queries put {percent(after)} of their weight on {N_PADDING} "
    sentence += "padding tokens. "
    measure = f"Share of the text's weight on padding, layer {a.softmax_layer}"
    return Symptom(
        **maps(a, b), measure=measure, expected=before, number=after,
        sentence=sentence + metric.sentence,
    )  # fmt: skip


MISTAKE = Mistake(
    title="A padding mask along the query axis",
    subject="mask",
    kind="silent",
    n_padding=N_PADDING,
    changes=(
        Change(
            "mistakes/usage.py",
            right="return is_token[:, None, None, :]  # (B, S) -> (B, 1, 1, S), over the keys",
            wrong="return is_token[:, None, :, None]  # (B, S) -> (B, 1, S, 1)",
        ),
    ),
    question="A text has three padding tokens on the left. What do the text's tokens attend to in this version?",
    answers=(
        "Only to the text, as they should",
        "To nothing: their rows are masked",
        "To text and padding",
        "Only to padding",
    ),
    answer=2,
    what="Scores are (B, H, T, S). No query should attend to padding, so its columns are masked: (B, 1, 1, S). Along "
    "the query axis, (B, 1, T, 1) masks the padding's own rows, whose outputs are unused, and leaves its keys visible "
    "to the text. T and S are equal, so both shapes broadcast. In code that fills masked scores with −∞, the padding's "
    "rows are fully masked and become NaN as well.",
    sources=(
        Source(
            "torch.nn.MultiheadAttention: key_padding_mask, (N, S)",
            "https://docs.pytorch.org/docs/stable/generated/torch.nn.MultiheadAttention.html",
        ),
    ),
    noticed="Results depend on how much padding a batch has: a text alone and the same text in a batch give "
    "different logits. The loss is a poor sign: on the app's example texts it rises for some texts and checkpoints "
    "and falls for others.",
    interview="“What is the shape of a padding mask, and which axis does it mask?” Then the test: padding must not "
    "change any logit of the text.",
    test="""
import torch
from attnviz.mistakes.usage import padding_mask
from attnviz.modules import GroupedQueryAttention

def test_padding_changes_nothing():
    layer, x = GroupedQueryAttention(12, 3, 3), torch.randn(1, 7, 12)
    mask = padding_mask(torch.arange(7)[None] >= 3)  # three tokens of padding
    torch.testing.assert_close(layer(x, mask=mask)[:, 3:], layer(x[:, 3:]))
""",
    compare=compare,
)
