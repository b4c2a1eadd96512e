"""Notices about a link's layer, head, query or key name the selection that is in effect."""

import re

import pytest
from hypothesis import given
from hypothesis import settings as effort
from hypothesis import strategies as st

from attnviz.compute import rope as compute_rope
from attnviz.compute.view import View
from attnviz.session.settings import Settings
from attnviz.session.shared import SELECTION

WRITTEN = st.one_of(
    st.integers(-3, 700).map(str), st.sampled_from(["-1", "1e9", "-1e999", "2.5", "", "nan", "abc", "1_0", "7", "15"])
)
LINKS = st.fixed_dictionaries(
    {},
    optional=dict.fromkeys(SELECTION, WRITTEN)
    | {
        "model": st.sampled_from(["own", "gqa-4", "mqa", "mla"]),
        "n_layers": st.sampled_from(["1", "2", "3"]),
        "n_heads": st.sampled_from(["1", "3", "7", "16"]),
        "text": st.sampled_from(["a", "one two three", "word " * 600]),
    },
)


def opened(link: dict[str, str]) -> View:
    return View(Settings.from_link(link)[0])


def last_number(notice: str) -> int:
    return int(re.findall(r"\d+", notice)[-1])


@given(LINKS)
@effort(max_examples=60, deadline=None)
def test_the_number_in_a_notice_is_what_is_selected(link):
    view = opened(link)
    (layer, head), query = view.layer_and_head, view.query
    asked = {name: link[name] for name in SELECTION if name in link}
    said = {notice.split("link's ")[1].split()[0]: notice for notice in view.link_notices(asked)}
    unread = {notice.split("link's ")[1].split()[0] for notice in Settings.from_link(link)[1]}
    selected = {"layer": layer, "head": head, "query": query}
    if view.settings.pair >= 0:
        selected["pair"] = compute_rope.pair_of(view)
    for name, written in asked.items():
        if name in unread or (name in ("query", "key", "pair") and float(written) == -1):
            assert name not in said
        elif name in selected:
            assert (name in said) == (float(written) != selected[name])
        else:
            assert (name in said) == (float(written) not in range(len(view.labels)))
    for name in said.keys() & selected.keys():
        assert last_number(said[name]) == selected[name]


@pytest.mark.parametrize("key", ["99", "29", "1e9"])
def test_a_key_that_the_text_does_not_have_becomes_the_strongest(key):
    view = opened({"key": key})
    (notice,) = view.link_notices({"key": key})
    layer, head = view.layer_and_head
    row = view.trace.weights[layer, head, view.query]
    assert "strongest key" in notice and row[view.key] == row.max()


@given(st.dictionaries(st.sampled_from(["n_heads", "n_kv_heads", "d_model", "n_layers", "seed", "window"]), WRITTEN))
@effort(max_examples=60, deadline=None)
def test_what_a_notice_says_a_setting_is_set_to_is_in_force(link):
    settings, notices = Settings.from_link(link)
    for notice in notices:
        name = notice.split("link's ")[1].split()[0].rstrip(",")
        assert last_number(notice) == getattr(settings, name)
    said = {notice.split("link's ")[1].split()[0].rstrip(",") for notice in notices}
    assert said == {name for name, written in link.items() if not equal(written, getattr(settings, name))}


def equal(written: str, value: int) -> bool:
    try:
        return float(written) == value
    except ValueError:
        return False
