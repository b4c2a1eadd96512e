"""What nobody chose is computed, what somebody chose stays, and links say which is which."""

import pytest
from streamlit.testing.v1 import AppTest

from attnviz.compute import look_here
from attnviz.compute.view import View
from attnviz.session.examples import EXAMPLES
from attnviz.session.pages.decode import STORY
from attnviz.session.settings import Settings
from attnviz.session.shared import DEFAULT_TEXT, NOBODY_CHOSE
from attnviz.ui import state
from tests.pages import DECODE, FRONT, GROUPS, HEADS, ROPE, STEPS, linked, opened

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("no_links_to_pages")]

OWN = "My cat chased the dog around the kitchen until the dog was tired, so my cat slept on the sofa."
OTHER = "The meeting moved to Tuesday. Please tell the others that the meeting moved again."


def shown(app: AppTest) -> tuple[int, int, int, int]:
    assert not app.exception, [e.value for e in app.exception]
    view = View(app.session_state["settings"], padded=True)
    return *view.layer_and_head, view.query, view.key


def best(text: str, model: str = "gqa-4") -> tuple[int, int, int, int]:
    found = look_here.found_in(View(Settings(text=text, model=model, **NOBODY_CHOSE), padded=True))
    assert found.share.stands_out
    return found.layer, found.head, found.query, found.key


def typed(app: AppTest, text: str) -> AppTest:
    app.run()  # all parts: the run before may have been of some alone
    return app.text_area(key="control-text").set_value(text).run()


def advice(app: AppTest) -> str:
    return next(each.value for each in app.main.markdown if each.value.startswith(":material/search:"))


def test_a_typed_text_selects_what_stands_out_and_its_link_opens_the_same():
    app = typed(opened(HEADS), OWN)
    assert shown(app) == best(OWN) != (1, 3, 21, best(OWN)[3])
    assert "**Look at layer {}, head {}**".format(*best(OWN)) in advice(app)
    assert not any(each.label.startswith("Show L") for each in app.button)  # it is selected
    assert linked(app) == {"text": OWN, "selection": "auto"}
    assert shown(opened(HEADS, **linked(app))) == best(OWN)
    assert shown(typed(app, OTHER)) == best(OTHER)


def test_a_link_made_before_opens_what_it_opened_and_offers_what_stands_out():
    app = opened(HEADS, text=OWN)
    assert shown(app)[:3] == (1, 3, 21)
    next(each for each in app.button if each.label == "Show L{} H{}".format(*best(OWN))).click().run()
    assert shown(app) == best(OWN)


def test_another_model_selects_what_stands_out_in_it():
    app = opened(HEADS, text=OWN)
    app.selectbox(key="control-model").set_value("mha").run()
    assert shown(app) == best(OWN, "mha")


@pytest.mark.parametrize("link", [{"layer": "2", "head": "6"}, {"layer": "1", "head": "3"}])
def test_a_head_that_a_link_names_stays_and_its_query_follows_the_text(link):
    app = typed(opened(HEADS, **link), OWN)
    assert shown(app)[:3] == (int(link["layer"]), int(link["head"]), best(OWN)[2])
    assert link.items() <= linked(app).items()


def test_a_query_chosen_by_hand_stays_when_the_text_is_edited():
    app = typed(opened(HEADS, query="7", key="2"), OWN)
    assert shown(app) == (*best(OWN)[:2], 7, 2)


def test_a_head_chosen_by_hand_keeps_the_layer_that_was_shown():
    app = typed(opened(ROPE), OWN)
    layer, head, query, _ = best(OWN)
    app.selectbox(key="control-head").set_value((head + 2) % 8).run()
    assert shown(app)[:3] == (layer, (head + 2) % 8, query)
    assert shown(typed(app, OTHER))[:3] == (layer, (head + 2) % 8, best(OTHER)[2])


def test_a_mask_setting_does_not_move_the_selection_and_the_next_text_does():
    app = typed(opened(HEADS), OWN)
    app.slider(key="control-window").set_value(9).run()
    assert shown(app)[:3] == best(OWN)[:3]
    assert linked(app)["selection"] == "kept"
    app.run().slider(key="control-window").set_value(0).run()
    assert shown(app) == best(OWN)
    assert shown(typed(app, OTHER)) == best(OTHER)


