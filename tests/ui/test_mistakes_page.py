"""Mistakes page: no part of the answer before the question is answered, the numbers of the run after it."""

from functools import cache

import pytest
from streamlit.testing.v1 import AppTest

from attnviz.checkpoints import load_checkpoint
from attnviz.compute import mistakes as compute
from attnviz.compute.view import View
from attnviz.mistakes import all_mistakes, load_mistake
from attnviz.mistakes.runs import format_number
from attnviz.modules import Transformer
from attnviz.session.pages.mistakes import CODES, MISTAKES
from attnviz.session.settings import Settings
from attnviz.session.shared import DEFAULT_TEXT
from attnviz.text import tokenizer
from attnviz.ui.pages.mistakes import ANSWERS, FIRST_ANSWERS, SKIPPED
from tests.mistakes.states_by_hand import ONLY_IN
from tests.pages import MISTAKES as PAGE
from tests.pages import STEPS, checked, opened, said

pytestmark = pytest.mark.usefixtures("no_links_to_pages")


def seen(answers: dict[str, int] | None = None, /, **link: str) -> AppTest:
    """Open the page at this link; answers: given earlier in this session."""
    first = {name: answer for name, answer in (answers or {}).items() if answer != SKIPPED}
    return opened(PAGE, {ANSWERS: dict(answers or {}), FIRST_ANSWERS: first}, **link)


@cache
def checkpoint(model: str) -> Transformer:
    return load_checkpoint(model)[0]


def answered(app: AppTest, name: str, answer: int | None) -> AppTest:
    if answer is None:
        return checked(app.button(key="skip-mistake").click().run())
    return checked(app.radio(key=f"answer-{name}").set_value(answer).run())


def said_by_lists(app: AppTest) -> list[str]:
    """Return what the lists of mistakes say: the names of groups, and the options of the box for phones."""
    return [*(each.label for each in app.radio if each.key.startswith("list-")), *app.selectbox(key="box").options]


def has_repair(app: AppTest) -> bool:
    """Whether the page shows a diff, rather than the mistaken function alone."""
    return any("\n+ " in code.value for code in app.code)


def test_the_settings_know_the_ids_without_torch():
    assert set(MISTAKES) == set(all_mistakes()) and Settings().mistake in MISTAKES


@pytest.mark.slow
def test_nothing_of_the_answer_stands_there_before_the_question_is_answered():
    app, mistake = seen(mistake="tiled_kv_heads"), load_mistake("tiled_kv_heads")
    before = said(app)
    assert mistake.title in before and mistake.what not in before and mistake.noticed not in before
    assert not app.metric and len(app.code) == 1 and "repeat(1, H // K, 1, 1)" in app.code[0].value
    assert not [word for word in ("Silent", "silent", "NaN", "error") if word in before + "".join(said_by_lists(app))]
    radio = app.radio(key="answer-tiled_kv_heads")
    assert radio.value is None and list(radio.options) == list(mistake.answers)
    app = answered(app, mistake.id, mistake.answer)
    assert mistake.what in said(app) and mistake.noticed in said(app)
    assert any(code.value == mistake.test.strip() for code in app.code) and len(app.success) == 1
    assert "The effect: silent." in said(app)
    assert "answer" not in "".join(app.query_params), "a link does not answer"


@pytest.mark.slow
def test_the_mistaken_line_is_found_before_the_title_and_the_repair_are_shown():
    name, mistake = "tiled_kv_heads", load_mistake("tiled_kv_heads")
    app = seen(mistake=name, hunt="1")
    assert mistake.title not in said(app) + "".join(said_by_lists(app))
    assert app.code and not has_repair(app)
    lines = app.radio(key=f"line-{name}")
    at = [i for i, line in enumerate(lines.options) if "repeat(1, H // K, 1, 1)" in line]
    assert len(at) == 1 and not any("flatten(1, 2)" in line and "expand" in line for line in lines.options)
    app = lines.set_value(at[0]).run()
    assert not app.exception and "Found" in app.success[0].value
    assert f"1 of 1 line found at the first try. {len(MISTAKES)} mistakes." in said(app)
    assert mistake.title in said(app) and "\n+ " in app.code[0].value and not app.metric
    app = answered(app, name, mistake.answer)
    app.button(key="next-mistake").click().run()
    code = app.query_params["mistake"]
    (following,) = [each for each in MISTAKES if CODES[each] == code]
    assert following != name and load_mistake(following).title not in said(app)
    mistaken = compute.excerpt(View(Settings(mistake=following))).mistaken
    app = app.radio(key=f"line-{following}").set_value(next(i for i in range(9) if i not in mistaken)).run()
    assert "is right. Choose another line" in app.error[0].value and "1 of 2 lines found" in said(app)
    assert load_mistake(following).title not in said(app) and not has_repair(app), "one can try again"
    app = checked(app.radio(key=f"line-{following}").set_value(min(mistaken)).run())
    assert not app.error and "Found" in app.success[0].value and load_mistake(following).title in said(app)
    assert "1 of 2 lines found" in said(app), "the first try counts"


