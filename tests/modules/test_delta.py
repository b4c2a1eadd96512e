"""Gated DeltaNet: against a hand-solved case, loops in numpy, and transformers' Qwen3-Next and Kimi Linear."""

from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from transformers import DynamicCache
from transformers.models.kimi_linear.modeling_kimi_linear import recurrent_kimi_delta_attention
from transformers.models.qwen3_next.configuration_qwen3_next import Qwen3NextConfig
from transformers.models.qwen3_next.modeling_qwen3_next import Qwen3NextGatedDeltaNet

from attnviz.modules import GatedDeltaNet, StateCache
from attnviz.modules.delta import (
    chunked_gated_delta_rule,
    effective_weights,
    gated_delta_rule,
    l2_normalised,
    short_convolution,
)
from tests.oracles import agree

B, H, T, D, V = 2, 6, 23, 5, 7
C, KEYS, TAPS = 13, 3, 4
CONFIG = Qwen3NextConfig(
    hidden_size=C, linear_num_value_heads=H, linear_num_key_heads=KEYS, linear_key_head_dim=D, linear_value_head_dim=V,
    linear_conv_kernel_dim=TAPS, num_hidden_layers=1, layer_types=["linear_attention"], rms_norm_eps=1e-6,
)  # fmt: skip
RULES = [gated_delta_rule, chunked_gated_delta_rule]


def drawn(per_channel: bool = False, tokens: int = T, seed: int = 0) -> tuple[Tensor, ...]:
    """Draw q, k, v, decay and beta, with decays from nearly 0 to 1."""
    g = torch.Generator().manual_seed(seed)
    q, k = (l2_normalised(torch.randn(B, H, tokens, D, generator=g)) for _ in range(2))
    v = torch.randn(B, H, tokens, V, generator=g)
    decay = torch.rand(B, H, tokens, *[D] * per_channel, generator=g) ** 0.5
    return q, k, v, decay, torch.rand(B, H, tokens, generator=g)


def by_hand(q: Tensor, k: Tensor, v: Tensor, decay: Tensor, beta: Tensor, state: Any = None) -> tuple[Any, Any]:
    """Compute output and state in float64 numpy, one head, token and number at a time."""
    q, k, v, decay, beta = (x.double().numpy() for x in (q, k, v, decay, beta))
    states = np.zeros((B, H, D, V)) if state is None else state.double().numpy().copy()
    output = np.zeros(v.shape)
    for b, h in np.ndindex(B, H):
        S = states[b, h]
        for t in range(q.shape[2]):
            for d in range(D):
                S[d] *= decay[b, h, t] if decay.ndim == 3 else decay[b, h, t, d]
            wanted = [v[b, h, t, j] - sum(S[d, j] * k[b, h, t, d] for d in range(D)) for j in range(V)]
            for d, j in np.ndindex(D, V):
                S[d, j] += k[b, h, t, d] * beta[b, h, t] * wanted[j]
            output[b, h, t] = [sum(S[d, j] * q[b, h, t, d] for d in range(D)) / np.sqrt(D) for j in range(V)]
    return torch.from_numpy(output), torch.from_numpy(states)


@pytest.mark.parametrize("rule", RULES)
def test_two_tokens_solved_by_hand(rule):
    """Token 1 writes half of 4 under the first direction: 2. Token 2 keeps a half of it, 1, reads 3/5 · 1 under its key
    (3/5, 4/5), and writes a quarter of 5 − 3/5, 11/10: S = (1 + 33/50, 44/50). Queries read 2 and 1.66 − 0.88."""
    q = torch.tensor([[1.0, 0.0], [1.0, -1.0]]).view(1, 1, 2, 2)
    k = torch.tensor([[1.0, 0.0], [0.6, 0.8]]).view(1, 1, 2, 2)
    v, decay, beta = (torch.tensor(x) for x in ([[[[4.0], [5.0]]]], [[[0.3, 0.5]]], [[[0.5, 0.25]]]))
    output, state = rule(q, k, v, decay, beta, scale=1.0)
    assert agree(output.flatten(), torch.tensor([2.0, 0.78])) and agree(state.flatten(), torch.tensor([1.66, 0.88]))
    assert agree(rule(q, k, v, decay, beta)[0], output * 2**-0.5)
    W = effective_weights(q, k, decay, beta, scale=1.0)[0, 0]
    # by the same steps for v = (1, 0) and (0, 1): token 2 reads −3/5 · 1/4 of what token 1 wrote, a quarter of it
    assert agree(W, torch.tensor([[0.5, 0.0], [0.25 * (1 - 0.15 * 0.6 + 0.15 * 0.8), 0.25 * (0.6 - 0.8)]]))


