"""Payload of the head view: decoded cell by cell, and compared with the trace it was made from.

Its rendering is tested in tests/browser/test_heads_page.py.
Run: .venv/bin/python -m pytest tests/ui/test_head_view.py
"""

import json
import re
from types import SimpleNamespace

import numpy as np
import pytest

from attnviz.analysis.merging import Merged
from attnviz.assets import COMPONENTS as HERE
from attnviz.assets import markup_of
from attnviz.characters import Span
from attnviz.config import ModelConfig
from attnviz.figures import theme
from attnviz.figures.drawing import Caption
from attnviz.figures.head_captions import SCALES, STAGES, map_caption, path_caption
from attnviz.ui.components import events
from attnviz.ui.components import head_view as view
from tests.traces import scored

L, H, K, T = 2, 6, 3, 13
STEPS, MASKED = 10_000, 10_001
CAPTIONS = (
    Caption("A title", "A note.", "A picture of 13 rows.", r"\alpha", line="A = α"),
    Caption("A way", "Its note.", "13 bars.", line="a₃ = 1"),
)


def traced(allowed=None, n=T, seed=0):
    """Return a trace without a model: random scores, and their softmax over the allowed keys (n, n)."""
    allowed = np.tri(n, dtype=bool) if allowed is None else allowed
    scores = np.random.default_rng(seed).normal(scale=3, size=(L, H, n, n))
    config = ModelConfig(n_layers=L, d_model=7 * H, n_heads=H, n_kv_heads=K, head_dim=7, position="none")
    return scored(config, scores, allowed)


def labels(n=T):
    return [f"·{i % 3}" for i in range(n)]


def looked(layer=1, head=4, query=7, key=5, chosen=-1, **how):
    return view.Cell(layer, head, query, key, chosen, **how)


def read(message):
    """Decode the payload as the browser does: header, and the cells that were sent."""
    start = 4 + int.from_bytes(message[:4], "little")
    header = json.loads(message[4:start], parse_constant=lambda name: pytest.fail(f"{name} is no JSON"))
    return header, np.frombuffer(message[start:], "<u2")


def path(trace, look=None):
    """Return the path's payload, decoded from JSON."""
    n = trace.scores.shape[-1]
    return json.loads(json.dumps(view.path_of(trace, labels(n), look or looked(), CAPTIONS[1]), allow_nan=False))


def sent(trace, look=None):
    n = trace.scores.shape[-1]
    header, body = read(view.pack(trace, labels(n), look or looked(), CAPTIONS[0]))
    assert header["shape"] == [1, 1, n, n] and header["steps"] == STEPS
    return header, body


def in_full(header, body):
    """Return the cells (T, S), with the omitted ones above the diagonal restored."""
    n = header["shape"][3]
    if not header["triangle"]:
        return body.reshape(n, n)
    cells = np.full((n, n), MASKED, np.uint16)
    for q in range(n):
        first = q * (q + 1) // 2
        cells[q, : q + 1] = body[first : first + q + 1]
    return cells


def without_a_row():
    """Return a mask with a window of 3 and 4 tokens of left padding: queries 0 to 3 may attend to nothing."""
    t = np.arange(T)
    back = t[:, None] - t
    return (back >= 0) & (back < 3) & (t >= 4)


# ---- the cells


@pytest.mark.parametrize("layer, head", [(0, 0), (1, 4)])
def test_a_cell_is_the_weight_to_four_decimals(layer, head):
    trace = traced()
    header, body = sent(trace, looked(layer, head))
    cells, seen = in_full(header, body), np.tri(T, dtype=bool)
    for q, k in zip(*np.nonzero(seen), strict=True):
        assert f"{cells[q, k] / STEPS:.4f}" == f"{trace.weights[layer, head, q, k]:.4f}"
    assert (cells[~seen] == MASKED).all()


def test_a_cell_is_two_bytes_the_low_one_first():
    trace = traced(n=1)
    message = view.pack(trace, ["·a"], looked(query=0, key=0), CAPTIONS[0])
    assert message[-2:] == bytes([0x10, 0x27])  # weight 1 is 10,000


def test_only_the_lower_triangle_is_sent_where_the_rest_is_masked():
    header, body = sent(traced())
    assert header["triangle"] and len(body) == T * (T + 1) // 2
    one_more = np.tri(T, dtype=bool)
    one_more[2, 7] = True
    trace = traced(one_more)
    header, body = sent(trace)
    assert not header["triangle"] and len(body) == T * T
    assert in_full(header, body)[2, 7] == round(STEPS * float(trace.weights[1, 4, 2, 7]))
    assert ((in_full(header, body) == MASKED) == ~one_more).all()


