"""The task of attention with a KV cache.

B batch, T new tokens, S tokens so far, C d_model, H query heads, K KV heads, D head_dim.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from attnviz.modules import GroupedQueryAttention, KVCache
from attnviz.modules.rope import Rope, rope_frequencies
from attnviz.practice.task import Case, Mistaken, Task, argument
from attnviz.practice.tasks.attention import WRONG_SHAPES
from attnviz.practice.tasks.inputs import drawn
from attnviz.practice.tasks.kernels import (
    BY_D_MODEL,
    HALF_TILED,
    KEYS_FOR_VALUES,
    TILED,
    WRONG_SCALES,
    attend_with,
    unchanged,
    zeros,
)


def _right_step(
    x: Tensor, cache: Any, q_proj: Tensor, k_proj: Tensor, v_proj: Tensor, o_proj: Tensor,
    n_heads: int, n_kv_heads: int, theta: float = 10000.0,
) -> Tensor:  # fmt: skip
    layer = GroupedQueryAttention(x.shape[-1], n_heads, n_kv_heads, head_dim=len(q_proj) // n_heads)
    for name, weight in {"q_proj": q_proj, "k_proj": k_proj, "v_proj": v_proj, "o_proj": o_proj}.items():
        getattr(layer, name).weight = nn.Parameter(weight)
    return layer(x, causal=True, rope=Rope(rope_frequencies(layer.head_dim, theta)), cache=cache)


class _Cache:
    """A cache with mistakes. store: the keys and values, and T of each step; None for a store of its own.

    length: len(), of the cache. nbytes: its size, of the keys and values and H. empties: nothing is stored. It
    concatenates, so that a shared store raises what concatenating raises.
    """

    def __init__(
        self, store: dict[str, list[Tensor]] | None, length: Callable[[Any], int],
        nbytes: Callable[[Tensor, Tensor, int], float], empties: bool,
    ) -> None:  # fmt: skip
        self.store = {"k": [], "v": []} if store is None else store
        self.own_length, self.own_nbytes, self.empties, self.n_heads = length, nbytes, empties, 0

    def append(self, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
        if self.empties:
            return k, v
        self.store["k"].append(k)
        self.store["v"].append(v)
        return self.all()

    def all(self) -> tuple[Tensor, Tensor]:
        """Return all keys and values, (B, K, S, D) each."""
        return torch.cat(self.store["k"], 2), torch.cat(self.store["v"], 2)

    @property
    def stored(self) -> int:
        return sum(self.steps)

    @property
    def steps(self) -> list[int]:
        """The tokens of each step."""
        return [k.shape[2] for k in self.store["k"]]

    def __len__(self) -> int:
        return self.own_length(self)

    @property
    def nbytes(self) -> int:
        return int(self.own_nbytes(*self.all(), self.n_heads)) if self.stored else 0


def _bytes(k: Tensor, v: Tensor, H: int) -> int:
    return 4 * (k.numel() + v.numel())


def _decode(
    position: Callable[[int], int] = lambda past: past,
    position_of_keys: Callable[[int], int] | None = None,
    visible: Callable[[int, int], int] = lambda past, T: past,
    rotated_again: Callable[[int, int], int] = lambda past, T: 0,
    stored: bool = False,
    rotates: str = "qk",
    sign: int = 1,
    theta_used: bool = True,
    only_new: bool = False,
    length: Callable[[Any], int] = lambda cache: cache.stored,
    nbytes: Callable[[Tensor, Tensor, int], float] = _bytes,
    empties: bool = False,
    shared: bool = False,
    merge: Callable[[Tensor], Tensor] = lambda heads: heads.transpose(1, 2).flatten(2),
    split: Callable[[Tensor, int], Tensor] = lambda x, n: x.unflatten(-1, (n, -1)).transpose(1, 2),
    **kernel: Any,
) -> dict[str, Any]:
    """Build cache and decode step; without options they are right.

    position: where the positions of a step start, position_of_keys where that differs for the keys. visible: the offset
    of the causal mask. rotated_again: how many keys of the cache are rotated again when they are read, and stored so.
    rotates: which of q, k and v. sign: of the angles. only_new: attends to the step's own tokens only. length, nbytes,
    empties: of `_Cache`; shared: by all caches.
    """
    everywhere: dict[str, list[Tensor]] = {"k": [], "v": []}
    attend = attend_with(**kernel)

    def new_cache() -> _Cache:
        return _Cache(everywhere if shared else None, length, nbytes, empties)

    def decode_step(
        x: Tensor, cache: Any, q_proj: Tensor, k_proj: Tensor, v_proj: Tensor, o_proj: Tensor,
        n_heads: int, n_kv_heads: int, theta: float = 10000.0,
    ) -> Tensor:  # fmt: skip
        past, T, cache.n_heads = cache.stored, x.shape[1], n_heads
        q = split(F.linear(x, q_proj), n_heads)  # (B, H, T, D)
        k, v = split(F.linear(x, k_proj), n_kv_heads), split(F.linear(x, v_proj), n_kv_heads)  # (B, K, T, D)
        rope = Rope(sign * rope_frequencies(q.shape[-1], theta if theta_used else 10000.0))
        q = rope(q, position(past)) if "q" in rotates else q
        k = rope(k, (position_of_keys or position)(past)) if "k" in rotates else k
        k, v = cache.append(k, rope(v, position(past)) if "v" in rotates else v)  # (B, K, S, D)
        n = rotated_again(past, T)
        k = torch.cat((rope(k[:, :, :n], 0), k[:, :, n:]), 2)
        if stored:
            cache.store["k"] = list(k.split(cache.steps, 2))
        if only_new:
            k, v, past = k[:, :, -T:], v[:, :, -T:], 0
        mask = torch.ones(T, k.shape[2], dtype=torch.bool).tril(visible(past, T))
        return F.linear(merge(attend(q, k, v, mask, width=x.shape[-1]).output), o_proj)

    return {"Cache": new_cache, "decode_step": decode_step}


def _cache_case(label: str, seed: int, chunks: list[int], B: int, C: int, K: int, G: int, D: int, *other: int,
                **kwargs: Any) -> Case:  # fmt: skip
    """Build a case that feeds a text in chunks through one cache, with G query heads per KV head, and reads the cache's
    length and bytes before and after. other: the chunks of another text, with a cache of its own, in between."""
    tensors: dict[str, Tensor] = {}
    H = G * K
    shapes = {"q_proj": (H * D, C), "k_proj": (K * D, C), "v_proj": (K * D, C), "o_proj": (C, H * D)}
    given: dict[str, Any] = {name: drawn(seed + n, *s) * s[1] ** -0.5 for n, (name, s) in enumerate(shapes.items())}
    given |= {"n_heads": H, "n_kv_heads": K, **kwargs}
    settings = {key: argument(value, tensors, key) for key, value in given.items()}
    read: list[dict[str, Any]] = [{"length": "cache"}, {"attribute": ["cache", "nbytes"]}]
    steps: list[dict[str, Any]] = [{"call": "Cache", "keep": "cache"}, *read]
    steps += [{"call": "Cache", "keep": "other"}] if other else []
    for n, T in enumerate(chunks):
        for name, size in (("cache", T), *(("other", t) for t in other[n : n + 1])):
            x = argument(drawn(seed + 10 + len(tensors), B, size, C), tensors, f"x of {name}, {n}")
            steps.append({"call": "decode_step", "args": [x, {"object": name}], "kwargs": settings, "out": True})
    return Case(label, [*steps, *read], tensors)


def _cache_cases(seed: int) -> list[Case]:
    return [
        _cache_case("two texts in turn, each with a cache of its own", seed + 400, [3, 1, 2], 3, 59, 2, 3, 10, 2, 4, 1),
        _cache_case("five tokens, then three one by one", seed, [5, 1, 1, 1], 5, 67, 1, 3, 22),
        _cache_case("two tokens, then three: a mask with an offset", seed + 100, [2, 3], 3, 83, 2, 7, 14),
        _cache_case("one by one from the first token", seed + 200, [1, 1, 1, 1], 7, 61, 2, 5, 10),
        _cache_case("theta = 500,000", seed + 300, [7, 2], 3, 53, 3, 2, 6, theta=500_000.0),
    ]


KEYS_READ: tuple[Callable[[int, int], int], ...] = (  # without the new ones, and with them
    lambda past, T: past,
    lambda past, T: past + T if past else 0,
)
CACHE = Task(
    "cache",
    '''"""Grouped-query attention with RoPE, decoded with a KV cache.

