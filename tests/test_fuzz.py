"""Fuzz tests: any link or text gives valid settings, notices and a page without an exception.

Hypothesis generates 100 links, settings and texts anew in each run; the hostile ones below are written by hand.
"""

import re
import unicodedata
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import settings as effort
from hypothesis import strategies as st

from attnviz.compute import models
from attnviz.compute.query_groups import base_of
from attnviz.compute.view import View
from attnviz.config import ConfigError
from attnviz.experiments.measurement import counted_parameters
from attnviz.figures.drawing import quoted
from attnviz.layerwise import LayerwiseTrace, layer_bytes
from attnviz.session.kinds import MAX_CHARACTERS, Choice, Flag, Ids, Number, Several, Text
from attnviz.session.openable import MODELS, ModelName
from attnviz.session.settings import KINDS, MAX_ADDRESS, Settings
from attnviz.session.shared import NOT_CHOSEN, OWN_THETA
from attnviz.text import Tokenizer
from attnviz.trace import trace_bytes
from tests.pages import COST, FRONT, TRACED, opened

pytestmark = pytest.mark.slow

TOKENIZER = Tokenizer()
MAX_NOTICE_CHARS = 250  # characters of a sentence
ANY = st.characters()  # lone surrogates too
HOSTILE = [
    "", " ", "\x00", "-0", "1e999", "-1e999", "nan", "inf", "0x10", "1_000", "١٢", "½", "1,", ",", ",,,1.1,,", "1.1.1",
    "true", "None", "[]", "{}", "__class__", "../../etc/passwd", "${jndi:ldap://x}", "{{7*7}}", "%00", "%s%s%s%n",
    "' or 1=1 --", "<script>alert(1)</script>", "<img src=x onerror=alert(1)>", "[x](javascript:alert(1))",
    "$\\href{javascript:alert(1)}{x}$", ":material/bug_report:", ":red[x]", "\u202egnp.exe", "\ud800", "9" * 5000,
    "1" + "0" * 400, "-" * 300, "1.5", "0.0000001", "llama-2-7b,llama-2-7b", "0.0," * 5000,
]  # fmt: skip
WRITTEN = st.one_of(
    st.sampled_from(HOSTILE),
    st.text(ANY, max_size=40),
    st.integers().map(str),
    st.floats().map(repr),
    st.sampled_from([word for kind in KINDS.values() if isinstance(kind, Choice) for word in kind.options]),
)
LINKS = st.dictionaries(st.one_of(st.sampled_from(sorted(KINDS)), st.text(ANY, max_size=60)), WRITTEN, max_size=12)


def in_range(kind: object, value: object) -> bool:
    """Check independently whether a value is valid for its kind."""
    match kind:
        case Number(low, high, whole):
            return isinstance(value, int if whole else (int, float)) and low <= value <= high
        case Choice(options):
            return value in options
        case ModelName():
            return value in MODELS
        case Flag():
            return isinstance(value, bool)
        case Several(options, most):
            return isinstance(value, tuple) and len(set(value)) == len(value) <= most and set(value) <= set(options)
        case Text(most):
            return isinstance(value, str) and len(value) <= most <= MAX_CHARACTERS
        case Ids(most):
            return isinstance(value, tuple) and len(value) <= most and all(0 <= i < 2**20 for i in value)
    raise AssertionError(f"{kind} is nothing this test knows")


@given(LINKS)
@effort(max_examples=100, deadline=None)
def test_any_link_gives_settings_in_range_and_sentences(link):
    assert_in_range_and_sentences(link)


@pytest.mark.parametrize("word", HOSTILE)
def test_a_hostile_word_for_every_setting_gives_settings_in_range_and_sentences(word):
    assert_in_range_and_sentences(dict.fromkeys(KINDS, word))


