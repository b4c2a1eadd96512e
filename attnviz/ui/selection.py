"""Which head and which tokens are looked at: what the settings say, within what this model and text have."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING

from attnviz.ui import state
from attnviz.ui.settings import GIVEN

if TYPE_CHECKING:
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


def link_notices(view: View, asked: Mapping[str, str]) -> list[str]:
    """A sentence for each layer, head, query or key that a link asked for and this model or text does not have.

    asked: the link's own words for them.
    """
    (layer, head), n_tokens = layer_and_head(view), len(view.labels)
    there = {
        "layer": (view.config.n_layers, "this model has layers", f"layer {layer} is selected"),
        "head": (view.config.n_heads, "this model has heads", f"head {head} is selected"),
        "query": (n_tokens, "the text shown has tokens", f"token {query_of(view)} is selected"),
        "key": (n_tokens, "the text shown has tokens", "the strongest key is selected"),
    }
    notices = []
    for name, written in asked.items():
        n, has, shown = there[name]
        if not _is_there(name, written, n):
            notices.append(f"The link's {name} is {written[:GIVEN]}, and {has} 0 to {n - 1}; {shown}.")
    return notices


def _is_there(name: str, written: str, n: int) -> bool:
    """Whether the link's word is one of n, or says to choose; a word that is no number has been spoken of already."""
    try:
        asked = float(written)
    except ValueError:
        return True
    by_default = name in ("query", "key") and asked == -1
    return math.isnan(asked) or by_default or (0 <= asked < n and asked == int(asked))


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
