"""The KV cache size is computed with the query heads; MLA's with a factor 2 and without its RoPE key."""

from dataclasses import replace
from fractions import Fraction

import numpy as np
import torch

from attnviz.config import ModelConfig
from attnviz.mistakes.mistake import Mistake, Source, Symptom, Words
from attnviz.mistakes.runs import format_number
from attnviz.mistakes.versions import Change, Version
from attnviz.modules import Transformer
from attnviz.phrases import count


def compare(right: Version, wrong: Version, model: Transformer, ids: list[int]) -> Symptom:
    """Compare one row of counts: bytes of each part of the cache for this text, in all layers."""
    T, cache = len(ids), model.new_cache()
    model(torch.tensor([ids]), cache=cache)
    live = sum(each.nbytes for each in cache)
    config = replace(model.config, sliding_window=None, full_layers=())  # the live cache holds every token
    bits = 8 * next(each for one in cache for each in one.tensors).element_size()
    parts = [_cached(each, config, bits) for each in (right, wrong)]
    a, b = (np.array([[float(T * each.get(part, 0)) for part in parts[0]]], np.float32) for each in parts)
    counted = T * float(sum(parts[1].values()))
    return Symptom(
        "Bytes cached for this text, all layers", a, b, "Bytes of the cache for this text", live, counted,
        f"The live cache's tensors take {live:,} B for {count(T, 'token')}; the formula gives "
        f"{counted:,.0f} B, {format_number(counted / live)} times as much.", columns=tuple(parts[0]),
    )  # fmt: skip


def _cached(version: Version, config: ModelConfig, bits: int) -> dict[str, Fraction]:
    """Return what a version counts for one token, by part: its layers are built by that version's classes."""
    own = version.module("config").ModelConfig.from_dict(config.to_dict())
    return version.module("cost.cached").cache_parts(own, 1, bits=bits)


def why_not(config: ModelConfig) -> str:
    return "MHA has as many KV heads as query heads, so both counts are equal." if config.attention == "mha" else ""


MISTAKE = Mistake(
    title="A cache sized with n_heads",
    subject="cache",
    kind="silent",
    changes=(
        Change(
            "mechanisms/grouped.py",
            right='return (Vectors(("k", "v"), D, letter("K", self.n_kv_heads)),)',
            wrong='return (Vectors(("k", "v"), D, letter("H", self.n_heads)),)',
        ),
    ),
    latent=(
        Change(
            "mechanisms/latent.py",
            right="""return (
                Vectors(("latent",), letter("R", self.kv_lora_rank)),
                Vectors(("RoPE key",), letter("P", self.qk_rope_head_dim)),
            )""",
            wrong='return (Vectors(("latent", "values"), letter("R", self.kv_lora_rank)),)',
        ),
    ),
    question="By which factor does the formula differ from the size of the live cache?",
    answers=(
        "By 2, because it counts keys and values separately",
        "By n_heads / n_kv_heads",
        "By n_layers: it counts only one layer",
        "By 1: query heads have to be cached as well",
    ),
    answer=1,
    what="Only keys and values are cached, so a token takes 2 · n_kv_heads · head_dim numbers per layer. With n_heads, "
    "the estimate for Llama 3 8B (32 query heads, 8 KV heads) is four times too large. Only with MHA, where "
    "both counts are equal, is it right.",
    sources=(
        Source("DeepSeek-V2, table 1: cache per token of MHA, GQA, MQA and MLA", "https://arxiv.org/abs/2405.04434"),
        Source("Ainslie et al., GQA", "https://arxiv.org/abs/2305.13245"),
    ),
    noticed="Capacity planning allows too few sequences per GPU. Buffers allocated with n_heads work, but only the "
    "share n_kv_heads / n_heads of them is filled.",
    interview="“How large is the KV cache of this model at 32 K tokens?” Write the factors: 2 · layers · KV heads · "
    "head_dim · bytes per number · tokens. The number of query heads is not among them.",
    test="""
import torch
from attnviz.config import ModelConfig
from attnviz.cost import kv_cache_bytes
from attnviz.modules import Transformer

def test_the_formula_counts_what_the_live_cache_holds():
    model = Transformer.random(ModelConfig(n_layers=2, d_model=30, n_heads=6, n_kv_heads=3, vocab_size=17), seed=0)
    cache = model.new_cache()
    model(torch.arange(7)[None], cache=cache)
    assert kv_cache_bytes(model.config, 7, bits=32) == sum(each.nbytes for each in cache)
""",
    latent_words=Words(
        title="A cache sized with two latents",
        question="R is kv_lora_rank and P qk_rope_head_dim. By which factor does the formula differ from the size of "
        "the live cache?",
        answers=(
            "By 2: keys and values share one latent",
            "By 2·R / (R + P)",
            "By n_heads: all heads share one latent",
            "By R / (R + P): the RoPE key is missing",
        ),
        what="MLA caches one latent of R numbers for both keys and values, so there is no factor 2, and one RoPE "
        "key of P numbers that all heads share. The formula counts the latent twice and leaves out the RoPE key: "
        "2·R numbers per token and layer instead of R + P. For DeepSeek-V3 (R 512, P 64) that is 1.78 times the "
        "cache.",
        noticed="Capacity planning allows too few sequences per GPU where P is smaller than R, as in DeepSeek-V2 and "
        "V3. Without the factor 2 but also without the RoPE key, the formula gives less than the cache takes.",
        interview="“How large is MLA's cache at 32 K tokens?” Write the factors: layers · (R + P) · bytes per number · "
        "tokens. The number of heads is not among them, and neither is a 2 for K and V.",
        test="""
import torch
from attnviz.config import ModelConfig
from attnviz.cost import kv_cache_bytes
from attnviz.modules import Transformer

def test_the_formula_counts_what_the_live_cache_holds():
    config = ModelConfig(2, 12, 3, attention="mla", kv_lora_rank=5, qk_nope_head_dim=4, qk_rope_head_dim=2,
                         v_head_dim=7, vocab_size=17)
    model = Transformer.random(config, seed=0)
    cache = model.new_cache()
    model(torch.arange(7)[None], cache=cache)
    assert kv_cache_bytes(model.config, 7, bits=32) == sum(each.nbytes for each in cache)
""",
    ),
    compare=compare,
    why_not=why_not,
)
