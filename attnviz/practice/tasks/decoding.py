"""The decoding tasks: attention with a KV cache, and top-p sampling."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from attnviz.decode.sampling import keep_top_p
from attnviz.modules import GroupedQueryAttention, KVCache
from attnviz.modules.attention import attend
from attnviz.modules.rope import Rope, rope_frequencies
from attnviz.practice.task import Case, Mistaken, Task, argument, function_case
from attnviz.practice.tasks.attention import drawn


def _decode(
    position: Callable[[int], int] = lambda past: past,
    visible: Callable[[int], int] = lambda past: past,
    rotated_again: Callable[[int, int], int] = lambda past, T: 0,
    stored: bool = False,
    tiled: bool = False,
    rotate_values: bool = False,
) -> Callable[..., Tensor]:
    """Build a decode step with mistakes: where positions start, the offset of the causal mask, how many keys of the
    cache are rotated again when they are read, and stored so, tiling the KV heads, rotating the values."""

    def decode_step(
        x: Tensor, cache: Any, q_proj: Tensor, k_proj: Tensor, v_proj: Tensor, o_proj: Tensor,
        n_heads: int, n_kv_heads: int, theta: float = 10000.0,
    ) -> Tensor:  # fmt: skip
        past, T = len(cache), x.shape[1]
        q = F.linear(x, q_proj).unflatten(-1, (n_heads, -1)).transpose(1, 2)
        k = F.linear(x, k_proj).unflatten(-1, (n_kv_heads, -1)).transpose(1, 2)
        v = F.linear(x, v_proj).unflatten(-1, (n_kv_heads, -1)).transpose(1, 2)
        rope = Rope(rope_frequencies(q.shape[-1], theta))
        q, k = rope(q, position(past)), rope(k, position(past))
        k, v = cache.append(k, rope(v, position(past)) if rotate_values else v)
        n = rotated_again(past, T)
        again = torch.cat((rope(k[:, :, :n], 0), k[:, :, n:]), 2)
        k = k.copy_(again) if stored else again  # k is a view of the cache
        if tiled:
            k, v = (t.repeat(1, n_heads // n_kv_heads, 1, 1) for t in (k, v))
        mask = torch.ones(T, k.shape[2], dtype=torch.bool).tril(visible(past))
        return F.linear(attend(q, k, v, mask).output.transpose(1, 2).flatten(2), o_proj)

    return decode_step


def _right_step(
    x: Tensor, cache: Any, q_proj: Tensor, k_proj: Tensor, v_proj: Tensor, o_proj: Tensor,
    n_heads: int, n_kv_heads: int, theta: float = 10000.0,
) -> Tensor:  # fmt: skip
    layer = GroupedQueryAttention(x.shape[-1], n_heads, n_kv_heads, head_dim=len(q_proj) // n_heads)
    for name, weight in {"q_proj": q_proj, "k_proj": k_proj, "v_proj": v_proj, "o_proj": o_proj}.items():
        getattr(layer, name).weight = nn.Parameter(weight)
    return layer(x, causal=True, rope=Rope(rope_frequencies(layer.head_dim, theta)), cache=cache)


class _ForAllHeads(KVCache):
    """A cache that counts bytes for all query heads: three times as many in these cases."""

    @property
    def nbytes(self) -> int:
        return 3 * super().nbytes


class _KeysOnly(KVCache):
    @property
    def nbytes(self) -> int:
        return super().nbytes // 2


def _cache_case(label: str, seed: int, chunks: list[int], C: int, K: int, **kwargs: Any) -> Case:
    """Build a case that feeds a text in chunks through one cache, with three query heads per KV head, and then reads
    the cache's length and bytes."""
    tensors: dict[str, Tensor] = {}
    D, H = C // (3 * K), 3 * K
    shapes = {"q_proj": (H * D, C), "k_proj": (K * D, C), "v_proj": (K * D, C), "o_proj": (C, H * D)}
    given: dict[str, Any] = {name: drawn(seed + n, *s) * C**-0.5 for n, (name, s) in enumerate(shapes.items())}
    given |= {"n_heads": H, "n_kv_heads": K, **kwargs}
    settings = {key: argument(value, tensors, key) for key, value in given.items()}
    steps: list[dict[str, Any]] = [{"call": "Cache", "keep": "cache"}]
    for n, T in enumerate(chunks):
        x = argument(drawn(seed + 10 + n, 2, T, C), tensors, f"x{n}")
        steps.append({"call": "decode_step", "args": [x, {"object": "cache"}], "kwargs": settings, "out": True})
    steps += [{"length": "cache"}, {"attribute": ["cache", "nbytes"]}]
    return Case(label, steps, tensors)


