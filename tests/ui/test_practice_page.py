"""Practice page without a browser: answering a set, feedback, score card, interview, tasks."""

import inspect
import re
from dataclasses import replace
from types import SimpleNamespace

import pytest
from streamlit.testing.v1 import AppTest

from attnviz.compute import due
from attnviz.compute.practice import Progress, begin
from attnviz.practice.drills import KINDS, make, question_set
from attnviz.practice.drills.answers import CellAnswer, ChoiceAnswer, NumberAnswer, OrderAnswer
from attnviz.practice.tasks import TASKS
from attnviz.session.pages.mistakes import MISTAKES
from attnviz.session.settings import Settings
from attnviz.ui.pages import practice, practice_attempt, practice_kept
from tests.pages import FRONT, PRACTICE, opened, said
from tests.practice.answers import ANSWERS
from tests.practice.forms import forms

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("no_links_to_pages")]


def press(app: AppTest, label: str) -> None:
    next(b for b in app.button if b.label == label).click()
    app.run()
    assert not app.exception, [e.message for e in app.exception]


def give(app: AppTest, question, given: str) -> None:
    field = f"answer-{app.session_state['practice serial']}"
    if isinstance(question.answer, ChoiceAnswer):
        app.radio[0].set_value(int(given))
    elif isinstance(question.answer, CellAnswer | OrderAnswer):
        app.session_state[field] = given  # as the component's callback does
    else:
        app.text_input(key=field).set_value(given)
    press(app, "Answer")


def test_right_answers_are_counted_and_wrong_ones_come_back():
    app = opened(PRACTICE, subject="heads", questions="3", question_set="7", level="1")
    press(app, "Start")
    for i, question in enumerate(question_set("heads", 1, 3, 7)):
        wrong = str((question.answer.right + 1) % 3) if isinstance(question.answer, ChoiceAnswer) else "987654"
        give(app, question, wrong if i == 1 else forms(question.answer)[0])
        assert len(app.error) == (i == 1) and len(app.success) == (i != 1)
        press(app, "Score card" if i == 2 else "Next question")
    assert "2 of 3 right" in said(app) and "- Heads and grouping: [" in said(app)
    press(app, "Done")
    press(app, "Repeat 1 missed drill")
    assert "Question 1 of 1" in said(app)


def test_what_is_no_answer_is_asked_again_and_skipping_is_wrong():
    sets = {seed: question_set("masks", 1, 1, seed)[0] for seed in range(100)}
    seed, question = next((seed, each) for seed, each in sets.items() if isinstance(each.answer, NumberAnswer))
    app = opened(PRACTICE, subject="masks", questions="1", level="1", question_set=str(seed))
    press(app, "Start")
    give(app, question, "what?")
    assert len(app.warning) == 1 and not app.error and "is not a number" in app.warning[0].value
    give(app, question, "")
    assert "Nothing is answered yet" in app.warning[0].value and not app.error
    press(app, "I do not know")
    assert "Not answered" in app.warning[0].value and question.answer.shown() in said(app).replace("\\", "")


def test_an_interview_ends_early_only_after_a_question():
    app = opened(PRACTICE, tab="interview", question_set="5")
    press(app, "Start the interview")
    press(app, "I do not know")
    assert "9 of 10 questions are not answered and count as wrong" in said(app)
    assert "End here" not in [b.label for b in app.button]  # it opens the popover
    press(app, "End now")
    assert "0 of 10 right" in said(app)


def test_the_interview_says_nothing_until_the_end():
    app = opened(PRACTICE, tab="interview", question_set="5")
    press(app, "Start the interview")
    for question in question_set("", 3, 10, 5):
        assert not app.error and not app.success
        give(app, question, forms(question.answer)[0])
    assert "10 of 10 right" in said(app) and "Last time" not in said(app)
    (kept,) = app.session_state["progress"].mocks
    assert (kept["right"], kept["asked"], kept["minutes"]) == (10, 10, 15)
    press(app, "Done")
    press(app, "Start the interview")
    press(app, "End now")
    assert re.search(r"Last time, on .*: 10 of 10 right in .*; 10 fewer now", said(app).replace("\\", ""))


def test_a_mistake_that_is_found_in_an_interview_is_counted_as_found():
    app = opened(PRACTICE, tab="interview", interview="15", question_set="5")
    press(app, "Start the interview")
    questions = app.session_state["practice attempt"].questions
    asked = [each for each in questions if each.subject == "mistakes"]
    assert len(asked) == 2
    for question in questions:
        if question is asked[0]:
            app.main.radio[-1].set_value(question.answer.right)
        press(app, "Answer" if question is asked[0] else "I do not know")
    found = app.session_state["progress"].mistakes
    assert [*found] == [due.mistake_of(asked[0])]
    assert f"1 of {len(MISTAKES)} mistakes found" in said(opened(FRONT, {"progress": app.session_state["progress"]}))


def test_a_running_attempt_is_not_replaced_from_another_tab():
    app = opened(PRACTICE, tab="interview", question_set="5")
    press(app, "Start the interview")
    app.segmented_control[0].set_value("drills").run()
    assert "Start" not in [button.label for button in app.button]
    assert "at question 1 of 10" in " ".join(info.value for info in app.info)
    press(app, "Go on with it")
    assert "Question 1 of 10" in said(app)


