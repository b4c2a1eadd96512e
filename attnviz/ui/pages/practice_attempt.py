"""An attempt on the page Practice: its questions one by one, and the score card at its end."""

from __future__ import annotations

import time

import streamlit as st

from attnviz.compute import due, interview
from attnviz.compute import practice as compute
from attnviz.compute.practice import Attempt, Question
from attnviz.compute.score_card import card
from attnviz.figures.drawing import escaped
from attnviz.phrases import count
from attnviz.server.selectors import COMPONENT, FORM
from attnviz.ui import lesson_bar, state
from attnviz.ui import progress as kept
from attnviz.ui.components.countdown import countdown
from attnviz.ui.components.focus_next import focus_next
from attnviz.ui.components.in_sight import in_sight
from attnviz.ui.pages import practice_kept
from attnviz.ui.pages import practice_question as one
from attnviz.ui.pages.practice_kept import SERIAL, current, serial

LINES = f"[class*=st-key-answer-][class*=-order] {COMPONENT} >>> .ol button"
NEXT = [".st-key-next button", f"{FORM} input", LINES]  # controls to focus, and those where none is
SPOKEN = ["[class*=st-key-point-] input", f"[class*=st-key-spoken-timer] {COMPONENT} >>> .spt-start"]
QUESTION, ASKED, ANSWERED, SCORE = (
    "attempt-question",
    "attempt-asked",
    "attempt-answered",
    "attempt-score",
)  # keys of containers
OR_ELSE = [f"{FORM} button", ".st-key-leave button"]


def clock() -> None:
    """Draw the countdown of an attempt with a time limit."""
    attempt = current()
    if attempt and attempt.seconds and not attempt.done:
        name = "Mock interview" if attempt.of == "interview" else "Set of questions"
        left = attempt.left(time.monotonic())
        countdown(left, label=name, asks=not kept.stays(), key="time-left", on_up=_time_is_up)


def move_on(spoken: str = "", appeared: str = "") -> None:
    """Move the keyboard's focus on to the next question, or to what follows an answer, and bring that to sight.

    spoken: names what the tab Aloud shows; "" on the others. appeared: the key of what has appeared there.
    """
    if spoken:
        focus_next(spoken, SPOKEN, [])
        in_sight(spoken, appeared)
        return
    attempt = current()
    at = f"{serial()} {attempt and (attempt.answered, attempt.done)}"
    focus_next(at, NEXT, OR_ELSE)
    shown = [SCORE] if attempt and attempt.done else [QUESTION, ASKED]
    in_sight(at, *([] if attempt is None else [ANSWERED] if attempt.answered else shown))


def progress() -> compute.Progress:
    """Return the user's answers so far, by subject, as their browser keeps them."""
    return compute.progress_of(kept.get())


def record(question: Question, given: str) -> None:
    """Count an answer: a missed question is repeated, and is due the next day."""
    right = question.grade(given).right
    if question.kind in compute.KINDS:
        kept.record(**compute.to_store(progress().after(question, right)))
    if right:
        _find(question)
    what = due.missed_in(question, given)
    kept.record(cards=due.answered(kept.get(), due.id_of(question), right, kept.today(), what).cards)


def _find(question: Question) -> None:
    """Record the mistake of a question that was answered right as found, unless it was before."""
    if (name := due.mistake_of(question)) and name not in kept.get().mistakes:
        kept.found_mistake(name, at_once=True)


def _store(attempt: Attempt, counted: Attempt | None = None) -> None:
    """Store the attempt; when it ends, add its answers to the progress unless they were added one by one."""
    if attempt.done and not (counted and counted.done) and not attempt.feedback:
        kept.record(**compute.to_store(compute.with_answers(progress(), attempt)))
        kept.record(cards=due.after_attempt(kept.get(), attempt, kept.today()).cards)
        for question, grade in zip(attempt.questions, attempt.grades(), strict=True):
            if grade.right:
                _find(question)
    if attempt.done and attempt.of == "interview":  # at its end, and again with each point that is ticked then
        kept.keep_mock(practice_kept.own_id(), interview.summary(attempt))
    if attempt.done and attempt.of == "set":
        lesson_bar.ended_set()
    practice_kept.keep(attempt)


def still_to_do(mock: bool) -> str | None:
    """Say what is still to be done in the set or the interview that a route's item asks; "" where none is open.

    None at the score card of one, unless something is to be ticked on it.
    """
    attempt = current()
    if attempt is None or (attempt.of == "interview") != mock or not attempt.is_of(state.current()):
        return ""
    if attempt.of == "missed":
        return "Drills that you missed are repeated here first; “Done” after the last one leads back to the questions."
    if attempt.done:
        return "Tick what you said, then press “Done”." if attempt.plan else None
    question = f"Question {attempt.at + 1} of {len(attempt.questions)}"
    if mock:
        return f"{question} is open. “Skip” leaves the interview unfinished: it can go on later, and its clock waits."
    return f"{question} is answered: “{_next_label(attempt)}” goes on." if attempt.answered else f"{question} is open."


def _continue(after: Attempt, counted: Attempt | None = None) -> None:
    """Store the attempt and rerun its part; rerun the whole page when it ends, to remove the clock."""
    _store(after, counted)
    state.rerun(*([] if after.done else ["tabs"]))


def begin(of: str) -> None:
    """Begin a "set" with the settings in force, or an "interview"."""
    s, now = state.current(), time.monotonic()
    mixed = of == "interview" and s.interview
    practice_kept.begin(interview.begin(s, now) if mixed else compute.begin(s, of, progress(), now))
    state.rerun()


