"""Every page, as the first request of a session, for any text and any link, without a browser."""

import re

import pytest
from streamlit.testing.v1 import AppTest

from attnviz.session.pages import TABS_BEFORE, by_purpose
from tests.pages import COST, FRONT, GROUPS, HEADS, PRACTICE, ROPE, STEPS, TRACED, opened, pictures, said, sentences

pytestmark = pytest.mark.slow

PAGES = [FRONT, *TRACED, COST, STEPS, PRACTICE]


TEXTS = {
    "one character": ("mha", "a"),
    "Chinese, Arabic, emoji, control characters, markup": (
        "mqa",
        "小女孩在花园里 وجدت الفتاة 👩‍👩‍👧 🐈 👍🏽 a\x00b\x07c\u200bd\u202ee\r\n\t"
        "<script>alert(1)</script> **bold** $x^2$ :red[no] [a](javascript:alert(1))",
    ),
    "a hundred equal words": ("mla", "word " * 100),
    "20,000 characters": ("gqa-4", "Once upon a time there was a king. " * 572),
}  # fmt: skip


@pytest.mark.parametrize(("model", "text"), TEXTS.values(), ids=TEXTS)
@pytest.mark.parametrize("page", TRACED)
def test_any_text_gets_a_picture_from_any_checkpoint(page, model, text):
    app = opened(page, text=text, model=model, layer="7", head="15", query="400")
    assert pictures(app)
    assert ("first 512 are shown" in sentences(app)) == (len(text) > 4000)


@pytest.mark.parametrize("page", TRACED)
def test_no_text_gets_one_sentence_that_says_what_to_do(page):
    app = opened(page, text="")
    assert len(app.info) == 1 and "Type one" in app.info[0].value


OWN = {
    "smallest, no mask, no rope": {
        "n_layers": "1", "n_heads": "1", "n_kv_heads": "1", "d_model": "8", "causal": "0", "rope": "0",
    },
    "largest": {"n_layers": "8", "n_heads": "16", "n_kv_heads": "16", "d_model": "384"},
    "seven heads, window of one, fast rope": {
        "n_heads": "7", "n_kv_heads": "7", "d_model": "98", "qkv_bias": "1", "window": "1", "theta": "100",
        "seed": "2147483647",
    },
}  # fmt: skip


@pytest.mark.parametrize("own", OWN.values(), ids=OWN)
@pytest.mark.parametrize("page", PAGES)
def test_any_setting_gets_a_picture(page, own):
    app = opened(page, model="own", **own)
    assert not app.error and not app.warning
    assert pictures(app) or page == PRACTICE  # which draws nothing before its first question


@pytest.mark.parametrize("page", [FRONT, HEADS, COST])  # overview, a page with a text, one without
def test_a_link_with_nonsense_in_it_opens_and_says_what_it_made_of_it(page):
    app = opened(page, n_layers="1e9", seed="abc", theta="-inf", model="../../etc/passwd", foo="<b>bar</b>", head="")
    said = sentences(app).replace("“", " ").replace("”", " ").split()
    assert {"n_layers", "seed", "theta", "model", "foo", "head"} <= set(said)


def test_edits_go_to_the_address_and_a_link_reopens_them():
    app = opened(COST)
    app.selectbox(key="control-precision").set_value("fp8").run()
    assert dict(app.query_params) == {"precision": "fp8"}
    assert opened(COST, precision="fp8").selectbox(key="control-precision").value == "fp8"


def test_untrained_weights_have_no_loss_by_position():
    def charts(app: AppTest) -> set[str]:
        return {chart.proto.id.split("-chart-")[-1] for chart in app.get("plotly_chart")}

    own, trained = (opened(ROPE, turning="longer", model=model) for model in ("own", "mha"))
    assert "weights are untrained" in sentences(own) and sentences(trained) == ""
    assert {"slowed"} <= charts(own) and charts(trained) - charts(own) == {"loss"}


def test_links_made_before_there_was_a_tab_open_what_they_opened():
    """On one page; tests/session/test_settings.py reads such links for each."""
    old = {**dict.fromkeys(TABS_BEFORE, "nonsense"), "closer": "latent"}
    app = opened(GROUPS, **old)
    assert app.segmented_control(key="control-tab").value == "latent" and sentences(app) == ""


def test_the_source_that_is_shown_is_that_of_the_attention_in_force():
    for link, first in (({}, "attention.py"), ({"model": "own", "attention": "mla"}, "latent.py")):
        app = opened(FRONT, **link)
        app.button(key="view-source").click().run()
        assert [c.value for c in app.caption if c.value.startswith("modules/")][0] == f"modules/{first}"


@pytest.mark.parametrize("page", [HEADS, GROUPS, ROPE, STEPS])
def test_how_long_the_run_took_is_behind_the_question_mark(page):
    app = opened(page, text="one two")
    first = next(each for each in app.main.markdown if "query heads" in each.value)
    assert "traced" not in said(app).lower() and re.fullmatch(r"Traced in [\d,]+ ms\.", first.proto.help)


def test_the_sidebar_is_grouped_as_the_overview_is(monkeypatch):
    drawn = []
    monkeypatch.setattr("streamlit.page_link", lambda file, **_: drawn.append(file))
    app = opened(HEADS)
    assert drawn[0] == FRONT and drawn[1:] == [page.file for pages in by_purpose().values() for page in pages]
    assert [each.value for each in app.sidebar.caption][: len(by_purpose())] == list(by_purpose())
