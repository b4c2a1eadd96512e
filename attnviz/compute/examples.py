"""The head, query and key that a sidebar example is about in the current model, found in the trace."""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache

from attnviz.analysis.layers import Each
from attnviz.analysis.roles import keys_of
from attnviz.analysis.search import Found, bracket_pairs, strongest_by_role, strongest_pair
from attnviz.compute.heads import words_in
from attnviz.compute.models import Run
from attnviz.compute.view import View
from attnviz.figures.look_here_captions import shown_by_pair, shown_by_role, shown_by_selected
from attnviz.session.examples import BRACKETS, LOOK_FOR, NAMES, PRONOUN, example_of
from attnviz.text import Tokenizer
from attnviz.trace import Trace


def found_in(view: View) -> Found | None:
    """Find the head, query and key to select; None if the text is no example or the mask excludes all its pairs."""
    example = None if view.settings.recorded else example_of(view.settings.text)
    return None if example is None else _found(view.run, view.ids, view.n_padding, LOOK_FOR[example])


@lru_cache(64)
def _found(run: Run, ids: tuple[int, ...], n_padding: int, look_for: str) -> Found | None:
    trace = run.trace(ids, n_padding)
    weights = Each(trace.layers, "attention")
    if look_for in (PRONOUN, BRACKETS):
        return strongest_pair(weights, trace.masks, _pairs(trace, look_for, run.tokenizer))
    return strongest_by_role(weights, trace.masks, trace.tokens, words_in(run, ids), look_for)


def _pairs(trace: Trace, look_for: str, tokenizer: Tokenizer) -> list[tuple[int, int]]:
    """Return pairs (query, key): each closing bracket with its opening one, or the first "she" with earlier names."""
    labels = tokenizer.labels(trace.tokens.tolist())
    if look_for == BRACKETS:
        return bracket_pairs(labels)
    she = labels.index("·she")
    names = [i for i in range(she) if labels[i].lstrip("·") in NAMES or "".join(labels[i - 1 : i + 1]) in NAMES]
    return [(she, name) for name in names]


def sentence(view: View, found: Found) -> str:
    """Return one sentence, in Markdown, on what to look at."""
    look_for, n_heads = LOOK_FOR[str(example_of(view.settings.text))], len(view.heads)
    if look_for in (PRONOUN, BRACKETS):
        what = {
            PRONOUN: "from “she” to a name before it, the first token aside",
            BRACKETS: "from a closing bracket to its opening one",
        }
        return shown_by_pair(found, view.labels, what[look_for], n_heads)
    selected = view.layer_and_head
    own = _found_in_head(view.run, view.ids, view.n_padding, selected, look_for)
    if own and own.share.stands_out and selected != (found.layer, found.head):
        return shown_by_selected(_at_selection(view, own, look_for), found, view.labels, look_for)
    return shown_by_role(found, view.labels, look_for, n_heads)


def _at_selection(view: View, found: Found, role: str) -> Found:
    """Return what was found with the selected query and key, if that key is its strongest and one of the role's."""
    one, cell = view.trace.layers[found.layer], (view.query, view.key)
    weights, row = one.attention[found.head], one.allowed[view.query]
    strongest = view.key == weights[view.query].argmax() and row.sum() > 1
    if not (strongest and row[view.key] and keys_of(view.trace.tokens, one.allowed)[role][cell]):
        return found
    return replace(found, query=cell[0], key=cell[1], weight=float(weights[cell]))


@lru_cache(64)
def _found_in_head(
    run: Run, ids: tuple[int, ...], n_padding: int, selected: tuple[int, int], role: str
) -> Found | None:
    trace, (layer, head) = run.trace(ids, n_padding), selected
    one = trace.layers[layer]
    found = strongest_by_role([one.attention[head][None]], [one.allowed], trace.tokens, words_in(run, ids), role)
    return found and replace(found, layer=layer, head=head)
