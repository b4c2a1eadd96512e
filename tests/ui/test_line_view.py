"""Payload of the line view; its rendering is tested in tests/browser.

Run: .venv/bin/python -m pytest tests/ui/test_line_view.py
"""

import json

import numpy as np

from attnviz.figures import theme
from attnviz.ui.components import line_view

WORDS = {"title": "Lines for L0 H3, L2 H5", "note": "Queries on the left, <b>keys</b> on the “right”."}


def header_and_body(message):
    start = 4 + int.from_bytes(message[:4], "little")
    return json.loads(message[4:start]), np.frombuffer(message[start:], "<u2")


def packed(weights, allowed, **options):
    T, S = weights.shape[1:]
    labels = [f"q{i}" for i in range(T)]
    return header_and_body(line_view.pack(weights, allowed, labels, ["L0 H3", "L2 H5"], [1, 2], 3, WORDS, **options))


def test_heads_of_several_layers_with_masks_of_their_own():
    T = 5
    allowed = np.stack([np.tri(T, dtype=bool), np.tri(T, dtype=bool) & ~np.tri(T, k=-2, dtype=bool)])
    weights = np.random.default_rng(0).random((2, T, T)) * allowed
    header, body = packed(weights, allowed)
    assert header["shape"] == [2, 1, T, T] and header["triangle"]
    lower = np.tri(T, dtype=bool)
    expected = np.where(allowed, np.rint(10_000 * weights), 10_001)
    assert (body.reshape(2, -1) == expected[:, lower]).all()
    assert header["marks"] == [theme.kv_colour(1, 3), theme.kv_colour(2, 3)]
    assert header["names"] == ["L0 H3", "L2 H5"]
    assert {name: header[name] for name in WORDS} == WORDS


def test_keys_of_another_text():
    weights = np.full((2, 3, 7), 1 / 7)
    header, body = packed(weights, np.ones((2, 3, 7), bool), key_labels=list("abcdefg"))
    assert header["labels"] == [["q0", "q1", "q2"], list("abcdefg")]
    assert (body == round(10_000 / 7)).all() and len(body) == 42


def test_a_long_text_is_cut_and_says_by_how_much():
    n = 300
    weights = np.zeros((2, n, n), np.float32)
    weights[:, :, 0] = 1
    header, body = packed(weights, np.ones((2, n, n), bool))
    assert header["shape"] == [2, 1, 256, 256] and header["left"] == [44, 44]
    assert len(header["labels"][0]) == len(header["labels"][1]) == 256
    assert (body.reshape(2, 256, 256)[:, :, 0] == 10_000).all() and (body.reshape(2, 256, 256)[:, :, 1:] == 0).all()


def test_of_a_long_text_the_tokens_up_to_the_query_are_drawn():
    n, query = 307, 293
    weights = np.random.default_rng(7).random((2, n, n))
    header, body = packed(weights, np.ones((2, n, n), bool), query=query)
    first = query - 255
    assert header["first"] == [first, first] and header["left"] == [51, 51]
    assert [header["labels"][0][i] for i in (0, -1)] == [f"q{first}", f"q{query}"]
    drawn = np.rint(10_000 * weights[:, first : query + 1, first : query + 1])
    assert (body.reshape(2, 256, 256) == drawn).all()
    keys = [f"k{i}" for i in range(7)]
    header, _ = packed(weights[:, :, :7], np.ones((2, n, 7), bool), key_labels=keys, query=query)
    assert header["first"] == [first, 0] and header["labels"][1] == keys
    assert packed(weights, np.ones((2, n, n), bool), query=255)[0]["first"] == [0, 0]


def test_a_head_says_what_it_reads(monkeypatch):
    """MLA has no KV heads: its keys have names of their own."""
    mounted = {}
    monkeypatch.setattr(line_view, "_mount", lambda **options: mounted.update(options))
    for given, reads in ((None, ["KV 2"]), (["Keys 2"], ["Keys 2"])):
        line_view.line_view(
            np.ones((1, 1, 1)), np.ones((1, 1, 1), bool), ["a"], ["L0 H2"], [2], 3, key="lines", reads=given
        )
        assert header_and_body(mounted["data"])[0]["reads"] == reads
