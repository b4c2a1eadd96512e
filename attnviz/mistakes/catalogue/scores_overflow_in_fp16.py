"""Scores are scaled after q·k in float16, so the product overflows before it is scaled."""

import torch
from torch import Tensor

from attnviz.config import ModelConfig
from attnviz.mistakes.mistake import CannotOccur, Mistake, Source, Symptom
from attnviz.mistakes.runs import array, head_map, run
from attnviz.mistakes.versions import Change, Version
from attnviz.modules import Transformer
from attnviz.phrases import count

INFINITE = 65520.0  # from here on, a number is stored in float16 as ∞: half a step beyond its largest, 65,504


def compare(right: Version, wrong: Version, model: Transformer, ids: list[int]) -> Symptom:
    """Run layer 0 in float16, with q and k enlarged until a row becomes NaN."""
    record, softcap = run(model, ids).records[0], model.config.attention_softcap
    products = _products(record.q, record.k)
    largest, deciding = float(products.abs().max()), float(_deciding(products, record.allowed).max())
    if not deciding:
        raise CannotOccur("All q·k of layer 0 are 0 on this text: they do not overflow, however large q and k are.")
    growth = _growth(INFINITE / deciding, INFINITE / (largest * record.scale), record.scale)
    q, k, v = (record.q * growth**0.5).half(), (record.k * growth**0.5).half(), record.v.half()
    a, b = (
        each.module("modules.attention").attend(q, k, v, record.allowed, scale=record.scale, softcap=softcap).weights
        for each in (right, wrong)
    )
    scaled, plain = (int(_products(each, k).isinf().sum()) for each in (q * record.scale, q))
    before, after = (int(each.isnan().any(-1).sum()) for each in (a, b))
    capped = f" The soft cap turns ∞ into {softcap:g}." if softcap and plain and not after else ""
    sentence = (
        f"In layer 0, q·k would have to be {_times(INFINITE / largest)} times larger for the first product to "
        f"overflow on this text. With q·k {_times(growth)} times larger, {plain:,} of {products.numel():,} "
        f"products are stored as ±∞ and {count(after, 'row')} of {b[..., 0].numel():,} are NaN; with q scaled first, "
        f"{scaled:,} and {before}.{capped}"
    )
    head = int(b.isnan().flatten(2).sum(-1)[0].argmax())
    shown = head_map(a[0, head], 0, head) | {"wrong": array(b[0, head])}
    return Symptom(
        **shown, measure="Rows of layer 0 that are NaN", expected=before, number=after, sentence=sentence
    )  # fmt: skip


def _products(q: Tensor, k: Tensor) -> Tensor:
    """Compute q·k for q (1, H, T, D) and k (1, K, S, D), masked or not, in their precision: (1, H, T, S)."""
    return torch.einsum("bkgtd,bksd->bkgts", q.unflatten(1, (k.shape[1], -1)), k).flatten(1, 2)


def _deciding(products: Tensor, allowed: Tensor | None) -> Tensor:
    """Return, per row, the size of the product that must overflow to make the row NaN, (1, H, T): the largest positive
    product, masked or not (+∞ − ∞ is NaN); without one, the allowed product closest to 0 (a row of −∞ is NaN)."""
    top = products.amax(-1)
    open_ = products if allowed is None else products.masked_fill(~allowed, -torch.inf)
    return torch.where(top > 0, top, -open_.amax(-1))


def _growth(first_nan: float, first_scaled: float, scale: float) -> float:
    """Return by how much q·k grows: between the first row that is NaN and the first scaled score that overflows, if
    they come in this order."""
    return (first_nan * first_scaled) ** 0.5 if first_nan < first_scaled else first_nan * max(scale**-0.5, 2.0)


def _times(factor: float) -> str:
    return f"{factor:,.0f}" if factor >= 100 else f"{factor:.3g}"


def why_not(config: ModelConfig) -> str:
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
    "Where it is +∞, softmax computes ∞ − ∞, which is NaN; −∞ only gives a weight of 0. Scaling q "
    "first makes each stored product √head_dim times smaller. bfloat16 has about the range of float32 and does not "
    "overflow here; fused kernels such as FlashAttention keep scores in float32.",
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
    why_not=why_not,
)
