"""The mock interview of the page Practice: its lengths, and the score card of one that mixes forms of questions."""

from __future__ import annotations

from collections.abc import Mapping

import streamlit as st

from attnviz.compute import interview as compute
from attnviz.compute import practice, spoken
from attnviz.compute.practice import Attempt, Question
from attnviz.figures.drawing import as_label, escaped
from attnviz.phrases import count
from attnviz.practice.drills.answers import SpokenAnswer
from attnviz.ui import controls, progress, state
from attnviz.ui.pages import practice_attempt as attempts
from attnviz.ui.pages import practice_kept
from attnviz.ui.pages import practice_question as one

KEEPS = (
    "This browser keeps how far you are: loaded again or opened later, it goes on at the same question, and its clock "
    "stands still while the page is closed."
)
ENDS = "Nothing of it is stored, so to load the page again ends it."
NONE = "said none"  # the answer to a question aloud of which none of the points was said
LENGTHS = {"15": "15 minutes", "30": "30 minutes", "60": "60 minutes", "": "Computed only"}


def about(length: str) -> None:
    """Draw the choice of length, and what is asked."""
    stays = KEEPS if progress.stays() else ENDS
    controls.control(
        st.segmented_control, "Length", "interview", options=list(LENGTHS), format_func=LENGTHS.__getitem__,
        required=True,
    )  # fmt: skip
    if not length:
        asked = f"**{practice.INTERVIEW_QUESTIONS} computed questions in {practice.INTERVIEW_MINUTES} minutes**"
        st.markdown(
            f"{asked}, on all subjects and levels, with no feedback until the end. Everyone with this page's link gets "
            f"the same questions. {stays}"
        )
        return
    n = {form: compute.ROUNDS[length] * compute.ROUND.count(form) for form in compute.FORMS}
    spoken_, computed, code, mistakes = n.values()
    st.markdown(
        f"**{count(sum(n.values()), 'question')} in {length} minutes**: {spoken_} to answer aloud, {computed} to "
        f"compute, {code} on reading code, {mistakes} on finding a mistake, with no feedback until the end. Then you "
        f"tick the points that you said. Everyone with this page's link gets the same questions. {stays}"
    )


def score_card(attempt: Attempt) -> None:
    """Draw the score card: by subject, by form with the time used, what to look at again, and each question."""
    card = compute.summary(attempt)
    with st.container(key=attempts.SCORE):
        st.markdown(f"## {compute.scored(card)}")
    if end := practice.ended(attempt):
        st.markdown(end)
    if said := compute.compared(card, progress.other_mocks(practice_kept.own_id())):
        st.markdown(escaped(said))
    if any(isinstance(question.answer, SpokenAnswer) for question in attempt.questions):
        st.caption(
            "Tick below what you said aloud, or “None of them”: an answer with two thirds of its points counts as "
            f"right. This card is kept {progress.where_kept()}, with each tick; the next interview of this length is "
            "compared with it. “Done” closes it, and what you could not say is due again today."
        )
    _tables(attempt)
    if again := practice.pages_to_review(attempt):
        attempts.to_look_at_again(again)
    with st.container(horizontal=True):
        st.button("Done", type="primary", key="keep-card", on_click=_keep, args=(attempt,))
        st.download_button("Save as Markdown", compute.as_markdown(attempt), "attnviz-interview.md", "text/markdown")
        st.download_button("Save as JSON", compute.as_json(attempt), "attnviz-interview.json", "application/json")
        st.button("Delete this card", key="leave", on_click=_drop)
    for i, (question, given) in enumerate(zip(attempt.questions, attempt.given, strict=True)):
        _question(attempt, i, question, given)
    st.button("Done", type="primary", key="keep-card-below", on_click=_keep, args=(attempt,))


