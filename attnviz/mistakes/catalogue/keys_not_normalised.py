"""Queries and keys of the delta rule are not divided by their length."""

from attnviz.mistakes import states
from attnviz.mistakes.mistake import Mistake, Source, Symptom
from attnviz.mistakes.runs import format_number
from attnviz.mistakes.versions import Change, Version
from attnviz.modules import AttentionRecord, Transformer
from attnviz.phrases import span


def compare(right: Version, wrong: Version, model: Transformer, ids: list[int]) -> Symptom:
    return states.symptom(right, wrong, model, ids, _lengths, {})


def _lengths(right: AttentionRecord, wrong: AttentionRecord, head: int) -> str:
    k = wrong.k[0, head * wrong.k.shape[1] // wrong.q.shape[1]]  # (T, D)
    lengths = k.norm(dim=-1)
    factors = 1 - wrong.own["beta"][0, head] * lengths**2  # (T,) of what the state holds under the key
    low, high, least = map(format_number, (float(lengths.min()), float(lengths.max()), float(factors.min())))
    return f"keys have lengths of {span(low, high)} instead of 1; the smallest 1 − β‖k‖² is {least}."


MISTAKE = Mistake(
    title="Queries and keys not normalised",
    subject="linear",
    kind="silent",
    changes=(
        Change(
            "modules/delta.py",
            right="""
                q = l2_normalised(q.unflatten(-1, (self.n_key_heads, -1)).transpose(1, 2))  # (B, K, T, D)
                k = l2_normalised(k.unflatten(-1, (self.n_key_heads, -1)).transpose(1, 2))  # (B, K, T, D)
            """,
            wrong="""
                q = q.unflatten(-1, (self.n_key_heads, -1)).transpose(1, 2)  # (B, K, T, D)
                k = k.unflatten(-1, (self.n_key_heads, -1)).transpose(1, 2)  # (B, K, T, D)
            """,
        ),
    ),
    question="β is 0.5, and a key of length 3 comes again and again. By what does each of its writes multiply what the "
    "state held under this key, decay aside?",
    answers=("0.5", "−0.5", "−3.5", "4.5"),
    answer=2,
    what="A write multiplies what the state holds under its key by 1 − β‖k‖². With keys of length 1 and β between 0 "
    "and 1, that is between 0 and 1: nothing grows. Longer keys make it negative, and from ‖k‖² > 2 / β on its size is "
    "above 1: each repetition then enlarges the state, here by 3.5, unless it decays as fast. Keys shorter than 1 "
    "overwrite too little instead.",
    sources=(
        Source(
            "Yang et al., Parallelizing linear transformers with the delta rule", "https://arxiv.org/abs/2406.06484"
        ),
        Source("Yang et al., Gated delta networks", "https://arxiv.org/abs/2412.06464"),
    ),
    noticed="With long keys that repeat, numbers can grow from token to token until they overflow: NaN in a long text "
    "and not in a short one. With short keys nothing overflows, and only the loss shows it. Kernels take it as an "
    "option that is off by default (use_qk_l2norm_in_kernel), which is easily forgotten.",
    interview="“Why does DeltaNet normalise its keys?” Because I − β k kᵀ has the eigenvalue 1 − β‖k‖² along k: with "
    "‖k‖ = 1 and β in (0, 1), none is outside of 0 to 1, and the state cannot grow by a write's correction.",
    test="""
import torch
from attnviz.modules.delta import GatedDeltaNet

def test_keys_have_length_1():
    layer, found = GatedDeltaNet(13, 6, 3, key_dim=5, head_dim=7), {}
    layer(torch.randn(2, 11, 13), record=lambda **computed: found.update(computed))
    torch.testing.assert_close(found["k"].norm(dim=-1), torch.ones(2, 3, 11), atol=0.01, rtol=0)
""",
    compare=compare,
    why_not=states.why_not,
)
