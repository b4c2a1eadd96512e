"""MLA's absorbed form against expanding, in arithmetic of its own: products counted one by one."""

import pytest

from attnviz.cost import Serving, load_accelerators, load_presets
from attnviz.cost.two_forms import TwoForms, absorbed_mixer, why_not_absorbed
from attnviz.equations import Value
from attnviz.figures import cost as figures
from attnviz.mechanisms import Latent
from tests.reading import numbers_in

PRESETS, CARD = load_presets(), load_accelerators()["h100-sxm"]
DEEPSEEK = PRESETS["deepseek-v3"]


def by_hand(n_tokens: int, n_new: int, H: int, R: int, P: int, N: int, V: int) -> tuple[int, int, int]:
    """Return the FLOPs absorbed, expanded in the step, and expanded once: 2 per multiply-add, masked pairs not."""
    pairs = sum(range(n_tokens - n_new + 1, n_tokens + 1))  # the last sees all tokens
    up = H * (R * N + R * V)  # W_UK and W_UV for one token
    absorbed = 2 * (pairs * H * (R + P + R) + n_new * up)
    return absorbed, 2 * (pairs * H * (N + P + V) + n_tokens * up), 2 * (pairs * H * (N + P + V) + n_new * up)


@pytest.mark.parametrize("n_tokens, n_new", [(1, 1), (17, 5), (4096, 1), (32_768, 170), (32_768, 32_768)])
def test_the_flops_of_deepseek_v3_are_those_of_its_products(n_tokens, n_new):
    flops = TwoForms(DEEPSEEK.mixer, n_tokens).flops(n_new)
    assert list(flops.values()) == [*by_hand(n_tokens, n_new, 128, 512, 64, 128, 128)]


def test_deepseek_v3_is_absorbed_up_to_170_new_tokens_of_32_k():
    """512 · 256 / (1,024 − 256) = 170.67 in a long context; at 32,768 tokens the lines cross at 170.2."""
    sizes = (128, 512, 64, 128, 128)
    (a170, e170, _), (a171, e171, _) = by_hand(32_768, 170, *sizes), by_hand(32_768, 171, *sizes)
    assert a170 < e170 and a171 > e171
    assert TwoForms(DEEPSEEK.mixer, 32_768).first_expanded == 171
    limit, here = DEEPSEEK.mixer.equal_at(Value(32_768))
    assert limit.value == pytest.approx(512 * 256 / 768)
    T = here.value
    pairs = T * 32_768 - T * (T - 1) / 2
    assert 170 < T < 171 and pairs * (2 * 512 - 256) == pytest.approx((32_768 - T) * 512 * 256, rel=1e-6)


@pytest.mark.parametrize(
    "sizes", [(3, 5, 2, 3, 4), (7, 11, 2, 5, 3), (2, 13, 4, 11, 7), (5, 3, 2, 4, 5), (1, 4, 2, 5, 3)]
)
@pytest.mark.parametrize("n_tokens", [1, 2, 3, 19, 97])
def test_the_first_number_that_is_expanded_is_found(sizes, n_tokens):
    H, R, P, N, V = sizes
    mixer = Latent(n_heads=H, kv_lora_rank=R, qk_rope_head_dim=P, qk_nope_head_dim=N, v_head_dim=V)
    flops = {n: by_hand(n_tokens, n, *sizes) for n in range(1, n_tokens + 1)}
    first = next((n for n, (absorbed, expanded, _) in flops.items() if expanded < absorbed), None)
    assert TwoForms(mixer, n_tokens).first_expanded == first
    assert (mixer.equal_at(Value(n_tokens)) is None) == (2 * R <= N + V) == (first is None)


def test_the_bytes_are_the_latents_and_what_is_expanded_written_and_read():
    moved = TwoForms(DEEPSEEK.mixer, 32_768).bytes_moved(16)
    expanded = 32_768 * 128 * (128 + 64 + 128) * 2
    assert moved == {
        "absorbed": 32_768 * 576 * 2, "expanded": 32_768 * 576 * 2 + 2 * expanded, "kept": expanded
    }  # fmt: skip
    assert TwoForms(DEEPSEEK.mixer, 32_768).bytes_moved(8)["absorbed"] == 32_768 * 576


def test_a_model_without_an_absorbed_form_says_why():
    for model in PRESETS.values():
        sentence = why_not_absorbed(model)
        assert bool(sentence) == (absorbed_mixer(model) is None), model.name
        assert not sentence or (sentence.endswith(".") and len(sentence) > 40)
    assert "without a latent" in why_not_absorbed(PRESETS["llama-3-8b"])
    assert "indexer" in why_not_absorbed(PRESETS["deepseek-v3.2"])
    with pytest.raises(ValueError, match="no absorbed form"):
        figures.two_forms(Serving(PRESETS["llama-3-8b"], CARD, 100))


@pytest.mark.parametrize("n_tokens", [1, 2, 100, 32_768, 10 * 2**20])
def test_the_drawing_shows_both_lines_and_where_they_cross(n_tokens):
    drawing = figures.two_forms(Serving(DEEPSEEK, CARD, n_tokens))
    first = TwoForms(DEEPSEEK.mixer, n_tokens).first_expanded
    assert numbers_in(drawing.title) == ([first - 1] if first > 1 else [1])
    steps, lines = drawing.table["new tokens"], [t for t in drawing.figure.data if t.mode == "lines"]
    assert first in steps and steps == sorted(set(steps)) and steps[0] == 1 and steps[-1] == n_tokens
    for i, n in enumerate(steps):
        assert [line.y[i] for line in lines] == [*by_hand(n_tokens, n, 128, 512, 64, 128, 128)]
    assert drawing.table["FLOPs, absorbed"] == list(lines[0].y)


def test_narrow_latents_are_never_expanded():
    mixer = Latent(n_heads=3, kv_lora_rank=4, qk_rope_head_dim=2, qk_nope_head_dim=5, v_head_dim=3)
    model = DEEPSEEK.with_attention(
        attention="mla",
        n_heads=3,
        n_kv_heads=3,
        head_dim=7,
        kv_lora_rank=4,
        qk_rope_head_dim=2,
        qk_nope_head_dim=5,
        v_head_dim=3,
    )
    assert model.mixer.equal_at(Value(97)) is None and model.mixer.two_forms(Value(97), Value(5)) == mixer.two_forms(
        Value(97), Value(5)
    )
    drawing = figures.two_forms(Serving(model, CARD, 97))
    assert "for any number" in drawing.title and drawing.formula and len(drawing.figure.data) == 3