def kept() -> None:
    """Say that the last score card was kept, and list the past mock interviews."""
    if said := st.session_state.get(practice_kept.SAID):
        st.success(said, icon=":material/check_circle:")
    if rows := compute.past(progress.get().mocks):
        with st.expander(f"Past mock interviews ({len(rows)})", expanded=bool(said)):
            st.table(
                {name: [row[i] for row in rows] for i, name in enumerate(("Day", "Length", "Right", "Time"))},
                hide_index=True, width="content", border="horizontal",
            )  # fmt: skip


def _tables(attempt: Attempt) -> None:
    _table("Form", {compute.FORMS[row.name]: row for row in compute.by_form(attempt)})
    _table("Subject", {practice.subject_name(row.name): row for row in compute.by_subject(attempt)})


def _table(title: str, rows: Mapping[str, compute.Timed]) -> None:
    st.table(
        {
            title: list(rows),
            "Right": [row.scored for row in rows.values()],
            "Time": [compute.clock(row.used) if row.usual else "–" for row in rows.values()],
            "Usual": [compute.clock(row.usual) if row.usual else "–" for row in rows.values()],
        },
        hide_index=True, width="content", border="horizontal",
    )  # fmt: skip


def _question(attempt: Attempt, i: int, question: Question, given: str) -> None:
    about = f"{i + 1}. {one.written(question.text)} :small[({compute.time_of(attempt, i)})]"
    if isinstance(question.answer, SpokenAnswer):
        # Not marked as right: a box whose name changes with a tick would close.
        with st.expander(f":material/record_voice_over: {about}", expanded=bool(given)):
            if given:
                _points(i, question.answer, given)
            else:
                st.markdown("\n".join(("**What a good answer says**\n", *map(_listed, question.answer.points))))
            st.markdown(f"**A model answer.** {one.written(question.because)}")
            name, address = spoken.place(spoken.deck()[question.kind])
            st.link_button(f"See it on {name}", address, icon=":material/open_in_new:")
        return
    right = question.grade(given).right
    mark = ":green[:material/check:]" if right else ":red[:material/close:]" if given else ":material/remove:"
    with st.expander(f"{mark} {about}"):
        one.answered(question, given, f"card-{i}")


def _listed(point: str) -> str:
    return f"- {one.written(point)}"


def _points(i: int, answer: SpokenAnswer, given: str) -> None:
    ticked = answer.ticked(given)
    for n, point in enumerate(answer.points):
        key = f"said-{i}-{n}"
        st.session_state[key] = n in ticked
        st.checkbox(as_label(point), key=key, on_change=_tick, args=(i, n))
    st.session_state[f"none-{i}"] = given == NONE
    st.checkbox("None of them", key=f"none-{i}", on_change=_tick, args=(i, None))
    st.caption(answer.grade(given).explanation)


def _tick(i: int, n: int | None) -> None:
    """Record that a point was said, or was not; n None: that none was."""
    attempt = practice_kept.current()
    if attempt is None or not attempt.done:
        return
    answer = attempt.questions[i].answer
    assert isinstance(answer, SpokenAnswer)
    ticked = () if n is None else answer.ticked(attempt.given[i]) ^ {n}
    said = NONE if n is None and attempt.given[i] != NONE else " ".join(["said", *map(str, sorted(ticked))])
    ticked_now = attempt.given_again(i, said)
    practice_kept.keep(ticked_now)
    progress.keep_mock(practice_kept.own_id(), compute.summary(ticked_now))
    state.rerun("tabs")


def _keep(attempt: Attempt) -> None:
    """Close the score card, which is kept already, and let the spoken questions come back by their points."""
    card = compute.summary(attempt)
    known, today = progress.get().cards, progress.today()
    for id, grade in compute.grades_of_cards(attempt).items():
        progress.set_card(id, spoken.after_mock(known.get(id), grade, today))
    st.session_state[practice_kept.SAID] = (
        f"Score card kept {progress.where_kept()}: {compute.scored(card)}. Past mock interviews are listed below."
    )
    attempts.leave()


def _drop() -> None:
    """Close the score card, and keep nothing of it."""
    progress.drop_mock(practice_kept.own_id())
    attempts.leave()
