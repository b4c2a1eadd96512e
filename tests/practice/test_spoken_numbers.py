"""The numbers of the spoken questions, recomputed from the models' config.json and data sheets without attnviz.cost."""

import math
import re
from dataclasses import dataclass, field

import pytest
import torch

from attnviz.compute import placeholders, spoken
from attnviz.compute.published_numbers import PUBLISHED
from attnviz.compute.view import View
from attnviz.session.lesson import placeholder
from attnviz.session.settings import Settings

DECK = spoken.deck()
DEVICES = {  # bytes that nvidia-smi reports, bytes per second, dense 16-bit FLOP/s
    "h100-sxm": (81_559 * 2**20, 3.35e12, 989e12),
    "h200-sxm": (143_771 * 2**20, 4.8e12, 989e12),
}
RESERVE, BF16, LINK = 0.1, 2, 50e9
BITS = {"bf16": 16, "fp8": 8, "int4": 4 + 16 / 32}  # int4: a 16-bit scale for each 32 numbers


@dataclass(frozen=True)
class Sizes:
    """A published model. caches: (layers, numbers per token, window or None); state: bytes per sequence."""

    layers: int
    heads: int = 0
    kv_heads: int = 0
    dim: int = 0
    d_model: int = 0
    d_ff: int = 0
    vocabulary: int = 0
    theta: float = 0
    rotated: int = 0
    trained: int = 0
    caches: tuple[tuple[int, float, int | None], ...] = ()
    state: int = 0
    facts: dict[str, int] = field(default_factory=dict)

    def cache(self, tokens: int, bits: float = 16) -> float:
        return self.state + sum(n * each * min(tokens, w or tokens) * bits / 8 for n, each, w in self.caches)

    def per_token(self, kv_heads: int = 0) -> int:
        if kv_heads:
            return self.layers * 2 * kv_heads * self.dim * BF16
        return sum(n * each for n, each, _ in self.caches) * BF16

    def attention(self, kv_heads: int) -> int:
        return self.d_model * self.dim * 2 * (self.heads + kv_heads)

    def embedding(self) -> int:
        return self.vocabulary * self.d_model

    def inner(self) -> int:
        """Return the parameters of all matrices but the embedding and the output layer."""
        return self.layers * (self.attention(self.kv_heads) + 3 * self.d_model * self.d_ff)

    def parameters(self) -> int:
        return self.inner() + (2 * self.layers + 1) * self.d_model + 2 * self.embedding()


def llama(layers: int, heads: int, kv_heads: int, d_model: int, d_ff: int, vocabulary: int, theta: float, trained: int) -> Sizes:  # fmt: skip  # noqa: E501
    return Sizes(layers, heads, kv_heads, 128, d_model, d_ff, vocabulary, theta, 128, trained,
                 caches=((layers, 2 * kv_heads * 128, None),))  # fmt: skip


R, P, NOPE, V, Q_RANK = 512, 64, 128, 128, 1536  # DeepSeek-V3: latent, RoPE key, head's widths, rank of queries
INDEX_HEADS, INDEX_DIM, TOP_K = 64, 128, 2048  # DeepSeek-V3.2


def deepseek(index_key: int = 0) -> Sizes:
    return Sizes(61, 128, dim=V, d_model=7168, vocabulary=129_280, caches=((61, R + P + index_key, None),))


