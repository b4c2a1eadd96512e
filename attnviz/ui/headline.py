"""Sentences shared by several pages."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import streamlit as st

from attnviz.compute.view import View
from attnviz.cost import summary
from attnviz.figures.drawing import escaped, quoted
from attnviz.mechanisms import Mixer
from attnviz.phrases import count, listed

if TYPE_CHECKING:
    from attnviz.compute.recorded import RecordedRun

MAX_NAMED = 6  # layers


def sharing(view: View) -> str:
    """Return a phrase on how many query heads read how many KV heads; for MLA on what it caches, in either form."""
    return summary(view.config)


def grid_options(mixers: Sequence[Mixer]) -> dict[str, Any]:
    """Return `head_grid`'s kv_head_of for a row for each of these, and kv_names and reads where one has no KV heads."""
    read = [mixer.kv_head_of for mixer in mixers]
    options: dict[str, Any] = {"kv_head_of": read[0] if len(set(read)) == 1 else read}
    if not all(mixer.keys_known for mixer in mixers):
        return {**options, "kv_names": []}
    shares = [mixer.shares_kv_heads for mixer in mixers]
    if not all(shares):
        options["reads"] = [[mixer.read_in_short(kv) for kv in mixer.kv_head_of] for mixer in mixers]
    if not all(mixer.attends for mixer in mixers):
        options["kv_names"] = [f"Key head {k}" for k in range(max(mixer.n_kv_heads for mixer in mixers))]
    elif not any(shares):
        options["kv_names"] = [f"K{h}, V{h}" for h in range(mixers[0].n_heads)]
    return options


def run_title(view: View, name: Callable[[str], str] = str) -> str:
    """Return the title of a picture of the whole run: the heads, the text's length, the weights.

    name: escapes where the weights are from, for the place where the title is shown.
    """
    if view.saved:
        return f"{_heads_and_tokens(view, view.saved)}, {name(view.origin)}"
    return f"{sharing(view)}, {count(len(view.ids), 'token')}, {name(view.origin)}"


def _heads_and_tokens(view: View, saved: RecordedRun) -> str:
    sizes = count(len(view.ids), "token")
    if view.two_texts:
        sizes = f"{count(len(view.labels), 'query token')}, {count(len(view.key_labels), 'key token')}"
    several = view.two_texts or len(saved.saved.kinds) > 1
    kind = f"{saved.of.title.capitalize()}: " if several else ""
    return f"{kind}{sharing(view)}, {sizes}"


def headline(view: View) -> str:
    """Return the sentence on the run, in markdown."""
    return f"{run_title(view, escaped)}.{_about_layers(view.layer_names) if view.saved else ''}"


def show_headline(view: View, rest: str = "") -> None:
    """Draw this sentence at the top of a page, with a rest; how long the run took is behind its question mark."""
    took = None if view.saved else f"Traced in {view.trace.seconds * 1000:.0f} ms."
    st.markdown(f"{headline(view)} {rest}".rstrip(), help=took)


def _about_layers(names: list[str]) -> str:
    """Say what a saved run calls its layers, which are numbered in its order; "" where it does not name them."""
    if not names:
        return ""
    named = [f"{i} is {quoted(name)}" for i, name in enumerate(names[:MAX_NAMED])]
    more = f"; {len(names) - MAX_NAMED} more" if len(names) > MAX_NAMED else ""
    return f" Its layers are numbered in the file's order: {listed(named)}{more}."


def split_text(view: View) -> str:
    """Return a phrase on the characters that are several tokens: "the 12 characters that are several tokens each"."""
    n = view.n_split
    return f"the {n} characters that are several tokens each" if n > 1 else "the character that is several tokens"