def test_a_long_text_is_sent_cell_by_cell():
    n = 257
    trace = traced(n=n)
    cells = in_full(*sent(trace))
    assert cells.shape == (n, n)
    assert cells[251, 131] == round(STEPS * float(trace.weights[1, 4, 251, 131]))


# ---- the query's row


def test_the_row_is_the_traces():
    trace = traced()
    header = path(trace, looked(query=9))
    np.testing.assert_allclose(header["scores"], trace.scores[1, 4, 9], atol=5.1e-5)
    np.testing.assert_allclose(header["weights"], trace.weights[1, 4, 9], atol=5.1e-5)
    assert header["allowed"] == [k <= 9 for k in range(T)]
    assert len(header["scores"]) == len(header["weights"]) == T
    assert sum(header["weights"]) == pytest.approx(1, abs=10 * 5e-5)


def test_a_query_that_may_attend_to_nothing():
    trace = traced(without_a_row())
    header, body = sent(trace, looked(query=2, key=0))
    row = path(trace, looked(query=2, key=0))
    assert row["allowed"] == [False] * T and row["weights"] == [0.0] * T
    np.testing.assert_allclose(row["scores"], trace.scores[1, 4, 2], atol=5.1e-5)  # masked pairs have scores
    cells = in_full(header, body)
    assert (cells[:4] == MASKED).all()
    assert ((cells == MASKED) == ~without_a_row()).all()


def test_one_token():
    header, body = sent(traced(n=1), looked(query=0, key=0, scale="log", exclude_first=True))
    assert body.tolist() == [STEPS]
    assert header["tops"] == [1.0, 1e-3]  # no key remains besides the first token
    row = path(traced(n=1), looked(query=0, key=0))
    assert (row["weights"], row["allowed"]) == ([1.0], [True])


# ---- display settings


def test_the_colours_end_at_1_or_at_the_largest_weight_behind_the_first_key():
    trace = traced()
    header, _ = sent(trace)
    by_hand = max(float(trace.weights[1, 4, q, k]) for q in range(T) for k in range(1, T))
    assert header["tops"] == [1.0, by_hand] and by_hand < 1


def test_colours_are_the_kv_heads():
    header, _ = sent(traced(), looked(head=4))  # of 6 heads, two read KV head 2 of 3
    assert header["mark"] == theme.kv_colour(2, K)
    assert header["masked"] == list(theme.MASKED_RGBA)
    for name in ("light", "dark"):
        assert header["ramps"][name][0][0] == theme.kv_ramp(2, K, name)[0].tolist()
        assert header["ramps"][name][0][-1] == theme.kv_ramp(2, K, name)[-1].tolist()


@pytest.mark.parametrize("how", [{}, {"scale": "log"}, {"exclude_first": True}, {"pinned": True}])
def test_what_is_looked_at_and_how_is_sent(how):
    header, _ = sent(traced(), looked(query=11, key=3, chosen=3, **how))
    assert (header["query"], header["key"], header["chosen"]) == (11, 3, 3)
    shown = {"scale": "root", "exclude_first": False, "pinned": False, **how}
    assert (header["scale"], header["exclude"], header["pinned"]) == tuple(shown.values())


# ---- captions


def test_the_captions_given_are_the_texts_sent():
    header, _ = sent(traced())
    way = path(traced())
    assert header["texts"] == {"title": "A title", "note": "A note.", "whole": "A = α"}
    assert way["texts"] == {"from": "A way", "steps": "Its note.", "sum": "a₃ = 1"}
    assert (header["alt"], way["alt"]) == ("A picture of 13 rows.", "13 bars.")
    assert way["stages"] == list(STAGES)


def test_every_word_has_its_place_in_the_page():
    header, _ = sent(traced())
    shown = ("head_view.js", markup_of("head_view"), header), ("head_path.js", view.PATH_HTML, path(traced()))
    for file, html, data in shown:
        code = (HERE / file).read_text(encoding="utf-8")
        for name in data["texts"]:
            assert f'class="{name}"' in html and f'"{name}"' in code


def test_the_colour_scales_offered_are_those_that_are_drawn():
    assert tuple(re.findall(r'<option value="(\w+)">', markup_of("head_view"))) == SCALES


