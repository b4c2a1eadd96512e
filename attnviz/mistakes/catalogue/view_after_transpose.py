"""view() on a tensor whose axes were swapped."""

from attnviz.config import ModelConfig
from attnviz.mistakes.mistake import Mistake, Source, Symptom
from attnviz.mistakes.runs import head_map, n_of, raised, run
from attnviz.mistakes.versions import Change, Version
from attnviz.modules import Transformer


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
        f"The output of the heads lies in memory as (1, {c.n_heads}, {T}, {width}). Transposed, the steps from head to "
        f"head ({T} · {width} numbers) and within a head (1) fit no single axis of {c.n_heads} · {width}. With the "
        "first token alone it runs."
        if message
        else "With one token it runs: an axis of length 1 can be swapped without a copy. So does each decode step."
    )
    return Symptom(
        **head_map(run(right.like(model), ids).weights[0][0, 0], 0, 0), wrong=None,
        measure=f"Tokens that can be read at once, of {n_of(T, 'token')}", expected=T, number=1 if message else T,
        error=message, sentence=sentence,
    )  # fmt: skip


def cannot_occur(config: ModelConfig) -> str:
    return "" if config.n_heads > 1 else "With one head the swapped axis has length 1, and no copy is needed."


LINE = "return self.o_proj(output.transpose(1, 2).{})  # {}"
VIEW = "view(*x.shape[:2], -1)"
SHAPES, LATENT_SHAPES = "(B, H, T, D) -> (B, T, H · D) -> (B, T, C)", "(B, T, H·V) -> (B, T, d_model)"

MISTAKE = Mistake(
    title="view() after transpose()",
    kind="raises",
    changes=(Change("modules/attention.py", LINE.format("flatten(2)", SHAPES), LINE.format(VIEW, SHAPES)),),
    latent=(Change("modules/latent.py", LINE.format("flatten(2)", LATENT_SHAPES), LINE.format(VIEW, LATENT_SHAPES)),),
    question="The model has several heads and reads one text. When does this line raise?",
    answers=(
        "Each time",
        "Never: view() copies where it has to",
        "With two tokens or more, and not with one",
        "With more heads than tokens",
    ),
    answer=2,
    what="view() gives the same memory another shape, and copies nothing. After transpose(1, 2) the numbers of one "
    "token do not lie side by side: heads are T · D apart. No step from one to the next describes that, so view() "
    "raises. reshape() and flatten() copy where they must, contiguous().view() copies always. With one token nothing "
    "is swapped really, so decoding works while prefill fails.",
    sources=(
        Source(
            "torch.Tensor.view: which shapes are compatible",
            "https://docs.pytorch.org/docs/stable/generated/torch.Tensor.view.html",
        ),
    ),
    noticed="In the first forward pass, and in a test that reads one token not at all.",
    interview="“What is the difference of view, reshape and contiguous?” Strides; and when a copy is made.",
    test="""
import torch
from attnviz.modules import GroupedQueryAttention

def test_several_tokens_can_be_read_at_once():
    layer, x = GroupedQueryAttention(12, 6, 3), torch.randn(2, 7, 12)
    assert layer(x).shape == x.shape
""",
    compare=compare,
    cannot_occur=cannot_occur,
)
