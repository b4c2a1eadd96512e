"""RoPE scaling: frequencies for texts longer than the training context.

Linear (arXiv 2306.15595) slows all pairs by one factor. NTK-aware scaling slows the slow pairs only, dynamic NTK by an
amount that depends on the text's length. YaRN (arXiv 2309.00071) and Llama 3 leave pairs that turn often inside the
training context unchanged, slow those that do not turn once by the whole factor, and interpolate between. LongRoPE
(arXiv 2402.13753) has one factor per pair.
Field names and defaults are those of published configurations, which can be used unchanged.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields
from typing import Any

import torch
from torch import Tensor

from attnviz.checks import ConfigError, shown
from attnviz.modules.rope import rope_frequencies

_YARN = ("factor", "original_max_position_embeddings", "attention_factor",
         "beta_fast", "beta_slow", "mscale", "mscale_all_dim", "truncate")  # fmt: skip
_LLAMA3 = ("factor", "original_max_position_embeddings", "low_freq_factor", "high_freq_factor")
_LONGROPE = ("factor", "original_max_position_embeddings", "attention_factor", "short_factor", "long_factor")
FIELDS_OF = {
    "linear": ("factor",),
    "ntk": ("factor",),
    "dynamic": ("factor", "original_max_position_embeddings"),
    "yarn": _YARN,
    "llama3": _LLAMA3,
    "longrope": _LONGROPE,
}
OPTIONAL = ("attention_factor", "mscale", "mscale_all_dim")


@dataclass(frozen=True)
class RopeScaling:
    """One scaling method and its validated parameters; `attention_factor`, the factor on cos and sin, is always set.

    Fields typed `| Any` are None if the method does not have them.
    """

    rope_type: str
    factor: float | Any = None
    original_max_position_embeddings: int | Any = None  # training context in tokens
    attention_factor: float | Any = None
    beta_fast: float = 32.0  # YaRN: pairs that turn more often than this inside the training context are not slowed
    beta_slow: float = 1.0  # YaRN: pairs that turn less often are slowed by the whole factor
    mscale: float | None = None
    mscale_all_dim: float | None = None
    truncate: bool = True  # YaRN: round the bounds of the ramp to whole pairs
    low_freq_factor: float | Any = None  # Llama 3: as beta_slow
    high_freq_factor: float | Any = None  # Llama 3: as beta_fast
    short_factor: tuple[float, ...] | None = None  # LongRoPE: one per pair, up to the training context
    long_factor: tuple[float, ...] | None = None  # LongRoPE: one per pair, beyond it

    @classmethod
    def of(
        cls, given: RopeScaling | Mapping | Iterable[tuple[str, object]] | None, max_context: int | None = None
    ) -> RopeScaling | None:
        """Parse a published configuration's dictionary, or its pairs; None, or the type "default", means no scaling.

        max_context: the configuration's maximum, used for missing fields: for dynamic NTK it is the training context,
        for YaRN and LongRoPE its ratio to the training context is the factor.
        """
        if given is None or isinstance(given, RopeScaling):
            return given
        values: dict[str, Any] = {name: value for name, value in dict(given).items() if value is not None}
        rope_type = _type_of(values)
        if rope_type == "default":
            return None
        used = FIELDS_OF[rope_type]
        for name in values:
            if name not in used:
                raise ConfigError(
                    f"rope_scaling of type {rope_type} has the fields {', '.join(used)}, not {shown(name)}"
                )
        if max_context is not None:
            if rope_type == "dynamic":
                values.setdefault("original_max_position_embeddings", max_context)
            elif "original_max_position_embeddings" in values and rope_type in ("yarn", "longrope"):
                values.setdefault("factor", max_context / values["original_max_position_embeddings"])
        numbers: dict[str, Any] = {n: tuple(v) if isinstance(v, list) else v for n, v in values.items()}
        return cls(rope_type, **numbers)

    def __post_init__(self) -> None:
        if self.rope_type not in FIELDS_OF:
            given = shown(self.rope_type)
            raise ConfigError(f"rope_scaling.rope_type must be one of {', '.join(FIELDS_OF)}, not {given}")
        for field in fields(self):
            value, name = getattr(self, field.name), field.name
            if name in FIELDS_OF[self.rope_type] and not (value is None and name in OPTIONAL):
                _check(name, value)
        if self.rope_type == "yarn" and self.beta_slow > self.beta_fast:  # equal ones, as in Kimi K2, are a step
            raise ConfigError(
                f"rope_scaling.beta_slow must be at most beta_fast = {self.beta_fast}, not {self.beta_slow}"
            )
        if self.rope_type == "llama3" and self.low_freq_factor >= self.high_freq_factor:
            raise ConfigError(
                f"rope_scaling.low_freq_factor must be below high_freq_factor = {self.high_freq_factor}, not "
                f"{self.low_freq_factor}"
            )
        if self.attention_factor is None:
            object.__setattr__(self, "attention_factor", self._default_attention_factor())

    def _default_attention_factor(self) -> float:
        """Return the papers' factor on cos and sin; a score q·k grows by its square."""
        if self.rope_type == "longrope":
            return math.sqrt(1 + math.log(self.factor) / math.log(self.original_max_position_embeddings))
        if self.rope_type != "yarn":
            return 1.0
        if self.mscale and self.mscale_all_dim:
            return _yarn_mscale(self.factor, self.mscale) / _yarn_mscale(self.factor, self.mscale_all_dim)
        return _yarn_mscale(self.factor, 1.0)

    @property
    def latent_softmax_factor(self) -> float:
        """Factor on the softmax scale of latent attention (MLA): YaRN's mscale² with mscale_all_dim, otherwise 1.

        As in DeepSeek-V2 and V3, where it scales all dimensions of a score, those without RoPE included.
        """
        return _yarn_mscale(self.factor, self.mscale_all_dim) ** 2 if self.mscale_all_dim else 1.0


