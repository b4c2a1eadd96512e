"""Every page, as the first request of a session, for any text and any link, without a browser."""

from pathlib import Path

import pytest
from streamlit.testing.v1 import AppTest

from attnviz.session.pages import ALL as REGISTERED

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]
PAGES = [
    "app.py", "pages/1_heads.py", "pages/2_query_groups.py", "pages/3_rope.py", "pages/4_cost.py", "pages/5_steps.py",
    "pages/8_practice.py",
]  # fmt: skip
TRACED = PAGES[1:4]


def opened(page: str, **link: str) -> AppTest:
    app = AppTest.from_file(ROOT / "app.py", default_timeout=60)
    if page != "app.py":
        app.switch_page(page)
    for name, value in link.items():
        app.query_params[name] = value
    app.run()
    assert not app.exception, [e.value for e in app.exception]
    return app


def sentences(app: AppTest) -> str:
    return " ".join(element.value for element in (*app.warning, *app.info, *app.error))


def pictures(app: AppTest) -> list[str]:
    """Return the keys of the charts and drawings on the page, without the components that draw nothing."""
    charts = [chart.proto.id for chart in app.get("plotly_chart")]
    drawn = [
        each.proto
        for each in app.get("bidi_component")
        if each.proto.component_name not in ("copy_link", "workarounds")
    ]
    return charts + [each.id for each in drawn if each.bytes]


@pytest.mark.parametrize("page", PAGES)
def test_every_page_opens_by_itself_and_has_nothing_to_complain_of(page):
    assert sentences(opened(page)) == ""


TEXTS = {
    "one character": "a",
    "Chinese": "小女孩在花园里找到一个红色的球。",
    "Arabic": "وجدت الفتاة الصغيرة كرة حمراء",
    "emoji": "👩‍👩‍👧 🐈 👍🏽",
    "control characters": "a\x00b\x07c\u200bd\u202ee\r\n\t",
    "markup": "<script>alert(1)</script> **bold** $x^2$ :red[no] [a](javascript:alert(1))",
    "a hundred equal words": "word " * 100,
    "20,000 characters": "Once upon a time there was a king. " * 572,
}


@pytest.mark.parametrize("text", TEXTS.values(), ids=TEXTS)
@pytest.mark.parametrize("page", TRACED)
def test_any_text_gets_a_picture(page, text):
    app = opened(page, text=text)
    assert pictures(app)
    assert ("first 512 are shown" in sentences(app)) == (len(text) > 4000)


@pytest.mark.parametrize("page", TRACED)
def test_no_text_gets_one_sentence_that_says_what_to_do(page):
    app = opened(page, text="")
    assert len(app.info) == 1 and "Type one" in app.info[0].value


OWN = {
    "smallest": {"n_layers": "1", "n_heads": "1", "n_kv_heads": "1", "d_model": "8"},
    "largest": {"n_layers": "8", "n_heads": "16", "n_kv_heads": "16", "d_model": "384"},
    "seven heads": {"n_heads": "7", "n_kv_heads": "7", "d_model": "98", "qkv_bias": "1"},
    "no mask, no rope": {"causal": "0", "rope": "0"},
    "window of one": {"window": "1"},
    "fast rope": {"theta": "100", "seed": "2147483647"},
}


@pytest.mark.parametrize("own", OWN.values(), ids=OWN)
@pytest.mark.parametrize("page", PAGES)
def test_any_setting_gets_a_picture(page, own):
    app = opened(page, model="own", **own)
    assert not app.error and not app.warning
    assert pictures(app) or page == "pages/8_practice.py"  # which draws nothing before its first question


@pytest.mark.parametrize("model", ["mha", "gqa-4", "gqa-2", "mqa", "mla"])
@pytest.mark.parametrize("page", TRACED)
def test_every_checkpoint_gets_a_picture(page, model):
    assert pictures(opened(page, model=model, layer="7", head="15", query="400"))


@pytest.mark.parametrize("page", PAGES)
def test_a_link_with_nonsense_in_it_opens_and_says_what_it_made_of_it(page):
    app = opened(page, n_layers="1e9", seed="abc", theta="-inf", model="../../etc/passwd", foo="<b>bar</b>", head="")
    said = sentences(app).replace("\\", "").replace("“", " ").replace("”", " ").split()  # escaped for markdown
    assert {"n_layers", "seed", "theta", "model", "foo", "head"} <= set(said)


def test_edits_go_to_the_address_and_a_link_reopens_them():
    app = opened(PAGES[4])
    app.segmented_control(key="control-precision").set_value("fp8").run()
    assert dict(app.query_params) == {"precision": "fp8"}
    assert opened(PAGES[4], precision="fp8").segmented_control(key="control-precision").value == "fp8"


def test_untrained_weights_have_no_loss_by_position():
    def charts(app: AppTest) -> set[str]:
        return {chart.proto.id.split("-chart-")[-1] for chart in app.get("plotly_chart")}

    own, trained = (opened("pages/3_rope.py", turning="longer", model=model) for model in ("own", "mha"))
    assert "weights are untrained" in sentences(own) and sentences(trained) == ""
    assert {"slowed"} <= charts(own) and charts(trained) - charts(own) == {"loss"}


OLD_TABS = {
    "pages/1_heads.py": "heads_part", "pages/2_query_groups.py": "closer", "pages/3_rope.py": "turning",
    "pages/4_cost.py": "part",
}  # fmt: skip


@pytest.mark.parametrize("page", OLD_TABS)
def test_links_made_before_there_was_a_tab_open_what_they_opened(page):
    names = next(each.tabs for each in REGISTERED if each.file == page)
    for tab in (list(names)[0], list(names)[-1]):
        app = opened(page, **{**dict.fromkeys(OLD_TABS.values(), "nonsense"), OLD_TABS[page]: tab})
        assert app.segmented_control(key="control-tab").value == tab and sentences(app) == ""
