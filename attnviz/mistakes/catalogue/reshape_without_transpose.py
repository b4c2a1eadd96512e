"""(B, H, T, D) is reshaped to (B, T, H · D) without swapping its axes first."""

from attnviz.config import ModelConfig
from attnviz.mistakes.mistake import Mistake, Source, Symptom, Words
from attnviz.mistakes.runs import leak, leak_sentence, loss_metric, maps, run
from attnviz.mistakes.versions import Change, Version
from attnviz.modules import Transformer


def compare(right: Version, wrong: Version, model: Transformer, ids: list[int]) -> Symptom:
    a, b = run(right.like(model), ids), run(wrong.like(model), ids)
    metric = loss_metric(a.logits, b.logits, ids)
    sentence = "With one token the token axis has length 1, so the order is the same and nothing changes."
    if len(ids) > 1:
        sentence = metric.sentence
        if model.config.causal:
            sentence += " " + leak_sentence(leak(wrong.like(model), ids, b.logits), ids)
    return Symptom(
        **maps(a, b), measure=metric.measure, expected=metric.expected, number=metric.number, sentence=sentence
    )


def why_not(config: ModelConfig) -> str:
    return "" if config.n_heads > 1 else "With one head both orders are the same."


SHAPES, LATENT_SHAPES = "(B, H, T, D) -> (B, T, H · D) -> (B, T, C)", "(B, T, H·V) -> (B, T, d_model)"
RIGHT_LINE, WRONG_LINE = (
    "return self.o_proj(output.transpose(1, 2).flatten(2))  # ",
    ("return self.o_proj(output.reshape(*x.shape[:2], -1))  # "),
)

MISTAKE = Mistake(
    title="reshape() without transpose()",
    subject="heads",
    kind="silent",
    changes=(Change("modules/attention.py", RIGHT_LINE + SHAPES, WRONG_LINE + SHAPES),),
    latent=(Change("modules/latent.py", RIGHT_LINE + LATENT_SHAPES, WRONG_LINE + LATENT_SHAPES),),
    question="output is (B, H, T, D), and the text has more tokens than the model has heads. What does o_proj receive "
    "for token 0?",
    answers=(
        "The outputs of head 0 at the first H positions",
        "The outputs of all H heads at position 0",
        "The outputs of all H heads at position 0, in reverse order",
        "Nothing: reshape() raises, as view() would",
    ),
    answer=0,
    what="reshape() keeps the order of the numbers and only changes the shape. The order is head by head, and within a "
    "head token by token, so the first H · D numbers, which become token 0, are those of head 0 at positions 0 to "
    "H − 1. Tokens and heads are mixed, and outputs of later tokens reach earlier ones. All shapes are right.",
    sources=(
        Source("torch.reshape", "https://docs.pytorch.org/docs/stable/generated/torch.reshape.html"),
        Source("torch.transpose", "https://docs.pytorch.org/docs/stable/generated/torch.transpose.html"),
    ),
    noticed="Weights trained elsewhere give a far higher loss immediately. When training from scratch the loss need "
    "not show it: outputs of later tokens reach earlier ones, and a model can learn to use this leak, which is not "
    "there in decoding.",
    interview="“From (B, H, T, D) to (B, T, H·D): which two calls, and why not one?” transpose(1, 2), then reshape: "
    "reshape alone keeps the order of the numbers in memory, in which the heads come before the tokens.",
    test="""
import torch
from attnviz.modules import GroupedQueryAttention

def test_reordered_tokens_give_reordered_outputs():
    layer, x, order = GroupedQueryAttention(12, 6, 3), torch.randn(2, 7, 12), torch.arange(6, -1, -1)
    torch.testing.assert_close(layer(x[:, order]), layer(x)[:, order])
""",
    latent_words=Words(
        question="output is (B, H, T, V), and the text has more tokens than the model has heads. What does o_proj "
        "receive for token 0?",
        what="reshape() keeps the order of the numbers and only changes the shape. The order is head by head, and "
        "within a head token by token, so the first H · V numbers, which become token 0, are those of head 0 at "
        "positions 0 to H − 1. Tokens and heads are mixed, and outputs of later tokens reach earlier ones. All shapes "
        "are right.",
        interview="“From (B, H, T, V) to (B, T, H·V): which two calls, and why not one?” transpose(1, 2), then "
        "reshape: reshape alone keeps the order of the numbers in memory, in which the heads come before the tokens.",
        test="""
import torch
from attnviz.modules import MultiHeadLatentAttention

def test_reordered_tokens_give_reordered_outputs():
    layer = MultiHeadLatentAttention(12, 3, kv_lora_rank=5, qk_nope_head_dim=4, qk_rope_head_dim=2, v_head_dim=7)
    x, order = torch.randn(2, 7, 12), torch.arange(6, -1, -1)
    torch.testing.assert_close(layer(x[:, order]), layer(x)[:, order])
""",
    ),
    compare=compare,
    why_not=why_not,
)
