"""Feed-forwards: a dense one, and a mixture of experts. Gated ones (SwiGLU, GeGLU) have three matrices, others two."""

from __future__ import annotations

from dataclasses import dataclass

from attnviz.equations import Expression, Value
from attnviz.mechanisms.letters import letter
from attnviz.mechanisms.mechanism import Mechanism

GATED = ("swiglu", "geglu")


def _weights(C: Expression, F: Value, gated: bool) -> Expression:
    return (3 if gated else 2) * C * F


def _biases(C: Expression, F: Value, gated: bool) -> Expression:
    return (2 * F if gated else F) + C


@dataclass(frozen=True)
class Dense(Mechanism):
    """A feed-forward of width d_ff."""

    d_ff: int
    gated: bool = True
    bias: bool = False

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

    def matrices(self, C: Expression) -> dict[str, Expression]:
        return self._matrices(C, letter("E", self.n_routed))

    def multiplied(self, C: Expression) -> dict[str, Expression]:
        return self._matrices(C, letter("Eₖ", self.per_token))

    def _matrices(self, C: Expression, experts: Value) -> dict[str, Expression]:
        one, E = self._expert(C), letter("E", self.n_routed)
        found = {"router": C * (E + self.n_idle) if self.n_idle else C * E}
        if self.shared_d_ff:
            found["shared experts"] = _weights(C, letter("Fₛ", self.shared_d_ff), self.gated)
        elif self.n_shared:
            found["shared experts"] = letter("Eₛ", self.n_shared) * _weights(C, self._width(), self.gated)
        if self.shared_gate:
            found["shared expert gate"] = C
        if self.latent is not None:
            found["experts' latent"] = 2 * C * letter("R", self.latent, "width that the experts read and write")
        return found | {"experts": experts * one}

    def added(self, C: Expression) -> dict[str, Expression]:
        E = letter("E", self.n_routed)
        found: dict[str, Expression] = {}
        if self.router_bias:
            found["router"] = E + self.n_idle if self.n_idle else E
        if self.expert_bias:
            one = _biases(C, self._width(), self.gated)
            if self.n_shared:
                found["shared experts"] = letter("Eₛ", self.n_shared) * one
            found["experts"] = E * one
        return found

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
