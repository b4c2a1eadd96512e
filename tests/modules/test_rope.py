"""RoPE against transformers' own rotations and frequencies, against forty-digit arithmetic, and by hand."""

import itertools
import math
from decimal import Decimal, getcontext

import pytest
import torch
from transformers import LlamaConfig, modeling_rope_utils
from transformers.modeling_rope_utils import ROPE_INIT_FUNCTIONS
from transformers.models.gpt_neox.modeling_gpt_neox import apply_rotary_pos_emb as neox_rotary
from transformers.models.gptj.modeling_gptj import apply_rotary_pos_emb as gptj_rotary
from transformers.models.llama.modeling_llama import LlamaRotaryEmbedding
from transformers.models.llama.modeling_llama import apply_rotary_pos_emb as llama_rotary

from attnviz.config import ROPE_LAYOUTS, ConfigError, ModelConfig
from attnviz.modules import Recording, Transformer
from attnviz.modules.rope import LAYOUTS, Rope, apply_rope, half_from_interleaved, rope_frequencies, rotate
from attnviz.modules.rope_scaling import RopeScaling, scaled_rope_frequencies

DIMS_AND_THETAS = [(8, 100.0), (10, 10000.0), (64, 10000.0), (96, 500000.0), (128, 1000000.0), (254, 10000000.0)]
SCALINGS = [
    {"rope_type": "linear", "factor": 1.0},
    {"rope_type": "linear", "factor": 7.5},
    {"rope_type": "dynamic", "factor": 1.0},
    {"rope_type": "dynamic", "factor": 3.0},
    {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 2048},
    {"rope_type": "yarn", "factor": 40, "original_max_position_embeddings": 4096, "beta_fast": 16, "beta_slow": 2},
    {"rope_type": "yarn", "factor": 32.0, "original_max_position_embeddings": 4096, "truncate": False},
    {"rope_type": "yarn", "factor": 8.0, "original_max_position_embeddings": 64, "attention_factor": 1.25},
    {"rope_type": "yarn", "factor": 40.0, "original_max_position_embeddings": 4096, "mscale": 0.7, "mscale_all_dim": 1},
    {"rope_type": "yarn", "factor": 32.0, "original_max_position_embeddings": 4096, "beta_fast": 1.0, "beta_slow": 1.0},
    {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 4096, "beta_fast": 2, "beta_slow": 2,
     "truncate": False},
    {"rope_type": "yarn", "factor": None, "original_max_position_embeddings": 2048},
    {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
     "original_max_position_embeddings": 2048},
    {"rope_type": "llama3", "factor": 32.0, "low_freq_factor": 0.5, "high_freq_factor": 16.0,
     "original_max_position_embeddings": 512},
    {"rope_type": "longrope", "original_max_position_embeddings": 1024},
    {"rope_type": "longrope", "factor": 16.0, "original_max_position_embeddings": 4096},
    {"rope_type": "longrope", "factor": 2.0, "original_max_position_embeddings": 300, "attention_factor": 1.5},
]  # fmt: skip
MAX_CONTEXT = 8192
YARN = {"type": "yarn", "factor": 2, "original_max_position_embeddings": 64}


