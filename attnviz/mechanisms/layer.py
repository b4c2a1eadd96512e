"""A layer of a model: its parts in order, its rotation, and whose cache or weights it shares."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import MISSING, dataclass, fields, replace
from typing import Any, TypeVar

from attnviz.checks import ConfigError, number, of_type, one_of, refuse_unknown, shown
from attnviz.mechanisms.compressed import Compressed
from attnviz.mechanisms.convolution import ShortConvolution
from attnviz.mechanisms.delta import GatedDelta
from attnviz.mechanisms.feedforward import Dense, Experts
from attnviz.mechanisms.grouped import Grouped
from attnviz.mechanisms.latent import Latent
from attnviz.mechanisms.lightning import Lightning
from attnviz.mechanisms.mamba import Mamba, Mamba2
from attnviz.mechanisms.mechanism import Mechanism
from attnviz.mechanisms.mixer import Mixer
from attnviz.mechanisms.others import Again
from attnviz.mechanisms.rwkv import ChannelMix, TimeMix
from attnviz.mechanisms.sparse import IndexedGrouped, IndexedLatent
from attnviz.mechanisms.windowed import Windowed

PARTS = {  # by their name in metadata
    part.__name__.lower(): part
    for part in (
        Grouped, Latent, IndexedGrouped, IndexedLatent, Compressed, GatedDelta, Mamba, Mamba2, Lightning,
        ShortConvolution, TimeMix, ChannelMix, Dense, Experts,
    )
}  # fmt: skip
T = TypeVar("T")


@dataclass(frozen=True)
class Layer:
    """The parts of one layer, such as a mixer and a feed-forward.

    parallel: the parts read the same input and their outputs are added, instead of one after the other.
    n_norms: norms over d_model. rope_theta: the base of its rotation, None without one. rope_scaled: the model's RoPE
    scaling applies to it. shares_cache_of, shares_weights_of: index of the earlier layer whose cache or weights it uses
    instead of its own.
    """

    parts: tuple[Mechanism, ...]
    n_norms: int = 2
    parallel: bool = False
    rope_theta: float | None = None
    rope_scaled: bool = True
    shares_cache_of: int | None = None
    shares_weights_of: int | None = None

    def __post_init__(self) -> None:
        if not self.parts or not all(isinstance(part, Mechanism) for part in self.parts):
            raise ConfigError(f"parts must be one or more mechanisms, not {shown(self.parts)}")
        check_theta("rope_theta", self.rope_theta)
        for f in fields(self):
            if f.name not in ("parts", "rope_theta"):
                of_type(f.name, getattr(self, f.name), str(f.type), low=0)

    @classmethod
    def from_dict(cls, given: object, name: str) -> Layer:
        """Build from the form of `to_dict`. ConfigError names an unknown or invalid field of `name`."""
        known = _mapping(given, name)
        parts = known.get("parts")
        if not isinstance(parts, list | tuple):
            raise ConfigError(f"{name}.parts must be a list, not {shown(parts)}")
        return _built(cls, {**known, "parts": tuple(_part(p, f"{name}.parts[{i}]") for i, p in enumerate(parts))}, name)

    def to_dict(self) -> dict[str, Any]:
        """Return the fields that differ from the defaults; each part with its name."""
        return {**changed_fields(self), "parts": [_written(part) for part in self.parts]}

    @property
    def running(self) -> tuple[Mechanism, ...]:
        """The parts themselves, also of those with an earlier part's weights."""
        return tuple(part.part if isinstance(part, Again) else part for part in self.parts)

    @property
    def mixers(self) -> tuple[Mixer, ...]:
        return tuple(part for part in self.running if isinstance(part, Mixer))

    @property
    def mixer(self) -> Mixer:
        """The mixer of a layer that has one."""
        (mixer,) = self.mixers
        return mixer

    @property
    def feed_forwards(self) -> tuple[Dense | Experts, ...]:
        return tuple(part for part in self.running if isinstance(part, Dense | Experts))

    @property
    def weights(self) -> Layer:
        """The layer without what does not change its tensors: windows, and the base of its rotation."""
        parts = (part.unwindowed if isinstance(part, Mixer) else part for part in self.parts)
        return replace(self, parts=tuple(parts), rope_theta=None)

    def run_as(self, window: int | None, n_sinks: int, rope_theta: float | None) -> Layer:
        """Return the layer with this window, if its mixer can have one, and this base if it rotates; None: its own."""
        parts, theta = self.parts, rope_theta if rope_theta and self.rope_theta else self.rope_theta
        if window is not None:
            parts = tuple(
                replace(part, window=window, n_sinks=n_sinks) if isinstance(part, Windowed) else part for part in parts
            )
        return replace(self, parts=parts, rope_theta=theta)

    @property
    def rotary_dim(self) -> int:
        """Number of a head's dimensions that RoPE rotates; 0 without a rotation."""
        return 0 if self.rope_theta is None else self.mixer.rotary_dim


def layers_from(given: object) -> tuple[Layer, ...]:
    """Build the layers of `mixed_layers` from its form in metadata."""
    if not isinstance(given, list | tuple):
        raise ConfigError(f"mixed_layers must be a list, not {shown(given)}")
    return tuple(Layer.from_dict(layer, f"mixed_layers[{i}]") for i, layer in enumerate(given))


def check_theta(name: str, theta: object) -> None:
    """Raise ConfigError unless this is a base of RoPE's frequencies, or None."""
    if theta is not None:
        number(name, theta, 1, 10**12)
        if theta == 1:
            raise ConfigError(f"{name} must be above 1, or all pairs rotate equally, not {theta!r}")


def changed_fields(value: Any) -> dict[str, Any]:
    """Return the fields of a dataclass that differ from their defaults."""
    return {f.name: getattr(value, f.name) for f in fields(value) if getattr(value, f.name) != f.default}


def _written(part: Mechanism) -> dict[str, Any]:
    name = type(part).__name__.lower()
    if PARTS.get(name) is not type(part):
        raise ConfigError(f"a {type(part).__name__} cannot be written to a checkpoint's metadata")
    return {"mechanism": name, **changed_fields(part)}


def _part(given: object, name: str) -> Mechanism:
    known = dict(_mapping(given, name))
    kind = known.pop("mechanism", None)
    one_of(f"{name}.mechanism", kind, tuple(PARTS))
    return _built(PARTS[kind], known, name)


def _mapping(given: object, name: str) -> Mapping[str, Any]:
    if not isinstance(given, dict):
        raise ConfigError(f"{name} must be a mapping of names to values, not {shown(given)}")
    return given


def _built(kind: type[T], given: dict[str, Any], name: str) -> T:
    """Build a dataclass; a missing field is checked as None, and errors name the field of `name`."""
    of_kind = fields(kind)  # type: ignore[arg-type]
    refuse_unknown(given, tuple(f.name for f in of_kind), f"{name}.")
    missing: dict[str, Any] = {f.name: None for f in of_kind if f.default is MISSING}
    try:
        return kind(**missing | given)
    except ConfigError as error:
        raise ConfigError(f"{name}.{error}") from None
