"""Which head and which tokens are looked at: what the settings say, within what this model and text have."""

from __future__ import annotations

from attnviz.ui import state
from attnviz.ui.frame import View


def layer_and_head(view: View) -> tuple[int, int]:
    """The layer and head looked at."""
    s = state.current()
    return min(s.layer, view.config.n_layers - 1), min(s.head, view.config.n_heads - 1)


def query_of(view: View) -> int:
    """The query looked at; by default one at three quarters, which has much to look at and something it may not."""
    query, n = state.current().query, len(view.labels)
    return query if 0 <= query < n else 3 * n // 4


def key_of(view: View) -> int:
    """The key looked at; by default the one that the query gives most."""
    key, (layer, head) = state.current().key, layer_and_head(view)
    if 0 <= key < len(view.labels):
        return key
    return int(view.trace.weights[layer, head, query_of(view)].argmax())


def heads_of(view: View) -> dict[str, tuple[int, int]]:
    """Every head that there is, by the name it has in links: "1.5" is head 5 of layer 1."""
    c = view.config
    return {f"{layer}.{head}": (layer, head) for layer in range(c.n_layers) for head in range(c.n_heads)}


def pinned(view: View) -> list[tuple[int, int]]:
    """The heads looked at beside the selected one."""
    there = heads_of(view)
    return [there[name] for name in state.current().pinned if name in there]


def head_name(name: str) -> str:
    """ "L1 H5" for "1.5"."""
    return "L{} H{}".format(*name.split("."))
