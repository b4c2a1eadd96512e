"""The model whose parameters and cache were counted by `transformers`, without a formula: see attnviz/counting."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from attnviz.config import ModelConfig
from attnviz.cost.weights import count_parameters
from attnviz.mechanisms import Counted, Layer
from attnviz.mechanisms.others import Other

WEIGHTLESS = Layer((Other("counted with the first layer"),), n_norms=0)


def counted_model(found: Mapping[str, Any]) -> ModelConfig:
    """Return a model with these counts: all layers' together, in the first one.

    found: what attnviz/counting prints under "counted".
    """
    by, sizes = f"transformers {found['version']}", found["sizes"]
    fixed = _in_16_or_32(found["fixed"])
    first = Counted(
        by=by, weights=1, per_token=found["growing"], kept_in_16=fixed.get(16, 0), kept_in_32=fixed.get(32, 0)
    )
    windows = tuple(Counted(by=by, window=int(w), per_token=n) for w, n in sorted(found["windows"].items()))
    context = found["context"]
    model = ModelConfig(
        n_layers=sizes["num_hidden_layers"], d_model=sizes["hidden_size"], n_heads=1, head_dim=1,
        vocab_size=sizes["vocab_size"], position="none", max_context=context if isinstance(context, int) else None,
        mixed_layers=_with((first, *windows), sizes["num_hidden_layers"]), norm_weights=False,
        name=f"{found['kind']}, counted by {by}",
    )  # fmt: skip
    rest = found["parameters"] - count_parameters(model).total + 1
    if rest < 0:  # without an embedding of these sizes
        model, rest = replace(model, vocab_size=1, d_model=1), found["parameters"] - 1
    return replace(model, mixed_layers=_with((replace(first, weights=rest), *windows), model.n_layers))


def counted_text(found: Mapping[str, Any]) -> str:
    """State who counted, how, and how far: "Counted by transformers 5.23.0, which built the model without memory …"."""
    far = (
        "after 9, 40 and 20,011 tokens"
        if found["far"]
        else "after 9 and 40 tokens; a longer text could not be tried, so a window would not be seen, and this is an "
        "upper bound"
    )
    return (
        f"Counted by transformers {found['version']}, not by a formula: its classes built this model without memory, "
        f"and its parameters and what its own cache object holds were counted {far}."
    )


def _with(parts: tuple[Counted, ...], n_layers: int) -> tuple[Layer, ...]:
    return (Layer(parts, n_norms=0), *[WEIGHTLESS] * (n_layers - 1))


def _in_16_or_32(fixed: Mapping[str, int]) -> dict[int, int]:
    """Return the numbers of a state by their precision, others as so many of 16 bits."""
    found: dict[int, int] = {}
    for bits, n in fixed.items():
        of, times = (32, 1) if int(bits) == 32 else (16, -(-int(bits) // 16))
        found[of] = found.get(of, 0) + n * times
    return found
