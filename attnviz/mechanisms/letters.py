"""The one table of letters: what each symbol in a printed equation means, on every page.

Letters stand for counts and sizes of a model or a run. Rates and bytes have Greek letters or an index, so that C is
d_model and P a RoPE key's width also where bytes and FLOP/s are counted.
"""

from __future__ import annotations

from attnviz.equations import Value

LETTERS = {  # symbol -> (meaning, TeX if it differs)
    "B": ("sequences", ""),
    "L": ("layers", ""),
    "S": ("tokens", ""),
    "T": ("new tokens", ""),
    "C": ("d_model", ""),
    "H": ("query heads", ""),
    "K": ("KV heads", ""),
    "G": ("query heads per KV head", ""),
    "D": ("head_dim", ""),
    "V": ("v_head_dim", ""),
    "R": ("kv_lora_rank, width of the latent", ""),
    "Q": ("q_lora_rank", ""),
    "N": ("qk_nope_head_dim", ""),
    "P": ("qk_rope_head_dim, width of the RoPE key", ""),
    "F": ("d_ff", ""),
    "E": ("routed experts", ""),
    "Eₖ": ("experts per token", "E_k"),
    "Eₛ": ("shared experts", "E_s"),
    "W": ("window", ""),
    "A": ("attention-sink tokens", ""),
    "Fₛ": ("d_ff of the shared experts together", "F_s"),
    "U": ("vocab_size", ""),
    "Nₐ": ("accelerators", "N_a"),
    "Tₑ": ("new tokens up to which the absorbed form takes fewer FLOPs in a long context", "T_e"),
    "Sₚ": ("tokens per page of the cache", "S_p"),
    "w": ("taps of the convolution", ""),
    "I": ("index heads", ""),
    "Dᵢ": ("width of an index key", "D_i"),
    "Dₛ": ("d_state, numbers of a channel's state", "D_s"),
    "X": ("channels inside the mixer", ""),
    "Hₖ": ("key heads", "H_k"),
    "Sₖ": ("keys that a query attends to at most", "S_k"),
    "Sₘ": ("tokens per compressed entry", "S_m"),
    "J": ("groups that share B and C", ""),
    "Y": ("rank of the time step", ""),
    "g": ("rank of the gate", ""),
    "b": ("bytes per number", ""),
    "Nₚ": ("parameters", "N_p"),
    "Nₖ": ("numbers cached per token", "N_k"),
    "Nₛ": ("numbers of a state", "N_s"),
    "bₛ": ("bytes per number of a state", "b_s"),
    "bₜ": ("bytes per number of a convolution's inputs", "b_t"),
    "Nₗ": ("weights multiplied per token, without the output layer", "N_l"),
    "Nₒ": ("weights of the output layer", "N_o"),
    "Nₘ": ("weights multiplied per token", "N_m"),
    "f": ("FLOPs per step", ""),
    "Fₐ": ("FLOPs of scores and weighted sums", "F_a"),
    "M": ("bytes of memory", ""),
    "Mₑ": ("bytes in reserve", "M_e"),
    "Mₚ": ("bytes of weights", "M_p"),
    "M₁": ("bytes of one sequence's cache", "M_1"),
    "Mₖ": ("bytes of caches read", "M_k"),
    "β": ("bytes per second", r"\beta"),
    "Π": ("peak FLOP/s", r"\Pi"),
}


def letter(
    symbol: str, number: float, meaning: str = "", *, digits: int | None = None, scientific: bool = False
) -> Value:
    """Return a number under its letter. meaning: a narrower one than the table's. KeyError for an unknown letter."""
    usual, tex = LETTERS[symbol]
    return Value(number, symbol, meaning or usual, digits, scientific, tex)