def _cache_cases(seed: int) -> list[Case]:
    return [
        _cache_case("five tokens, then three one by one", seed, [5, 1, 1, 1], 66, 1),
        _cache_case("two tokens, then three: a mask with an offset", seed + 100, [2, 3], 84, 2),
        _cache_case("one by one from the first token", seed + 200, [1, 1, 1, 1], 60, 2),
        _cache_case("theta = 500,000", seed + 300, [7, 2], 54, 3, theta=500_000.0),
    ]


KEYS_READ: tuple[Callable[[int, int], int], ...] = (  # without the new ones, and with them
    lambda past, T: past,
    lambda past, T: past + T if past else 0,
)
CACHE = Task(
    "cache",
    "Decoding with a KV cache",
    '''"""Grouped-query attention with RoPE, decoded with a KV cache.

Cache holds the keys and values of one layer. decode_step processes T new tokens x (B, T, C) -> (B, T, C): it rotates
q and k (RoPE, half-split) at positions len(cache), len(cache) + 1, …, appends k and v to the cache, and attends
causally to all tokens so far. Weights have the layout of nn.Linear: q_proj (H·D, C), k_proj and v_proj (K·D, C),
o_proj (C, H·D). Query head h reads KV head h // (n_heads / n_kv_heads).
"""

import torch


class Cache:
    def __len__(self):
        """Number of tokens cached so far."""
        raise NotImplementedError

    @property
    def nbytes(self):
        """Size of the keys and values cached so far, in bytes: 2 · B · K · S · D numbers."""
        raise NotImplementedError


def decode_step(x, cache, q_proj, k_proj, v_proj, o_proj, n_heads, n_kv_heads, theta=10000.0):
    raise NotImplementedError
''',
    {"Cache": KVCache, "decode_step": _right_step},
    _cache_cases,
    tuple(
        Mistaken(explanation, {"Cache": cache, "decode_step": step}, mistake)
        for explanation, mistake, cache, step in (
            ("with positions that restart at 0 in every step", "positions_restart", KVCache,
             _decode(position=lambda past: 0)),
            ("with a causal mask without offset, so that new tokens attend only to the first tokens",
             "causal_mask_without_offset", KVCache, _decode(visible=lambda past: 0)),
            *(("with cached keys rotated again each time they are read", "keys_rotated_twice", KVCache,
               _decode(rotated_again=n)) for n in KEYS_READ),
            *(("with cached keys rotated on every read and stored back, so that the rotation accumulates",
               "keys_rotated_twice", KVCache, _decode(rotated_again=n, stored=True))
              for n in (*KEYS_READ, lambda past, T: past + T)),
            ("with RoPE applied to the values too", "rope_on_values", KVCache, _decode(rotate_values=True)),
            ("with the KV heads tiled (0 1 0 1) instead of interleaved (0 0 1 1)", "tiled_kv_heads", KVCache,
             _decode(tiled=True)),
            ("with n_heads instead of n_kv_heads in nbytes", "cache_sized_with_n_heads", _ForAllHeads,
             _decode()),
            ("with half of the bytes in nbytes: keys without values, or 2 bytes per number instead of 4", "", _KeysOnly,
             _decode()),
        )
    ),
)  # fmt: skip


def _probabilities(logits: Tensor, kept: Tensor) -> Tensor:
    return logits.masked_fill(~kept, float("-inf")).softmax(-1)


