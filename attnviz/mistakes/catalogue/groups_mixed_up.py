""" "Groups" is the number of KV heads in one file and the size of a group in another."""

import torch

from attnviz.config import ModelConfig
from attnviz.mistakes.mistake import Mistake, Source, Symptom
from attnviz.mistakes.runs import head_map, raised, run
from attnviz.mistakes.versions import Change, Version
from attnviz.modules import Transformer
from attnviz.phrases import count


def compare(right: Version, wrong: Version, model: Transformer, ids: list[int]) -> Symptom:
    c, message = model.config, ""
    with torch.device("meta"):
        other = wrong.module("modules.transformer").Transformer(c)
    try:
        other.load_state_dict(model.state_dict(), assign=True)
    except RuntimeError as error:
        message = raised(error)
    built = getattr(other.blocks[0].attn, "n_kv_heads", c.n_kv_heads)  # MLA's has none
    return Symptom(
        **head_map(run(right.like(model), ids).weights[0][0, 0], 0, 0), wrong=None, measure="KV heads built",
        expected=c.n_kv_heads, number=built, error=message,
        sentence=f"For {count(c.n_heads, 'query head')}, the weights have {count(c.n_kv_heads, 'KV head')}, "
        f"but the layer is built with {count(built, 'KV head')}, in groups of {c.n_heads // built}.",
    )  # fmt: skip


def why_not(config: ModelConfig) -> str:
    if config.attention == "mla":
        return "MLA has no KV heads to count: its cache holds a latent."
    if config.n_kv_heads == config.group_size:
        return f"Here both numbers are {config.n_kv_heads}: the number of KV heads and the group size."
    return ""


MISTAKE = Mistake(
    title="“Groups” with two meanings",
    subject="heads",
    kind="raises",
    changes=(
        Change(
            "modules/building.py",
            right="model.d_model, c.n_heads, c.n_kv_heads, head_dim=c.head_dim, qkv_bias=c.qkv_bias, "
            "out_bias=c.o_bias,",
            wrong="model.d_model, c.n_heads, c.n_heads // c.n_kv_heads, head_dim=c.head_dim, "
            "qkv_bias=c.qkv_bias, out_bias=c.o_bias,",
        ),
    ),
    question="The configuration gives the number of KV heads, and the weights were trained with it. When does this "
    "version raise an error?",
    answers=(
        "When the model is built: the heads cannot be divided evenly",
        "When the weights are loaded: k_proj and v_proj have a different size",
        "In the first forward pass: q and k differ in head_dim",
        "In the first decode step: the cache has a different size",
    ),
    answer=1,
    what="With 32 query heads, “n_groups = 4” means 4 KV heads in one file, and groups of 4 (8 KV heads) in another. "
    "Both can be built and run, but one has twice the cache. The output sizes of k_proj and v_proj are n_kv_heads · "
    "head_dim, so weights trained for one do not fit into the other, and loading them raises. The GQA paper's G "
    "counts groups, and so KV heads; other code means n_rep or group_size. Unambiguous names are n_kv_heads and "
    "group_size = n_heads / n_kv_heads.",
    sources=(Source("Ainslie et al., GQA, section 2.2: GQA-G", "https://arxiv.org/abs/2305.13245"),),
    noticed="Immediately if weights are loaded strictly. When training from scratch nothing raises; the number of "
    "parameters and the size of the cache differ from the paper's.",
    interview="“A model has 32 heads and 8 groups: how large is its cache?” Ask which is meant: 8 groups are 8 KV "
    "heads in the GQA paper, and groups of 8 are 4 KV heads.",
    test="""
from attnviz.config import ModelConfig
from attnviz.modules.building import build_attention

def test_the_number_counts_kv_heads():
    layer = build_attention(ModelConfig(n_layers=1, d_model=48, n_heads=8, n_kv_heads=4))
    assert layer.k_proj.weight.shape == (4 * 6, 48)  # head_dim 6
""",
    compare=compare,
    why_not=why_not,
)
