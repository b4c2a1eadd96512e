"""Any link gives settings that a model can be built from, with a notice for each changed value."""

import json
from dataclasses import fields, replace
from pathlib import Path
from urllib.parse import parse_qsl, quote_plus

import pytest
from hypothesis import given
from hypothesis import settings as effort
from hypothesis import strategies as st

from attnviz.modules import Transformer
from attnviz.session.pages import PAGES, TABS_BEFORE
from attnviz.session.settings import Settings
from attnviz.session.shared import widths

NAMES = [f.name for f in fields(Settings)]
WRITTEN = st.one_of(st.text(max_size=30), st.integers().map(str), st.floats().map(str), st.sampled_from(["", "1e999"]))


def test_a_bare_address_is_the_defaults_without_a_word():
    assert Settings.from_link({}) == (Settings(), [])
    assert Settings().to_link() == {}


@pytest.mark.parametrize(
    ("link", "colour"), [({}, "root"), ({"colour": "linear"}, "linear"), ({"colour": "log"}, "log")]
)
def test_a_link_opens_the_colour_scale_that_it_names(link, colour):
    found, notices = Settings.from_link(link)
    assert (found.colour, notices, found.to_link()) == (colour, [], link)
    assert Settings.from_link({"colour": "root"}) == (Settings(), [])


@given(st.dictionaries(st.one_of(st.sampled_from(NAMES), st.text(max_size=12)), WRITTEN, max_size=8))
@effort(max_examples=50, deadline=None)
def test_any_link_gives_settings_in_range_that_reopen_themselves(link):
    found, notices = Settings.from_link(link)
    assert found == found.normalised()
    for f in fields(Settings):  # each value is read back unchanged by its kind
        assert f.metadata["kind"].read(found.to_link().get(f.name, "") or _written(found, f.name)) is not None
    again, silence = Settings.from_link(found.to_link())
    assert again == found and silence == []
    for name in link:
        if name not in NAMES and name not in TABS_BEFORE:  # the old tab setting of another page
            assert any(name[:40] in notice for notice in notices)


def _written(found: Settings, name: str) -> str:
    value = getattr(found, name)
    if isinstance(value, tuple):
        return ",".join(value)
    return "1" if value is True else "0" if value is False else str(value)


@pytest.mark.parametrize(
    ("link", "name", "value"),
    [
        ({"n_layers": "99"}, "n_layers", 48),
        ({"n_heads": "65"}, "n_heads", 64),
        ({"head_dim": "13"}, "head_dim", 12),
        ({"qk_rope_head_dim": "7"}, "qk_rope_head_dim", 6),
        ({"kv_lora_rank": "0"}, "kv_lora_rank", 1),
        ({"attention": "gqa-4"}, "attention", "gqa"),
        ({"n_layers": "-3"}, "n_layers", 1),
        ({"seed": "1" + "0" * 400}, "seed", 2**31 - 1),
        ({"theta": "nan"}, "theta", Settings().theta),
        ({"rope": "perhaps"}, "rope", True),
        ({"model": "gpt-7"}, "model", Settings().model),
        ({"n_heads": "6", "n_kv_heads": "4"}, "n_kv_heads", 3),
        ({"n_heads": "7", "d_model": "193"}, "d_model", 196),
    ],
)
def test_what_cannot_be_used_becomes_the_nearest_that_can_and_is_named(link, name, value):
    found, notices = Settings.from_link(link)
    assert getattr(found, name) == value
    assert any(name in notice for notice in notices)


@pytest.mark.parametrize("n_heads", range(1, 33))
def test_every_width_offered_builds_and_its_heads_split_into_pairs(n_heads):
    for d_model in (widths(n_heads)[0], widths(n_heads)[-1]):
        config = Settings(model="own", n_heads=n_heads, n_kv_heads=1, d_model=d_model, n_layers=1).own_config()
        assert config.head_dim % 2 == 0 and config.head_dim * n_heads == d_model
        if n_heads in (1, 7, 16, 31):  # the largest take most of the time
            assert Transformer.random(config, 0).config == config


def test_masks_and_rope_reach_the_configuration():
    s = Settings(rope=False, causal=False, window=7, theta=500.0)
    c = s.own_config()
    assert (c.position, c.causal, c.sliding_window, c.rope_theta) == ("none", False, 7, 500.0)
    assert (Settings().own_config().sliding_window, Settings().own_config().rope_theta) == (None, 10_000.0)


def test_a_base_that_is_no_number_is_ignored_and_the_models_own_is_used():
    found, (notice,) = Settings.from_link({"theta": "nan"})
    assert found == Settings() and notice.endswith("not “nan”; it was ignored.")


@pytest.mark.parametrize("text", ["word " * 4000, "好" * 4000, "👩‍👩‍👧" * 2000, "\ud800" * 5000, "a"])
def test_a_link_stays_short_enough_for_any_server_and_keeps_the_texts_beginning(text):
    link = Settings(text=text).to_link()
    assert len(quote_plus(link["text"], errors="replace")) <= 7_000
    assert text.startswith(link["text"]) and len(link["text"]) > min(len(text) - 1, 400)
    assert Settings.from_link(link)[0].text == link["text"]


