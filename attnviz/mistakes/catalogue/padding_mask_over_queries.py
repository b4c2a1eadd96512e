"""The padding mask hides rows, which are queries, where it should hide columns, which are keys."""

from attnviz.mistakes.mistake import Mistake, Source, Symptom
from attnviz.mistakes.runs import is_token, loss_told, maps, percent, run_padded
from attnviz.mistakes.versions import Change, Version
from attnviz.modules import Transformer

N_PADDING = 3


def compare(right: Version, wrong: Version, model: Transformer, ids: list[int]) -> Symptom:
    tokens = is_token(N_PADDING, len(ids))
    masks = [each.module("mistakes.usage").padding_mask(tokens) for each in (right, wrong)]
    a, b = (run_padded(model, ids, N_PADDING, mask) for mask in masks)
    before, after = (
        float(each.weights[0][0, :, N_PADDING:, :N_PADDING].sum(-1).mean()) for each in (a, b)
    )  # of the text's queries, on padding keys
    told = loss_told(a.logits[:, N_PADDING:], b.logits[:, N_PADDING:], ids)
    sentence = f"The text's queries give {percent(after)} of their weight in layer 0 to {N_PADDING} padding tokens. "
    return Symptom(
        **maps(a, b), measure="Share of the text's weight on padding, layer 0", expected=before, number=after,
        sentence=sentence + told.sentence, n_padding=N_PADDING,
    )  # fmt: skip


MISTAKE = Mistake(
    title="A padding mask along the query axis",
    kind="silent",
    changes=(
        Change(
            "mistakes/usage.py",
            right="return is_token[:, None, None, :]  # (B, S) -> (B, 1, 1, S), over the keys",
            wrong="return is_token[:, None, :, None]  # (B, S) -> (B, 1, S, 1)",
        ),
    ),
    question="Three padding tokens stand before the text. What do the text's tokens attend to in this version?",
    answers=(
        "To the text alone, as they should",
        "To nothing: their rows are masked",
        "To text and padding",
        "To padding alone",
    ),
    answer=2,
    what="Scores are (B, H, T, S). Padding must not be read, so its columns are masked: (B, 1, 1, S). Laid along the "
    "query axis, (B, 1, T, 1) masks the padding's own rows, whose outputs nobody uses, and leaves its keys open to the "
    "text. T and S are equal, so that both broadcast. In code that fills masked scores with −∞, the padding's rows are "
    "masked completely, and NaN on top.",
    sources=(
        Source(
            "torch.nn.MultiheadAttention: key_padding_mask, (N, S)",
            "https://docs.pytorch.org/docs/stable/generated/torch.nn.MultiheadAttention.html",
        ),
    ),
    noticed="Results depend on how much padding a batch has: a text alone and the same text in a batch give different "
    "logits. In training it is a somewhat higher loss, and nobody looks.",
    interview="“Which shape does a padding mask have, and along which axis does it lie?” Then the test: padding must "
    "change no logit of the text.",
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