def _yarn_mscale(factor: float, mscale: float) -> float:
    return 0.1 * mscale * math.log(factor) + 1.0


def _type_of(values: dict[str, Any]) -> str:
    """Remove the method from the values and return it; its key is "rope_type", or "type" in older files."""
    names = [values.pop(key) for key in ("rope_type", "type") if key in values]
    if not names or names.count(names[0]) != len(names) or names[0] not in ("default", *FIELDS_OF):
        given = " and ".join(map(shown, names)) or "missing"
        raise ConfigError(f"rope_scaling.rope_type must be one of default, {', '.join(FIELDS_OF)}, not {given}")
    return names[0]


def _check(name: str, value: Any) -> None:
    """Raise ConfigError unless the value is valid for this field."""
    if name == "truncate":
        ok, wanted = isinstance(value, bool), "True or False"
    elif name.endswith(("short_factor", "long_factor")):
        ok = isinstance(value, tuple) and len(value) > 0 and all(_number(v) and v > 0 for v in value)
        wanted = "positive numbers, one for each pair"
    elif name == "original_max_position_embeddings":
        ok, wanted = _number(value) and value == int(value) and value >= 2, "a whole number of at least 2"
    elif name == "factor":
        ok, wanted = _number(value) and value >= 1, "a number of at least 1"
    else:
        ok, wanted = _number(value) and value > 0, "a number above 0"
    if not ok:
        raise ConfigError(f"rope_scaling.{name} must be {wanted}, not {shown(value)}")


def _number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


def scaled_rope_frequencies(
    head_dim: int,
    theta: float = 10000.0,
    scaling: RopeScaling | Mapping | Iterable[tuple[str, object]] | None = None,
    length: int | None = None,
) -> Tensor:
    """Compute `rope_frequencies` scaled for a text of `length` tokens: float64 (head_dim // 2,).

    scaling: a `RopeScaling`, or the dictionary of a published configuration, or its pairs. The factor of YaRN and
    LongRoPE on cos and sin is not part of the frequencies: it is `RopeScaling.attention_factor`.
    """
    frequencies, scaling = rope_frequencies(head_dim, theta), RopeScaling.of(scaling)
    return frequencies if scaling is None else scale_frequencies(frequencies, theta, scaling, length)


