"""Converted models, against conversions written head by head and against the outputs that must not change.

.venv/bin/python -m pytest tests/experiments/test_convert.py
"""

import pytest
import torch

from attnviz.config import ConfigError, ModelConfig
from attnviz.experiments.conversion import copy_kv_heads, group_kv_heads, reorder_heads
from attnviz.modules import Recording, Transformer

HEADS, HEAD_DIM = 6, 10
CONFIG = ModelConfig(
    n_layers=3, d_model=13, n_heads=HEADS, head_dim=HEAD_DIM, d_ff=17, vocab_size=19, qkv_bias=True, o_bias=True
)
IDS = torch.tensor([[3, 1, 4, 1, 5, 9, 2]])


@pytest.fixture
def mha() -> Transformer:
    """Return a model with non-zero biases, so that a forgotten one is detected."""
    model = Transformer.random(CONFIG, seed=1)
    generator = torch.Generator().manual_seed(2)
    with torch.no_grad():
        for name, p in model.named_parameters():
            if name.endswith("bias"):
                p.normal_(generator=generator)
    return model


def rows(head: int) -> slice:
    return slice(head * HEAD_DIM, (head + 1) * HEAD_DIM)


@pytest.mark.parametrize("n_kv_heads", [6, 3, 2, 1])
@pytest.mark.parametrize("method", ["mean", "first"])
@pytest.mark.parametrize("part", ["k_proj", "v_proj"])
def test_each_new_head_is_the_mean_or_the_first_of_its_old_ones(mha, n_kv_heads, method, part):
    size = HEADS // n_kv_heads
    converted = group_kv_heads(mha, n_kv_heads, method)
    for old_block, new_block in zip(mha.blocks, converted.blocks, strict=True):
        old, new = getattr(old_block.attn, part), getattr(new_block.attn, part)
        assert new.weight.shape == (n_kv_heads * HEAD_DIM, 13)
        for j in range(n_kv_heads):
            members = range(j * size, (j + 1) * size) if method == "mean" else [j * size]
            for name in ("weight", "bias"):
                expected = sum(getattr(old, name)[rows(m)] for m in members) / len(members)
                torch.testing.assert_close(getattr(new, name)[rows(j)], expected)


@pytest.mark.parametrize("method", ["mean", "first"])
def test_heads_that_are_equal_within_a_group_lose_nothing(mha, method):
    with torch.no_grad():
        for block in mha.blocks:
            for proj in (block.attn.k_proj, block.attn.v_proj):
                for p in (proj.weight, proj.bias):
                    for j in range(2):
                        p[rows(3 * j + 1)] = p[rows(3 * j + 2)] = p[rows(3 * j)]
    torch.testing.assert_close(group_kv_heads(mha, 2, method)(IDS), mha(IDS))


def test_other_neighbours_would_have_been_the_wrong_ones(mha):
    """The test above can fail: heads made equal in the tiled order (0, 2, 4 and 1, 3, 5) do lose something."""
    with torch.no_grad():
        for block in mha.blocks:
            for proj in (block.attn.k_proj, block.attn.v_proj):
                for h in range(2, HEADS):
                    proj.weight[rows(h)] = proj.weight[rows(h % 2)]
    assert (group_kv_heads(mha, 2)(IDS) - mha(IDS)).abs().max() > 0.01


def test_averaging_in_two_steps_is_averaging_in_one(mha):
    torch.testing.assert_close(group_kv_heads(group_kv_heads(mha, 3), 1)(IDS), group_kv_heads(mha, 1)(IDS))


@pytest.mark.parametrize("method", ["mean", "first"])
def test_what_is_converted_is_new_and_the_rest_is_shared(mha, method):
    before = {name: p.clone() for name, p in mha.state_dict().items()}
    converted = group_kv_heads(mha, 2, method)
    assert all(p.requires_grad for p in converted.parameters())
    with torch.no_grad():
        for block in converted.blocks:
            for part in (block.attn.k_proj, block.attn.v_proj):
                for p in part.parameters():
                    p.add_(1.0)
    assert all(torch.equal(p, before[name]) for name, p in mha.state_dict().items())
    old = {name: p.data_ptr() for name, p in mha.named_parameters()}
    shared = {name for name, p in converted.named_parameters() if p.data_ptr() == old[name]}
    assert shared == {name for name in old if "k_proj" not in name and "v_proj" not in name}


