"""Feed-forwards: a dense one, and a mixture of experts. Gated ones (SwiGLU, GeGLU) have three matrices, others two."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from typing import Any, ClassVar

from attnviz.checks import ConfigError, of_type, refuse_unknown, shown
from attnviz.equations import Expression, Value
from attnviz.mechanisms.letters import letter
from attnviz.mechanisms.mechanism import Mechanism, largest_share

ACTIVATIONS = ("swiglu", "geglu", "gelu", "relu")
GATED = ("swiglu", "geglu")


def _weights(C: Expression, F: Value, gated: bool) -> Expression:
    return (3 if gated else 2) * C * F


def _biases(C: Expression, F: Value, gated: bool) -> Expression:
    return (2 * F if gated else F) + C


@dataclass(frozen=True)
class Dense(Mechanism):
    """A feed-forward of width d_ff. activation: None for the model's."""

    d_ff: int
    gated: bool = True
    bias: bool = False
    activation: str | None = None

    called: ClassVar[str] = "feed-forward"
    allowed: ClassVar[Mapping[str, tuple]] = {"activation": ACTIVATIONS}

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.activation is not None and self.gated != (self.activation in GATED):
            raise ConfigError(f"gated must be {self.activation in GATED} with activation {self.activation!r}")

    def share(self, n: int) -> Dense:
        """By d_ff."""
        return replace(self, d_ff=largest_share(self.d_ff, n))

    def matrices(self, C: Expression) -> dict[str, Expression]:
        return {"feed-forward": _weights(C, letter("F", self.d_ff), self.gated)}

    def added(self, C: Expression) -> dict[str, Expression]:
        return {"feed-forward": _biases(C, letter("F", self.d_ff), self.gated)} if self.bias else {}


@dataclass(frozen=True)
class Experts(Mechanism):
    """A router that sends each token to `per_token` of `n_routed` experts; `n_shared` experts see all tokens.

    shared_d_ff: width of the shared experts together, if it is not n_shared times that of the others. shared_gate: one
    number per token scales them. n_idle: choices of the router without an expert behind. latent: width that the experts
    read and write instead of d_model, with a projection before and after.
    """

    n_routed: int
    per_token: int
    d_ff: int
    n_shared: int = 0
    gated: bool = True
    router_bias: bool = False
    expert_bias: bool = False
    shared_d_ff: int | None = None
    shared_gate: bool = False
    n_idle: int = 0
    latent: int | None = None

    called: ClassVar[str] = "mixture of experts"
    lowest: ClassVar[Mapping[str, int]] = {"n_shared": 0, "n_idle": 0}

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.per_token > self.n_routed + self.n_idle:
            raise ConfigError(f"per_token must be at most n_routed = {self.n_routed}, not {self.per_token}")

    def share(self, n: int) -> Experts:
        """By the d_ff of each expert, which takes as much memory as dividing the experts.

        The router and projections around the experts are whole on each.
        """
        shared = self.shared_d_ff and largest_share(self.shared_d_ff, n)
        return replace(self, d_ff=largest_share(self.d_ff, n), shared_d_ff=shared)

    def matrices(self, C: Expression) -> dict[str, Expression]:
        return self._matrices(C, letter("E", self.n_routed))

    def multiplied(self, C: Expression) -> dict[str, Expression]:
        return self._matrices(C, letter("Eₖ", self.per_token))

    def _matrices(self, C: Expression, experts: Value) -> dict[str, Expression]:
        one, E = self._expert(C), letter("E", self.n_routed)
        weights = {"router": C * (E + self.n_idle) if self.n_idle else C * E}
        if self.shared_d_ff:
            weights["shared experts"] = _weights(C, letter("Fₛ", self.shared_d_ff), self.gated)
        elif self.n_shared:
            weights["shared experts"] = letter("Eₛ", self.n_shared) * _weights(C, self._width(), self.gated)
        if self.shared_gate:
            weights["shared expert gate"] = C
        if self.latent is not None:
            weights["experts' latent"] = 2 * C * letter("R", self.latent, "width that the experts read and write")
        return weights | {"experts": experts * one}

    def added(self, C: Expression) -> dict[str, Expression]:
        E = letter("E", self.n_routed)
        biases: dict[str, Expression] = {}
        if self.router_bias:
            biases["router"] = E + self.n_idle if self.n_idle else E
        if self.expert_bias:
            one = _biases(C, self._width(), self.gated)
            if self.n_shared:
                biases["shared experts"] = letter("Eₛ", self.n_shared) * one
            biases["experts"] = E * one
        return biases

    def _width(self) -> Value:
        return letter("F", self.d_ff, "d_ff of an expert")

    def _expert(self, C: Expression) -> Expression:
        read = C if self.latent is None else letter("R", self.latent, "width that the experts read and write")
        return _weights(read, self._width(), self.gated)

    def expert_parameters(self, C: Expression) -> int:
        """Return the parameters of one expert."""
        F = letter("F", self.d_ff)
        return int(self._expert(C).value + (_biases(C, F, self.gated).value if self.expert_bias else 0))

    def read(self, n_tokens: int) -> float:
        """Return the expected routed experts that `n_tokens` tokens use, choosing evenly and independently."""
        return self.n_routed * (1 - (1 - self.per_token / self.n_routed) ** n_tokens)

    def unread(self, C: Expression, n_tokens: int) -> float:
        return (self.n_routed - self.read(n_tokens)) * self.expert_parameters(C)

    def idle(self, C: Expression) -> int:
        """Return the parameters of the experts that one token is not routed to."""
        return (self.n_routed - self.per_token) * self.expert_parameters(C)


