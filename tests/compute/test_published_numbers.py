"""Placeholders on published models, against arithmetic on the sizes that their makers give."""

import math

import pytest

from attnviz.compute.placeholders import filled, value
from attnviz.compute.published_numbers import MISSING, PUBLISHED
from attnviz.compute.view import View
from attnviz.cost import load_accelerators, load_presets
from attnviz.session.settings import Settings

VIEW = View(Settings())
L, H, K, D, C, F, U = 32, 32, 8, 128, 4096, 14_336, 128_256  # Llama 3 8B
MATRICES = L * (2 * C * H * D + 2 * C * K * D + 3 * C * F)  # of the layers
N_MULTIPLIED = MATRICES + U * C  # and the output layer
READ = 2 * (N_MULTIPLIED + (2 * L + 1) * C)  # bf16, with the norms; of the embedding one row per sequence
PEAK, BANDWIDTH = 989e12, 3.35e12  # H100 SXM, data sheet


def said(name: str, **settings: object) -> str:
    link = "&".join(f"{key}={each}" for key, each in settings.items())
    return value(f"{name}?{link}" if link else name, VIEW)


def step(S: int, B: int) -> tuple[float, float, float]:
    """Return the FLOPs of a decode step, its bytes, and those of them that are cache."""
    cache = B * 2 * L * K * D * 2 * S
    return B * (2 * N_MULTIPLIED + 4 * L * H * D * S), READ + cache, cache


def test_a_decode_step_of_llama_3_8b_by_its_sizes() -> None:
    flops, read, cache = step(8192, 4)
    assert said("intensity", context=8192, batch=4) == f"{flops / read:.3g}"
    assert said("largest_intensity", context=8192) == f"{flops / cache:.3g}"
    assert said("step_time", context=8192, batch=4) == f"{1e3 * read / BANDWIDTH:,.3g} ms"
    assert said("step_sequence_tokens", context=8192, batch=4) == f"{BANDWIDTH / read:,.0f}"
    assert said("step_cache", context=8192, batch=4) == "4 GiB" and said("step_weights") == f"{READ / 2**30:.2f} GiB"
    assert said("attention_intensity") == "4" and said("ridge") == f"{PEAK / BANDWIDTH:.0f}"


def test_the_batch_at_which_a_step_turns() -> None:
    n = int(said("turning_batch", context=256).replace(",", ""))
    for batch, turned in ((n - 1, False), (n, True)):
        flops, read, _ = step(256, batch)
        assert (flops / PEAK > read / BANDWIDTH) == turned
    flops, _, cache = step(8192, 1)
    assert flops / cache < PEAK / BANDWIDTH and said("turning_batch", context=8192) == MISSING


def test_a_prompt_of_llama_3_8b_by_its_sizes() -> None:
    S = 8192
    weights, attention = 2 * MATRICES * S + 2 * U * C, 4 * L * H * D * S * (S + 1) // 2
    assert said("published_attention_share", context=S) == f"{100 * attention / (weights + attention):.2g}%"
    assert said("prompt_time", context=S) == f"{1e3 * (weights + attention) / PEAK:,.3g} ms"
    assert said("published_scores", context=S) == "4 GiB" == f"{H * S * S * 2 / 2**30:.0f} GiB"
    assert said("published_vectors", context=S) == f"{S * (2 * H + 2 * K) * D * 2 / 2**20:.0f} MiB"
    assert said("published_even") == f"{(2 * (MATRICES + 2 * U * C + (2 * L + 1) * C)) / 131_072 / 1e3:.3g} thousand"


def test_mla_windows_states_and_copies() -> None:
    v3, next_, gemma = {"preset": "deepseek-v3"}, {"preset": "qwen3-next-80b-a3b"}, {"preset": "gemma-3-27b"}
    assert said("published_equal_kv_heads", **v3) == f"{(512 + 64) / (2 * 128):.3g}"
    assert said("published_cache_expanded", **v3) == f"{61 * 128 * (128 + 64 + 128) * 2 / 2**20:.2f} MiB"
    assert said("published_times_smaller", **v3) == f"{128 * 2 * 128 / 576:.0f}"
    state = 32 * 128 * 128 * 4 + (2 * 16 * 128 + 32 * 128) * 4 * 2  # float32; the last four inputs, bf16
    assert said("published_state", **next_) == f"{36 * state / 2**20:.1f} MiB"
    assert said("published_state_tokens", **next_) == f"{state / (2 * 2 * 256 * 2):,.0f}"
    cached = 2 * 16 * 128 * 2 * (52 * 1024 + 10 * 131_072)
    assert said("published_cache_at_context", context=131_072, **gemma) == f"{cached / 2**30:.1f} GiB"
    assert said("published_cache_unwindowed", context=131_072, **gemma) == "62 GiB"
    copies = {"preset": "llama-3-70b", "n_machines": 16}
    assert (said("cache_on_one", **copies), said("cache_on_all", **copies)) == ("40 KiB", "640 KiB")
    assert said("cache_on_all", **{**copies, "n_machines": 8}) == "320 KiB"
    wavelengths = [2 * math.pi * 500_000 ** (i / 64) for i in range(64)]
    assert said("published_slow_pairs") == str(sum(each > 8192 for each in wavelengths))
    assert said("published_longest_wavelength") == f"{wavelengths[-1] / 1e6:.3g} million" == "2.56 million"


def test_a_base_that_was_not_read_is_not_told() -> None:
    """Of a config.json only what a model costs is read: Llama 3.1's base is 500,000, not the default of 10,000."""
    names = ["published_theta", "published_pairs", "published_longest_wavelength", "published_slow_pairs"]
    assert [said(name, preset="llama-3.1-8b") for name in names] == [MISSING] * 4
    assert [said(name, preset="gpt-oss-20b") for name in names[:2]] == ["150,000", "32"]


ODD = {  # heads that eight does not divide, no cache, layers of many kinds
    "gpt2-small", "qwen2.5-7b", "mamba-2.8b", "glm-4.7-flash", "deepseek-v4-flash", "minimax-text-01", "zamba-7b",
}  # fmt: skip


@pytest.mark.parametrize("preset", sorted({*ODD, *[*load_presets()][::20]}))
def test_each_has_a_value_or_a_dash_for_every_model(preset: str) -> None:
    for name in PUBLISHED:
        text = said(name, preset=preset, context=4096)
        assert text and "nan" not in text and "inf" not in text, name


def test_settings_after_a_name_replace_those_of_the_view() -> None:
    assert filled("{published_layers}, {published_layers?preset=llama-3-70b}", VIEW) == "32, 80"
    accelerators = load_accelerators()
    assert (said("reserve"), said("reserve", reserve=25)) == ("10%", "25%")
    assert said("accelerator", machine="mi300x") == accelerators["mi300x"].name
