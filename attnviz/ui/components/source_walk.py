"""Walk through the source that ran, line by line, with the tensor that each line made; steps run in the browser.

All lines of the run and a part of each tensor are sent once: a header, and numbers as little-endian float32. Another
entry, head or token is requested from the server.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from attnviz.figures import step_captions as captions
from attnviz.figures import theme
from attnviz.figures.numbers import rounded
from attnviz.figures.step_purposes import purpose_of
from attnviz.steps import Call, Picture, Run, Shown, Walk
from attnviz.steps.walk import TOKEN_AXES
from attnviz.ui.components.as_bytes import framed
from attnviz.ui.components.declared import declared
from attnviz.ui.components.events import on_event, within

HTML = """
<div class="sw" role="application" tabindex="0" aria-label="The source that ran. Left and right arrow: line;
 down: into a call; up: out of it; o: over the calls of a line; space: play.">
  <div class="way" role="group" aria-label="The whole run, a column for each line"></div>
  <div class="two">
    <section class="code">
      <div class="tools">
        <button type="button" data-go="back">← line</button><button type="button" data-go="next">line →</button>
        <button type="button" data-go="before">← over</button><button type="button" data-go="over">over →</button>
        <button type="button" data-go="out">↑ out</button><button type="button" data-go="into">↓ into</button>
        <button type="button" data-go="play">▶ play</button>
        <button type="button" data-go="copy">Copy this function</button>
        <label>Jump to <select></select></label>
      </div>
      <p class="path"></p>
      <div class="source"></div>
      <p class="does"></p>
    </section>
    <section class="made">
      <div class="chips" role="group" aria-label="Tensors of this line"></div>
      <h2 class="title"></h2>
      <p class="read" aria-live="polite"></p>
      <div class="pictures"><figure class="main"><canvas role="img"></canvas></figure><div class="from"></div></div>
      <div class="entry"><p class="sum"></p><canvas class="bars" role="img"></canvas><p class="bars-say"></p></div>
    </section>
  </div>