def test_everything_else_is_kept(mha):
    converted = group_kv_heads(mha, 3)
    kept = dict(converted.named_parameters())
    for name, p in mha.named_parameters():
        if "k_proj" not in name and "v_proj" not in name:
            assert torch.equal(kept[name], p), name
    assert converted.config == CONFIG.with_kv_heads(3)
    assert converted.training is mha.training is False


@pytest.mark.parametrize("n_kv_heads", [4, 0, -1, 12])
def test_an_impossible_number_of_kv_heads_is_named(mha, n_kv_heads):
    with pytest.raises(ConfigError, match="6, 3, 2, 1"):
        group_kv_heads(mha, n_kv_heads)


def test_heads_cannot_be_made_more(mha):
    with pytest.raises(ConfigError, match="2 KV heads can become 2, 1, not 6"):
        group_kv_heads(group_kv_heads(mha, 2), 6)


def test_an_unknown_method_is_named(mha):
    with pytest.raises(ConfigError, match="mean, first, not 'median'"):
        group_kv_heads(mha, 2, "median")


def test_latent_attention_has_nothing_to_group():
    config = ModelConfig(
        n_layers=1, d_model=13, n_heads=3, attention="mla", kv_lora_rank=7, qk_rope_head_dim=2, qk_nope_head_dim=5,
        v_head_dim=11, vocab_size=19,
    )  # fmt: skip
    with pytest.raises(ConfigError, match="latent"):
        group_kv_heads(Transformer.random(config, 0), 1)


def test_written_out_to_every_query_head_it_computes_the_same(mha):
    gqa = group_kv_heads(mha, 2)
    before, after = Recording(), Recording()
    logits = gqa(IDS, record=before)
    copied = copy_kv_heads(gqa)
    torch.testing.assert_close(copied(IDS, record=after), logits)
    assert copied.config == CONFIG
    for old, new in zip(before, after, strict=True):
        torch.testing.assert_close(new.k, old.k.repeat_interleave(3, dim=1))


def test_tiled_is_the_published_mistake(mha):
    gqa = group_kv_heads(mha, 2)
    before, after = Recording(), Recording()
    gqa(IDS, record=before)
    tiled = copy_kv_heads(gqa, "tiled")
    assert (tiled(IDS, record=after) - gqa(IDS)).abs().max() > 0.01
    k = before[0].k.transpose(1, 2)  # (B, T, K, D), as the mistake is usually written
    wrong = k.unsqueeze(2).expand(-1, -1, 3, -1, -1).flatten(2, 3).transpose(1, 2)
    torch.testing.assert_close(after[0].k, wrong)


@pytest.mark.parametrize("n_kv_heads", [1, 6])
def test_with_one_or_all_kv_heads_the_mistake_does_not_show(mha, n_kv_heads):
    model = group_kv_heads(mha, n_kv_heads)
    torch.testing.assert_close(copy_kv_heads(model, "tiled")(IDS), model(IDS))


def test_an_unknown_pattern_is_named(mha):
    with pytest.raises(ConfigError, match="interleaved, tiled, not 'mixed'"):
        copy_kv_heads(mha, "mixed")


ORDERS = [[5, 0, 3, 1, 4, 2], [0, 1, 2, 3, 4, 5], [2, 1, 0, 5, 4, 3]]


def test_another_order_of_heads_computes_the_same(mha):
    before, after = Recording(), Recording()
    logits = mha(IDS, record=before)
    reordered = reorder_heads(mha, ORDERS)
    torch.testing.assert_close(reordered(IDS, record=after), logits)
    for order, old, new in zip(ORDERS, before, after, strict=True):
        torch.testing.assert_close(new.weights, old.weights[:, order])


def test_another_order_gives_the_groups_other_members(mha):
    grouped = group_kv_heads(reorder_heads(mha, ORDERS), 2)
    old, new = mha.blocks[0].attn.k_proj.weight, grouped.blocks[0].attn.k_proj.weight
    torch.testing.assert_close(new[rows(0)], (old[rows(5)] + old[rows(0)] + old[rows(3)]) / 3)


def test_only_permutations_and_only_own_keys(mha):
    with pytest.raises(ConfigError, match="3 permutations of 0 to 5"):
        reorder_heads(mha, [[0, 0, 1, 2, 3, 4]] * 3)
    with pytest.raises(ConfigError, match="'gqa'"):
        reorder_heads(group_kv_heads(mha, 2), ORDERS)