def test_the_line_is_to_be_found_by_default_and_links_with_an_id_show_what_they_showed():
    name, mistake = "scale_by_d_model", load_mistake("scale_by_d_model")
    for link in ({}, {"mistake": CODES[name]}, {"mistake": CODES[name], "hunt": "1"}, {"mistake": name, "hunt": "1"}):
        app = seen(**link)
        assert app.toggle(key="hunt").value
        assert "Which line is mistaken?" in said(app) and not has_repair(app)
        assert mistake.title not in said(app) + "".join(said_by_lists(app))
    for link in ({"mistake": name}, {"mistake": name, "hunt": "0"}, {"mistake": CODES[name], "hunt": "0"}):
        app = seen(**link)
        assert not app.toggle(key="hunt").value and f"## {mistake.title}" in said(app) and has_repair(app)


def test_the_address_does_not_name_the_mistake_and_keeps_an_explicit_choice():
    app = seen()
    app = checked(app.radio(key="list-softmax").set_value("scale_by_d_model").run())
    assert dict(app.query_params) == {"mistake": CODES["scale_by_d_model"]}
    app = checked(app.toggle(key="hunt").set_value(False).run())
    assert dict(app.query_params) == {"mistake": CODES["scale_by_d_model"], "hunt": "0"}
    assert load_mistake("scale_by_d_model").title in said(app)
    app = checked(app.toggle(key="hunt").set_value(True).run())
    assert dict(app.query_params) == {"mistake": CODES["scale_by_d_model"], "hunt": "1"}


@pytest.mark.slow
def test_a_wrong_answer_tells_nothing_and_can_be_tried_again():
    name, mistake = "mask_after_softmax", load_mistake("mask_after_softmax")
    app = answered(seen(mistake=name), name, 0)
    (error,) = app.error
    assert mistake.answers[0] in error.value and mistake.answers[mistake.answer] not in error.value
    assert mistake.what not in said(app) and not app.metric and not app.radio(key=f"answer-{name}").disabled
    assert f"0 of 1 answered right at the first try. {len(MISTAKES)} mistakes." in said(app)
    app = answered(app, name, mistake.answer)
    (success,) = app.success
    assert not app.error and "Right." in success.value and mistake.what in success.value and app.metric
    assert app.radio(key=f"answer-{name}").disabled and "0 of 1 answered right" in said(app)
    (mark,) = [label for label in app.radio(key="list-mask").options if label.startswith(mistake.title)]
    assert mark.endswith("check:"), "found in the end"


@pytest.mark.slow
def test_an_answer_that_is_shown_comes_with_its_reason():
    name, mistake = "mask_after_softmax", load_mistake("mask_after_softmax")
    app = answered(answered(seen(mistake=name), name, 0), name, None)
    (info,) = [each.value for each in app.info if "The answer" in each.value]
    assert mistake.answers[mistake.answer] in info and mistake.what in info and not app.error and app.metric
    (mark,) = [label for label in app.radio(key="list-mask").options if label.startswith(mistake.title)]
    assert mark.endswith("close:") and "0 of 1 answered right" in said(app)


@pytest.mark.slow
def test_answers_are_counted_over_the_mistakes():
    app = seen({"mask_after_softmax": 0}, mistake="fully_masked_row")
    assert not app.error and app.radio(key="list-mask").value == "fully_masked_row"
    app = answered(app, "fully_masked_row", load_mistake("fully_masked_row").answer)
    assert f"1 of 2 answered right at the first try. {len(MISTAKES)} mistakes." in said(app)
    app = seen({"mask_after_softmax": 0}, mistake="mask_after_softmax")
    assert len(app.error) == 1 and app.radio(key="list-mask").value == "mask_after_softmax"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("model", "title", "right", "code"),
    [
        ("gqa-4", "A cache sized with n_heads", "By n_heads / n_kv_heads", 'letter("H", self.n_heads)'),
        ("mla", "A cache sized with two latents", "By 2·R / (R + P)", '("latent", "values")'),
    ],
)
def test_the_answer_is_about_the_attention_type_of_the_code(model, title, right, code):
    name = "cache_sized_with_n_heads"
    app = seen(mistake=name, model=model)
    (shown,) = app.code
    (mistaken,) = [line for line in shown.value.splitlines() if line.startswith("-")]
    assert code in mistaken and f"## {title}" in said(app) and f"Cache · {title}" in said_by_lists(app)
    app = answered(app, name, load_mistake(name).answer)
    assert len(app.success) == 1 and app.radio(key=f"answer-{name}").options[1] == right
    assert load_mistake(name).words_in(load_checkpoint(model)[0].config).what in said(app)