def with_factors(scaling: dict, head_dim: int) -> dict:
    """Return invented LongRoPE factors of the right length."""
    if scaling["rope_type"] != "longrope":
        return scaling
    pairs = range(head_dim // 2)
    return scaling | {"short_factor": [1 + i / 50 for i in pairs], "long_factor": [1.5 + i * i / 9 for i in pairs]}


class TorchInDouble:
    """A torch module whose float32 is float64, for transformers' frequency functions, which round to torch.float32."""

    float = float32 = torch.float64

    def __getattr__(self, name: str):
        return getattr(torch, name)


def theirs(scaling: dict, head_dim: int, theta: float, length: int | None):
    config = LlamaConfig(
        hidden_size=head_dim, num_attention_heads=1, max_position_embeddings=MAX_CONTEXT,
        rope_parameters=dict(scaling, rope_theta=theta),
    )  # fmt: skip
    return ROPE_INIT_FUNCTIONS[scaling["rope_type"]](config, "cpu", length)


@pytest.mark.parametrize("scaling", SCALINGS, ids=lambda s: "-".join(map(str, s.values())))
def test_every_method_has_the_frequencies_of_transformers(scaling, monkeypatch):
    """Once with transformers as it is, and then with its float32 replaced by float64, which shows smaller errors."""
    rtol = 1e-5 if scaling.get("truncate") is False else 1e-6  # a float32 ramp that ends near 1 loses digits
    assert_frequencies(scaling, DIMS_AND_THETAS[2:3], rtol)
    monkeypatch.setattr(modeling_rope_utils, "torch", TorchInDouble())
    rounded_by_method = scaling["rope_type"] == "longrope"  # its exponents
    assert_frequencies(scaling, DIMS_AND_THETAS, 1e-6 if rounded_by_method else 1e-12)


def assert_frequencies(scaling: dict, dims_and_thetas: list, rtol: float) -> None:
    depends_on_length = scaling["rope_type"] in ("dynamic", "longrope")
    for head_dim, theta in dims_and_thetas:
        given = with_factors(scaling, head_dim)
        ours = RopeScaling.of(given, MAX_CONTEXT)
        for length in (None, 5, 1024, 8192, 8193, 100000) if depends_on_length else (None, 100000):
            expected, attention_factor = theirs(given, head_dim, theta, length)
            frequencies = scaled_rope_frequencies(head_dim, theta, ours, length)
            assert frequencies.dtype == torch.float64 and frequencies.shape == (head_dim // 2,)
            torch.testing.assert_close(frequencies, expected.double(), rtol=rtol, atol=0)
            assert ours.attention_factor == pytest.approx(attention_factor, rel=1e-12)


@pytest.mark.parametrize(("head_dim", "theta"), DIMS_AND_THETAS)
def test_unscaled_frequencies_are_those_of_transformers(head_dim, theta):
    config = LlamaConfig(hidden_size=head_dim, num_attention_heads=1, rope_parameters={"rope_theta": theta})
    expected = LlamaRotaryEmbedding(config).inv_freq
    torch.testing.assert_close(rope_frequencies(head_dim, theta), expected.double(), rtol=1e-6, atol=0)


def test_ntk_is_dynamic_ntk_held_at_one_length():
    # at twice the training context, dynamic NTK with factor f stretches by 2f - (f - 1) = f + 1
    for (head_dim, theta), factor in itertools.product(DIMS_AND_THETAS, (1.0, 3.0, 12.5)):
        expected, _ = theirs({"rope_type": "dynamic", "factor": factor}, head_dim, theta, 2 * MAX_CONTEXT)
        ours = scaled_rope_frequencies(head_dim, theta, {"type": "ntk", "factor": factor + 1})
        torch.testing.assert_close(ours, expected.double(), rtol=1e-6, atol=0)


def test_what_each_method_promises_of_the_fastest_and_the_slowest_pair():
    plain = rope_frequencies(64)
    trained = {"original_max_position_embeddings": 2048}
    llama3 = {"type": "llama3", "factor": 4.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0, **trained}
    for scaling, fastest in (
        ({"type": "linear", "factor": 4.0}, 4.0),
        ({"type": "ntk", "factor": 4.0}, 1.0),
        ({"type": "yarn", "factor": 4.0, **trained}, 1.0),
        (llama3, 1.0),
    ):
        slowed = plain / scaled_rope_frequencies(64, scaling=scaling)
        assert slowed[0] == pytest.approx(fastest, rel=1e-12) and slowed[-1] == pytest.approx(4.0, rel=1e-12)
        assert (slowed.diff() >= -1e-12).all()


def test_a_scaling_is_one_hashable_value_however_it_is_given():
    published = {"rope_type": "yarn", "type": "yarn", "factor": 4.0, "original_max_position_embeddings": 32768}
    as_pairs = tuple(published.items())
    one = RopeScaling.of(published)
    assert one == RopeScaling.of(as_pairs) == RopeScaling.of(one) and len({one, RopeScaling.of(as_pairs)}) == 1
    assert RopeScaling.of(None) is RopeScaling.of({"type": "default"}) is None
    torch.testing.assert_close(scaled_rope_frequencies(8, scaling={"rope_type": "default"}), rope_frequencies(8))
    longrope = with_factors({"rope_type": "longrope", "factor": 2, "original_max_position_embeddings": 16}, 6)
    assert isinstance(hash(RopeScaling.of(longrope)), int)


@pytest.mark.parametrize(
    "scaling, message",
    [
        ({"factor": 2}, r"rope_type must be one of .*linear.* not missing"),
        ({"type": "su", "factor": 2}, r"rope_type must be one of .*longrope, not 'su'"),
        ({"type": "linear", "rope_type": "yarn", "factor": 2}, r"rope_type must be one of .* not 'yarn' and 'linear'"),
        ({"type": "linear"}, r"rope_scaling.factor must be a number of at least 1, not None"),
        ({"type": "linear", "factor": 0.5}, r"rope_scaling.factor must be a number of at least 1, not 0.5"),
        ({"type": "linear", "factor": math.nan}, r"factor must be a number of at least 1, not nan"),
        ({"type": "linear", "factor": True}, r"factor must be a number of at least 1, not True"),
        ({"type": "linear", "factor": "2"}, r"factor must be a number of at least 1, not '2'"),
        ({"type": "linear", "facotr": 2}, r"of type linear has the fields factor, not 'facotr'"),
        ({"type": "dynamic", "factor": 2}, r"original_max_position_embeddings must be a whole number .* not None"),
        (YARN | {"original_max_position_embeddings": 0.5}, r"must be a whole number of at least 2, not 0.5"),
        (YARN | {"beta_fast": 0.5}, r"beta_slow must be at most beta_fast = 0.5, not 1.0"),
        (YARN | {"beta_slow": 0}, r"beta_slow must be a number above 0, not 0"),
        (YARN | {"truncate": 1}, r"truncate must be True or False, not 1"),
        ({"type": "llama3", "factor": 2, "original_max_position_embeddings": 64, "low_freq_factor": 4,
          "high_freq_factor": 1}, r"low_freq_factor must be below high_freq_factor = 1, not 4"),
        ({"type": "longrope", "factor": 2, "original_max_position_embeddings": 64, "short_factor": [1.0] * 4},
         r"long_factor must be positive numbers, one for each pair, not None"),
        ({"type": "longrope", "factor": 2, "original_max_position_embeddings": 64, "short_factor": [1.0] * 3,
          "long_factor": [1.0] * 4}, r"short_factor must hold 4 numbers, one per pair, not 3"),
    ],
)  # fmt: skip
def test_an_impossible_scaling_is_refused_by_field_value_and_range(scaling, message):
    with pytest.raises(ConfigError, match=message):
        scaled_rope_frequencies(8, scaling=scaling)


def test_yarn_refuses_a_context_in_which_nothing_turns():
    with pytest.raises(ConfigError, match="original_max_position_embeddings = 2 leaves YaRN no pair"):
        scaled_rope_frequencies(64, scaling=YARN | {"original_max_position_embeddings": 2})


@pytest.mark.parametrize("head_dim", [0, 1, 7, -2, 8.0, True])
def test_a_head_that_cannot_be_split_into_pairs_is_refused(head_dim):
    with pytest.raises(ValueError, match="head_dim must be an even number of at least 2"):
        rope_frequencies(head_dim)


@pytest.mark.parametrize("theta", [1.0, 0.0, -5.0, math.inf, math.nan])
def test_an_impossible_theta_is_refused(theta):
    with pytest.raises(ValueError, match="theta must be a finite number above 1"):
        rope_frequencies(8, theta)


def test_ntk_needs_two_pairs():
    with pytest.raises(ConfigError, match="head_dim must be at least 4"):
        scaled_rope_frequencies(2, scaling={"type": "ntk", "factor": 2})


# The rotation itself


def cos_sin(positions: torch.Tensor, frequencies: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    angles = positions.double()[:, None] * frequencies
    return angles.cos(), angles.sin()


def test_half_layout_is_llamas():
    q, k = torch.randn(3, 5, 7, 22, dtype=torch.float64), torch.randn(3, 2, 7, 22, dtype=torch.float64)
    positions, frequencies = torch.arange(4, 11), rope_frequencies(22, 500000.0)
    cos, sin = (torch.cat((t, t), dim=-1)[None] for t in cos_sin(positions, frequencies))  # (1, T, D)
    for ours, theirs in zip((q, k), llama_rotary(q, k, cos, sin), strict=True):
        torch.testing.assert_close(apply_rope(ours, positions, frequencies), theirs, rtol=0, atol=1e-14)


def test_interleaved_layout_is_gptjs():
    x = torch.randn(3, 7, 5, 22, dtype=torch.float64)  # (B, T, H, D), GPT-J's order
    positions, frequencies = torch.arange(4, 11), rope_frequencies(22)
    cos, sin = (t[None] for t in cos_sin(positions, frequencies))
    theirs = gptj_rotary(x, sin, cos).transpose(1, 2)  # (B, H, T, D)
    ours = apply_rope(x.transpose(1, 2), positions, frequencies, "interleaved")
    torch.testing.assert_close(ours, theirs, rtol=0, atol=1e-14)


def test_partial_rotation_is_neoxs():
    q, k = torch.randn(3, 5, 7, 22, dtype=torch.float64), torch.randn(3, 5, 7, 22, dtype=torch.float64)
    positions, frequencies = torch.arange(7), rope_frequencies(6)  # 6 of 22 dimensions
    cos, sin = (torch.cat((t, t), dim=-1)[None] for t in cos_sin(positions, frequencies))
    theirs, _ = neox_rotary(q, k, cos, sin)
    torch.testing.assert_close(apply_rope(q, positions, frequencies), theirs, rtol=0, atol=1e-14)
    assert torch.equal(apply_rope(q, positions, frequencies)[..., 6:], q[..., 6:])


def test_one_rotation_solved_by_hand():
    quarter = torch.tensor([math.pi / 2, math.pi / 6])  # a quarter turn and 30 degrees for each position
    x = torch.tensor([[1.0, 2.0, 3.0, 4.0]])
    root = math.sqrt(3) / 2
    half = [[-3.0, 2 * root - 4 / 2, 1.0, 4 * root + 2 / 2]]  # pairs (1, 3) and (2, 4)
    interleaved = [[-2.0, 1.0, 3 * root - 4 / 2, 4 * root + 3 / 2]]  # pairs (1, 2) and (3, 4)
    torch.testing.assert_close(apply_rope(x, torch.tensor([1]), quarter), torch.tensor(half))
    torch.testing.assert_close(apply_rope(x, torch.tensor([1]), quarter, "interleaved"), torch.tensor(interleaved))
    torch.testing.assert_close(apply_rope(x, torch.tensor([0]), quarter), x)


def test_lengths_are_kept_and_the_input_is_not_written_to():
    x = torch.randn(5, 7, 26)
    before = x.clone()
    for layout in ("half", "interleaved"):
        turned = apply_rope(x, torch.arange(7) * 1000, rope_frequencies(26), layout)
        torch.testing.assert_close(turned.norm(dim=-1), x.norm(dim=-1))
        assert not torch.allclose(turned[:, 1:], x[:, 1:])
    assert torch.equal(x, before)


@pytest.mark.parametrize("rotary_dim", [22, 6])
def test_the_layouts_differ_by_one_permutation(rotary_dim):
    q, k = torch.randn(7, 22, dtype=torch.float64), torch.randn(7, 22, dtype=torch.float64)
    positions, frequencies = torch.arange(7), rope_frequencies(rotary_dim)
    order = half_from_interleaved(22, rotary_dim)
    assert sorted(order.tolist()) == list(range(22))

    def scores(q, k, layout):
        return apply_rope(q, positions, frequencies, layout) @ apply_rope(k, positions, frequencies, layout).mT

    interleaved = scores(q, k, "interleaved")
    torch.testing.assert_close(
        apply_rope(q, positions, frequencies, "interleaved")[..., order],
        apply_rope(q[..., order], positions, frequencies, "half"),
    )
    torch.testing.assert_close(scores(q[..., order], k[..., order], "half"), interleaved)
    assert (scores(q, k, "half") - interleaved).abs().max() > 0.1  # the classic mistake: right shapes, wrong scores


@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float32, 2e-5), (torch.float64, 2e-9)])
@pytest.mark.parametrize("layout", ["half", "interleaved"])
def test_a_score_depends_on_the_distance_alone(dtype, tolerance, layout):
    q, k = torch.randn(1, 34, dtype=dtype), torch.randn(1, 34, dtype=dtype)
    frequencies = rope_frequencies(34)

    def score(m: int, n: int) -> float:
        turned = (apply_rope(x, torch.tensor([at]), frequencies, layout) for x, at in ((q, m), (k, n)))
        return float(next(turned) @ next(turned).mT)

    here = score(11, 3)
    for shift in (1, 17, 1000, 100_000):
        assert score(11 + shift, 3 + shift) == pytest.approx(here, abs=tolerance)
    assert abs(score(12, 3) - here) > 100 * tolerance  # it does depend on the distance