MODELS = {
    "llama-2-7b": llama(32, 32, 32, 4096, 11_008, 32_000, 10_000, 4096),
    "llama-3-8b": llama(32, 32, 8, 4096, 14_336, 128_256, 500_000, 8192),
    "llama-3.1-8b": llama(32, 32, 8, 4096, 14_336, 128_256, 500_000, 131_072),
    "llama-3.1-70b": llama(80, 64, 8, 8192, 28_672, 128_256, 500_000, 131_072),
    "glm-4-9b": Sizes(40, 32, 2, 128, rotated=64),
    "deepseek-v3": deepseek(),
    "deepseek-v3.1": deepseek(),
    "deepseek-v3.2": deepseek(INDEX_DIM),
    "deepseek-v4-pro": Sizes(61, caches=(  # an entry for four tokens, with an index key, or for 128; a window of 128
        (30, (512 + 128) / 4, None), (31, 512 / 128, None), (61, 512, 128),
    )),
    "gemma-3-27b": Sizes(62, caches=((52, 2 * 16 * 128, 1024), (10, 2 * 16 * 128, None)), facts={"full": 10}),
    "gemma-4-e4b": Sizes(42, facts={"readers": 18}),
    "gemma-3n-e4b": Sizes(35, caches=((16, 2 * 2 * 256, 512), (4, 2 * 2 * 256, None)), facts={"readers": 15}),
    "gpt-oss-20b": Sizes(24, caches=((12, 2 * 8 * 64, 128), (12, 2 * 8 * 64, None)), facts={"full": 12}),
    "qwen3-next-80b-a3b": Sizes(  # 32 value heads of 128 × 128, float32; convolutions keep four inputs in bf16
        48, d_model=2048, caches=((12, 2 * 2 * 256, None),), facts={"full": 12, "states": 36},
        state=36 * (32 * 128 * 128 * 4 + (2 * 16 * 128 + 32 * 128) * 4 * BF16),
    ),
    "qwen3.5-397b-a17b": Sizes(60, facts={"full": 60 // 4, "states": 60 - 60 // 4}),  # full_attention_interval 4
    "kimi-linear-48b-a3b": Sizes(27, facts={"full": 7, "states": 20}),
    "minimax-text-01": Sizes(80, facts={"full": 10, "states": 70}),
    "minimax-m2": Sizes(62, facts={"full": 62}),
    "falcon-mamba-7b": Sizes(64, state=64 * 8192 * (16 * 4 + 4 * BF16)),
}  # fmt: skip


# ---- DeepSeek-V3: parameters, and the two forms of MLA

COPIED = 61 * 7168 * (Q_RANK + R + P) + 61 * (2 * 7168 + Q_RANK + R) + 58 * 256 * 7168  # not divided by heads
BY_HEADS = 61 * 128 * (Q_RANK * (NOPE + P) + R * (NOPE + V) + V * 7168)
EXPERT = 3 * 7168 * 2048
OTHERS = 3 * 3 * 7168 * 18_432 + 58 * 257 * EXPERT + 2 * 129_280 * 7168
USED = COPIED + BY_HEADS + 3 * 3 * 7168 * 18_432 + 58 * 9 * EXPERT + 129_280 * 7168  # output layer, no embedding


def absorbed(new: int, context: int) -> int:
    """Return the FLOPs of one head for `new` tokens at the end of a context."""
    return 2 * sum(t * (R + P + R) for t in range(context - new + 1, context + 1)) + 2 * new * R * (NOPE + V)


def expanded(new: int, context: int) -> int:
    return 2 * sum(t * (NOPE + P + V) for t in range(context - new + 1, context + 1)) + 2 * context * R * (NOPE + V)


def first_expanded(context: int) -> int:
    return next(n for n in range(1, context) if expanded(n, context) < absorbed(n, context))


# ---- one accelerator or several


@dataclass(frozen=True)
class Asked:
    """A model and settings of the Cost page."""

    m: Sizes
    s: Settings

    @property
    def device(self) -> tuple[float, float, float]:
        memory, bandwidth, flops = DEVICES[self.s.machine]
        return memory, bandwidth * self.s.n_machines, flops * self.s.n_machines

    def pairs(self, tokens: float) -> float:
        """Return the FLOPs of scores and weighted sums for so many query–key pairs of each head."""
        if self.m.kv_heads:
            return self.m.layers * 4 * self.m.heads * self.m.dim * tokens
        kept = min(tokens, TOP_K) if self.m is MODELS["deepseek-v3.2"] else tokens
        index = 0 if kept == tokens else 2 * INDEX_HEADS * (INDEX_DIM + 1) * tokens
        return self.m.layers * (2 * self.m.heads * (R + P + R) * kept + index)

    def read(self) -> float:
        return BF16 * (self.m.parameters() - self.m.embedding())

    def flops(self) -> float:
        return 2 * (self.m.inner() + self.m.embedding()) + self.pairs(self.s.context)

    def step(self) -> float:
        return (self.read() + self.s.batch * self.m.cache(self.s.context)) / self.device[1]

    def prompt(self) -> tuple[float, float]:
        """Return the FLOPs of attention in a prompt, the masked half skipped, and all; one token reaches the output."""
        T = self.s.context
        attention = self.pairs(T * (T + 1) / 2)
        return attention, attention + 2 * T * self.m.inner() + 2 * self.m.embedding()

    def weights_on_one(self) -> float:
        n, size = self.s.n_machines, BITS[self.s.weights] / 8
        if self.m.kv_heads:
            return size * self.m.parameters() / n
        if self.s.parallel == "data":
            return size * (COPIED + BY_HEADS + OTHERS / n)
        return size * (COPIED + (BY_HEADS + OTHERS) / n)

    def cache_on_one(self) -> float:
        """Return the bytes per token: an eighth with eight KV heads on eight devices or more, all of a latent."""
        return self.m.per_token() / (min(self.s.n_machines, self.m.kv_heads) or 1)

    def fitting(self) -> int:
        groups = self.s.n_machines if self.s.parallel == "data" else 1
        room = self.device[0] * (1 - RESERVE) - self.weights_on_one()
        return groups * int(room // (self.cache_on_one() * self.s.context))

    def turning(self) -> int:
        n = 1
        while n * self.flops() / self.device[2] < (self.read() + n * self.m.cache(self.s.context)) / self.device[1]:
            n += 1
        return n


def wavelengths(m: Sizes) -> list[float]:
    return [2 * math.pi * m.theta ** (2 * i / m.rotated) for i in range(m.rotated // 2)]


VALUES = {
    "published_layers": lambda a: a.m.layers,
    "published_heads": lambda a: a.m.heads,
    "published_kv_heads": lambda a: a.m.kv_heads,
    "published_group_size": lambda a: a.m.heads / a.m.kv_heads,
    "published_head_dim": lambda a: a.m.dim,
    "published_sqrt_head_dim": lambda a: a.m.dim**0.5,
    "published_d_model": lambda a: a.m.d_model,
    "published_d_ff": lambda a: a.m.d_ff,
    "published_max_context": lambda a: a.m.trained,
    "published_theta": lambda a: a.m.theta,
    "published_pairs": lambda a: a.m.rotated / 2,
    "published_longest_wavelength": lambda a: wavelengths(a.m)[-1],
    "published_slow_pairs": lambda a: sum(each > a.m.trained for each in wavelengths(a.m)),
    "published_parameters": lambda a: a.m.parameters() if a.m.kv_heads else COPIED + BY_HEADS + OTHERS,
    "published_active": lambda a: USED,
    "published_kv_parameters": lambda a: a.m.layers * 2 * a.m.d_model * a.m.kv_heads * a.m.dim,
    "published_kv_parameters_mha": lambda a: a.m.layers * 2 * a.m.d_model * a.m.heads * a.m.dim,
    "published_weights": lambda a: BF16 * a.m.parameters(),
    "published_weights_gb": lambda a: BF16 * a.m.parameters(),
    "published_cache": lambda a: a.m.per_token(),
    "published_cache_short": lambda a: a.m.per_token(),
    "published_cache_mha": lambda a: a.m.per_token(a.m.heads),
    "published_cache_gqa_8": lambda a: a.m.per_token(8),
    "published_cache_mqa": lambda a: a.m.per_token(1),
    "published_cache_expanded": lambda a: 61 * 128 * (NOPE + P + V) * BF16,
    "published_times_smaller": lambda a: a.m.per_token(a.m.heads) / a.m.per_token(),
    "published_numbers": lambda a: a.m.caches[0][1],
    "published_numbers_mqa": lambda a: 2 * a.m.dim,
    "published_value_dim": lambda a: V,
    "published_equal_kv_heads": lambda a: (R + P) / (2 * V),
    "published_cache_at_context": lambda a: a.s.batch * a.m.cache(a.s.context, BITS[a.s.precision]),
    "published_cache_unwindowed": lambda a: a.s.context * a.m.per_token(),
    "published_even": lambda a: BF16 * a.m.parameters() / a.m.per_token(),
    "published_state": lambda a: a.m.state,
    "published_state_tokens": lambda a: a.m.state / a.m.facts["states"] / (a.m.caches[0][1] * BF16),
    "published_window": lambda a: a.m.caches[0][2],
    "published_windowed_layers": lambda a: a.m.caches[0][0],
    "published_full_layers": lambda a: a.m.facts["full"],
    "published_state_layers": lambda a: a.m.facts["states"],
    "published_reading_layers": lambda a: a.m.facts["readers"],
    "published_top_k": lambda a: TOP_K,
    "published_latent": lambda a: R,
    "published_rope_key": lambda a: P,
    "published_scores": lambda a: a.m.heads * a.s.context**2 * BF16,
    "published_vectors": lambda a: a.s.context * 2 * (a.m.heads + a.m.kv_heads) * a.m.dim * BF16,
    "published_pairs_scored": lambda a: sum(range(1, a.s.context + 1)),
    "published_attention_flops": lambda a: a.pairs(a.s.context),
    "published_attention_share": lambda a: a.prompt()[0] / a.prompt()[1],
    "published_first_expanded": lambda a: first_expanded(a.s.context),
    "published_times_expanded": lambda a: expanded(1, a.s.context) / absorbed(1, a.s.context),
    "weights_on_one": lambda a: a.weights_on_one(),
    "cache_on_one": lambda a: a.cache_on_one(),
    "cache_on_all": lambda a: a.s.n_machines * a.cache_on_one(),
    "fitting_sequences": lambda a: a.fitting(),
    "accelerators": lambda a: a.s.n_machines,
    "memory": lambda a: a.device[0],
    "memory_sold": lambda a: {"h100-sxm": 80e9, "h200-sxm": 141e9}[a.s.machine],
    "bandwidth": lambda a: a.device[1],
    "ridge": lambda a: a.device[2] / a.device[1],
    "intensity": lambda a: a.flops() / (a.read() + a.m.cache(a.s.context)),
    "largest_intensity": lambda a: a.flops() / a.m.cache(a.s.context),
    "attention_intensity": lambda a: a.pairs(a.s.context) / a.m.cache(a.s.context),
    "turning_batch": lambda a: a.turning(),
    "step_weights": lambda a: a.read(),
    "step_cache": lambda a: a.s.batch * a.m.cache(a.s.context),
    "step_gb": lambda a: a.read() + a.s.batch * a.m.cache(a.s.context),
    "step_time": lambda a: a.step(),
    "step_sequence_tokens": lambda a: 1 / a.step(),
    "decode_bound": lambda a: a.s.batch / a.step(),
    "prompt_time": lambda a: a.prompt()[1] / a.device[2],
    "link": lambda a: LINK,
    "link_time": lambda a: a.s.batch * a.m.cache(a.s.context) / LINK,
    "context": lambda a: a.s.context,
    "batch": lambda a: a.s.batch,
}  # fmt: skip
NAMES = {"published", "accelerator"}
UNITS = {
    "KiB": 2**10, "MiB": 2**20, "GiB": 2**30, "GB": 1e9, "TB": 1e12, "K": 2**10, "M": 2**20, "%": 0.01, "ms": 1e-3,
    "thousand": 1e3, "million": 1e6, "billion": 1e9, "trillion": 1e12,
}  # fmt: skip


def read_as(shown: str) -> tuple[float, float]:
    """Return a number with its unit, and half of what its last digit stands for."""
    digits, unit = re.match(r"([\d,.]+)\s*([\w%]*)", shown.replace(",", "")).groups()
    size, decimals = UNITS.get(unit, 1), len(digits.partition(".")[2])
    return float(digits) * size, 0.5001 * size * 10**-decimals


@pytest.mark.parametrize("id", DECK)
def test_each_number_is_that_of_the_published_configuration(id: str) -> None:
    card = DECK[id]
    view = View(spoken.settings_of(card))
    for written in {w for _, text in card.texts() for w in re.findall(r"\{([^{}]*)\}", text)}:
        name, link = placeholder(written)
        if name not in PUBLISHED or name in NAMES:
            continue
        chosen = Settings.from_link(link)[0]
        asked = view.but(**{each: getattr(chosen, each) for each in link}).settings
        shown = placeholders.value(written, view)
        number, half = read_as(shown)
        if name == "published_longest_wavelength" and "million" not in shown:
            half = 50  # "54,400"
        expected = VALUES[name](Asked(MODELS[asked.preset], asked))
        assert abs(number - expected) <= half, (written, shown, expected)


# ---- numbers that follow from what a question itself gives


def tokens_per_pass(acceptance: float, drafted: int) -> float:
    """Return the expected tokens of a pass, by going through the places where a draft may end."""
    ended = sum((k + 1) * acceptance**k * (1 - acceptance) for k in range(drafted))
    return ended + (drafted + 1) * acceptance**drafted


def seconds_of_a_step(preset: str) -> float:
    link = {"preset": preset, "n_machines": "8", "context": "8192"}
    return Asked(MODELS[preset], Settings.from_link(link)[0]).step()


LARGE, SMALL = seconds_of_a_step("llama-3.1-70b"), seconds_of_a_step("llama-3.1-8b")


def gain(acceptance: float, drafted: int) -> float:
    return LARGE * tokens_per_pass(acceptance, drafted) / (LARGE + drafted * SMALL)


FOLLOWS = {  # of a card: what it says, with the number in it
    "speculation-speed-up": [
        ("About 2.3 times", gain(0.8, 4)), ("together 3.36", tokens_per_pass(0.8, 4)),
        ("four tokens at a time, and each is accepted with a probability of 0.8", 0.8),
        ("a round takes 7.7 ms", 1e3 * (LARGE + 4 * SMALL)), ("is 2.3 ms per token", 1e3 * LARGE / gain(0.8, 4)),
        ("with eight drafted it is 2.3 ms again", 1e3 * LARGE / gain(0.8, 8)),
        ("of 0.6 the gain falls to 1.6 times", gain(0.6, 4)), ("The whole 3.36", tokens_per_pass(0.8, 4)),
    ],
    "speculation-that-does-not-pay": [
        ("an acceptance rate of 0.8", 0.8), ("four drafted tokens, 3.36", tokens_per_pass(0.8, 4)),
    ],
    "softmax-maximum": [
        ("above a score of 11.1", math.log(torch.finfo(torch.float16).max)),
        ("in float32 and bfloat16 above 88.7", math.log(torch.finfo(torch.float32).max)),
        ("overflow at 88.7", math.log(torch.finfo(torch.bfloat16).max)),
    ],
    "temperature-zero": [("256 plus one is 256 again", float(torch.tensor(256.0).bfloat16() + 1))],
}  # fmt: skip


@pytest.mark.parametrize("id", FOLLOWS)
def test_numbers_follow_from_what_the_question_gives(id: str) -> None:
    said = " ".join(spoken.filled(text, DECK[id]) for _, text in DECK[id].texts())
    for phrase, expected in FOLLOWS[id]:
        number = re.findall(r"\d+(?:\.\d+)?", phrase)[-1]
        assert phrase in said and f"{expected:.{len(number.partition('.')[2])}f}" == number, (phrase, expected)
    assert pytest.approx(1 / 9, rel=0.05) == SMALL / LARGE  # “a ninth of the size”


def test_the_largest_exponentials_are_where_the_card_says() -> None:
    for dtype, limit in ((torch.float16, 11.1), (torch.float32, 88.7), (torch.bfloat16, 88.7)):
        assert torch.tensor(limit - 0.1, dtype=torch.float64).exp() < torch.finfo(dtype).max
        assert torch.tensor(limit + 0.1, dtype=torch.float64).exp() > torch.finfo(dtype).max


def test_in_the_other_layout_only_a_score_with_itself_is_right() -> None:
    q, k = torch.randn(2, 11, 14, dtype=torch.float64, generator=torch.Generator().manual_seed(3))
    angles = torch.arange(11)[:, None] * 10_000 ** (-torch.arange(7, dtype=torch.float64) / 7)  # (T, D / 2)

    def scores(pairs: torch.Tensor) -> torch.Tensor:
        turned = []
        for x in (q, k):
            a, b = x[:, pairs].unbind(-1)  # (T, D / 2) each
            turned.append(torch.cat((a * angles.cos() - b * angles.sin(), a * angles.sin() + b * angles.cos()), -1))
        return turned[0] @ turned[1].T  # (T, S)

    moved = (scores(torch.arange(14).view(2, 7).T) - scores(torch.arange(14).view(7, 2))).abs()
    assert moved.diagonal().max() < 1e-12 and moved[~torch.eye(11, dtype=torch.bool)].min() > 1e-4


def test_the_two_orders_of_kv_heads_agree_for_four_heads_of_llama() -> None:
    kv_heads = torch.arange(8)
    assert int((kv_heads.repeat(4) == kv_heads.repeat_interleave(4)).sum()) == 4
    assert "the two orders agree for just four heads" in DECK["tiled-kv-heads"].answer


def test_rope_adds_the_angle_of_the_distance_to_the_phase_of_the_product() -> None:
    """q·exp(imθ) · conj(k·exp(inθ)) = q·k̄·exp(i(m−n)θ): the content's phase stays, the distance's is added."""
    (point,) = (each for each in DECK["rope-distance"].points if "complex" in each.text)
    assert "is q·k̄·exp(i(m−n)θ)" in point.text and "has the phase" not in point.text
    q, k = torch.randn(2, 97, dtype=torch.complex128, generator=torch.Generator().manual_seed(0))
    m, n, theta = 31, 13, 0.7
    turned = q * torch.exp(torch.tensor(1j * m * theta)) * (k * torch.exp(torch.tensor(1j * n * theta))).conj()
    added = torch.exp(torch.tensor(1j * (m - n) * theta, dtype=torch.complex128))
    assert torch.allclose(turned, q * k.conj() * added)
    assert not torch.allclose(turned / turned.abs(), added.expand(97))
