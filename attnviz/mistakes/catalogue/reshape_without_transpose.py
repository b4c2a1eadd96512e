"""(B, H, T, D) is reshaped to (B, T, H · D) with its axes in the old order."""

from attnviz.config import ModelConfig
from attnviz.mistakes.mistake import Mistake, Source, Symptom
from attnviz.mistakes.runs import leak, leak_said, loss_told, maps, run
from attnviz.mistakes.versions import Change, Version
from attnviz.modules import Transformer


def compare(right: Version, wrong: Version, model: Transformer, ids: list[int]) -> Symptom:
    a, b = run(right.like(model), ids), run(wrong.like(model), ids)
    told = loss_told(a.logits, b.logits, ids)
    sentence = "With one token the axis of tokens has length 1, and the order is the same: nothing changes."
    if len(ids) > 1:
        sentence = told.sentence
        if model.config.causal:
            sentence += " " + leak_said(leak(wrong.like(model), ids, b.logits), ids)
    return Symptom(**maps(a, b), measure=told.measure, expected=told.expected, number=told.number, sentence=sentence)


def cannot_occur(config: ModelConfig) -> str:
    return "" if config.n_heads > 1 else "With one head there is nothing to mix: both orders are the same."


SHAPES, LATENT_SHAPES = "(B, H, T, D) -> (B, T, H · D) -> (B, T, C)", "(B, T, H·V) -> (B, T, d_model)"
RIGHT_LINE, WRONG_LINE = (
    "return self.o_proj(output.transpose(1, 2).flatten(2))  # ",
    ("return self.o_proj(output.reshape(*x.shape[:2], -1))  # "),
)

MISTAKE = Mistake(
    title="reshape() without transpose()",
    kind="silent",
    changes=(Change("modules/attention.py", RIGHT_LINE + SHAPES, WRONG_LINE + SHAPES),),
    latent=(Change("modules/latent.py", RIGHT_LINE + LATENT_SHAPES, WRONG_LINE + LATENT_SHAPES),),
    question="output is (B, H, T, D), with a text that has more tokens than the model has heads. What does o_proj get "
    "for token 0?",
    answers=(
        "What head 0 gives at the first H positions",
        "What all H heads give at position 0",
        "What all H heads give at position 0, in reverse order",
        "Nothing: reshape() raises, since view() would too",
    ),
    answer=0,
    what="reshape() keeps the numbers in their order and puts new brackets around them. That order is head by head, "
    "and in a head token by token; so the first H · D numbers, which become token 0, are head 0's at positions 0 to "
    "H − 1. Tokens and heads are mixed, and what later tokens computed reaches earlier ones. Shapes are right.",
    sources=(
        Source("torch.reshape", "https://docs.pytorch.org/docs/stable/generated/torch.reshape.html"),
        Source("torch.transpose", "https://docs.pytorch.org/docs/stable/generated/torch.transpose.html"),
    ),
    noticed="Training loss falls, to a level that is too high or, where the leak can be used, too low; the trained "
    "model cannot write. Weights trained elsewhere give nonsense at once.",
    interview="“From (B, H, T, D) to (B, T, H·D): which two calls, and why not one?”",
    test="""
import torch
from attnviz.modules import GroupedQueryAttention

def test_reordered_tokens_give_reordered_outputs():
    layer, x, order = GroupedQueryAttention(12, 6, 3), torch.randn(2, 7, 12), torch.arange(6, -1, -1)
    torch.testing.assert_close(layer(x[:, order]), layer(x)[:, order])
""",
    compare=compare,
    cannot_occur=cannot_occur,
)