@pytest.mark.parametrize("per_channel", [False, True])
@pytest.mark.parametrize("rule", RULES)
def test_the_rule_equals_the_loop_by_hand(rule, per_channel):
    given = drawn(per_channel)
    state = torch.randn(B, H, D, V, generator=torch.Generator().manual_seed(3))
    for before in (None, state):
        output, after = by_hand(*given, before)
        found, last = rule(*given, before)
        assert agree(found.double(), output) and agree(last.double(), after)


@pytest.mark.parametrize("per_channel", [False, True])
@pytest.mark.parametrize("tokens", [1, 5, 10, 23])
def test_chunks_of_any_length_equal_the_recurrence(tokens, per_channel):
    given = drawn(per_channel, tokens)
    output, state = gated_delta_rule(*given)
    for chunk in (1, 5, 11, 64):
        found, last = chunked_gated_delta_rule(*given, chunk=chunk)
        assert agree(found, output) and agree(last, state)


@pytest.mark.parametrize("rule", RULES)
def test_the_state_carries_on_where_a_text_is_cut(rule):
    given = drawn()
    output, state = rule(*given)
    first, between = rule(*(x[:, :, :9] for x in given))
    rest, last = rule(*(x[:, :, 9:] for x in given), between)
    assert agree(torch.cat((first, rest), 2), output) and agree(last, state)


@pytest.mark.parametrize("rule", RULES)
def test_a_decay_of_zero_forgets_everything_and_no_number_is_lost(rule):
    q, k, v, decay, beta = drawn()
    decay = decay.index_fill(2, torch.tensor([11]), 0.0)
    output, _ = rule(q, k, v, decay, beta)
    assert output.isfinite().all() and agree(
        output[:, :, 11:], rule(*(x[:, :, 11:] for x in (q, k, v, decay, beta)))[0]
    )


@pytest.mark.parametrize("per_channel", [False, True])
def test_the_effective_weights_times_the_values_are_the_output(per_channel):
    q, k, v, decay, beta = drawn(per_channel)
    W = effective_weights(q, k, decay, beta)
    assert agree(W @ v, gated_delta_rule(q, k, v, decay, beta)[0])
    assert torch.equal(W, W.tril()) and (W < 0).any() and not agree(W.sum(-1), torch.ones(B, H, T), 0.1)


def test_a_decay_per_channel_equals_kimis():
    q, k, v, decay, beta = drawn(per_channel=True)
    theirs, state = recurrent_kimi_delta_attention(
        *(x.transpose(1, 2) for x in (q, k, v, decay.log(), beta)), initial_state=None, output_final_state=True
    )
    for rule in RULES:
        output, last = rule(q, k, v, decay, beta)
        assert agree(output, theirs.transpose(1, 2)) and agree(last, state)


def test_a_repeated_key_is_overwritten_not_added_up():
    k = l2_normalised(torch.ones(1, 1, 2, D)).expand(1, 1, 2, D)
    v = torch.tensor([[3.0], [5.0]]).view(1, 1, 2, 1)
    one = torch.ones(1, 1, 2)
    output, _ = gated_delta_rule(k, k, v, one, one, scale=1.0)
    assert agree(output.flatten(), torch.tensor([3.0, 5.0]))  # plain linear attention would read 8


def test_the_convolution_equals_torchs():
    x, weight = torch.randn(B, T, 11), torch.randn(11, TAPS)
    theirs = nn.functional.conv1d(x.mT, weight[:, None], padding=TAPS - 1, groups=11)[..., :T].mT
    found, inputs = short_convolution(x, weight)
    assert agree(found, theirs) and torch.equal(inputs, x[:, -TAPS:])
    first, past = short_convolution(x[:, :2], weight)
    assert agree(torch.cat((first, short_convolution(x[:, 2:], weight, past)[0]), 1), theirs)


# --- the module -------------------------------------------------------------------------------------------------------


