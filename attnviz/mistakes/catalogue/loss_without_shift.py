"""The loss compares the prediction at a position with the token at that position instead of the next one."""

import math

import torch
import torch.nn.functional as F

from attnviz.mistakes.mistake import Mistake, Source, Symptom
from attnviz.mistakes.runs import array, format_number
from attnviz.mistakes.versions import Change, Version
from attnviz.modules import Transformer

CERTAIN = 30.0  # a logit so far above the others that its probability is 1 to within a millionth


def compare(right: Version, wrong: Version, model: Transformer, ids: list[int]) -> Symptom:
    """Compare the model's loss at each position; and without the shift that of a rule that repeats its input token."""
    logits, target = model(torch.tensor([ids])), torch.tensor([ids])
    losses = [each.module("mistakes.usage").next_token_loss for each in (right, wrong)]
    before, after = (float(loss(logits, target)) for loss in losses)
    repeats = CERTAIN * F.one_hot(target, model.config.vocab_size).float()
    rule = format_number(round(float(losses[1](repeats, target)), 3))
    sentence = (
        f"On this text this model predicts {_better(before, after)}: its loss is {format_number(before)} nats per "
        f"token, and {format_number(after)} without the shift. A rule that is certain of its input token gets {rule} "
        "without the shift: training without the shift leads to that rule."
    )
    if len(ids) == 1:
        sentence = (
            f"A single token has no next token, so there is no loss. Without the shift it is {format_number(after)}."
        )
    unshifted = F.cross_entropy(logits[0], target[0], reduction="none")  # (T,)
    shifted = F.cross_entropy(logits[0, :-1], target[0, 1:], reduction="none")  # (T - 1,): the last has no next token
    return Symptom(
        "Loss at each position, in nats", array(F.pad(shifted, (0, 1), value=math.nan)[None]), array(unshifted[None]),
        "Loss on this text, nats per token", before, after, sentence, columns=tuple(map(str, range(len(ids)))),
    )  # fmt: skip


def _better(shifted: float, unshifted: float) -> str:
    """Say which token a model gives more probability, the next or its input: an untrained one may just copy."""
    if format_number(shifted) == format_number(unshifted):
        return "the next token as well as its input token"
    one, other = ("the next token", "its input token")[:: 1 if shifted < unshifted else -1]
    return f"{one} better than {other}"


MISTAKE = Mistake(
    title="A loss without the shift by one",
    subject="training",
    kind="silent",
    changes=(
        Change(
            "mistakes/usage.py",
            right="predicted, following = logits[:, :-1], ids[:, 1:]  # position t predicts token t + 1",
            wrong="predicted, following = logits, ids",
        ),
    ),
    question="A new model is trained with this loss and a causal mask. Towards which value does the loss go?",
    answers=(
        "It stays at the log of the vocabulary size",
        "To the same value as with the shift, because each token is predicted once",
        "To about 0: each token is predicted from itself",
        "To NaN: the last position has no next token",
    ),
    answer=2,
    what="Position t reads tokens 0 to t and should predict token t + 1. Without the shift it should predict token "
    "t, which it has just read: a causal mask hides later tokens, but not the current one. The residual stream "
    "carries the input to the last layer, so copying it is easy to learn. Some libraries shift internally "
    "(transformers does, given labels equal to the ids), others do not: shifted twice, the model learns to predict "
    "token t + 2.",
    sources=(
        Source(
            "transformers, causal language modelling: the model shifts labels itself",
            "https://huggingface.co/docs/transformers/tasks/language_modeling",
        ),
        Source(
            "Radford et al., Language Models are Unsupervised Multitask Learners",
            "https://cdn.openai.com/better-language-models/language_models_are_unsupervised_multitask_learners.pdf",
        ),
    ),
    noticed="Training loss goes to 0, which a model of the next token cannot reach on new text: how a text goes on "
    "is not determined by its beginning. Greedy decoding repeats the last token of the prompt.",
    interview="“Your loss is 0.01 after 200 steps. Why?” First suspicion: the model sees its target. Check the "
    "shift, then the causal mask, then whether the labels are part of the input.",
    test="""
import torch
from attnviz.mistakes.usage import next_token_loss

def test_the_next_token_is_what_counts():
    ids = torch.tensor([[3, 1, 4, 1, 5]])
    logits = 30 * torch.nn.functional.one_hot(ids.roll(-1), 7).float()  # certain of each next token
    assert next_token_loss(logits, ids) < 1e-6
""",
    compare=compare,
)