def assert_in_range_and_sentences(link: dict[str, str]) -> Settings:
    found, notices = Settings.from_link(link)
    unset = {"theta": OWN_THETA, "layer": NOT_CHOSEN, "head": NOT_CHOSEN}  # the model's own base; what nobody chose
    others = [name for name in KINDS if getattr(found, name) != unset.get(name)]
    assert [name for name in others if not in_range(KINDS[name], getattr(found, name))] == []
    assert found.n_heads % found.n_kv_heads == 0 and found.d_model % (2 * found.n_heads) == 0
    assert found.head_dim % 2 == found.qk_rope_head_dim % 2 == 0 and found.qk_rope_head_dim > 0
    assert found.own_config().n_layers == found.n_layers
    assert all(notice.endswith(".") and len(notice) < MAX_NOTICE_CHARS for notice in notices)
    assert len(notices) <= len(link) + 2  # two more where heads do not divide
    assert sum(len(value) for value in found.to_link().values()) < 3 * MAX_ADDRESS
    return found


def chosen(kind: object) -> st.SearchStrategy:
    """Draw any value that a kind allows."""
    match kind:
        case Number(low, high, whole):
            return st.integers(low, high) if whole else st.floats(low, high)
        case Choice(options):
            return st.sampled_from(options)
        case Flag():
            return st.booleans()
        case ModelName():
            return st.sampled_from(MODELS)
        case Several(options, most):
            return st.lists(st.sampled_from(options), unique=True, max_size=most).map(tuple)
        case Text(most):
            return st.text(ANY, max_size=min(most, 60))
        case Ids(most):
            return st.lists(st.integers(0, 2**20 - 1), max_size=most).map(tuple)
    raise AssertionError(f"{kind} is nothing this test knows")


CHOSEN = {name: chosen(kind) for name, kind in sorted(KINDS.items())}  # built once, since it takes long
NAMES = st.one_of(st.just([*CHOSEN]), *[st.lists(st.sampled_from([*CHOSEN]), unique=True, max_size=6)] * 5)


@st.composite
def any_settings(draw: st.DrawFn) -> Settings:
    """Draw settings that a user could have chosen: all fields in one case of six, otherwise a few."""
    return Settings(**{name: draw(CHOSEN[name]) for name in draw(NAMES)}).normalised()


@given(any_settings())
@effort(max_examples=80, deadline=None)
def test_any_settings_come_back_from_their_link(settings):
    assert Settings.from_link(settings.to_link()) == (settings, [])


# ---- the text box

INVISIBLE = {"Cc", "Cf", "Cs", "Co", "Cn", "Zs", "Zl", "Zp"}
MIXED = "\u202e\u202d\u2066\u2069\u200b\ufeff\ud800\udfff\x00\x1b[31ma好👩\u200d👧"
BOX = st.one_of(
    st.text(ANY, max_size=120),
    st.text(st.characters(categories=["Cc", "Cf", "Cs", "Co", "Mn", "Zs"]), max_size=60),  # hardly a letter in it
    st.text(st.sampled_from(MIXED), max_size=60),
    st.sampled_from(HOSTILE),
)


@given(BOX)
@effort(max_examples=100, deadline=None)
def test_any_text_comes_back_and_every_label_can_be_seen(text):
    assert_comes_back_and_is_seen(text)


@given(st.text(ANY, min_size=1, max_size=8))
@effort(max_examples=2, deadline=None)
def test_so_does_any_text_of_20_000_characters(piece):
    assert_comes_back_and_is_seen((piece * MAX_CHARACTERS)[:MAX_CHARACTERS])


def assert_comes_back_and_is_seen(text: str) -> None:
    ids = TOKENIZER.encode(text)
    assert TOKENIZER.decode(ids) == text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    labels = TOKENIZER.labels(ids)
    assert len(labels) == len(ids) and all(labels)
    shown = set("".join(labels)) - {" "}  # the one in "好 1/3"
    assert [c for c in shown if unicodedata.category(c) in INVISIBLE] == []
    assert text.startswith(Settings(text=text).to_link().get("text", ""))


@given(st.text(ANY, max_size=30))
@effort(max_examples=80, deadline=None)
def test_markdown_finds_nothing_to_act_on_in_a_quoted_label(text):
    inside = quoted(text)[1:-1]
    if (inside[:1], inside[-1:]) == ("\u2068", "\u2069") and len(inside) > len(text) + 1:
        inside = inside[1:-1]  # it has letters written from right to left
    assert re.sub(r"\\([!-/:-@\[-`{-~])", r"\1", inside) == text
    assert not re.search(r"(?<!\\)(?:\\\\)*[!-/:-@\[\]-`{-~]", inside)


