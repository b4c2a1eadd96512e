"""torch.nn.MultiheadAttention without batch_first=True reads (B, T, C) as (T, B, C)."""

import torch

from attnviz.mistakes.mistake import CannotOccur, Mistake, Source, Symptom
from attnviz.mistakes.runs import array, percent
from attnviz.mistakes.versions import Change, Version
from attnviz.modules import Transformer
from attnviz.modules.transformer import layer_input
from attnviz.phrases import count


def compare(right: Version, wrong: Version, model: Transformer, ids: list[int]) -> Symptom:
    """Run layer 0 on a batch of the text and its reverse, without a mask or RoPE, which torch's layer lacks."""
    x = layer_input(model, [ids, ids[::-1]], 0)  # (2, T, C)
    attn = model.blocks[0].attn
    try:
        layers = [each.module("mistakes.usage").torch_attention(attn) for each in (right, wrong)]
    except ValueError as error:
        raise CannotOccur(f"torch.nn.MultiheadAttention does not fit this model: {error}.") from None
    (_, a), (_, b) = (layer(x, x, x) for layer in layers)  # (2, T, T), and (T, 2, 2): T texts of 2 tokens
    own, other = b[:, 0, 0], b[:, 0, 1]  # (T,)
    sentence = (
        f"Torch's layer with the weights of layer 0, without RoPE or a mask: a token puts "
        f"{percent(float(own.mean()))} of its weight on itself and {percent(float(other.mean()))} on the token at the "
        f"same position of the other text, averaged over {count(len(ids), 'position')} and all heads."
    )
    return Symptom(
        "Weights of layer 0, mean of all heads, within the text", array(a[0]), array(torch.diag(own)),
        "Mean weight on the other text", 0.0, float(other.mean()), sentence, layer=0,
    )  # fmt: skip


MISTAKE = Mistake(
    title="nn.MultiheadAttention without batch_first",
    subject="heads",
    kind="silent",
    changes=(
        Change(
            "mistakes/usage.py",
            right="theirs = nn.MultiheadAttention(C, H, dropout, bias, batch_first=True)",
            wrong="theirs = nn.MultiheadAttention(C, H, dropout, bias)",
        ),
    ),
    question="x has shape (2, T, C): two texts of T tokens, no mask. What does a token attend to in this version?",
    answers=(
        "To the tokens at its own position in the two texts",
        "To all tokens of its own text",
        "To all 2 · T tokens of both texts",
        "To nothing: it raises, because T is not the batch size",
    ),
    answer=0,
    what="By default, torch.nn.MultiheadAttention takes (T, B, C). Given (B, T, C), it sees T texts of B tokens and "
    "attends across the batch: a token attends to itself and to other texts, but to no other token of its own text. "
    "The output has the right shape. With a causal mask of shape (T, T) it raises, unless B = T.",
    sources=(
        Source(
            "torch.nn.MultiheadAttention: batch_first",
            "https://docs.pytorch.org/docs/stable/generated/torch.nn.MultiheadAttention.html",
        ),
    ),
    noticed="Results depend on which texts share a batch, and in a batch of one all weights are 1. From its own "
    "text a token reads nothing but itself, so the loss stays near that of a model that sees single tokens.",
    interview="“Which shape does nn.MultiheadAttention expect?” (T, B, C), unless batch_first=True. The test: "
    "change another text of the batch; the output of this one must not change.",
    test="""
import torch
from attnviz.mistakes.usage import torch_attention
from attnviz.modules import GroupedQueryAttention

def test_texts_of_a_batch_do_not_see_each_other():
    layer, x = torch_attention(GroupedQueryAttention(12, 3, 3)), torch.randn(2, 7, 12)
    before = layer(x, x, x)[0]
    x[1] += 1
    torch.testing.assert_close(layer(x, x, x)[0][0], before[0])
""",
    compare=compare,
)
