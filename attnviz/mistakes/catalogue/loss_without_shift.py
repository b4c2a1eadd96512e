"""The loss compares the prediction at a position with the token at that position instead of the next one."""

import torch
import torch.nn.functional as F

from attnviz.mistakes.mistake import Mistake, Source, Symptom
from attnviz.mistakes.runs import format_number, maps, run
from attnviz.mistakes.versions import Change, Version
from attnviz.modules import Transformer

CERTAIN = 30.0  # a logit so far above the others that its probability is 1 to within a millionth


def compare(right: Version, wrong: Version, model: Transformer, ids: list[int]) -> Symptom:
    """Compare the model's loss with that of a rule that repeats its input token."""
    a, target = run(model, ids), torch.tensor([ids])
    losses = [each.module("mistakes.usage").next_token_loss for each in (right, wrong)]
    before, after = (float(loss(a.logits, target)) for loss in losses)
    repeats = CERTAIN * F.one_hot(target, model.config.vocab_size).float()
    repeats_before, repeats_after = (format_number(float(loss(repeats, target))) for loss in losses)
    sentence = (
        f"This model predicts the next token: its loss is {format_number(before)} nats per token, "
        f"and {format_number(after)} without the shift. A rule that repeats its input token gets {repeats_before} with "
        f"the shift and {repeats_after} without it: training without the shift leads to that rule."
    )
    if len(ids) == 1:
        sentence = (
            f"A single token has no next token, so there is no loss. Without the shift it is {format_number(after)}."
        )
    return Symptom(
        **maps(a, a), measure="Loss on this text, nats per token", expected=before, number=after, sentence=sentence
    )


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
