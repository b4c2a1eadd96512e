"""The heads page from the top: all heads, the selected head, and one of several parts about it."""

from __future__ import annotations

from functools import partial

from attnviz.figures.drawing import Drawing
from attnviz.figures.head_words import map_words, path_words, sums
from attnviz.figures.role_words import grid_note, role_label, role_text, role_title, text_sentence
from attnviz.figures.words import count
from attnviz.ui import charts, heads_parts, heads_runs, state
from attnviz.ui.components.head_grid import head_grid
from attnviz.ui.components.head_view import Look, head_view
from attnviz.ui.components.one_of import one_of
from attnviz.ui.frame import View
from attnviz.ui.heads_runs import HeadsView
from attnviz.ui.selection import key_of, layer_and_head, pinned, query_of
from attnviz.ui.settings import MOST_PINNED
from attnviz.ui.words import headline

PARTS = {
    "lines": ("Lines between tokens", heads_parts.lines),
    "side": ("Side by side", heads_parts.side_by_side),
    "number": ("One weight, step by step", heads_parts.number),
    "stages": ("Score, mask, softmax", heads_parts.stages),
    "does": ("What each head does", heads_parts.does),
    "masks": ("Masks", heads_parts.masks),
    "family": ("Compare attention types", heads_parts.family),
    "rollout": ("Attention rollout", heads_parts.rolled),
    "off": ("Ablate heads", heads_parts.off),
    "cross": ("Cross-attention", heads_parts.crossed),
}
PAINTING = 0.03  # seconds, two frames: what comes while the browser paints the grid would hold both up


def prepare(view: View) -> None:
    """What `grid` draws from, computed before anybody's session asks for it."""
    padded = HeadsView(view.settings)
    padded.labels, padded.trace, heads_runs.roles_of(view.settings), heads_runs.text_labels(padded)  # noqa: B018


def show(view: View) -> None:
    """The whole page, of a text whose first tokens may be padding."""
    padded = HeadsView(view.settings)
    with state.place():
        grid(padded)
    state.TURNS.pause(PAINTING)
    one_head(padded)


def grid(view: HeadsView) -> None:
    """All layers and heads at once; a click shows that head below."""
    padding = f" The first {count(view.n_padding, 'token')} {'is' if view.n_padding == 1 else 'are'} padding."
    colour = "by head, each with its own keys" if view.config.attention == "mla" else "by the KV head it reads"
    layer, head = layer_and_head(view)
    head_grid(
        view.trace.weights,
        view.trace.allowed,
        view.labels,
        view.config.layer.kv_head_of,
        key="head-grid",
        selected=(layer, head),
        says=f"{headline(view)}{padding if view.n_padding else ''} Each map is one head, coloured {colour}; each "
        f"row is a query. {sums(view.trace.allowed[0])}",
        kv_names=heads_parts.kv_names(view.config),
        pinned=pinned(view),
        roles=[[(r.name, r.score, role_label(r)) for r in row] for row in heads_runs.roles_of(view.settings)],
        here=heads_runs.text_labels(view),
        scored=grid_note(heads_runs.probes_of(view.settings)),
    )


@state.part("head")
def one_head(view: HeadsView) -> None:
    """The selected head, and one part about it."""
    with state.place():
        _head(view)
    _closer(view)


def _head(view: HeadsView) -> None:
    """Its map, one query from score to weight, its role."""
    look = _look(view)
    words = (
        map_words(view.trace, view.labels, look.layer, look.head, log=look.log, first_aside=look.first_aside),
        path_words(view.trace, view.labels, look.layer, look.head, look.query, look.key),
    )
    head_view(
        view.trace, view.labels, look, words, _role(view, look),
        key="head-view", on_head=_take_head, on_cell=_take_cell, on_look=_take_look,
        on_pin=partial(_take_pin, f"{look.layer}.{look.head}"),
    )  # fmt: skip
    charts.on_demand("Zoom, numbers and downloads", {"map": lambda: _map(view), "path": lambda: _path(view)})


def _role(view: HeadsView, look: Look) -> tuple[str, str]:
    """What the head does on the probes and on this text."""
    probes, role = heads_runs.probes_of(view.settings), heads_runs.roles_of(view.settings)[look.layer][look.head]
    scores = heads_runs.scores_of(view.settings).of(look.layer, look.head)
    here = text_sentence(*heads_runs.text_scores_of(view.trace, look.layer, look.head), view.labels)
    return role_title(role, scores, probes), f"{role_text(role, scores, probes)} {here}"


def _look(view: HeadsView) -> Look:
    s = state.current()
    return Look(
        *layer_and_head(view),
        query=query_of(view),
        key=key_of(view),
        chosen=s.key if s.key < len(view.labels) else -1,
        log=s.colour == "log",
        first_aside=s.sink_aside,
        pinned=layer_and_head(view) in pinned(view),
    )


def _take_head(layer: int, head: int) -> None:
    state.change(layer=layer, head=head)


def _take_cell(query: int, key: int) -> None:
    state.change(query=query, key=key)


def _take_look(log: bool, first_aside: bool) -> None:
    state.change(colour="log" if log else "linear", sink_aside=first_aside)


def _take_pin(name: str) -> None:
    pins = state.current().pinned
    state.change(pinned=tuple(p for p in pins if p != name) if name in pins else (*pins, name)[-MOST_PINNED:])
    state.rerun(state.PAGE)  # the grid marks it too


def _map(view: HeadsView) -> Drawing:
    from attnviz.figures import heads

    look = _look(view)
    return heads.head_map(
        view.trace, view.labels, look.layer, look.head,
        log=look.log, first_aside=look.first_aside, query=look.query, key=look.key,
    )  # fmt: skip


def _path(view: HeadsView) -> Drawing:
    from attnviz.figures import heads

    look = _look(view)
    return heads.score_path(view.trace, view.labels, look.layer, look.head, look.query, look.key)


@state.part("heads-closer")
def _closer(view: HeadsView) -> None:
    """One of several parts, as selected; the others are not computed."""
    chosen, names = state.current().heads_part, {part: name for part, (name, _) in PARTS.items()}
    one_of("Look closer", names, chosen, key="heads-part", on_choose=lambda part: state.change(heads_part=part))
    _, show = PARTS[chosen]
    show(view)