def test_labels_of_any_kind_survive_alone_and_in_titles():
    own = ["<script>alert(1)</script>", "好 1/3", "👩‍👩‍👧", '"', "\\", "\u0000", "$x$"]
    trace = traced(n=7)
    look = looked(0, 1, query=0, key=0)
    header, _ = read(view.pack(trace, own, look, map_caption(trace, own, 0, 1)))
    way = view.path_of(trace, own, look, path_caption(trace, own, 0, 1, 0, 0))
    assert header["labels"] == way["labels"] == own
    assert "query 0 “<script>alert(1)</script>”" in way["texts"]["from"]  # the browser shows it as text


def test_a_merged_map_has_a_row_and_a_column_for_each_character():
    """Seven tokens: one, the three of a character, three; by hand from the trace's own rows."""
    trace, own = traced(n=7), ["a", "床 1/3", "床 2/3", "床 3/3", "b", "c", "d"]
    spans = [Span(0, 1, "a"), Span(1, 4, "床"), *(Span(i, i + 1, own[i]) for i in (4, 5, 6))]
    merged, look = Merged.of(trace, own, spans), looked(0, 1, query=2, key=0)
    caption = map_caption(trace, own, 0, 1, merged=merged)
    header, cells = read(view.pack(trace, own, look, caption, merged))
    assert header["shape"] == [1, 1, 5, 5] and header["labels"] == ["a", "床", "b", "c", "d"]
    assert (header["positions"], header["tokens"]) == (["0", "1–3", "4", "5", "6"], [0, 3, 4, 5, 6])
    assert header["query"] == 1
    rows = trace.weights[0, 1].astype(np.float64)[1:4].mean(0)
    by_hand = [rows[0], rows[1:4].sum(), 0, 0, 0]
    assert sum(by_hand) == pytest.approx(1)
    assert in_full(header, cells)[1].tolist() == [*(round(STEPS * weight) for weight in by_hand[:2]), *3 * [MASKED]]
    assert header["key"] == int(np.argmax(by_hand)) and header["chosen"] == -1
    assert "the weights on its keys are summed, the rows of its queries are averaged" in header["texts"]["note"]
    chosen, _ = read(view.pack(trace, own, looked(0, 1, query=6, key=3, chosen=3), caption, merged))
    assert (chosen["query"], chosen["key"], chosen["chosen"]) == (4, 1, 1)


# ---- callbacks


def test_the_message_is_not_kept_by_what_the_session_keeps(monkeypatch):
    """Callbacks live as long as the session, and a trace of 512 tokens takes megabytes."""
    mounted = {}
    monkeypatch.setattr(view, "_mount", lambda **options: mounted.update(options))
    show(traced(), [])
    for name in ("on_head_change", "on_cell_change", "on_scale_change"):
        held = [cell.cell_contents for cell in mounted[name].__closure__]
        assert not any(isinstance(each, SimpleNamespace | np.ndarray) for each in held)


def show(trace, heard):
    view.head_view(
        trace, labels(), looked(), CAPTIONS[0], key="head",
        on_head=lambda *both: heard.append(("head", *both)),
        on_cell=lambda *both: heard.append(("cell", *both)),
        on_scale=lambda *both: heard.append(("scale", *both)),
        on_pin=lambda: heard.append(("pin",)),
    )  # fmt: skip


@pytest.mark.parametrize(
    "name, value, heard",
    [
        ("head", [0, 5], (0, 5)),
        ("head", [L, H], (L - 1, H - 1)),
        ("head", [-1, -1], (0, 0)),
        ("cell", [3, 2], (3, 2)),
        ("cell", [3, -1], (3, -1)),
        ("cell", [T, T], (T - 1, T - 1)),
        ("cell", "<b>", (-1, -1)),
        ("scale", [1, False], ("linear", False)),
        ("scale", [9, 7], ("log", True)),
        ("scale", None, ("root", False)),
    ],
)
def test_what_the_browser_sends_is_told_on_within_bounds(monkeypatch, name, value, heard):
    mounted, calls = {}, []
    monkeypatch.setattr(view, "_mount", lambda **options: mounted.update(options))
    monkeypatch.setattr(events.st, "session_state", {"head": SimpleNamespace(**{name: value})})
    show(traced(), calls)
    mounted[f"on_{name}_change"]()
    assert calls == [(name, *heard)]
    assert all(type(new) is type(wanted) for new, wanted in zip(calls[0][1:], heard, strict=True))
