"""torch.nn.MultiheadAttention without batch_first=True takes (B, T, C) for (T, B, C)."""

import torch

from attnviz.config import ModelConfig
from attnviz.mistakes.mistake import Mistake, Source, Symptom
from attnviz.mistakes.runs import array, percent
from attnviz.mistakes.versions import Change, Version
from attnviz.modules import Transformer
from attnviz.modules.transformer import layer_input


def compare(right: Version, wrong: Version, model: Transformer, ids: list[int]) -> Symptom:
    """The batch is the text and the text backwards; layer 0 without a mask and without RoPE, which torch's has not."""
    x = layer_input(model, [ids, ids[::-1]], 0)  # (2, T, C)
    attn = model.blocks[0].attn
    layers = [each.module("mistakes.usage").torch_attention(attn) for each in (right, wrong)]
    (_, a), (_, b) = (layer(x, x, x) for layer in layers)  # (2, T, T), and (T, 2, 2): T texts of 2 tokens
    own, other = b[:, 0, 0], b[:, 0, 1]  # (T,)
    sentence = (
        f"A token of the text gives {percent(float(own.mean()))} of its weight to itself and "
        f"{percent(float(other.mean()))} to "
        f"the token at the same position of the other text, on average over {len(ids)} positions and all heads."
    )
    return Symptom(
        "Weights of layer 0, mean of all heads, within the text", array(a[0]), array(torch.diag(own)),
        "Mean weight on the other text", 0.0, float(other.mean()), sentence, layer=0,
    )  # fmt: skip


def cannot_occur(config: ModelConfig) -> str:
    if config.attention == "mla":
        return "torch.nn.MultiheadAttention has no latents: MLA's weights have no place in it."
    if config.qkv_bias or config.o_bias:
        return "The layer is made without biases, and this model has some."
    if config.n_heads * config.head_dim != config.d_model:
        return "torch.nn.MultiheadAttention needs head_dim = d_model / n_heads, and this model has another."
    return ""


MISTAKE = Mistake(
    title="nn.MultiheadAttention without batch_first",
    kind="silent",
    changes=(
        Change(
            "mistakes/usage.py",
            right="theirs = nn.MultiheadAttention(C, H, dropout, bias=False, batch_first=True)",
            wrong="theirs = nn.MultiheadAttention(C, H, dropout, bias=False)",
        ),
    ),
    question="x has the shape (2, T, C): two texts of T tokens, no mask. What does a token attend to in this version?",
    answers=(
        "To the tokens at its own position in the two texts",
        "To all tokens of its own text",
        "To all 2 · T tokens of both texts",
        "To nothing: it raises, since T is no batch size",
    ),
    answer=0,
    what="By default torch.nn.MultiheadAttention takes (T, B, C). Given (B, T, C) it sees T texts of B tokens, and "
    "attends across the batch: a token sees nothing of its own text, and something of strangers' texts. The output's "
    "shape is right. With a causal mask of (T, T) it raises, unless B = T.",
    sources=(
        Source(
            "torch.nn.MultiheadAttention: batch_first",
            "https://docs.pytorch.org/docs/stable/generated/torch.nn.MultiheadAttention.html",
        ),
    ),
    noticed="Results depend on which texts share a batch, and a batch of one gives weights of 1. The loss stays near "
    "that of a model that sees single tokens.",
    interview="“Which shape does nn.MultiheadAttention expect?” (T, B, C), unless batch_first=True. And the test: "
    "change another text of the batch.",
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
    cannot_occur=cannot_occur,
)