@pytest.mark.parametrize("n", [100, 6_000, 30_000])
def test_all_texts_of_a_link_share_its_room_and_a_configuration_is_whole_or_left_out(n):
    s = Settings(text="a" * 3_000, second_text="b" * n, facts='{"n_layers": 2}' + " " * n)
    link = s.to_link()
    assert sum(len(quote_plus(link.get(name, ""))) for name in ("text", "second_text", "facts")) <= 7_000
    assert link["text"] == s.text and link["second_text"] == s.second_text[:4_000]
    assert link.get("facts", s.facts) == s.facts and ("facts" in link) == (n == 100)


def test_a_model_of_ones_own_has_the_attention_and_the_sizes_that_were_chosen():
    own = Settings(model="own", n_layers=3, n_heads=5, d_model=70, head_dim=22, n_kv_heads=1, qkv_bias=True)
    c = own.own_config()
    assert (c.attention, c.n_kv_heads, c.head_dim, c.d_model, c.qkv_bias) == ("mqa", 1, 22, 70, True)
    latent = replace(own, attention="mla", kv_lora_rank=37, qk_rope_head_dim=6).own_config()
    assert (latent.attention, latent.kv_lora_rank, latent.qk_rope_head_dim) == ("mla", 37, 6)
    assert (latent.qk_nope_head_dim, latent.v_head_dim, latent.head_dim, latent.qkv_bias) == (22, 22, 28, False)
    assert replace(own, head_dim=0).own_config().head_dim == 14
    for config in (c, latent):
        attn = Transformer.random(config, 0).blocks[0].attn
        assert attn.o_proj.weight.shape == (70, 5 * 22)
    assert {p.shape[0] for name, p in attn.named_parameters() if "kv_a_proj" in name} == {37 + 6}


@pytest.mark.parametrize(
    ("page", "link", "lines"),
    [
        ("steps", {"step": "27"}, (27, -1, 0)),
        ("steps", {"step": "27", "tab": "walk"}, (27, -1, 0)),
        ("steps", {"step": "27", "tab": "lens"}, (27, -1, 0)),
        ("steps", {"step": "27", "tab": "step"}, (-1, 27, 0)),  # an old link: all tabs had one number
        ("practice", {"step": "27", "tab": "write"}, (-1, -1, 27)),
        ("steps", {"step": "27", "tab": "write"}, (27, -1, 0)),  # from Practice: not a tab of this page
        ("steps", {"step": "27", "tab": "step", "decode_step": "0"}, (27, 0, 0)),
        ("steps", {"step": "27", "tab": "step", "decode_step": "5", "own_step": "3"}, (27, 5, 3)),
    ],
)
def test_a_line_belongs_to_its_tab_and_an_old_link_opens_what_it_opened(page, link, lines):
    settings, notices = Settings.from_link(link, PAGES[page])
    assert (settings.step, settings.decode_step, settings.own_step) == lines and notices == []


@pytest.mark.parametrize("tab", ["", "walk", "step", "lens", "write"])
@pytest.mark.parametrize("lines", [(-1, -1, 0), (0, -1, 0), (27, 0, 0), (0, 5, 0), (27, 5, 0), (27, -1, 3), (0, 0, 3)])
def test_lines_survive_a_link_in_each_tab(tab, lines):
    step, decode_step, own_step = lines
    settings = Settings(tab=tab, step=step, decode_step=decode_step, own_step=own_step)
    for page in (PAGES["steps"], PAGES["practice"], None):
        assert Settings.from_link(settings.to_link(), page) == (settings, [])


OLD_LINKS = {  # from before the setting `tab`, with one setting per page
    "heads?heads_part=rollout&closer=work&turning=longer&part=speed": "Attention rollout",
    "query_groups?closer=latent&heads_part=masks": "Multi-head latent attention",
    "rope?turning=layouts&part=facts": "Two layouts",
    "cost?part=speed&closer=alike": "Speed",
}


@pytest.mark.parametrize("old", OLD_LINKS)
def test_a_link_made_before_there_was_a_tab_opens_what_it_opened(old):
    path, _, query = old.partition("?")
    settings, notices = Settings.from_link(dict(parse_qsl(query)), PAGES[path])
    assert PAGES[path].tabs[PAGES[path].open_tab(settings.tab)] == OLD_LINKS[old]
    assert notices == [] and set(settings.to_link()) == {"tab"}


RECORDED = json.loads((Path(__file__).parents[1] / "data" / "settings_in_links.json").read_text(encoding="utf-8"))
LONG_WORD = "é×121"  # as the file has it for 121 times é


@pytest.mark.parametrize("name", RECORDED)
def test_a_setting_reads_what_it_read_when_its_values_were_recorded(name):
    """In November 2026, before settings moved to their pages; step in 0.6.0. [value, notices]; "=": as written."""
    recorded, default = RECORDED[name], getattr(Settings(), name)
    assert default == _as_held(recorded["default"])
    for probe, (value, n_notices) in recorded["reads"].items():
        written = "é" * 121 if probe == LONG_WORD else probe
        found, notices = Settings.from_link({name: written})
        assert (getattr(found, name), len(notices)) == (written if value == "=" else _as_held(value), n_notices), probe
    for option in recorded.get("options", ()):
        found, notices = Settings.from_link({name: option})
        assert notices == [] and (option in getattr(found, name) or option == getattr(found, name))


def _as_held(value):
    return tuple(value) if isinstance(value, list) else value
