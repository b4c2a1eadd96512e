"""The kinds of layers in a config.json: their names, older spellings, and patterns in place of a list."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from attnviz.checks import ConfigError, one_of, shown
from attnviz.cost.hf_fields import Fields

SLIDING, FULL = "sliding_attention", "full_attention"
LINEAR, CONV, CHUNKED, INDEXED, HYBRID = (
    "linear_attention", "conv", "chunked_attention", "indexed_attention", "hybrid",
)  # fmt: skip
OLDER_KINDS = {"mamba": LINEAR, "attention": FULL, "deepseek_sparse_attention": INDEXED}  # as transformers renames them


def kinds(f: Fields, n_layers: int, otherwise: Callable[[int], str], allowed: Sequence[str], *names: str) -> list[str]:
    """Read the kind of each layer from `layer_types`, or from `otherwise`, the architecture's pattern."""
    names = names or ("layer_types",)
    given = f.optional(*names)
    if given is None:
        return [otherwise(i) for i in range(n_layers)]
    if not isinstance(given, list) or len(given) != n_layers:
        raise ConfigError(f"{names[0]} must be a list of {n_layers:,} layers, not {shown(given)}")
    found = [OLDER_KINDS.get(kind, kind) if isinstance(kind, str) else kind for kind in given]
    for kind in found:
        if not isinstance(kind, str) or kind not in allowed:
            one_of(f"a kind of layer in {names[0]}", kind, tuple(allowed))
    return found


def every(period: int, kind: str = FULL, others: str = SLIDING) -> Callable[[int], str]:
    """Return the pattern in which each `period`-th layer is of one kind, and the others of another."""
    return lambda i: others if (i + 1) % period else kind
