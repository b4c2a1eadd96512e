"""Weights trained with half-split RoPE are run with interleaved pairs."""

from torch import Tensor

from attnviz.config import ModelConfig
from attnviz.mistakes.mistake import Mistake, Source, Symptom
from attnviz.mistakes.runs import format_number, is_rounding, largest, loss_metric, maps, run
from attnviz.mistakes.versions import Change, Version
from attnviz.modules import AttentionRecord, Transformer


def compare(right: Version, wrong: Version, model: Transformer, ids: list[int]) -> Symptom:
    a, b = run(right.like(model), ids), run(wrong.like(model), ids)
    moved = scores(b.records[0]) - scores(a.records[0])  # (H, T, T)
    itself = largest(moved.diagonal(dim1=1, dim2=2))
    other = largest(moved.tril(-1))
    sentence = (
        f"In layer 0, scores of a token with an earlier one change by up to {format_number(other)}; "
        if len(ids) > 1
        else ""
    )
    rounding = ", which is rounding" if is_rounding(itself, scores(a.records[0])) else ""
    sentence += f"a token's score with itself changes by at most {format_number(itself)}{rounding}. "
    sentence += loss_metric(a.logits, b.logits, ids).sentence
    return Symptom(
        **maps(a, b), measure="Largest change of a score with an earlier token, layer 0", expected=0.0, number=other,
        sentence=sentence[0].upper() + sentence[1:],
    )  # fmt: skip


def scores(record: AttentionRecord) -> Tensor:
    """Return q·k · scale for all heads, before the mask: (H, T, S)."""
    q = record.q[0].unflatten(0, (record.k.shape[1], -1))  # (K, G, T, D)
    return (q @ record.k[0][:, None].mT).flatten(0, 1) * record.scale


def why_not(config: ModelConfig) -> str:
    if not config.rotary_dim:
        return "This model has no RoPE."
    if config.rope_layout != "half":
        return "This model uses the interleaved layout; the changed line belongs to the half-split layout."
    return "With one pair of dimensions both layouts are the same." if config.rotary_dim == 2 else ""


MISTAKE = Mistake(
    title="RoPE in the other layout",
    subject="rope",
    kind="silent",
    changes=(
        Change(
            "modules/rope.py",
            right="""
                if layout == "half":
                    a, b = x.chunk(2, dim=-1)  # (..., T, n_pairs) each
            """,
            wrong="""
                if layout == "half":
                    a, b = x[..., 0::2], x[..., 1::2]  # (..., T, n_pairs) each
            """,
        ),
    ),
    question="The weights were trained with dimension i paired with i + D/2. Which scores does this version change?",
    answers=(
        "None: q and k are paired in the same way, so it cancels",
        "Those between different positions, but not a token's score with itself",
        "All of them, by one common factor",
        "None, it raises: the table has D/2 columns and q has D",
    ),
    answer=1,
    what="RoPE rotates pairs of dimensions. Which two form a pair is a convention: (i, i + D/2) in Llama's weights on "
    "the Hugging Face hub and in GPT-NeoX, (2i, 2i + 1) in Meta's own code and GPT-J. The table of angles is "
    "(T, D/2) in both. In the wrong layout, dimensions are rotated with other partners and frequencies. With permuted "
    "rows of q_proj and k_proj the two layouts agree, which is what conversion scripts use. At the same position q and "
    "k are rotated by the same angles, so such a score does not change.",
    sources=(
        Source("Su et al., RoFormer, section 3.2.2", "https://arxiv.org/abs/2104.09864"),
        Source(
            "transformers issue 25199: two layouts of Llama",
            "https://github.com/huggingface/transformers/issues/25199",
        ),
    ),
    noticed="Not when training from scratch, which works with either pairing. After converting weights all shapes "
    "match and the loss is too high, more so after many tokens than after a few.",
    interview="“Implement RoPE.” Say which layout you implement before you write it, and that the other one needs "
    "permuted weights.",
    test="""
import torch
from attnviz.modules import apply_rope, rope_frequencies

def test_dimension_i_is_paired_with_i_plus_half():
    x, angles = torch.randn(7, 6), torch.arange(7)[:, None] * rope_frequencies(6).float()
    turned = torch.complex(x[:, :3], x[:, 3:]) * torch.polar(torch.ones(7, 3), angles)
    expected = torch.cat((turned.real, turned.imag), dim=-1)
    torch.testing.assert_close(apply_rope(x, torch.arange(7), rope_frequencies(6)), expected)
""",
    compare=compare,
    why_not=why_not,
)
