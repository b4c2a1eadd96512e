"""The task of the gated delta rule. B batch, H heads, T tokens, D width of a key, V width of a value."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from attnviz.modules.delta import gated_delta_rule, l2_normalised
from attnviz.practice.task import TOLERANCE, Case, Mistaken, Task, function_case
from attnviz.practice.tasks.inputs import drawn

B, H, D, V = 2, 3, 5, 7
MANY = 137  # tokens: more than a chunk of 16, 32, 64 or 128
CHUNKS = (16, 32, 64, 128)
WEAKEST = -9.0  # logarithm of the smallest decay where their product becomes 0 in float32
WEAK_TOLERANCE = 1e-4  # a sum of logarithms near −140 in float32 is off by up to 1e-5, and its exponential by as much


def _version(
    order: str = "decay held write read",
    decays: Callable[[Tensor], Tensor] = lambda decay: decay,
    betas: Callable[[Tensor], Tensor] = lambda beta: beta,
    prepared: Callable[[Tensor, Tensor], tuple[Tensor, Tensor]] = lambda q, k: (q, k),
    difference: Callable[[Tensor, Tensor, Tensor], Tensor] = lambda v, held, beta: beta * (v - held),
    held_by: str = "k",
    written_by: str = "k",
    read_by: str = "q",
    scale: Callable[[int, int], float] = lambda D, V: D**-0.5,
    begin: Callable[[Tensor], Tensor] = lambda state: state,
    returned: Callable[[list[Tensor]], Tensor] = lambda states: states[-1],
    restart: int = MANY,
    chunk: int = 1,
) -> dict[str, Any]:
    """Build the rule, token by token; without options it is right.

    order: of what is done with a token. decays, betas: those used, (B, H, T), of the given ones. prepared: q and k.
    difference: what is written, of the value, of what the state holds and β. held_by, written_by, read_by: q or k.
    begin: the first state, of the given one. returned: the last state, of all states from the given one on. restart:
    the tokens after which the state is empty again. chunk: the tokens whose writes are corrected by the state before
    all of them.
    """

    def rule(
        q: Tensor, k: Tensor, v: Tensor, decay: Tensor, beta: Tensor, state: Tensor | None = None
    ) -> tuple[Tensor, Tensor]:
        empty = q.new_zeros(*q.shape[:2], q.shape[3], v.shape[3])  # (B, H, D, V)
        (q, k), decay, beta, outputs = prepared(q, k), decays(decay), betas(beta), []
        S = empty if state is None else begin(state)
        before, states = S, [empty if state is None else state]
        for t in range(q.shape[2]):
            S = empty if t and t % restart == 0 else S
            before = before if t % chunk else S  # without the writes of the chunk
            at = {"q": q[:, :, t, :, None], "k": k[:, :, t, :, None]}  # (B, H, D, 1) each
            held = output = v.new_zeros(())
            for step in order.split():
                if step == "decay":
                    S, before = (decay[:, :, t, None, None] * each for each in (S, before))
                elif step == "held":
                    held = (at[held_by] * before).sum(2)  # (B, H, V)
                elif step == "write":
                    S = S + at[written_by] * difference(v[:, :, t], held, beta[:, :, t, None])[:, :, None]
                else:
                    output = (at[read_by] * S).sum(2) * scale(q.shape[3], v.shape[3])  # (B, H, V)
            outputs.append(output)
            states.append(S)
        return torch.stack(outputs, 2), returned(states)

    return {"gated_delta_rule": rule}


def _transposed(state: Tensor) -> Tensor:
    """Return a state (B, H, D, V) read as one of (B, H, V, D)."""
    return state.mT


def _key_again(keys: Tensor) -> Tensor:
    """Let token 5 have the key of token 1."""
    keys[:, :, 5] = keys[:, :, 1]
    return keys


def _cases(seed: int) -> list[Case]:
    def case(label: str, n: int, T: int, *, width: int = V, state: bool = False, twice: bool = False,
             tolerance: float = TOLERANCE, **given: Tensor) -> Case:  # fmt: skip
        uniform = torch.Generator().manual_seed(seed + n)
        lengths = 0.6 + 0.6 * torch.rand(2, B, H, T, 1, generator=uniform)  # of q and k
        q, k = (length * l2_normalised(drawn(seed + n + i, B, H, T, D)) for i, length in enumerate(lengths))
        alike = {
            "q": q, "k": k, "v": drawn(seed + n + 2, B, H, T, width),
            "decay": 0.6 + 0.4 * torch.rand(B, H, T, generator=uniform),
            "beta": 0.1 + 0.8 * torch.rand(B, H, T, generator=uniform),
        }  # fmt: skip
        states: dict[str, Any] = {"state": drawn(seed + n + 3, B, H, D, width)} if state else {}
        return function_case(label, "gated_delta_rule", *(alike | given).values(), twice=twice,
                             tolerance=tolerance, returned=("output", "state"), **states)  # fmt: skip

    halves = torch.rand(B, H, 11, generator=torch.Generator().manual_seed(seed + 60)) < 0.5
    halves[:, :, 1], halves[:, :, 2] = True, False
    return [
        case("no state given, twice the same", 0, 11, twice=True),
        case("a given state", 5, 7, state=True),
        case("one token and a given state: a decode step", 10, 1, state=True),
        case("D = V = 5, with a given state", 15, 11, width=D, state=True),
        case("decays of 1: nothing is forgotten", 20, 11, decay=torch.ones(B, H, 11)),
        case("beta = 1 and keys of length 1, one of them twice: its value is replaced", 25, 7,
             k=_key_again(l2_normalised(drawn(seed + 61, B, H, 7, D))), beta=torch.ones(B, H, 7)),
        case("beta = 0 at some tokens: they write nothing", 30, 11, beta=0.7 * halves),
        case("decays so small that the product over the tokens is 0 in float32", 35, 31, state=True,
             tolerance=WEAK_TOLERANCE,
             decay=(WEAKEST * torch.rand(B, H, 31, generator=torch.Generator().manual_seed(seed + 62))).exp()),
        case(f"{MANY} tokens: more than a chunk", 40, MANY,
             decay=1 - 0.1 * torch.rand(B, H, MANY, generator=torch.Generator().manual_seed(seed + 63))),
    ]  # fmt: skip


WRONG_ORDERS = (
    Mistaken("with the decay after the write, so that the token's own write decays too",
             {"order": "held write decay read"}, "decay_after_the_write"),
    Mistaken("with the decay after the read, so that it reaches the next token only",
             {"order": "held write read decay"}),
    Mistaken("with the difference to what the state held before its decay", {"order": "held decay write read"}),
    Mistaken("with the output read before the write, so that a token does not read what it writes",
             {"order": "decay held read write"}),
    Mistaken("with the output read before decay and write: from the state of the token before",
             {"order": "read decay held write"}),
    Mistaken("without the decay", {"order": "held write read"}),
)  # fmt: skip
WRONG_DECAYS = (
    Mistaken("with the decay of the first token for all tokens", {"decays": lambda decay: decay[:, :, :1] + 0 * decay}),
    Mistaken("with the decay of the first head for all heads", {"decays": lambda decay: decay[:, :1] + 0 * decay}),
    Mistaken("with the mean decay of the text at all tokens",
             {"decays": lambda decay: decay.mean(2, keepdim=True) + 0 * decay}),
    Mistaken("with the product of all decays so far applied at each token, instead of the token's own",
             {"decays": lambda decay: decay.cumprod(2)}),
    Mistaken("with 1 − decay instead of decay: it is what the state keeps", {"decays": lambda decay: 1 - decay}),
    Mistaken("with exp(decay) as the decay, which is given as a factor and not as a logarithm",
             {"decays": lambda decay: decay.exp()}),
    Mistaken("without the decay of the given state at the first token",
             {"decays": lambda decay: torch.cat((torch.ones_like(decay[:, :, :1]), decay[:, :, 1:]), 2)}),
)  # fmt: skip
WRONG_WRITES = (
    Mistaken("without the correction by what the state already returns for the key: plain linear attention with a "
             "decay, k ⊗ βv", {"difference": lambda v, held, beta: beta * v}, "values_added_up"),
    Mistaken("without the correction and without β: k ⊗ v is added", {"difference": lambda v, held, beta: v}),
    Mistaken("without β: the whole difference is written", {"difference": lambda v, held, beta: v - held},
             "write_strength_left_out"),
    Mistaken("with β on the value alone: βv − Sᵀk", {"difference": lambda v, held, beta: beta * v - held}),
    Mistaken("with β on what the state returns alone: v − βSᵀk", {"difference": lambda v, held, beta: v - beta * held}),
    Mistaken("with β twice, as on the key and on the difference",
             {"difference": lambda v, held, beta: beta**2 * (v - held)}),
    Mistaken("with 1 − β instead of β", {"difference": lambda v, held, beta: (1 - beta) * (v - held)}),
    *(Mistaken(f"with writes that are not corrected by earlier ones of the same chunk of {n} tokens: without solving "
               "the triangular system", {"chunk": n}) for n in CHUNKS),
    Mistaken("with what the state returns added to the value instead of subtracted",
             {"difference": lambda v, held, beta: beta * (v + held)}),
    Mistaken("with the sigmoid of β, which is given after it", {"betas": torch.sigmoid}),
    Mistaken("with β of the first head for all heads", {"betas": lambda beta: beta[:, :1] + 0 * beta}),
)  # fmt: skip
WRONG_VECTORS = (
    Mistaken("with q and k swapped in the outer product: q is written", {"written_by": "q"}),
    Mistaken("with q and k swapped everywhere: q is written, and k reads",
             {"held_by": "q", "written_by": "q", "read_by": "k"}),
    Mistaken("with the correction read by q instead of k", {"held_by": "q"}),
    Mistaken("with the output read by k instead of q", {"read_by": "k"}),
    Mistaken("with q and k normalised, which are to be used as they are given",
             {"prepared": lambda q, k: (l2_normalised(q), l2_normalised(k))}),
    Mistaken("with k normalised, which is to be used as it is given",
             {"prepared": lambda q, k: (q, l2_normalised(k))}),
    Mistaken("with k divided by √D too", {"prepared": lambda q, k: (q, k * k.shape[3] ** -0.5)}),
)  # fmt: skip
WRONG_READS = (
    Mistaken("without the division by √D", {"scale": lambda D, V: 1.0}),
    Mistaken("with the output divided by D instead of √D", {"scale": lambda D, V: 1 / D}),
    Mistaken("with the output divided by √V instead of √D", {"scale": lambda D, V: V**-0.5}),
)  # fmt: skip
WRONG_STATES = (
    Mistaken("with an empty state at the start, ignoring the argument state", {"begin": torch.zeros_like}),
    Mistaken("with the returned state transposed: (B, H, V, D) instead of (B, H, D, V)",
             {"returned": lambda states: states[-1].mT}),
    Mistaken("with the state transposed, as given and as returned: (B, H, V, D) instead of (B, H, D, V)",
             {"begin": _transposed, "returned": lambda states: states[-1].mT}),
    Mistaken("with the given state transposed: read as (B, H, V, D) instead of (B, H, D, V)", {"begin": _transposed}),
    Mistaken("with the given state returned instead of the last one", {"returned": lambda states: states[0]}),
    Mistaken("with the state before the last token returned", {"returned": lambda states: states[-2]}),
    *(Mistaken(f"with a state that is not carried from one chunk of {n} tokens to the next", {"restart": n},
               "state_of_a_chunk_dropped")
      for n in CHUNKS),
)  # fmt: skip
DELTA = Task(
    "delta",
    '''"""The gated delta rule of Gated DeltaNet (arXiv 2412.06464): a state that each token decays and corrects.

In the paper's notation, with S (V, D):

    S_t = S_{t-1} · α_t (I - β_t k_t k_tᵀ) + β_t v_t k_tᵀ        o_t = S_t q_t / √D

q, k (B, H, T, D), v (B, H, T, V), decay α (B, H, T), 0 < α <= 1, and beta (B, H, T), 0 <= β <= 1, are given; state is
that of earlier tokens (B, H, D, V), None = zeros: here each S is stored transposed. Return the output (B, H, T, V) and
the state after the last token (B, H, D, V). Use q and k as they are: they are not divided by their lengths here. The
product of many decays can be 0 in float32. B batch, H heads, T tokens, D width of a key, V width of a value.
"""

import torch


def gated_delta_rule(q, k, v, decay, beta, state=None):
    raise NotImplementedError
''',
    {"gated_delta_rule": gated_delta_rule},
    _cases,
    _version,
    (*WRONG_ORDERS, *WRONG_DECAYS, *WRONG_WRITES, *WRONG_VECTORS, *WRONG_READS, *WRONG_STATES),
)
