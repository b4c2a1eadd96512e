"""“GQA is faster because it computes less”: multiplications are counted with KV heads instead of query heads."""

from dataclasses import replace

import numpy as np

from attnviz.config import ModelConfig, divisors
from attnviz.mistakes.mistake import Mistake, Source, Symptom
from attnviz.mistakes.runs import format_number, run
from attnviz.mistakes.versions import Change, Version
from attnviz.modules import Transformer
from attnviz.phrases import count


def compare(right: Version, wrong: Version, model: Transformer, ids: list[int]) -> Symptom:
    """Compare one row of counts, one column per number of KV heads: multiplications in the attention of one layer."""
    c, T = replace(model.config, sliding_window=None, full_layers=()), len(ids)  # masked scores are computed too
    weights, D = run(model, ids).weights[0], c.head_dim
    live = 2 * D * weights.numel()  # D products for each score, and one for each of D entries of the output

    def counted(version: Version, n_kv_heads: int) -> int:
        """Count the multiplications of all pairs with the mixer of this version."""
        config = c if c.attention == "mla" else replace(c, n_kv_heads=n_kv_heads, attention=None)
        own = version.module("config").ModelConfig.from_dict(config.to_dict())
        return T * T * int(own.mixer.flops_per_pair().value) // 2

    a, b = (np.array([[counted(each, n) for n in divisors(c.n_heads)]], np.float32) for each in (right, wrong))
    number = counted(wrong, c.n_kv_heads)
    return Symptom(
        "Multiplications of scores and output in one layer",
        a, b, "Multiplications of scores and output in one layer", live, number,
        f"The live layer has {weights.numel():,} attention weights with 2 · {D} multiplications each: {live:,}. The "
        f"mistaken count is {number:,}, too small by a factor of {format_number(live / number)}. It is the cache that "
        "shrinks by this factor.",
        columns=tuple(count(n, "KV head") for n in divisors(c.n_heads)),
    )  # fmt: skip


def why_not(config: ModelConfig) -> str:
    if config.attention == "mla":
        return "MLA has no KV heads: its multiplications depend on the width of its latent."
    return "MHA has as many KV heads as query heads, so both counts are equal." if config.attention == "mha" else ""


MISTAKE = Mistake(
    title="“GQA computes less”",
    subject="heads",
    kind="silent",
    changes=(
        Change(
            "mechanisms/grouped.py",
            right="""H, _, D, V = self._letters()
                return 4 * H * D if self.v_head_dim is None else 2 * H * (D + V)""",
            wrong="""_, K, D, V = self._letters()
                return 4 * K * D if self.v_head_dim is None else 2 * K * (D + V)""",
        ),
    ),
    question="MHA with 8 heads becomes GQA with 2 KV heads. How many multiplications do q·kᵀ and weights·v need now?",
    answers=("A quarter", "A half", "A quarter for q·kᵀ, as many for weights·v", "As many as before"),
    answer=3,
    what="Each query head still multiplies its query by every key and sums every value: T · S · head_dim "
    "multiplications per query head, twice. Sharing a key between heads saves none. What shrinks is the cache, by "
    "n_heads / n_kv_heads, and with it the bytes that a decode step reads; if memory bandwidth limits the step, it "
    "gets faster. Of the computation, only the projections to k and v get smaller.",
    sources=(
        Source("Shazeer, Fast Transformer Decoding, sections 2.4 and 3", "https://arxiv.org/abs/1911.02150"),
        Source("Ainslie et al., GQA, section 1", "https://arxiv.org/abs/2305.13245"),
    ),
    noticed="Prefill and training are hardly faster with GQA, although the estimate said so: only the projections "
    "to k and v shrink. Decoding is faster where reading the cache takes much of a step's time.",
    interview="“Why is GQA faster?” A decode step reads all weights and the whole cache to compute one token, so "
    "memory bandwidth limits it; with GQA the cache is n_heads / n_kv_heads times smaller. Prefill is limited by "
    "arithmetic, which hardly shrinks.",
    test="""
import torch
from torch.utils.flop_counter import FlopCounterMode
from attnviz.config import ModelConfig
from attnviz.cost import uncached_cost
from attnviz.modules import Transformer

def test_the_count_is_what_torch_counts():
    model = Transformer.random(ModelConfig(n_layers=2, d_model=30, n_heads=6, n_kv_heads=2, vocab_size=17), seed=0)
    with FlopCounterMode(display=False) as counter:
        model(torch.arange(7)[None])
    assert counter.get_total_flops() == uncached_cost(model.config, 7).value
""",
    compare=compare,
    why_not=why_not,
)