</div>
"""

_mount = declared("source_walk", HTML)


def source_walk(
    walk: Walk, labels: Sequence[str], n_kv_heads: int, *, key: str, at: int, words: Sequence[str] = (),
    on_step: Callable[[int], None], on_entry: Callable[[int, tuple[int, bool], tuple[int, bool]], None],
) -> None:  # fmt: skip
    """Show the walk, at the stop `at`. `on_step(stop)` is debounced. words: the vocabulary.

    on_entry(stop, (row, whether rows are tokens), (column, whether columns are)) runs after an entry was chosen.
    """
    packed = pack(walk, labels, n_kv_heads, at, words)
    packed_walk(packed, places_in(walk), key=key, on_step=on_step, on_entry=on_entry)


Place = tuple[tuple[bool, bool], tuple[int, int]]  # whether rows and columns are tokens, and how many of each


def places_in(walk: Walk) -> list[list[Place]]:
    """Return the places that can be chosen in each picture of each stop."""
    return [[(_tokens(shown.picture), shown.picture.size) for shown in stop.shown] for stop in walk.stops]


def packed_walk(
    data: bytes, places: Sequence[Sequence[Place]], *, key: str, on_step: Callable[[int], None],
    on_entry: Callable[[int, tuple[int, bool], tuple[int, bool]], None],
) -> None:  # fmt: skip
    """Show a packed walk; otherwise as `source_walk`."""
    most = len(places) - 1  # the session stores the callbacks: they must not hold the tensors

    def step(sent: object) -> None:
        on_step(within((sent, 0), 0, (most, 0))[0])

    def entry(sent: object) -> None:
        stop, shown, row, column = _entry(sent)
        stop = min(stop, most)
        tokens, size = places[stop][min(shown, len(places[stop]) - 1)]
        on_entry(stop, (min(row, size[0] - 1), tokens[0]), (min(column, size[1] - 1), tokens[1]))

    _mount(
        key=key, data=data, on_step_change=on_event(key, "step", step), on_entry_change=on_event(key, "entry", entry)
    )


def _tokens(picture: Picture) -> tuple[bool, bool]:
    """Return whether its rows, and whether its columns, are tokens."""
    rows, columns = ("", "", *picture.axes)[-2:]
    return rows in TOKEN_AXES, columns in TOKEN_AXES


def _entry(sent: object) -> tuple[int, int, int, int]:
    """Return the four non-negative integers that a browser sent; zeros for anything else."""
    try:
        stop, shown, row, column = (max(0, int(number)) for number in sent)  # type: ignore[attr-defined]
    except (TypeError, ValueError, OverflowError):
        return 0, 0, 0, 0
    return stop, shown, row, column


def pack(walk: Walk, labels: Sequence[str], n_kv_heads: int, at: int, words: Sequence[str] = ()) -> bytes:
    """Return the payload for the browser."""
    pictures = _Pictures(words)
    stops = [
        {
            "call": stop.line.call,
            "lines": [stop.line.number, stop.line.last],
            "purpose": purpose_of(walk.run, stop.line),
            "does": captions.does_text(stop, walk.run.own),
            "skipped": ".".join(stop.line.skipped.split(".")[-2:]),
            "shown": [_shown(each, labels, pictures, words) for each in stop.shown],
            "opens": stop.opens,
        }
        for stop in walk.stops
    ]
    header = {
        "at": at,
        "labels": list(labels),
        "stops": stops,
        "calls": _calls(walk.run, {stop.line.index: i for i, stop in enumerate(walk.stops)}),
        "pictures": pictures.headers,
        "ramps": {
            scheme: [_ramp(scheme, k, n_kv_heads) for k in (*range(n_kv_heads), None)] for scheme in theme.RAMP_ENDS
        },
        "marks": [theme.kv_colour(k, n_kv_heads) for k in range(n_kv_heads)],
        "masked": list(theme.MASKED_RGBA),
    }
    return framed(header, *pictures.bodies)


def _calls(run: Run, stop_of: dict[int, int]) -> list[dict]:
    return [
        {
            "name": call.name, "function": call.function, "file": _file(run, call), "first": call.first,
            "source": call.source,
            "docstring": call.docstring,
            "parent": -1 if call.parent is None else run.lines[call.parent].call,
            "from": _called_from(run, call, stop_of),
            "path": [each.name for each in run.path(call.index)],
        }
        for call in run.calls
    ]  # fmt: skip


def _called_from(run: Run, call: Call, stop_of: dict[int, int]) -> int:
    """Return the stop at the nearest line of the call stack that has one; -1 if none has."""
    if call.parent is None or call.parent in stop_of:
        return -1 if call.parent is None else stop_of[call.parent]
    return _called_from(run, run.calls[run.lines[call.parent].call], stop_of)


def _file(run: Run, call: Call) -> str:
    return call.file if run.own else f"{call.folder}/{call.file}"


def _shown(shown: Shown, labels: Sequence[str], pictures: _Pictures, words: Sequence[str]) -> dict:
    products, _ = captions.bars(shown.arithmetic)
    return {
        "name": shown.name,
        "slice": captions.slice_text(shown.name, shown.picture),
        "shape": captions.shape_text(shown.picture.value.shape, shown.picture.axes),
        "picture": pictures.add(shown.picture),
        "at": list(shown.picture.at),
        "place": captions.place_text(shown.picture, labels, words),
        "sum": captions.entry_text(shown),
        "bars": rounded(np.asarray(products)).tolist() if products else [],
        "barsSay": captions.bars_text(shown.arithmetic),
        "alt": captions.alt_text(shown, labels, words),
        "sources": [
            {
                "name": captions.slice_text(source.name, source.picture),
                "shape": captions.shape_text(source.picture.value.shape, source.picture.axes),
                "picture": pictures.add(source.picture),
                "used": None if source.used is None else list(source.used),
            }
            for source in shown.sources
        ],
    }


class _Pictures:
    """Parts of tensors, deduplicated: one that several lines show is sent once."""

    def __init__(self, words: Sequence[str]) -> None:
        self._words = words
        self.headers: list[dict] = []
        self.bodies: list[bytes] = []
        self._seen: dict[tuple, int] = {}
        self._n = 0

    def add(self, picture: Picture) -> int:
        key = picture.value.index, picture.lead, picture.first
        if key not in self._seen:
            self._seen[key] = len(self.headers)
            numbers = picture.numbers.astype("<f4")
            finite = numbers[np.isfinite(numbers)]
            self.headers.append({
                "start": self._n, "size": list(numbers.shape), "whole": list(picture.size),
                "first": list(picture.first), "hue": -1 if picture.hue is None else picture.hue,
                "top": float(np.abs(finite).max()) if finite.size else 0.0,
                "signed": bool(finite.size and finite.min() < 0),
                "masked": bool(np.isneginf(numbers).any()),
                "truth": picture.numbers.dtype == np.bool_,
                "tokens": list(_tokens(picture)), "text": list(picture.start), "names": self._names(picture),
            })  # fmt: skip
            self.bodies.append(np.ascontiguousarray(numbers).tobytes())
            self._n += numbers.size
        return self._seen[key]

    def _names(self, picture: Picture) -> list[str]:
        """Return the tokens of the columns if they are the vocabulary; otherwise []."""
        if picture.axes != ("V",) or not self._words:
            return []
        return [self._words[picture.first[1] + i] for i in range(picture.numbers.shape[1])]


def _ramp(scheme: str, kv_head: int | None, n_kv_heads: int) -> list[list[list[int]]]:
    """Return the ramps for negative and positive values, CANVAS_STOPS colours each: grey below 0, the KV head's hue."""
    picked = np.linspace(0, 255, theme.CANVAS_STOPS).round().astype(int)
    return [each[picked].tolist() for each in theme.diverging_ramps(kv_head, n_kv_heads, scheme)]