@pytest.mark.slow
@pytest.mark.parametrize("name", all_mistakes())
def test_each_shows_the_number_of_its_run(name):
    model = ONLY_IN.get(name, "mla" if load_mistake(name).latent else "gqa-2")
    app = seen({name: SKIPPED}, mistake=name, model=model)
    found = load_mistake(name).symptom(checkpoint(model), tokenizer().encode(DEFAULT_TEXT))
    (metric,) = app.metric
    assert (metric.label, metric.value, metric.delta) == (
        found.measure, format_number(found.number), f"right: {format_number(found.expected)}",
    )  # fmt: skip
    assert found.sentence in said(app)
    n_charts = len(app.get("plotly_chart"))
    assert n_charts == (1 if found.columns else 0 if found.wrong is None else 3)
    if found.error:
        assert any(code.value == found.error for code in app.code)


@pytest.mark.slow
def test_where_it_cannot_occur_the_page_says_why_and_offers_a_model():
    app = answered(seen(mistake="tiled_kv_heads", model="mha"), "tiled_kv_heads", None)
    reason = load_mistake("tiled_kv_heads").why_not(load_checkpoint("mha")[0].config)
    assert "The changed code ran, and computed the same as the right one." in said(app)
    assert reason in said(app) and not app.metric and not app.get("plotly_chart")
    assert "The effect" not in said(app)
    app = checked(app.button(key="run-elsewhere").click().run())
    assert dict(app.query_params).get("model", "gqa-4") == "gqa-4" and app.metric


@pytest.mark.slow
@pytest.mark.parametrize(
    ("link", "names"),
    [
        ({"text": "a"}, ("mask_after_softmax", "left_padding_without_shifted_positions")),
        ({"text": "word " * 600 + "<b> **b** $x$", "model": "mqa"}, ("scores_overflow_in_fp16",)),
        ({"model": "own", "n_heads": "1", "n_kv_heads": "1", "n_layers": "1", "d_model": "8", "window": "1"},
         ("mask_after_softmax", "scores_overflow_in_fp16")),
        ({"model": "own", "attention": "mla", "causal": "0", "rope": "0"},
         ("mask_after_softmax", "left_padding_without_shifted_positions")),
    ],
    ids=["one token", "long", "smallest", "latent"],
)  # fmt: skip
def test_any_text_and_model_has_a_run_or_a_reason(link, names):
    for name in names:
        app = seen({name: SKIPPED}, mistake=name, **link)
        assert bool(app.metric) != ("It does not show in" in said(app))


@pytest.mark.slow
def test_a_link_with_an_unknown_mistake_opens_the_first_and_says_so():
    app = seen(mistake="nonsense")
    (warning,) = app.warning
    assert (
        f"mistake must be one of {len(MISTAKES)} known ids, not “nonsense”; the first one is shown."
        in warning.value.replace("\\", "")
    )
    assert "Which line is mistaken?" in said(app) and app.radio(key="list-mask").value == Settings().mistake


@pytest.mark.slow
def test_without_a_text_there_is_a_sentence():
    assert len(seen(text="").info) == 1


@pytest.mark.slow
def test_step_by_step_walks_the_version_of_the_link():
    app = opened(STEPS, mistake="tiled_kv_heads", version="mistaken")
    assert app.segmented_control(key="control-version").value == "mistaken"
    (sent,) = [e.proto.bytes for e in app.get("bidi_component") if "source_walk" in e.proto.component_name]
    assert b"k.repeat(1, H // K, 1, 1)" in sent
    app = checked(app.segmented_control(key="control-version").set_value("right").run())
    (sent,) = [e.proto.bytes for e in app.get("bidi_component") if "source_walk" in e.proto.component_name]
    assert b"k.repeat(1, H // K, 1, 1)" not in sent
    for link in (
        {},
        {"mistake": "view_after_transpose", "version": "mistaken"},
        {"version": "mistaken", "mistake": "tiled_kv_heads", "model": "mha"},
    ):
        assert "control-version" not in [each.key for each in opened(STEPS, **link).segmented_control]
