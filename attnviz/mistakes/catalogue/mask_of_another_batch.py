"""A mask built for three texts is broadcast with the scores of one."""

import torch

from attnviz.mistakes.mistake import Mistake, Source, Symptom
from attnviz.mistakes.runs import format_number, loss, maps, raised, run
from attnviz.mistakes.usage import padding_mask
from attnviz.mistakes.versions import Change, Version
from attnviz.modules import Transformer
from attnviz.phrases import count


def compare(right: Version, wrong: Version, model: Transformer, ids: list[int]) -> Symptom:
    T = len(ids)
    lengths = torch.tensor([[T], [max(1, T - 1)], [max(1, T - 2)]])  # of the three texts for which the mask was built
    mask = padding_mask(torch.arange(T) < lengths)  # (3, 1, 1, T)
    a, b = run(right.like(model), ids), run(wrong.like(model), ids, mask)
    n = len(b.logits)
    try:
        run(right.like(model), ids, mask)
        refusal = "The right version accepts the mask too."
    except ValueError as error:
        refusal = f"The right version rejects the mask: {raised(error)}."
    sentence = f"The input is one text, but the output has logits for {count(n, 'text')}. {refusal}"
    if T > 1:
        losses = [format_number(loss(each[None], ids)) for each in b.logits]
        sentence += f" Their losses on the same text: {', '.join(losses)} nats per token."
    return Symptom(
        **maps(a, b, (0, n - 1)), measure="Texts in the output", expected=len(a.logits), number=n, sentence=sentence
    )


MISTAKE = Mistake(
    title="A mask with another batch size",
    subject="mask",
    kind="silent",
    changes=(
        Change("modules/attention.py", right="check_mask(mask, scores)", wrong=""),
        Change(
            "modules/attention.py",
            right="weights = scores.add_(bias).softmax(-1) * sees",
            wrong="weights = (scores + bias).softmax(-1) * sees",
        ),
    ),
    question="One text is run with a padding mask that was built for a batch of three. What is the result?",
    answers=(
        "An error at the addition: batch sizes 1 and 3 do not match",
        "Logits for one text, with the first of the three masks",
        "Logits for one text, with all three masks applied",
        "Logits for three texts",
    ),
    answer=3,
    what="Scores (1, H, T, S) plus a bias (3, 1, 1, S) are broadcast to (3, H, T, S), and so are the results of the "
    "next operations: the text is computed three times, with three masks. If a later line uses the batch size, as in "
    "view(B, T, C), it raises there, far from the cause. Checking the mask's shape before adding it takes one line; an "
    "in-place addition raises too, because it cannot broadcast its target.",
    sources=(
        Source("PyTorch, broadcasting semantics", "https://docs.pytorch.org/docs/stable/notes/broadcasting.html"),
    ),
    noticed="Memory use grows with the size of a stale mask, such as when the last batch of an epoch holds a single "
    "text and gets the mask of a full batch. Sizes 2 and 3 raise; sizes 1 and 3 do not.",
    interview="“This raises in view() with a strange batch size. Where do you look?” Print the shapes before the "
    "softmax: an axis of size 1 is broadcast to any size, so one operand with batch size 1 takes the other's.",
    test="""
import pytest
import torch
from attnviz.modules import attend

def test_a_mask_for_other_texts_is_refused():
    q, k, v = torch.randn(3, 1, 2, 7, 5)
    with pytest.raises(ValueError):
        attend(q, k, v, torch.ones(3, 1, 1, 7, dtype=torch.bool))
""",
    compare=compare,
)
