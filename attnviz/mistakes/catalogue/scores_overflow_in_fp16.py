"""Scores are scaled after q·k in float16, so the product overflows before it is scaled."""

import torch
from torch import Tensor

from attnviz.config import ModelConfig
from attnviz.mistakes.mistake import Mistake, Source, Symptom
from attnviz.mistakes.runs import format_number, head_map, run
from attnviz.mistakes.versions import Change, Version
from attnviz.modules import Transformer
from attnviz.phrases import count

LARGEST = float(torch.finfo(torch.float16).max)  # 65,504


def compare(right: Version, wrong: Version, model: Transformer, ids: list[int]) -> Symptom:
    """Run layer 0 in float16, with q and k enlarged until q·k overflows but q·k · scale does not."""
    record = run(model, ids).records[0]
    products = (record.q.unflatten(1, (record.k.shape[1], -1)) @ record.k[:, :, None].mT).flatten(1, 2)  # (1, H, T, S)
    largest = float(_deciding(products, record.allowed).max())
    factor = (
        LARGEST * record.scale**-0.5 / largest
    ) ** 0.5  # q·k exceeds the limit by the factor by which q·k · scale stays below it
    q, k, v = (record.q * factor).half(), (record.k * factor).half(), record.v.half()
    a, b = (
        each.module("modules.attention").attend(q, k, v, record.allowed, scale=record.scale).weights
        for each in (right, wrong)
    )
    before, after = (int(each.isnan().any(-1).sum()) for each in (a, b))
    head = int(b.isnan().flatten(2).sum(-1)[0].argmax())
    sentence = (
        f"In layer 0, q·k would have to be {format_number(LARGEST / largest)} times larger to overflow on this text. "
        f"With q and k each {format_number(factor)} times larger, q·k overflows to ∞, but q·k · scale "
        f"does not: {count(after, 'row')} of {b[..., 0].numel()} are NaN, and {before} if q is scaled first."
    )
    shown = head_map(a[0, head], 0, head) | {"wrong": head_map(b[0, head], 0, head)["right"]}
    return Symptom(
        **shown, measure="Rows of layer 0 that are NaN", expected=before, number=after, sentence=sentence
    )  # fmt: skip


def _deciding(products: Tensor, allowed: Tensor | None) -> Tensor:
    """Return, per row, the size of the product that must overflow to make the row NaN, (1, H, T): the largest positive
    product, masked or not (+∞ − ∞ is NaN); without one, the allowed product closest to 0 (a row of −∞ is NaN)."""
    top = products.amax(-1)
    open_ = products if allowed is None else products.masked_fill(~allowed, -torch.inf)
    return torch.where(top > 0, top, -open_.amax(-1))


def cannot_occur(config: ModelConfig) -> str:
    return "With head_dim 1 the scale is 1." if config.head_dim == 1 else ""


MISTAKE = Mistake(
    title="Scaled after q·k in float16",
    subject="softmax",
    kind="nan",
    changes=(
        Change(
            "modules/attention.py",
            right="""
                q = q.unflatten(1, (K, H // K)) * (scale or D**-0.5)  # (B, H, T, D) -> (B, K, G, T, D)
                scores = torch.einsum("bkgtd,bksd->bkgts", q, k).flatten(1, 2)  # (B, K, G, T, S) -> (B, H, T, S)
            """,
            wrong="""
                q = q.unflatten(1, (K, H // K))  # (B, H, T, D) -> (B, K, G, T, D)
                scores = torch.einsum("bkgtd,bksd->bkgts", q, k).flatten(1, 2) * (scale or D**-0.5)  # -> (B, H, T, S)
            """,
        ),
    ),
    question="Both versions are the same on paper. In float16, whose largest number is 65,504, what happens if a row "
    "has q·k = 131,008 and head_dim is 64?",
    answers=(
        "Nothing: q·k / 8 = 16,376 fits",
        "The row's weights are NaN in this version only",
        "The row's weights are NaN in both versions",
        "The key gets a weight of 1 in both versions",
    ),
    answer=1,
    what="q·k is stored before it is multiplied by the scale, and a number too large for float16 is stored as ∞. "
    "Softmax then computes ∞ − ∞, which is NaN. Scaling q first makes each stored product √head_dim times smaller. "
    "bfloat16 has about the range of float32 and does not overflow here; fused kernels such as FlashAttention keep "
    "scores in float32.",
    sources=(
        Source(
            "Micikevicius et al., Mixed Precision Training: what float16 cannot store",
            "https://arxiv.org/abs/1710.03740",
        ),
        Source(
            "Dehghani et al., Scaling ViT to 22 Billion Parameters: attention logits that grow",
            "https://arxiv.org/abs/2302.05442",
        ),
    ),
    noticed="Not as long as q·k fits into float16. Attention logits can grow in training: in the ViT-22B paper "
    "(arXiv 2302.05442) they grew until the loss diverged after a few thousand steps. In float16 such scores "
    "overflow and the loss becomes NaN; in bfloat16 they do not overflow.",
    interview="“Why scale q and not the scores?” The result is the same on paper. The largest intermediate value is "
    "q·k before the scale, √head_dim times the score, and float16 ends at 65,504.",
    test="""
import torch
from attnviz.modules import attend

def test_large_scores_stay_finite_in_half_precision():
    q = torch.full((1, 1, 2, 64), 40.0, dtype=torch.float16)  # q·q = 102,400, above 65,504; scaled 12,800
    assert attend(q, q, q).output.isfinite().all()
""",
    compare=compare,
    cannot_occur=cannot_occur,
)