def exact_cos_sin(position: int, pair: int, head_dim: int, theta: int) -> tuple[float, float]:
    """Compute in forty digits: theta^(-2i/d) by logarithm, times the position, modulo one turn before rounding."""
    getcontext().prec = 50
    turn = 2 * Decimal("3.14159265358979323846264338327950288419716939937510582097")
    angle = (Decimal(-2 * pair) / head_dim * Decimal(theta).ln()).exp() * position
    return math.cos(float(angle % turn)), math.sin(float(angle % turn))


@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float32, 1e-7), (torch.float64, 1e-9)])
def test_positions_up_to_a_million_are_as_exact_as_the_type_allows(dtype, tolerance):
    head_dim, theta = 14, 10000
    positions = [0, 1, 999, 65_537, 524_288, 999_999, 1_000_000]
    ones = torch.zeros(len(positions), head_dim, dtype=dtype)
    ones[:, : head_dim // 2] = 1.0  # (1, 0) in every pair becomes (cos, sin)
    turned = apply_rope(ones, torch.tensor(positions), rope_frequencies(head_dim, theta))
    exact = [[exact_cos_sin(p, i, head_dim, theta) for i in range(head_dim // 2)] for p in positions]
    expected = torch.tensor(exact, dtype=torch.float64).transpose(1, 2).reshape(len(positions), head_dim)
    assert (turned.double() - expected).abs().max() < tolerance


def test_angles_in_float32_would_not_be():
    """The test above can fail: the usual float32 angles have an error ten thousand times as large."""
    frequencies = rope_frequencies(14).float()
    x = torch.zeros(1, 14)
    x[:, :7] = 1.0
    naive = rotate(x, torch.tensor([[999_999.0]]) * frequencies)
    exact = torch.tensor([exact_cos_sin(999_999, i, 14, 10000) for i in range(7)], dtype=torch.float64)
    assert (naive[0].double() - exact.mT.reshape(-1)).abs().max() > 1e-3


def test_more_frequencies_than_pairs_are_refused():
    with pytest.raises(ValueError, match="5 frequencies rotate 10 dimensions, x has 8"):
        apply_rope(torch.randn(3, 8), torch.arange(3), rope_frequencies(10))
    assert LAYOUTS == ROPE_LAYOUTS
    with pytest.raises(ValueError, match="layout must be one of half, interleaved, not 'both'"):
        apply_rope(torch.randn(3, 8), torch.arange(3), rope_frequencies(8), "both")


def test_the_attention_factor_scales_what_turns_and_nothing_else():
    x, positions, frequencies = torch.randn(7, 22), torch.arange(7), rope_frequencies(6)
    plain, scaled = apply_rope(x, positions, frequencies), Rope(frequencies, attention_factor=1.5)(x)
    torch.testing.assert_close(scaled[:, :6], plain[:, :6] * 1.5)
    assert torch.equal(scaled[:, 6:], x[:, 6:])


# In the model


SMALL = dict(n_layers=2, d_model=34, n_heads=2, head_dim=10, vocab_size=53, max_context=16)


def test_the_model_turns_by_its_scaling_and_the_length_of_its_text():
    dynamic = Transformer.random(ModelConfig(**SMALL, rope_scaling=(("rope_type", "dynamic"), ("factor", 2.0))), seed=0)
    given = {"type": "dynamic", "factor": 2.0, "original_max_position_embeddings": 16}
    record = Recording()
    dynamic(torch.arange(29)[None], record=record)
    expected = apply_rope(record[0].q_pre_rope, torch.arange(29), scaled_rope_frequencies(10, scaling=given, length=29))
    torch.testing.assert_close(record[0].q, expected)
    plain = dynamic.with_config(ModelConfig(**SMALL))
    short = torch.arange(16)[None]
    assert torch.equal(dynamic(short), plain(short))
    assert not torch.allclose(dynamic(torch.arange(29)[None]), plain(torch.arange(29)[None]))


def test_yarns_attention_factor_reaches_the_scores():
    pairs = (("rope_type", "yarn"), ("factor", 8.0), ("original_max_position_embeddings", 16))
    model = Transformer.random(ModelConfig(**SMALL, rope_scaling=pairs), seed=0)
    record = Recording()
    model(torch.arange(7)[None], record=record)
    factor = 0.1 * math.log(8.0) + 1
    torch.testing.assert_close(record[0].q.norm(dim=-1), record[0].q_pre_rope.norm(dim=-1) * factor)


def test_mscale_all_dim_changes_the_softmax_scale_of_latent_attention_alone():
    pairs = (("rope_type", "yarn"), ("factor", 8.0), ("original_max_position_embeddings", 16), ("mscale_all_dim", 1.5))
    latent = ModelConfig(
        1, 34, 2, vocab_size=53, attention="mla", kv_lora_rank=7, qk_nope_head_dim=4, qk_rope_head_dim=6, v_head_dim=5,
        rope_scaling=pairs,
    )  # fmt: skip
    for config, factor in ((ModelConfig(**SMALL, rope_scaling=pairs), 1.0), (latent, (0.15 * math.log(8) + 1) ** 2)):
        record = Recording()
        Transformer.random(config, seed=0)(torch.arange(7)[None], record=record)
        assert record[0].scale == pytest.approx(factor / 10**0.5)


def test_a_model_with_an_impossible_scaling_is_refused():
    with pytest.raises(ConfigError, match="rope_scaling.factor must be a number of at least 1"):
        Transformer(ModelConfig(**SMALL, rope_scaling=(("type", "linear"), ("factor", -1))))


def test_values_are_never_turned():
    on = Transformer.random(ModelConfig(**SMALL), seed=0)
    off = on.with_config(ModelConfig(**SMALL, position="none"))
    ids, with_rope, without = torch.arange(7)[None], Recording(), Recording()
    on(ids, record=with_rope), off(ids, record=without)
    assert torch.equal(with_rope[0].v, without[0].v)
    assert torch.equal(with_rope[0].q_pre_rope, without[0].q) and not torch.equal(with_rope[0].q, without[0].q)