def test_the_browser_counts_the_time_down_and_the_server_ends_it(monkeypatch):
    now, shown, kept, again = [100.0], [], {}, []
    monkeypatch.setattr(practice_attempt, "time", SimpleNamespace(monotonic=lambda: now[0]))
    monkeypatch.setattr(practice_attempt, "countdown", lambda seconds, *, on_up, **_: shown.append((seconds, on_up)))
    monkeypatch.setattr(practice.state, "rerun", lambda *parts: again.append(parts))
    monkeypatch.setattr(practice.st, "session_state", kept)
    kept[practice_kept.ATTEMPT] = begin(Settings(), "interview", Progress(), 100.0)
    view, clock = SimpleNamespace(settings=Settings(tab="")), inspect.unwrap(practice.clock)
    now[0] = 999.5
    clock(view)
    seconds, on_up = shown.pop()
    assert seconds == 0.5
    on_up()  # a browser's clock may run ahead: the countdown is corrected, and nothing ends
    assert again.pop() == ("clock",) and not kept[practice_kept.ATTEMPT].done
    now[0] = 1000.0
    on_up()
    assert again.pop() == () and kept[practice_kept.ATTEMPT].done  # a rerun of the whole page removes the clock
    clock(view)
    assert not shown


@pytest.mark.parametrize("task", ["gqa", "flash", "delta", "sparse"])
def test_a_task_shows_its_skeleton_and_how_it_is_judged_at_home(task):
    app = opened(PRACTICE, tab="write", task=task)
    codes = [code.value for code in app.code]
    assert TASKS[task].source().strip() in codes
    command = f".venv/bin/python -m attnviz.practice check practice/{task}.py"
    assert command in codes and f", read by: {command}\n" in TASKS[task].source()


def test_the_options_stay_and_are_marked_after_an_answer(monkeypatch):
    question = next(q for q in (make(name, 4) for name in KINDS) if isinstance(q.answer, ChoiceAnswer) and not q.maps)
    monkeypatch.setattr("attnviz.compute.practice.question_set", lambda *_: [question])
    app, right = opened(PRACTICE, questions="1"), question.answer.right
    press(app, "Start")
    wrong = (right + 1) % len(question.answer.options)
    give(app, question, str(wrong))
    listed = next(each.value for each in app.markdown if each.value.startswith("- ")).split("\n")
    assert len(listed) == len(question.answer.options)
    assert listed[right].endswith("**(right)**") and listed[wrong].endswith("**(your answer)**")


@pytest.mark.parametrize("name", ["lines_of_attention", "strongest_key", "formula_of_the_cache", "map_of_a_role"])
def test_each_kind_of_answer_can_be_given(name, monkeypatch):
    question = make(name, 4)
    monkeypatch.setattr("attnviz.compute.practice.question_set", lambda *_: [question])
    app = opened(PRACTICE, questions="1")
    press(app, "Start")
    give(app, question, forms(question.answer)[0])
    assert len(app.success) == 1


@pytest.mark.parametrize("name", ["formula_of_the_cache", "cache_per_token", "weight_of_k_proj"])
def test_the_label_of_an_answer_is_not_markup_and_its_example_is_read(name, monkeypatch):
    question = make(name, 4)
    monkeypatch.setattr("attnviz.compute.practice.question_set", lambda *_: [question])
    app = opened(PRACTICE, questions="1")
    press(app, "Start")
    label = next(each.label for each in app.text_input if each.key.startswith("answer-"))
    assert not re.search(r"[*_`~$]", label)
    example = re.search(r"such as ([\d·+, A-Z]*[\dA-Z])", label)[1]
    grade = question.grade(example)
    assert grade.read and not grade.right


def test_options_are_shown_as_they_are_written(monkeypatch):
    answer = ChoiceAnswer(("2*S*L", "a_b_c", "1. $x$"), 0)
    question = replace(make("what_bounds", 4), answer=answer, solution=())
    monkeypatch.setattr("attnviz.compute.practice.question_set", lambda *_: [question])
    app = opened(PRACTICE, questions="1")
    press(app, "Start")
    assert [re.sub(r"\\(?=[\W_])", "", each) for each in app.radio[0].options] == list(answer.options)
    assert app.radio[0].options[0] == r"2\*S\*L"


def test_pasted_code_is_judged_on_this_machine_and_not_even_asked_for_elsewhere(monkeypatch):
    assert not opened(PRACTICE, tab="write", task="rms-norm").main.text_area  # no address, so perhaps not this machine
    monkeypatch.setattr("attnviz.ui.local_session.refusal", lambda: "")
    app = opened(PRACTICE, tab="write", task="rms-norm")
    for answer, verdict in ((ANSWERS["rms-norm"][0], "All 5 checks passed"), ("def rms_norm(x", "could not be run")):
        (box,) = app.main.text_area
        box.set_value(answer)
        press(app, "Judge it")
        assert verdict in said(app.main)
    file = app.session_state["practice pasted"].file
    assert file.read_text() == "def rms_norm(x"
    (box,) = app.main.text_area
    monkeypatch.setattr("attnviz.ui.local_session.refusal", lambda: "The request came through a proxy.")
    box.set_value(ANSWERS["rms-norm"][0])
    press(app, "Judge it")
    assert file.read_text() == "def rms_norm(x" and not app.main.text_area


def test_the_selectors_name_the_head_whose_maps_are_drawn(monkeypatch):
    monkeypatch.setattr("attnviz.ui.local_session.refusal", lambda: "")
    for link in ({}, {"layer": "2", "head": "5"}):
        app = opened(PRACTICE, tab="write", task="gqa", **link)
        app.main.text_area[0].set_value(ANSWERS["gqa"][0])
        press(app, "Judge it")
        shown = {each.label: each.value for each in app.main.selectbox}
        assert (shown["Layer"], shown["Head"]) == ((2, 5) if link else Settings().chosen_head)
        assert f"layer {shown['Layer']}, " in "".join(each.value for each in app.markdown)