Cache holds the keys and values of one layer. decode_step processes T new tokens x (B, T, C) -> (B, T, C): it rotates
q and k (RoPE, half-split) at positions len(cache), len(cache) + 1, …, appends k and v to the cache, and attends
causally to all tokens so far. Weights have the layout of nn.Linear: q_proj (H·D, C), k_proj and v_proj (K·D, C),
o_proj (C, H·D); head_dim D is len(q_proj) / n_heads, which need not be C / n_heads. Query head h reads KV head
h // (n_heads / n_kv_heads). Scores are divided by √D.
"""

import torch


class Cache:
    def __len__(self):
        """Number of tokens cached so far (S)."""
        raise NotImplementedError

    @property
    def nbytes(self):
        """Size of the keys and values cached so far, in bytes: 2 · B · K · S · D numbers; 0 before the first step."""
        raise NotImplementedError


def decode_step(x, cache, q_proj, k_proj, v_proj, o_proj, n_heads, n_kv_heads, theta=10000.0):
    raise NotImplementedError
''',
    {"Cache": KVCache, "decode_step": _right_step},
    _cache_cases,
    _decode,
    (
        Mistaken("with positions that restart at 0 in every step", {"position": lambda past: 0}, "positions_restart"),
        Mistaken("with keys whose positions restart at 0 in every step, but not those of the queries",
                 {"position_of_keys": lambda past: 0}, "positions_restart"),
        Mistaken("with queries whose positions restart at 0 in every step, but not those of the keys",
                 {"position": lambda past: 0, "position_of_keys": lambda past: past}, "positions_restart"),
        Mistaken("with a causal mask without offset, so that new tokens attend only to the first tokens",
                 {"visible": lambda past, T: 0}, "causal_mask_without_offset"),
        Mistaken("without a causal mask: the new tokens attend to later ones of the same step",
                 {"visible": lambda past, T: past + T}, "mask_never_used"),
        *(Mistaken("with a causal mask that is one off: a token does not attend to itself",
                   {"visible": lambda past, T: past - 1, "empty": empty}) for empty in (zeros, unchanged)),
        Mistaken("with a causal mask that is one off: a token attends to the next one too",
                 {"visible": lambda past, T: past + 1}),
        *(Mistaken("with cached keys rotated again each time they are read", {"rotated_again": n}, "keys_rotated_twice")
          for n in KEYS_READ),
        *(Mistaken("with cached keys rotated on every read and stored back, so that the rotation accumulates",
                   {"rotated_again": n, "stored": True}, "keys_rotated_twice")
          for n in (*KEYS_READ, lambda past, T: past + T)),
        Mistaken("with RoPE applied to the values too", {"rotates": "qkv"}, "rope_on_values"),
        Mistaken("without RoPE", {"rotates": ""}),
        Mistaken("without RoPE on the keys: only the queries are rotated", {"rotates": "q"}),
        Mistaken("without RoPE on the queries: only the keys are rotated", {"rotates": "k"}),
        Mistaken("with each pair rotated in the opposite direction", {"sign": -1}),
        Mistaken("with theta = 10,000, ignoring the argument theta", {"theta_used": False}),
        Mistaken("with a cache that stays empty: keys and values are never stored", {"empties": True}),
        Mistaken("with keys and values that are stored, but never read: a step attends only to its own tokens",
                 {"only_new": True}),
        Mistaken("with one store for all caches: a class attribute or a mutable default argument", {"shared": True}),
        TILED, *HALF_TILED, BY_D_MODEL, *WRONG_SCALES, KEYS_FOR_VALUES, *WRONG_SHAPES,
        *(Mistaken(explanation, {"nbytes": nbytes}, mistake) for explanation, mistake, nbytes in (
            ("with n_heads instead of n_kv_heads in nbytes", "cache_sized_with_n_heads",
             lambda k, v, H: _bytes(k, v, H) * H / k.shape[1]),
            ("with half of the bytes in nbytes: keys without values, or 2 bytes per number instead of 4", "",
             lambda k, v, H: _bytes(k, v, H) / 2),
            ("without the batch in nbytes", "", lambda k, v, H: _bytes(k, v, H) / k.shape[0]),
            ("without the KV heads in nbytes", "", lambda k, v, H: _bytes(k, v, H) / k.shape[1]),
            ("without the tokens in nbytes", "", lambda k, v, H: _bytes(k, v, H) / k.shape[2]),
            ("without head_dim in nbytes", "", lambda k, v, H: _bytes(k, v, H) / k.shape[3]),
            ("with the number of numbers in nbytes, without their 4 bytes each", "",
             lambda k, v, H: _bytes(k, v, H) / 4),
            ("with bits instead of bytes in nbytes", "", lambda k, v, H: _bytes(k, v, H) * 8),
        )),
        Mistaken("with the number of steps in len(cache) instead of the number of tokens",
                 {"length": lambda cache: len(cache.steps)}),
        Mistaken("with the tokens of the last step in len(cache) instead of all so far",
                 {"length": lambda cache: (cache.steps or [0])[-1]}),
        Mistaken("with the batch in len(cache): B · S instead of S",
                 {"length": lambda cache: cache.stored and cache.stored * len(cache.store["k"][0])}),
    ),
)  # fmt: skip