def theirs_and_ours() -> tuple[Qwen3NextGatedDeltaNet, GatedDeltaNet]:
    """Build transformers' module at random and ours with the same weights."""
    torch.manual_seed(0)
    theirs, ours = Qwen3NextGatedDeltaNet(CONFIG, 0), GatedDeltaNet(C, H, KEYS, key_dim=D, head_dim=V, taps=TAPS)
    with torch.no_grad():
        theirs.norm.weight.uniform_(0.5, 2)
        theirs.dt_bias.normal_()
    G = H // KEYS
    qkvz = theirs.in_proj_qkvz.weight.unflatten(0, (KEYS, -1)).split((D, D, G * V, G * V), 1)
    ba = theirs.in_proj_ba.weight.unflatten(0, (KEYS, -1)).split((G, G), 1)
    names = dict(zip(("q_proj", "k_proj", "v_proj", "gate_proj", "beta_proj", "decay_proj"), (*qkvz, *ba), strict=True))
    ours.load_state_dict(
        {f"{name}.weight": weight.flatten(0, 1) for name, weight in names.items()}
        | {"conv": theirs.conv1d.weight[:, 0], "A_log": theirs.A_log, "dt_bias": theirs.dt_bias}
        | {"norm.weight": theirs.norm.weight, "o_proj.weight": theirs.out_proj.weight}
    )
    return theirs.eval(), ours.eval()


@torch.no_grad()
def test_the_module_equals_qwen3_nexts():
    theirs, ours = theirs_and_ours()
    x = torch.randn(B, T, C)
    assert agree(ours(x), theirs(x)) and agree(ours(x, recurrent=True), theirs(x))
    for module in theirs, ours:  # the comparison would notice another order of value heads
        weight = module.norm.weight
        weight.copy_(weight.roll(1))
    assert agree(ours(x), theirs(x))
    ours.norm.weight.copy_(ours.norm.weight.roll(1))
    assert not agree(ours(x), theirs(x))


@torch.no_grad()
def test_prefill_and_steps_equal_qwen3_nexts_with_its_cache():
    theirs, ours = theirs_and_ours()
    x, cache, state = torch.randn(B, T, C), DynamicCache(config=CONFIG), StateCache()
    for part in x.split([9, 1, 1, 1, 11], 1):
        assert agree(ours(part, cache=state), theirs(part, cache_params=cache))
    assert len(state) == T and agree(state.state, cache.get_recurrent_state(0, state_idx=0))
    assert state.nbytes == state.reserved_bytes == 4 * B * (H * D * V + TAPS * (2 * KEYS * D + H * V))


@torch.no_grad()
def test_decoding_equals_recomputing_with_a_state_that_does_not_grow():
    _, ours = theirs_and_ours()
    x, cache, sizes = torch.randn(B, T, C), StateCache(), set()
    steps = []
    for t in range(T):
        steps.append(ours(x[:, t : t + 1], cache=cache))
        sizes.add(cache.nbytes)
    assert agree(torch.cat(steps, 1), ours(x)) and len(sizes) == 1
    with pytest.raises(ValueError, match="holds no earlier one"):
        cache.cut(T - 1)
    cache.cut(0)
    assert not len(cache) and agree(ours(x[:, :5], cache=cache), ours(x[:, :5]))


@torch.no_grad()
def test_padding_in_front_changes_nothing():
    _, ours = theirs_and_ours()
    x, pads = torch.randn(B, T, C), 3
    padded = torch.cat((torch.randn(B, pads, C), x), 1)
    mask = torch.ones(T + pads, T + pads, dtype=torch.bool).tril() & (torch.arange(T + pads) >= pads)
    assert agree(ours(padded, mask=mask)[:, pads:], ours(x))
    assert not agree(ours(padded)[:, pads:], ours(x))


@torch.no_grad()
def test_what_is_recorded_belongs_together():
    _, ours = theirs_and_ours()
    found: dict[str, Tensor] = {}
    x = torch.randn(B, T, C)
    output = ours(x, record=lambda **each: found.update(each))
    assert agree(output, ours(x)) and found["k"].shape == (B, KEYS, T, D) and found["q"].shape == (B, H, T, D)
    assert agree(found["weights"] @ found["v"], found["rule_output"])
    keys = found["k"].repeat_interleave(H // KEYS, 1)
    again, state = gated_delta_rule(found["q"], keys, found["v"], found["decay"], found["beta"])
    assert agree(again, found["rule_output"]) and agree(state, found["state"])
    assert agree(found["k"].norm(dim=-1), torch.ones(B, KEYS, T), 1e-3) and 0 < found["decay"].min() < 1


def test_sizes_that_do_not_fit_are_refused():
    with pytest.raises(ValueError, match="n_key_heads must divide n_heads = 6"):
        GatedDeltaNet(C, H, 4, key_dim=D, head_dim=V)
    with pytest.raises(ValueError, match="rope must be None"):
        GatedDeltaNet(C, H, KEYS, key_dim=D, head_dim=V)(torch.randn(1, 2, C), rope=lambda q, start: q)