def scale_frequencies(frequencies: Tensor, theta: float, scaling: RopeScaling, length: int | None = None) -> Tensor:
    """Scale theta's frequencies by this method for a text of `length` tokens: float64 (n_pairs,).

    Only dynamic NTK and LongRoPE depend on the length; None means no longer than the training context.
    """
    match scaling.rope_type:
        case "linear":
            return frequencies / scaling.factor
        case "ntk":
            return _ntk(frequencies, scaling.factor)
        case "dynamic":
            return _ntk(frequencies, _dynamic_factor(scaling, length))
        case "yarn":
            return _yarn(frequencies, theta, scaling)
        case "llama3":
            return _llama3(frequencies, scaling)
        case _:
            return _longrope(frequencies, scaling, length)


def _ntk(frequencies: Tensor, factor: float) -> Tensor:
    """Scale theta by factor^(d / (d - 2)): the fastest pair is unchanged, the slowest is divided by `factor`."""
    n = len(frequencies)
    if n < 2:
        raise ConfigError("head_dim must be at least 4 for NTK scaling, which treats fast and slow pairs differently")
    return frequencies * factor ** -(torch.arange(n, dtype=torch.float64) / (n - 1))


def _dynamic_factor(scaling: RopeScaling, length: int | None) -> float:
    """Return dynamic NTK's factor: 1 up to the training context, then growing with the text."""
    trained = scaling.original_max_position_embeddings
    return scaling.factor * max(length or trained, trained) / trained - (scaling.factor - 1)


def yarn_bounds(n: int, theta: float, s: RopeScaling) -> tuple[float, float]:
    """Return the last of n pairs that YaRN leaves unchanged and the first that it slows by the whole factor.

    Not whole numbers unless `truncate`.
    """

    def pair_that_turns(times: float) -> float:
        """Return the (fractional) index of the pair that turns this often inside the training context."""
        return n * math.log(s.original_max_position_embeddings / (2 * math.pi * times)) / math.log(theta)

    low, high = pair_that_turns(s.beta_fast), pair_that_turns(s.beta_slow)
    if s.truncate:
        low, high = math.floor(low), math.ceil(high)
    low, high = max(low, 0), min(high, 2 * n - 1)
    if low > high:
        raise ConfigError(
            f"rope_scaling.original_max_position_embeddings = {s.original_max_position_embeddings} leaves YaRN no pair "
            f"that turns between beta_slow = {s.beta_slow:g} and beta_fast = {s.beta_fast:g} times at theta = {theta:g}"
        )
    return low, high


def _yarn(frequencies: Tensor, theta: float, s: RopeScaling) -> Tensor:
    n = len(frequencies)
    low, high = yarn_bounds(n, theta, s)
    width = (high - low) or 0.001  # a step if the bounds coincide
    slowed = ((torch.arange(n, dtype=torch.float64) - low) / width).clamp(0, 1)  # (n_pairs,), 1 = by the whole factor
    return frequencies * (1 - slowed) + frequencies / s.factor * slowed


def _llama3(frequencies: Tensor, s: RopeScaling) -> Tensor:
    turns = s.original_max_position_embeddings * frequencies / (2 * math.pi)  # inside the training context
    unchanged = ((turns - s.low_freq_factor) / (s.high_freq_factor - s.low_freq_factor)).clamp(0, 1)
    return frequencies * unchanged + frequencies / s.factor * (1 - unchanged)


def _longrope(frequencies: Tensor, s: RopeScaling, length: int | None) -> Tensor:
    beyond = (length or 0) > s.original_max_position_embeddings
    name = "long_factor" if beyond else "short_factor"
    factors = getattr(s, name)
    if len(factors) != len(frequencies):
        raise ConfigError(f"rope_scaling.{name} must hold {len(frequencies)} numbers, one per pair, not {len(factors)}")
    return frequencies / torch.tensor(factors, dtype=torch.float64)