def _in_order(logits: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Return the probabilities in descending order, their cumulative sum, and the tokens in that order."""
    ordered, order = logits.softmax(-1).sort(descending=True)
    return ordered, ordered.cumsum(-1), order


def _kept(order: Tensor, keep: Tensor) -> Tensor:
    return torch.zeros_like(keep).scatter(-1, order, keep)


def _before(reaches: Callable[[Tensor, float], Tensor], at_least: int = 0) -> dict[str, Any]:
    """Build top-p that keeps tokens before the sum reaches p, and at least so many: without one, all become NaN."""

    def top_p(logits: Tensor, p: float) -> Tensor:
        _, sums, order = _in_order(logits)
        keep = ~reaches(sums, p)
        keep[:at_least] = True
        return _probabilities(logits, _kept(order, keep))

    return {"top_p": top_p}


def _one_more_if_equal(logits: Tensor, p: float) -> Tensor:
    ordered, sums, order = _in_order(logits)
    return _probabilities(logits, _kept(order, sums - ordered <= p))


def _least_first(logits: Tensor, p: float) -> Tensor:
    ordered, order = logits.softmax(-1).sort()
    return _probabilities(logits, _kept(order, ordered.cumsum(-1) - ordered < p))


def _with_equal_ones(logits: Tensor, p: float) -> Tensor:
    probabilities = logits.softmax(-1)
    return _probabilities(logits, probabilities >= probabilities[_right_top_p(logits, p) > 0].min())


def _zero_logits(logits: Tensor, p: float) -> Tensor:
    return (logits * (_right_top_p(logits, p) > 0)).softmax(-1)


def _one_more(logits: Tensor, p: float) -> Tensor:
    ordered, sums, order = _in_order(logits)
    keep = sums - ordered < p
    keep[1:] |= keep[:-1].clone()
    return _probabilities(logits, _kept(order, keep))


def _not_renormalised(logits: Tensor, p: float) -> Tensor:
    return logits.softmax(-1) * (_right_top_p(logits, p) > 0)


def _left_sorted(logits: Tensor, p: float) -> Tensor:
    return _right_top_p(logits.sort(descending=True).values, p)


def _above_p(logits: Tensor, p: float) -> Tensor:
    probabilities = logits.softmax(-1)
    return _probabilities(logits, (probabilities >= (1 - p)) | (probabilities == probabilities.max()))


def _right_top_p(logits: Tensor, p: float) -> Tensor:
    return keep_top_p(logits, p).softmax(-1)


def _clear(logits: Tensor, p: float) -> Tensor:
    """Scale the logits until no cumulative sum is so close to p that rounding would decide."""
    while float((_in_order(logits)[1] - p).abs().min()) < 1e-3:
        logits = logits * 1.01
    return logits


def _top_p_cases(seed: int) -> list[Case]:
    def case(label: str, n: int, V: int, p: float, spread: float = 1.0) -> Case:
        return function_case(label, "top_p", _clear(spread * drawn(seed + n, V), p), p)

    return [
        case("13 tokens, p = 0.5", 0, 13, 0.5),
        case("97 tokens, p = 0.9", 1, 97, 0.9),
        case("the most probable token alone exceeds p", 2, 7, 0.02, 3.0),
        function_case("one token with probability near 1", "top_p", 40.0 * F.one_hot(torch.tensor(5), 11).float(), 0.9),
        function_case("p = 1 keeps every token", "top_p", drawn(seed + 4, 17), 1.0),
        case("1,009 tokens, p = 0.3", 5, 1009, 0.3, 2.0),
        replace(
            function_case(
                "4 equal logits, p = 0.5: any 2 tokens, shown in descending order",
                "top_p",
                drawn(seed + 6, 1).repeat(4),
                0.5,
            ),
            any_order=True,
        ),
    ]


TOP_P = Task(
    "top-p",
    "Top-p (nucleus) sampling",
    '''"""Top-p: the probabilities of the next token after the filter.

logits (V,), 0 < p <= 1 -> (V,). Keep the fewest tokens, most probable first, whose probabilities sum to at least p
(at least one token; of equal ones, any). Set the others to 0 and renormalise the remaining ones to sum to 1.
"""

import torch


def top_p(logits, p):
    raise NotImplementedError
''',
    {"top_p": _right_top_p},
    _top_p_cases,
    (
        *(Mistaken("without the token at which the sum reaches p", _before(torch.ge, n)) for n in (0, 1)),
        *(Mistaken("without the token at which the sum exceeds p", _before(torch.gt, n)) for n in (0, 1)),
        Mistaken("with one token too many", {"top_p": _one_more}),
        Mistaken("with one more token if the sum equals p: <= p instead of < p", {"top_p": _one_more_if_equal}),
        Mistaken("with every token as probable as the last one kept", {"top_p": _with_equal_ones}),
        Mistaken("with the least probable tokens kept first", {"top_p": _least_first}),
        Mistaken("with logits of 0 instead of −∞ for removed tokens before the softmax", {"top_p": _zero_logits}),
        Mistaken("without renormalising the remaining probabilities", {"top_p": _not_renormalised}),
        Mistaken("in sorted order instead of the vocabulary's order", {"top_p": _left_sorted}),
        Mistaken("with a threshold of 1 − p on each probability instead of p on their sum", {"top_p": _above_p}),
    ),
)
