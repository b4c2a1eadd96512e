"""The form on the left: what it offers is what the settings allow, and whatever a browser wishes leaves them valid."""

import json
import string
from dataclasses import fields, replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from attnviz.config import divisors
from attnviz.session.settings import MAX_CHARACTERS, Settings, kind_of, widths
from attnviz.ui import controls, state
from attnviz.ui.components import events
from attnviz.ui.components import settings_form as form

BY_FIELD = {c["field"]: c for c in controls.controls() if "field" in c and c["kind"] != "examples"}


@pytest.fixture
def session(monkeypatch):
    kept = {}
    monkeypatch.setattr(state.st, "session_state", kept)
    return kept


# ---- what is offered


def test_every_slider_ends_where_its_setting_ends():
    for name in ("n_layers", "n_heads", "window", "n_sinks", "seed"):
        first, last = BY_FIELD[name]["low"], BY_FIELD[name]["high"]
        for value in (first, last):
            assert getattr(Settings().wished({name: str(value)}), name) == value
        assert kind_of(name).read(str(first - 1)) == first and kind_of(name).read(str(last + 1)) == last


@pytest.mark.parametrize("n_heads", [1, 2, 6, 7, 12, 16])
def test_only_what_goes_with_the_query_heads_is_offered(n_heads):
    own = Settings(model="own", n_heads=n_heads)
    for name, possible in {"n_kv_heads": divisors(n_heads), "d_model": widths(n_heads)}.items():
        offered = BY_FIELD[name]["steps"][str(n_heads)]
        assert tuple(offered) == possible
        for value in offered:
            config = own.wished({name: str(value)}).own_config()
            assert getattr(config, name) == value and config.head_dim % 2 == 0


def test_every_option_of_a_list_is_taken():
    models = [value for value, _ in BY_FIELD["model"]["options"]]
    assert [Settings().wished({"model": value}).model for value in models] == models
    (examples,) = (c for c in controls.controls() if c["kind"] == "examples")
    assert all(Settings().wished({"text": text}).text == text for _, text in examples["texts"])


def test_the_form_shows_the_settings_in_the_words_in_which_it_wishes_for_them():
    asked = Settings(model="own", n_heads=6, n_kv_heads=3, d_model=96, qkv_bias=True, causal=False, window=5, text="好")
    words = asked.words(controls.fields())
    assert words["qkv_bias"] == "1" and words["causal"] == "0" and words["text"] == "好" and words["n_kv_heads"] == "3"
    assert Settings().wished(words) == asked


# ---- what a browser sends


def test_a_wish_is_put_in_force_and_answered(session):
    state.take_wish({"n": 41, "changes": {"model": "own", "n_heads": "6", "causal": "0"}})
    assert state.current() == Settings(model="own", n_heads=6, n_kv_heads=3, d_model=192, causal=False).normalised()
    assert state.answered() == 41


def test_kv_heads_and_width_follow_the_query_heads(session):
    state.take_wish({"n": 1, "changes": {"n_heads": "7"}})  # 4 KV heads are as near to 7 as to 1, 192 nearest to 196
    assert (state.current().n_kv_heads, state.current().d_model) == (7, 196)


@pytest.mark.parametrize(
    "changes",
    [
        {"seed": ""}, {"window": "many"}, {"window": "nan"}, {"model": "<b>"}, {"causal": "yes"}, {"n_layers": None},
        {"n_heads": [3]}, {"text": 5}, {"nothing": "1"}, {"__class__": "x"}, {"settings": "1"}, {"rope": True},
    ],
)  # fmt: skip
def test_what_cannot_be_used_stays_as_it_is(session, changes):
    state.take_wish({"n": 2, "changes": {"n_sinks": "3", **changes}})
    assert state.current() == replace(Settings(), n_sinks=3)


@pytest.mark.parametrize("wish", [None, 7, "x", [], {}, {"n": "1", "changes": {}}, {"n": 1, "changes": [1]}, {"n": 1}])
def test_what_is_no_wish_changes_nothing(session, wish):
    state.take_wish(wish)
    assert not session


def test_a_long_text_stays_whole_so_that_the_page_can_say_where_it_is_cut(session):
    state.take_wish({"n": 1, "changes": {"text": "a" * (MAX_CHARACTERS + 5)}})
    assert len(state.current().text) == MAX_CHARACTERS + 5


def test_half_a_surrogate_pair_becomes_a_character_that_an_address_can_carry(session):
    state.take_wish({"n": 1, "changes": {"text": "a\ud800b"}})
    assert state.current().text == "a?b" and state.current().to_link()["text"] == "a?b"


anything = st.one_of(st.text(max_size=30), st.integers().map(str), st.floats().map(str), st.none(), st.integers())
names = st.sampled_from([*(f.name for f in fields(Settings)), "nothing", string.printable])


@given(st.dictionaries(names, anything, max_size=6))
def test_whatever_is_wished_for_leaves_settings_that_a_model_can_be_built_from(changes):
    settings = Settings().wished(changes)
    assert settings.own_config().n_heads == settings.n_heads
    for f in fields(Settings):
        if f.name not in ("text", "facts", "second_text"):
            value = getattr(settings, f.name)
            assert kind_of(f.name).read(settings.words([f.name])[f.name]) == value


# ---- the two components


def test_the_courier_hands_on_what_the_browser_sent(monkeypatch):
    mounted, heard = {}, []
    monkeypatch.setattr(form, "_courier", lambda **options: mounted.update(options))
    form.settings_courier({"model": "mla"}, 5, heard.append)
    assert json.loads(mounted["data"]) == {"values": {"model": "mla"}, "said": 5}
    monkeypatch.setattr(events.st, "session_state", {mounted["key"]: type("Sent", (), {"wish": {"n": 6}})})
    mounted["on_wish_change"]()
    assert heard == [{"n": 6}]