def test_a_head_chosen_after_a_mask_stays_for_the_next_text():
    app = typed(opened(ROPE), OWN)
    app.checkbox(key="control-causal").set_value(False).run()
    app.run().selectbox(key="control-head").set_value(0).run()
    assert shown(typed(app, OTHER))[:2] == (best(OWN)[0], 0)


def test_an_example_selects_what_it_is_about_and_the_next_text_something_else():
    app = opened(HEADS, layer="2", head="6", query="3")
    pills = next(each for each in app.button_group if each.label == "Examples")
    pills.set_value("a list").run()
    assert shown(app) == best(EXAMPLES["a list"]) and "induction score" in advice(app)
    assert shown(typed(app, OWN)) == best(OWN)


@pytest.mark.parametrize("text", ["Hello", "床", " "])
def test_a_text_in_which_nothing_stands_out_says_so(text):
    assert "**No head stands out**" in advice(typed(opened(HEADS), text))


def test_the_strongest_key_can_be_chosen_where_an_example_is_about_another(monkeypatch):
    found = look_here.Found(1, 4, 17, 2, 0.3, look_here.standing_out.Share(0.9, 0.1, 1))
    monkeypatch.setattr(look_here.examples, "found_in", lambda view: found)
    app = opened(ROPE, text=EXAMPLES["a pronoun"], selection="auto")
    assert shown(app) == (1, 4, 17, 2) and app.selectbox(key="control-key").value == 2
    app.selectbox(key="control-key").set_value(-1).run()
    app.run()
    view = View(app.session_state["settings"])
    assert shown(app) == (1, 4, 17, view.strongest_key) and app.selectbox(key="control-key").value == -1


@pytest.mark.parametrize("page", [FRONT, GROUPS, STEPS, DECODE])
def test_the_other_pages_open_the_same_selection(page):
    app = opened(page, text=OWN, selection="auto")
    layer, head, query, key = best(OWN)
    assert shown(app) == (layer, head, query, key)
    boxes = {each.key: each.value for each in app.selectbox}
    assert boxes.get("control-layer", layer) == layer and boxes.get("control-query", query) == query


def test_a_click_on_the_overview_is_a_choice(monkeypatch):
    monkeypatch.setattr(state, "current", lambda: Settings(text=OWN, selection="kept", layer=2, head=1, query=4))
    assert state.changed(layer=0, head=7).selection == "auto"


def gone_to(app: AppTest, file: str) -> AppTest:
    """Follow the sidebar's link to a page in the same session, as a click does."""
    app.switch_page(file)
    return app.run()


def text_of(app: AppTest) -> str:
    assert not app.exception, [e.value for e in app.exception]
    return app.session_state["settings"].text


def test_who_has_chosen_no_text_decodes_a_story_and_sees_the_default_text_elsewhere():
    app = opened(HEADS)
    assert text_of(app) == DEFAULT_TEXT and linked(app) == {}
    assert text_of(gone_to(app, DECODE)) == STORY
    assert linked(app) == {"text": STORY, "selection": "auto"}
    assert text_of(gone_to(app, HEADS)) == DEFAULT_TEXT and linked(app) == {}
    assert shown(app)[:3] == (1, 3, 21)


def test_a_chosen_text_goes_with_its_reader_to_every_page():
    app = typed(opened(HEADS), OWN)
    assert text_of(gone_to(app, DECODE)) == OWN == text_of(gone_to(app, HEADS))
    app = typed(opened(DECODE), OWN)
    assert text_of(gone_to(app, HEADS)) == OWN
    app = opened(DECODE)
    pills = next(each for each in app.button_group if each.label == "Examples")
    pills.set_value("a repeated phrase").run()
    assert text_of(app) == DEFAULT_TEXT == text_of(gone_to(app, DECODE))


@pytest.mark.parametrize(
    "link", [{"tab": "paged"}, {"model": "mha"}, {"temperature": "0.8", "layer": "2"}, {"text": OWN}, {"seed": "3"}]
)
def test_a_link_to_decode_made_before_goes_on_with_its_text(link):
    assert text_of(opened(DECODE, **link)) == link.get("text", DEFAULT_TEXT)


def test_lines_of_a_decode_step_are_those_of_its_story():
    app = opened(DECODE)
    next(each for each in app.button if each.label == "Lines of this step").click().run()
    assert text_of(app) == STORY and app.session_state["settings"].tab == "step"
    assert text_of(gone_to(app, HEADS)) == STORY
