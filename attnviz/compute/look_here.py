"""What to look at on a text: the cell that its example is about, or the one that stands out."""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from attnviz.analysis import standing_out
from attnviz.analysis.roles import Share
from attnviz.analysis.search import Found
from attnviz.analysis.words import Words
from attnviz.compute import examples, heads
from attnviz.compute.models import Run
from attnviz.compute.view import View
from attnviz.figures.look_here_captions import HOW_IT_IS_FOUND, none_stands_out, on_merged_map, shown_by_position
from attnviz.figures.recorded_captions import LARGEST_OF_ALL, shown_by_weight
from attnviz.layerwise import LayerwiseTrace


def found_in(view: View) -> Found | None:
    """Find the head, query and key to look at; None if no cell is eligible, or the weights are random.

    For a layerwise trace the search takes its layers from the pass that scores the heads: all of them, or those before
    the user stopped it.
    """
    if view.two_texts:
        return _largest(view.run)
    return examples.found_in(view) or _standing_out(view)


@lru_cache(64)
def _largest(run: Run) -> Found:
    """Return the largest weight of maps of two texts, whose words have no places relative to each other."""
    cells = []
    for i, one in enumerate(run.trace(()).layers):
        head, query, key = map(int, np.unravel_index(int(one.weights.argmax()), one.weights.shape))
        weight = float(one.weights[head, query, key])
        cells.append(Found(i, head, query, key, weight, Share(weight, 1 / one.weights.shape[-1], 1)))
    return max(cells, key=lambda cell: cell.weight)


def _standing_out(view: View) -> Found | None:
    if view.settings.model == "own":
        return None
    if not isinstance(view.trace, LayerwiseTrace):
        return _found(view.run, view.ids, view.n_padding)
    begun = len(heads.on_text(view, stopped=True).labels) > 0
    return standing_out.strongest(heads.on_text(view, stopped=begun).strongest, words_of(view))


@lru_cache(64)
def _found(run: Run, ids: tuple[int, ...], n_padding: int) -> Found | None:
    trace, words = run.trace(ids, n_padding), heads.words_in(run, ids)
    cells = (
        standing_out.strongest_of_layer(i, one.weights, one.allowed, words)
        for i, one in enumerate(trace.layers)
        if one.mixer.attends
    )
    return standing_out.strongest(cells, words)


def words_of(view: View) -> Words:
    """Return the words of the text."""
    return heads.words_in(view.run, view.ids)


def sentence(view: View, found: Found | None) -> str:
    """Return one sentence, in Markdown, on what to look at."""
    if view.two_texts and found:
        return shown_by_weight(found, view.labels, view.key_labels, len(view.heads))
    if found and found == examples.found_in(view):
        return examples.sentence(view, found)
    if view.settings.model == "own":
        return "**No head stands out**: the weights are random, so a large one says nothing about the text."
    n_heads = len(view.heads)
    if found is None or not found.share.stands_out:
        return none_stands_out(found, n_heads)
    said = shown_by_position(found, view.labels, standing_out.relation(found, words_of(view)), n_heads)
    return said + _as_drawn(view, found)


def _as_drawn(view: View, found: Found) -> str:
    """Return what the cell is on the merged map, if that is drawn and merges its query or its key; or ""."""
    if not (merged := view.merged):
        return ""
    query, key = merged.at(found.query), merged.at(found.key)
    if all(merged.spans[i].stop - merged.spans[i].start == 1 for i in (query, key)):
        return ""
    weight = float(merged.layers[found.layer].weights_of(found.head)[query, key])
    return on_merged_map(weight, merged.labels[query], merged.labels[key])


def how(view: View) -> str | None:
    """Return how the cell is found, for the question mark behind the sentence; None where it is an example's."""
    if view.two_texts:
        return LARGEST_OF_ALL
    return None if view.settings.model == "own" or examples.found_in(view) else HOW_IT_IS_FOUND


def is_shown(view: View, found: Found) -> bool:
    """Check whether the selected head, query and key are those that were found."""
    return (*view.layer_and_head, view.query, view.key) == (found.layer, found.head, found.query, found.key)
