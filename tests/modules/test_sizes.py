"""Every module refuses a size that cannot be, naming it, the value and what is allowed."""

import inspect

import pytest
import torch
from torch import nn

from attnviz import modules
from attnviz.modules.embedding import PositionEmbedding, ScaledEmbedding
from attnviz.modules.masks import attention_mask

SIZES = {
    modules.GroupedQueryAttention: {"d_model": 30, "n_heads": 6, "n_kv_heads": 3, "head_dim": 7, "d_out": 11},
    modules.MultiHeadAttention: {"d_model": 30, "n_heads": 6, "head_dim": 7, "d_out": 11},
    modules.MultiQueryAttention: {"d_model": 30, "n_heads": 6, "head_dim": 7, "d_out": 11},
    modules.ExtendedAttention: {"d_model": 30, "n_heads": 6, "n_kv_heads": 3, "head_dim": 7, "d_out": 11},
    modules.CacheReadingAttention: {"d_model": 30, "n_heads": 6, "n_kv_heads": 3, "head_dim": 7, "d_out": 11},
    modules.SparseAttention: {
        "d_model": 30, "n_heads": 6, "n_kv_heads": 3, "head_dim": 7, "top_k": 5, "n_index_heads": 2, "index_dim": 9,
    },
    modules.SelfAttention: {"d_in": 13, "d_out": 5},
    modules.FusedSelfAttention: {"d_in": 13, "d_out": 5},
    modules.StackedHeads: {"d_model": 30, "n_heads": 6, "head_dim": 7},
    modules.MultiHeadLatentAttention: {
        "d_model": 29, "n_heads": 3, "kv_lora_rank": 13, "qk_nope_head_dim": 5, "qk_rope_head_dim": 6, "v_head_dim": 7,
        "q_lora_rank": 11,
    },
    modules.SparseLatentAttention: {
        "d_model": 29, "n_heads": 3, "kv_lora_rank": 13, "qk_nope_head_dim": 5, "qk_rope_head_dim": 6, "v_head_dim": 7,
        "q_lora_rank": 11, "top_k": 5, "n_index_heads": 2, "index_dim": 9,
    },
    modules.GatedDeltaNet: {
        "d_model": 29, "n_heads": 6, "n_key_heads": 3, "key_dim": 5, "head_dim": 7, "taps": 4,
    },
    modules.SwiGLU: {"d_model": 13, "d_ff": 17},
    modules.GeGLU: {"d_model": 13, "d_ff": 17},
    modules.GELUFeedForward: {"d_model": 13, "d_ff": 17},
    modules.RMSNorm: {"d_model": 13},
    modules.LayerNorm: {"d_model": 13},
    ScaledEmbedding: {"vocab_size": 37, "d_model": 13},
    PositionEmbedding: {"vocab_size": 37, "d_model": 13, "n_positions": 17},
}  # fmt: skip
MORE = {ScaledEmbedding: {"scale": 2.0}}


def test_each_module_with_sizes_is_listed():
    found = {each for each in vars(modules).values() if inspect.isclass(each) and issubclass(each, nn.Module)}
    of_a_config = {modules.Block, modules.SandwichBlock, modules.Transformer}
    assert found - of_a_config <= SIZES.keys()


@pytest.mark.parametrize("bad", [-1, 0, 2.5, True])
@pytest.mark.parametrize(("module", "name"), [(module, name) for module, sizes in SIZES.items() for name in sizes])
def test_an_impossible_size_is_refused_by_name(module, name, bad):
    if (name, bad) == ("n_kv_heads", True):
        return  # divides any number
    sizes, more = SIZES[module], MORE.get(module, {})
    assert module(**sizes, **more) is not None
    with pytest.raises(ValueError, match=name) as refused:
        module(**{**sizes, name: bad}, **more)
    assert str(bad) in str(refused.value)
    assert any(allowed in str(refused.value) for allowed in ("at least 1", "from 1 to", "must divide"))


def test_a_rope_key_of_odd_width_is_refused():
    sizes = SIZES[modules.MultiHeadLatentAttention] | {"qk_rope_head_dim": 7}
    with pytest.raises(ValueError, match="qk_rope_head_dim must be even, to be split into pairs, not 7"):
        modules.MultiHeadLatentAttention(**sizes)


@pytest.mark.parametrize("name", ["n_queries", "n_keys", "n_sinks", "offset"])
def test_a_mask_of_a_negative_size_is_refused(name):
    sizes = {"n_queries": 5, "n_keys": 7, "n_sinks": 1, "offset": 2} | {name: -1}
    with pytest.raises(ValueError, match=f"{name} must be at least 0, not -1"):
        attention_mask(**sizes, causal=True)


def test_the_sizes_that_are_given_are_those_of_the_weights():
    attention = modules.GroupedQueryAttention(**SIZES[modules.GroupedQueryAttention])
    assert attention(torch.zeros(2, 3, 30)).shape == (2, 3, 11)
