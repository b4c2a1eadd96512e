"""Published models with RoPE scaling: that of their configuration, or one that a question supposes."""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache

from torch import Tensor

from attnviz.config import ModelConfig
from attnviz.modules.rope import rope_frequencies
from attnviz.modules.rope_scaling import RopeScaling, scaled_rope_frequencies
from attnviz.practice.drills.heads import published_with

METHODS = {
    "linear": "position interpolation (linear scaling)", "ntk": "NTK-aware scaling", "yarn": "YaRN",
    "llama3": "Llama 3's scaling",
}  # fmt: skip
FACTORS = (4, 8, 16)  # of supposed extensions
MAX_FACTOR = 32  # of the RoPE page's slider
_SAID = "applies_to"  # a note beside the fields of a published scaling: which layers have it


@dataclass(frozen=True)
class Extended:
    """A model and the scaling that extends its context. own: the scaling is that of its configuration."""

    name: str
    width: int  # dimensions of a head that RoPE rotates
    base: float
    scaling: RopeScaling
    trained: int | None  # context before the extension; None where the configuration does not say
    longest: int  # context after it
    own: bool
    in_all_layers: bool = True

    @property
    def method(self) -> str:
        return self.scaling.rope_type

    @property
    def told(self) -> str:
        """Say which method extends which context, by which factor, as the beginning of a question."""
        which = "its original context" if self.own and self.trained else "its context"
        context = f"{which} of {self.trained:,} tokens" if self.trained else which
        extends = f"{self.name} extends" if self.own else f"Suppose that {self.name} extended"
        where = "" if self.in_all_layers else ", in its layers without a window"
        return f"{extends} {context} by {METHODS[self.method]}, with a factor of {self.scaling.factor:g}{where}"

    @property
    def rotation(self) -> str:
        """Say what RoPE rotates, and with which base."""
        return f"RoPE rotates {self.width} dimensions of a head, and the base is {self.base:,.0f}"

    @property
    def slowed(self) -> Tensor:
        """The factor on the frequency of each pair: (width / 2,)."""
        return _slowed(self.width, self.base, self.scaling)

    def link(self) -> tuple[str, dict[str, str]]:
        """Return the page and settings that extend the context of a head of this width with this base and factor, or
        the largest factor of the page."""
        link = {"tab": "longer", "factor": f"{min(self.scaling.factor, MAX_FACTOR):g}"}
        own = {"model": "own", "head_dim": str(self.width), "theta": f"{self.base:.0f}"} if self.width <= 128 else {}
        return "rope", link | own


@lru_cache(maxsize=1024)
def _slowed(width: int, base: float, scaling: RopeScaling) -> Tensor:
    return scaled_rope_frequencies(width, base, scaling) / rope_frequencies(width, base)


def own_scaling(m: ModelConfig) -> RopeScaling | None:
    """Return the scaling of a model's configuration; None without one, or where a number of it is not known."""
    fields = dict(m.rope_scaling or ())
    if m.rope_theta is None or None in fields.values():
        return None
    return RopeScaling.of({name: value for name, value in fields.items() if name != _SAID} or None)


def extended(
    rng: random.Random,
    *methods: str,
    wanted: Callable[[Extended], bool] = lambda _: True,
    factors: tuple[int, ...] = FACTORS,
) -> Extended:
    """Draw a published model whose configuration has one of these methods or, as often, one without scaling of which
    a question can suppose it. No configuration here has NTK-aware scaling, and Llama 3's is supposed of none."""
    method = rng.choice(methods)
    if method == "llama3" or (method != "ntk" and rng.random() < 0.5):
        return _own(published_with(rng, lambda m: _has(m, method) and wanted(_own(m)))[1])
    factor = rng.choice(factors)
    return _supposed(
        published_with(rng, lambda m: _is_unscaled(m) and wanted(_supposed(m, method, factor)))[1], method, factor
    )


def _has(m: ModelConfig, method: str) -> bool:
    scaling = own_scaling(m)
    return scaling is not None and scaling.rope_type == method


def _is_unscaled(m: ModelConfig) -> bool:
    """Check that RoPE is the same in all layers, and that the RoPE page can draw a head of its width."""
    rotates = 8 <= m.rotary_dim <= 128 and m.attention != "mla" and m.rope_theta_windowed is None
    return rotates and not m.rope_scaling and m.rope_theta is not None and (m.max_context or 10**9) <= 32_768


def _own(m: ModelConfig) -> Extended:
    scaling = own_scaling(m)
    assert scaling is not None and m.rope_theta is not None and m.max_context is not None
    everywhere = _SAID not in dict(m.rope_scaling)
    before = scaling.original_max_position_embeddings
    return Extended(m.name, m.rotary_dim, m.rope_theta, scaling, before, m.max_context, True, everywhere)


def _supposed(m: ModelConfig, method: str, factor: int) -> Extended:
    assert m.rope_theta is not None and m.max_context is not None
    before = m.max_context if method == "yarn" else None
    scaling = RopeScaling(method, factor=float(factor), original_max_position_embeddings=before)
    return Extended(m.name, m.rotary_dim, m.rope_theta, scaling, m.max_context, factor * m.max_context, False)


def leaves_from(scaling: RopeScaling) -> float:
    """Return the rotations within the original context from which on a pair keeps its frequency: Llama 3, or YaRN."""
    return scaling.high_freq_factor if scaling.rope_type == "llama3" else scaling.beta_fast


def times(n: float) -> str:
    """Return a number of times in words: "once", "32 times"."""
    return "once" if n == 1 else f"{n:g} times"


def fewer_than(n: float) -> str:
    """Return fewer than this number of times in words: "less than once", "fewer than 32 times"."""
    return f"{'less' if n == 1 else 'fewer'} than {times(n)}"


def rotations(width: int, base: float, tokens: int) -> Tensor:
    """Return how often each pair rotates within these tokens: (width / 2,)."""
    return tokens * rope_frequencies(width, base) / (2 * math.pi)