def show(attempt: Attempt) -> None:
    """Draw the attempt's question or, at its end, the score card."""
    if attempt.done:
        _score_card(attempt)
        return
    n = len(attempt.questions)
    with st.container(key=QUESTION):
        _question(attempt, n)
    key = f"answer-{serial()}"
    with st.container(key=ANSWERED if attempt.answered else ASKED):
        if attempt.answered:
            _feedback(attempt, key)
        else:
            one.ask(attempt.question, key, _take)
    _end_here(n - len(attempt.given), n)


def _question(attempt: Attempt, n: int) -> None:
    question = attempt.question
    subject = f"{compute.subject_name(question.subject)} · {compute.LEVELS[question.level]}"
    st.progress(len(attempt.given) / n)
    if attempt.again:
        st.caption(
            f":material/replay: Repeated: you missed one of this kind. It does not count for the set. · {subject}"
        )
    else:
        st.caption(f"Question {attempt.at + 1} of {n} · {subject}{_resumed(attempt)}")
    one.draw(question)


def _resumed(attempt: Attempt) -> str:
    """Say that the attempt goes on here, at the question at which it does."""
    if not practice_kept.has_resumed(attempt):
        return ""
    return " · You went on where you were" + "; the time away is not counted." * bool(attempt.seconds)


def _end_here(left: int, n: int) -> None:
    """Button that ends the set; while `left` of its n questions are unanswered, it asks first."""
    if not left:
        st.button("End here", on_click=_end, key="end-now", type="tertiary")
        return
    with st.popover("End here", type="tertiary", key="end"):
        unanswered = "is not answered and counts as wrong" if left == 1 else "are not answered and count as wrong"
        st.markdown(f"{left} of {count(n, 'question')} {unanswered}. The set cannot be continued after its end.")
        st.button("End now", on_click=_end, key="end-now", type="primary")


def _take(key: str) -> None:
    """Grade the answer. An answer that cannot be parsed gets a message and is asked again. key "": skipped."""
    attempt = current()
    if attempt is None or attempt.done or attempt.answered:
        return
    given = one.given_answer(attempt.question, key)
    if given is None:
        state.rerun("tabs")
        return
    after = attempt.answer(given, time.monotonic())
    if attempt.feedback and after.answered:
        record(attempt.question, given)
    if not after.answered:
        st.session_state[SERIAL] = serial() + 1
    _continue(after, counted=attempt)


def _next() -> None:
    if attempt := current():
        st.session_state[SERIAL] = serial() + 1
        _continue(attempt.next(progress().due()))


def _end() -> None:
    if attempt := current():
        _continue(attempt.stop(time.monotonic()), counted=attempt)


def _time_is_up() -> None:
    """End the set, or correct the countdown of a browser whose clock runs ahead of the server's."""
    attempt = current()
    if attempt and not attempt.done and not attempt.left(time.monotonic()):
        _continue(attempt.stop(time.monotonic()), counted=attempt)
    else:
        state.rerun("clock")


def _feedback(attempt: Attempt, key: str) -> None:
    one.feedback(attempt.question, attempt.answer_given, key)
    st.button(_next_label(attempt), type="primary", on_click=_next, key="next")


def _next_label(attempt: Attempt) -> str:
    last = attempt.at + 1 == len(attempt.questions) and not attempt.again
    return "Score card" if last else "Next question"


# ---- the end


def _score_card(attempt: Attempt) -> None:
    grades = attempt.grades()
    right, n = sum(grade.right for grade in grades), len(grades)
    unanswered = sum(not given for given in attempt.given)
    with st.container(key=SCORE):
        st.markdown(f"## {right} of {n} right{f', {unanswered} not answered' if unanswered else ''}")
    if end := compute.ended(attempt):
        st.markdown(end)
    others = kept.other_mocks(practice_kept.own_id())
    if attempt.of == "interview" and (said := interview.compared(interview.summary(attempt), others)):
        st.markdown(escaped(said))
    rows = compute.tallies(attempt)
    st.table(  # not a dataframe, whose last column a phone cuts off
        {
            "Subject": [compute.subject_name(row.subject) for row in rows],
            "Right": [f"{row.right} of {row.asked}" for row in rows],
            "Share": [f"{row.right / row.asked:.0%}" for row in rows],
        },
        hide_index=True, width="content", border="horizontal",
    )  # fmt: skip
    if again := compute.pages_to_review(attempt):
        to_look_at_again(again)
    with st.container(horizontal=True):
        st.button("Done", type="primary", on_click=leave, key="leave")
        st.download_button("Save the score card for printing", card(attempt), "attnviz-score.html", "text/html")
    for i, (question, given, grade) in enumerate(zip(attempt.questions, attempt.given, grades, strict=True), 1):
        mark = ":green[:material/check:]" if grade.right else ":red[:material/close:]" if given else ":material/remove:"
        with st.expander(f"{mark} {i}. {one.written(question.text)}"):
            one.answered(question, given, f"card-{serial()}-{i}")


def to_look_at_again(again: list[tuple[str, list[tuple[str, str]]]]) -> None:
    """List the pages and lessons on the missed questions, by subject."""
    st.markdown("**To look at again**")
    st.markdown(
        "\n".join(
            f"- {subject}: {', '.join(f'[{escaped(name)}]({address})' for name, address in places)}"
            for subject, places in again
        )
    )


def leave() -> None:
    """Close the score card."""
    practice_kept.end()
    state.rerun()