@dataclass(frozen=True)
class MoEConfig:
    """Mixture-of-experts feed-forward: number and sizes of the experts, and how many layers are dense instead."""

    n_routed_experts: int
    experts_per_token: int
    d_ff_expert: int
    n_shared_experts: int = 0
    n_dense_layers: int = 0
    dense_d_ff: int | None = None
    router_bias: bool = False
    expert_bias: bool = False
    router_score_correction_bias: bool = False  # a buffer for load balancing, not a parameter
    shared_d_ff: int | None = None  # of the shared experts together, if not n_shared_experts times d_ff_expert
    shared_gate: bool = False  # one number per token scales the shared experts

    def __post_init__(self) -> None:
        for f in fields(self):
            low = 0 if f.name in ("n_shared_experts", "n_dense_layers") else 1
            of_type(f"moe.{f.name}", getattr(self, f.name), str(f.type), low)
        if self.experts_per_token > self.n_routed_experts:
            raise ConfigError(
                f"moe.experts_per_token must be at most n_routed_experts = {self.n_routed_experts}, "
                f"not {self.experts_per_token}"
            )

    @classmethod
    def from_dict(cls, facts: object) -> MoEConfig:
        """Build from the `moe` part of published facts. ConfigError names an unknown or missing field."""
        if not isinstance(facts, dict):
            raise ConfigError(f"moe must be a mapping of names to values, not {shown(facts)}")
        refuse_unknown(facts, tuple(f.name for f in fields(cls)), "moe.")
        missing: dict[str, Any] = dict.fromkeys(("n_routed_experts", "experts_per_token", "d_ff_expert"))
        return cls(**missing | facts)

    def feed_forward(self, layer: int, dense: Dense) -> Dense | Experts:
        """Return a layer's feed-forward. dense: that of layers without experts, up to their own width."""
        if layer < self.n_dense_layers:
            return Dense(self.dense_d_ff or dense.d_ff, dense.gated, dense.bias)
        return Experts(
            self.n_routed_experts, self.experts_per_token, self.d_ff_expert, self.n_shared_experts, dense.gated,
            self.router_bias, self.expert_bias, self.shared_d_ff, self.shared_gate,
        )  # fmt: skip
