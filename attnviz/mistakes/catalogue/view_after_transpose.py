"""view() is called on a transposed tensor."""

from attnviz.config import ModelConfig
from attnviz.mistakes.mistake import Mistake, Source, Symptom, Words
from attnviz.mistakes.runs import head_map, raised, run
from attnviz.mistakes.versions import Change, Version
from attnviz.modules import Transformer
from attnviz.phrases import count


def compare(right: Version, wrong: Version, model: Transformer, ids: list[int]) -> Symptom:
    other, message = wrong.like(model), ""
    run(other, ids[:1])
    try:
        run(other, ids)
    except RuntimeError as error:
        message = raised(error)
    c, T = model.config, len(ids)
    width = c.v_head_dim if c.attention == "mla" else c.head_dim
    sentence = (
        f"In memory the heads' output has the layout (1, {c.n_heads}, {T}, {width}). After transpose, the stride from "
        f"head to head ({T} · {width}) and the stride within a head (1) cannot be merged into one axis of "
        f"{c.n_heads} · {width}. With the first token alone it runs."
        if message
        else "With one token it runs: an axis of length 1 can be swapped without a copy. So each decode step runs too."
    )
    return Symptom(
        **head_map(run(right.like(model), ids).weights[0][0, 0], 0, 0), wrong=None,
        measure=f"Tokens that can be processed at once, of {count(T, 'token')}", expected=T, number=1 if message else T,
        error=message, sentence=sentence,
    )  # fmt: skip


def why_not(config: ModelConfig) -> str:
    return "" if config.n_heads > 1 else "With one head the swapped axis has length 1, and no copy is needed."


LINE = "return self.o_proj(output.transpose(1, 2).{})  # {}"
VIEW = "view(*x.shape[:2], -1)"
SHAPES, LATENT_SHAPES = "(B, H, T, D) -> (B, T, H · D) -> (B, T, C)", "(B, T, H·V) -> (B, T, d_model)"

MISTAKE = Mistake(
    title="view() after transpose()",
    subject="heads",
    kind="raises",
    changes=(Change("modules/attention.py", LINE.format("flatten(2)", SHAPES), LINE.format(VIEW, SHAPES)),),
    latent=(Change("modules/latent.py", LINE.format("flatten(2)", LATENT_SHAPES), LINE.format(VIEW, LATENT_SHAPES)),),
    question="The model has several heads and processes one text. When does this line raise?",
    answers=(
        "Always",
        "Never: view() copies if necessary",
        "With two or more tokens, but not with one",
        "With more heads than tokens",
    ),
    answer=2,
    what="view() gives the same memory a different shape without copying. After transpose(1, 2) the numbers of one "
    "token are not contiguous: heads are T · D apart. No single stride describes that, so view() raises. reshape() and "
    "flatten() copy if necessary; contiguous().view() copies any non-contiguous tensor. With one token the swap does "
    "not change the memory layout, so decoding works while prefill fails.",
    sources=(
        Source(
            "torch.Tensor.view: which shapes are compatible",
            "https://docs.pytorch.org/docs/stable/generated/torch.Tensor.view.html",
        ),
    ),
    noticed="In the first forward pass, but not in a test with a single token.",
    interview="“What is the difference between view and reshape, and what does contiguous do?” view never copies "
    "and raises if the strides do not allow the shape; reshape copies if it has to; contiguous copies a tensor that "
    "is not contiguous.",
    test="""
import torch
from attnviz.modules import GroupedQueryAttention

def test_several_tokens_can_be_read_at_once():
    layer, x = GroupedQueryAttention(12, 6, 3), torch.randn(2, 7, 12)
    assert layer(x).shape == x.shape
""",
    latent_words=Words(
        test="""
import torch
from attnviz.modules import MultiHeadLatentAttention

def test_several_tokens_can_be_read_at_once():
    layer = MultiHeadLatentAttention(12, 3, kv_lora_rank=5, qk_nope_head_dim=4, qk_rope_head_dim=2, v_head_dim=7)
    x = torch.randn(2, 7, 12)
    assert layer(x).shape == x.shape
""",
    ),
    compare=compare,
    why_not=why_not,
)
