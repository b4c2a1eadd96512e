"""Models whose layers differ in their attention, window and rotation, or have a state, with distinct sizes."""

from attnviz.config import ModelConfig
from attnviz.mechanisms import Dense, GatedDelta, Grouped, Latent, Layer

H, C = 6, 37
WINDOWED = Grouped(H, 5, 1, n_kv_heads=3, head_dim=13, qkv_bias=True)
UNROTATED = Grouped(H, n_kv_heads=2, head_dim=11, scale=0.4)
LATENT = Latent(H, kv_lora_rank=29, qk_nope_head_dim=7, qk_rope_head_dim=4, v_head_dim=5)
SINGLE = Grouped(H, 3, n_kv_heads=1, head_dim=19, o_bias=True, rotary_fraction=0.5)
MIXED = ModelConfig(
    n_layers=4, d_model=C, n_heads=H, head_dim=7, d_ff=23, vocab_size=31,
    mixed_layers=(
        Layer((WINDOWED, Dense(41)), rope_theta=53.0),
        Layer((UNROTATED, Dense(43, False, True, "gelu")), n_norms=4),
        Layer((LATENT, Dense(47, activation="geglu")), rope_theta=1009.0),
        Layer((SINGLE, Dense(17)), rope_theta=71.0),
    ),
)  # fmt: skip
DELTA = GatedDelta(n_heads=H, n_key_heads=3, key_dim=5, head_dim=7, taps=4)
HYBRID = ModelConfig(
    n_layers=3, d_model=C, n_heads=H, n_kv_heads=3, head_dim=13, d_ff=23, vocab_size=31,
    mixed_layers=(
        Layer((DELTA, Dense(23))),
        Layer((Grouped(H, n_kv_heads=3, head_dim=13), Dense(29)), rope_theta=53.0),
        Layer((DELTA, Dense(23))),
    ),
)  # fmt: skip
