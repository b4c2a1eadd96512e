"""One file means the number of KV heads by "groups", the next one the size of a group."""

import torch

from attnviz.config import ModelConfig
from attnviz.mistakes.mistake import Mistake, Source, Symptom
from attnviz.mistakes.runs import head_map, n_of, raised, run
from attnviz.mistakes.versions import Change, Version
from attnviz.modules import Transformer


def compare(right: Version, wrong: Version, model: Transformer, ids: list[int]) -> Symptom:
    c, message = model.config, ""
    with torch.device("meta"):
        other = wrong.module("modules.transformer").Transformer(c)
    try:
        other.load_state_dict(model.state_dict(), assign=True)
    except RuntimeError as error:
        message = raised(error)
    built = other.blocks[0].attn.n_kv_heads
    return Symptom(
        **head_map(run(right.like(model), ids).weights[0][0, 0], 0, 0), wrong=None, measure="KV heads built",
        expected=c.n_kv_heads, number=built, error=message,
        sentence=f"{n_of(c.n_heads, 'query head')}: the weights have {n_of(c.n_kv_heads, 'KV head')}, "
        f"and {n_of(built, 'KV head')} are built, for groups of {c.n_heads // built}.",
    )  # fmt: skip


def cannot_occur(config: ModelConfig) -> str:
    if config.attention == "mla":
        return "MLA has no KV heads to count: its cache holds a latent."
    if config.n_kv_heads == config.group_size:
        return f"Here both numbers are {config.n_kv_heads}: so many KV heads, each read by so many query heads."
    return ""


MISTAKE = Mistake(
    title="“Groups” with two meanings",
    kind="raises",
    changes=(
        Change(
            "modules/transformer.py",
            right="c.d_model, c.n_heads, c.n_kv_heads, head_dim=c.head_dim, qkv_bias=c.qkv_bias, out_bias=c.o_bias,",
            wrong="c.d_model, c.n_heads, c.n_heads // c.n_kv_heads, head_dim=c.head_dim, qkv_bias=c.qkv_bias, "
            "out_bias=c.o_bias,",
        ),
    ),
    question="The number in the configuration was meant as the number of KV heads. When does this version raise, with "
    "weights trained for that number?",
    answers=(
        "When the model is built: the heads cannot be divided evenly",
        "When the weights are loaded: k_proj and v_proj have another size",
        "In the first forward pass: q and k have other head_dims",
        "In the first decode step: the cache has another size",
    ),
    answer=1,
    what="“n_groups = 4” with 32 query heads is 4 KV heads in one file and groups of 4, so 8 KV heads, in the next. "
    "Both build, both run, and one has twice the cache. The GQA paper's G counts groups, so KV heads; elsewhere "
    "n_rep or group_size is meant. Names that say which: n_kv_heads, and group_size = n_heads / n_kv_heads.",
    sources=(Source("Ainslie et al., GQA, section 2.2: GQA-G", "https://arxiv.org/abs/2305.13245"),),
    noticed="At once where weights are loaded strictly. Not at all in training from the start: the model has another "
    "number of parameters and another cache than the paper that is compared with.",
    interview="“A model has 32 heads and 8 groups: how large is its cache?” Ask back which of the two is meant.",
    test="""
from attnviz.config import ModelConfig
from attnviz.modules.transformer import build_attention

def test_the_number_counts_kv_heads():
    layer = build_attention(ModelConfig(n_layers=1, d_model=48, n_heads=8, n_kv_heads=4))
    assert layer.k_proj.weight.shape == (4 * 6, 48)  # head_dim 6
""",
    compare=compare,
    cannot_occur=cannot_occur,
)