# ---- nothing is allocated beyond the bound


@given(any_settings())
@effort(max_examples=60, deadline=None)
def test_the_longest_text_of_any_settings_is_known_to_fit_before_it_is_traced(settings):
    config = models.config_of(settings)
    longest = models.max_tokens(config)
    assert 1 <= longest <= models.MAX_TOKENS
    assert layer_bytes(config, longest) <= models.MAX_TRACE_BYTES
    assert longest == models.MAX_TOKENS or layer_bytes(config, longest + 1) > models.MAX_TRACE_BYTES


@given(any_settings())
@effort(max_examples=60, deadline=None)
def test_no_model_of_ones_own_is_built_beyond_the_bound(settings):
    settings = replace(settings, model="own")
    family = [settings, base_of(settings), replace(settings, attention="mla")]
    largest = max(4 * counted_parameters(member.own_weights())[0] for member in family)  # bytes
    if largest > models.MAX_WEIGHT_BYTES:
        with pytest.raises(ConfigError, match=r"would take [\d,]+ MB, and at most 70 MB") as refused:
            models.model_of(settings)
        assert len(str(refused.value)) < MAX_NOTICE_CHARS
    elif largest < 2_000_000:  # more would take long, here
        assert View(settings).problem is None


@pytest.mark.parametrize("attention", ["gqa", "mla"])
@pytest.mark.parametrize("text", ["a b " * 5000, "\ud800" * 10**6])  # within the characters that are read, and beyond
def test_beyond_the_largest_trace_a_layer_at_a_time_is_kept(text, attention):
    view = View(
        Settings(text=text, model="own", n_layers=8, n_heads=16, n_kv_heads=16, d_model=384, attention=attention)
    )
    most = models.MAX_TOKENS
    whole = most - most % 3 if "\ud800" in text else most  # U+FFFD, which is in its place, is three tokens
    assert len(view.ids) == len(view.labels) == whole and isinstance(view.trace, LayerwiseTrace)
    assert view.trace.nbytes <= models.MAX_TRACE_BYTES < trace_bytes(view.config, len(view.ids))


# ---- the pages, without a browser

PAGES = [FRONT, *TRACED, COST]
PARTS = {"heads_part", "turning", "closer", "part"}
ENDS = [
    {name: str(getattr(kind, end)) for name, kind in KINDS.items() if isinstance(kind, Number)} | {"model": "own"}
    for end in ("low", "high")
]
LAST = {name: kind.options[-1] for name, kind in KINDS.items() if isinstance(kind, Choice) and name not in PARTS}
MARKUP = "<img src=x onerror=alert(1)> ![x](//e.x/i.png) $\\href{javascript:alert(1)}{x}$ :material/l: :red[x] "
WORDS = " ".join(word for word in HOSTILE if len(word) < 99)
HOSTILE_LINKS = [{word: "1" for word in HOSTILE if word}, *(dict.fromkeys(KINDS, word) for word in HOSTILE[::3])]
ON_ALL = [
    {name: WORDS for name, kind in KINDS.items() if isinstance(kind, Text)},
    *ENDS,
    {**ENDS[1], **LAST, "text": MARKUP * 20},
    {**ENDS[0], **LAST, "text": "\u202e\u2066\x00" * 500, "model": "mla"},
    {
        "model": "own",
        "n_layers": "32",
        "n_heads": "32",
        "n_kv_heads": "32",
        "layer": "31",
        "head": "31",
        "tab": "alike",
    },
    {"model": "own", "attention": "mla", "n_heads": "3", "head_dim": "2", "qk_rope_head_dim": "128", "tab": "latent"},
]


def sendable(word: str) -> str:
    """Encode as a browser does: an address is UTF-8, which has no lone surrogates."""
    return word.encode("utf-8", "replace").decode()


@pytest.mark.parametrize("i", range(5))
def test_hostile_links_open_on_every_page(i):
    """Each page gets every fifth link, so that each link is opened on one page, and seven on all."""
    for link in HOSTILE_LINKS[i::5] + ON_ALL:
        app = opened(PAGES[i], **{sendable(name): sendable(word) for name, word in link.items()})
        assert app.title or {"only", "present"} & link.keys()  # a drawing shown alone has no page title
