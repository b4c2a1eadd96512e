"""The Practice page: drills, a mock interview, and tasks to write yourself. Nothing a person gives is ever run."""

from __future__ import annotations

import random
import time

import numpy as np
import streamlit as st

from attnviz.compute import practice as compute
from attnviz.compute.practice import Attempt, Question
from attnviz.compute.view import View, anything
from attnviz.figures.drawing import escaped
from attnviz.practice.drills.answers import CellAnswer, ChoiceAnswer, ExpressionAnswer, NumberAnswer, OrderAnswer
from attnviz.session.pages import PAGES
from attnviz.ui import state

ATTEMPT, PROGRESS, SERIAL = "practice attempt", "practice progress", "practice serial"


def show() -> None:
    """The whole page."""
    parts()
    attempt = _attempt()
    if attempt and attempt.seconds and not attempt.done:
        _clock()


@state.part("parts", anything)
def parts(view: View) -> None:
    """The open part."""
    PARTS[state.tabs(view, "Show", quiet=True)](view)


@st.fragment(run_every=1.0)
def _clock() -> None:
    """The time left; when it is up, the score card is shown."""
    attempt = _attempt()
    if not attempt or attempt.done:
        return
    left = attempt.left(time.monotonic())
    if not left:
        _keep(attempt.stop(), counted=attempt)
        st.rerun()
    st.caption(f":material/timer: {int(left) // 60}:{int(left) % 60:02} left")


def _attempt() -> Attempt | None:
    return st.session_state.get(ATTEMPT)


def _progress() -> compute.Progress:
    return st.session_state.get(PROGRESS) or compute.Progress()


def _keep(attempt: Attempt, counted: Attempt | None = None) -> None:
    """Keep the attempt; once it is over, count its answers, if they were not counted one by one."""
    if attempt.done and not (counted and counted.done) and not attempt.feedback:
        st.session_state[PROGRESS] = compute.after_all(_progress(), attempt)
    st.session_state[ATTEMPT] = attempt


# ---- choosing


def _drills(view: View) -> None:
    attempt = _attempt()
    if attempt and attempt.of != "interview":
        _run(attempt)
        return
    s = view.settings
    st.markdown(
        f"**{s.questions} questions**, graded by computing, on "
        f"{compute.SUBJECTS.get(s.subject, 'all six subjects').lower() if s.subject != 'rope' else 'RoPE'}. "
        "Everybody with this page's link gets the same ones in the same order."
    )
    with st.container(horizontal=True, vertical_alignment="bottom"):
        state.control(
            st.selectbox, "Subject", "subject", options=["", *compute.SUBJECTS], width=230,
            format_func=lambda key: compute.SUBJECTS.get(key, "All subjects"),
        )  # fmt: skip
        state.control(
            st.segmented_control, "Up to level", "level", options=list(compute.LEVELS), required=True,
            format_func=compute.LEVELS.__getitem__,
        )  # fmt: skip
        state.control(st.number_input, "Questions", "questions", min_value=1, max_value=50, width=120)
        state.control(st.number_input, "Minutes (0: no limit)", "minutes", min_value=0, max_value=120, width=170)
        state.control(st.number_input, "Set", "question_set", min_value=0, max_value=999_999, width=130)
        st.button("Another set", on_click=_another, icon=":material/casino:")
    _start("set", "Start")
    _saved()


def _interview(view: View) -> None:
    attempt = _attempt()
    if attempt and attempt.of == "interview":
        _run(attempt)
        return
    st.markdown(
        f"**{compute.INTERVIEW_QUESTIONS} questions in {compute.INTERVIEW_MINUTES} minutes**, of all subjects and "
        "levels, with no feedback until the end. Everybody with this page's link gets the same ones."
    )
    with st.container(horizontal=True, vertical_alignment="bottom"):
        state.control(st.number_input, "Set", "question_set", min_value=0, max_value=999_999, width=130)
        st.button("Another set", on_click=_another, icon=":material/casino:")
    _start("interview", "Start the interview")


def _another() -> None:
    state.change(question_set=random.SystemRandom().randrange(1_000_000))
    state.rerun("parts")


def _start(of: str, label: str) -> None:
    st.button(label, type="primary", on_click=_begin, args=(of,), key=f"start-{of}", icon=":material/play_arrow:")


def _begin(of: str) -> None:
    st.session_state[SERIAL] = st.session_state.get(SERIAL, 0) + 1
    st.session_state[ATTEMPT] = compute.begin(state.current(), of, _progress(), time.monotonic())
    state.rerun()


def _saved() -> None:
    """What was missed, and progress as a file: nothing is stored on the server."""
    progress = _progress()
    n = len(progress.missed)
    if n:
        st.button(
            f"Repeat what was missed ({min(n, compute.MOST_AGAIN)})", on_click=_begin, args=("missed",), key="again",
            icon=":material/replay:",
        )  # fmt: skip
    with st.expander("Progress: save to a file, load again"):
        answered = sum(asked for _, asked in progress.counts.values())
        st.caption(f"{answered} answered in this session, {n} missed. Progress stays in this tab unless you save it.")
        st.download_button("Save progress", progress.written(), "attnviz-practice.json", "application/json")
        st.file_uploader("Load progress", type="json", key="progress-file", on_change=_load)
        if said := st.session_state.pop("progress said", ""):
            st.warning(escaped(said))


def _load() -> None:
    file = st.session_state["progress-file"]
    if file is None:
        return
    try:
        st.session_state[PROGRESS] = compute.Progress.read(file.read(compute.LARGEST_FILE + 1))
    except ValueError as error:
        st.session_state["progress said"] = str(error)
    state.rerun("parts")


# ---- one question


def _run(attempt: Attempt) -> None:
    if attempt.done:
        _score_card(attempt)
        return
    question, n = attempt.questions[attempt.at], len(attempt.questions)
    st.progress(attempt.at / n)
    st.caption(
        f"Question {attempt.at + 1} of {n} · {compute.SUBJECTS[question.subject]} · {compute.LEVELS[question.level]}"
    )
    st.markdown(f"### {escaped(question.text)}")
    if question.code:
        st.code(question.code, language="python")
    if attempt.answered:
        _feedback(attempt, question)
    else:
        _ask(attempt, question)
    st.button("End here", on_click=_end, key="end", type="tertiary")


def _ask(attempt: Attempt, question: Question) -> None:
    key, answer = f"answer-{st.session_state.get(SERIAL, 0)}-{attempt.at}", question.answer
    if isinstance(answer, CellAnswer):
        _map(answer, key)
    if isinstance(answer, OrderAnswer):
        st.code("\n".join(f"{i}  {item}" for i, item in enumerate(answer.items, 1)), language="python")
    if isinstance(answer, ExpressionAnswer):
        st.caption(" · ".join(f"{letter}: {meaning}" for letter, meaning in answer.letters.items()))
    with st.form(f"form-{key}", border=False):
        if isinstance(answer, ChoiceAnswer):
            st.radio(
                "Answer", range(len(answer.options)), index=None, key=key,
                format_func=lambda i: f"`{answer.options[i]}`" if answer.code else answer.options[i],
            )  # fmt: skip
        else:
            st.text_input(_label(question), key=key, width=420, autocomplete="off")
        with st.container(horizontal=True):
            st.form_submit_button("Answer", type="primary", on_click=_take, args=(key,))
            st.form_submit_button("I do not know", on_click=_take, args=("",))
    if said := st.session_state.pop("practice said", ""):
        st.warning(escaped(said))


def _label(question: Question) -> str:
    match question.answer:
        case NumberAnswer(unit=unit):
            return f"Number{f', in {unit}' if unit else ''} (an expression such as 2·32·8 is evaluated)"
        case OrderAnswer():
            return "The numbers of the lines, in order"
        case ExpressionAnswer():
            return "Formula, such as 2*S*L"
        case CellAnswer():
            return "Row, column (or click the cell)"
    return "Shape, such as 2, 3, 5"


def _map(answer: CellAnswer, key: str) -> None:
    """The map as a table whose cells can be clicked; a masked cell is empty."""
    drawn = any(value for row in answer.values for value in row)
    cells = np.array(
        [["" if v is None else f"{v:.2f}" if drawn else "·" for v in row] for row in answer.values], dtype=object
    )
    columns = {f"{j}": cells[:, j] for j in range(cells.shape[1])}
    st.dataframe(
        {"row": [str(i) for i in range(len(cells))], **columns}, hide_index=True, key=f"map-{key}", width="content",
        selection_mode="single-cell", on_select=lambda: _take_cell(key),
    )  # fmt: skip


def _take_cell(key: str) -> None:
    cells = st.session_state[f"map-{key}"].selection.cells
    if cells and str(cells[0][1]).isdigit():
        st.session_state[key] = f"{cells[0][0]}, {cells[0][1]}"
    state.rerun("parts")


def _take(key: str) -> None:
    """Take the answer; what cannot be read as one is said, and asked again. No key: skipped."""
    attempt = _attempt()
    if attempt is None or attempt.done or attempt.answered:
        return
    value = st.session_state.get(key) if key else ""
    given, question = "" if value is None else str(value), attempt.questions[attempt.at]
    grade = question.grade(given)
    if key and not grade.read:
        st.session_state["practice said"] = grade.says
        state.rerun("parts")
        return
    after = attempt.answer(given, time.monotonic())
    if attempt.feedback and len(after.given) == len(attempt.given) + 1:
        st.session_state[PROGRESS] = _progress().after(question, grade.right)
    _keep(after, counted=attempt)
    state.rerun("parts")


def _next() -> None:
    if attempt := _attempt():
        _keep(attempt.next())
    state.rerun("parts")


def _end() -> None:
    if attempt := _attempt():
        _keep(attempt.stop(), counted=attempt)
    state.rerun()


def _feedback(attempt: Attempt, question: Question) -> None:
    given, grade = attempt.given[-1], attempt.grades()[-1]
    if grade.right:
        st.success(f"Right: {_code(question)}", icon=":material/check_circle:")
    else:
        said = f" {escaped(grade.says)}" if grade.says and grade.read else ""
        shown = escaped(compute.shown(question, given))
        st.error(f"Wrong: {shown}.{said} The answer is {_code(question)}.", icon=":material/cancel:")
    _way(question)
    last = attempt.at + 1 == len(attempt.questions)
    st.button("Score card" if last else "Next question", type="primary", on_click=_next, key="next")


def _code(question: Question) -> str:
    shown = question.answer.shown()
    code = isinstance(question.answer, ChoiceAnswer) and question.answer.code
    return f"`{shown}`" if code else f"**{escaped(shown)}**"


def _way(question: Question) -> None:
    """The way to the answer with this question's numbers, and where it is seen."""
    st.markdown(escaped(question.because))
    if isinstance(question.answer, OrderAnswer):
        st.code("\n".join(question.answer.items[i] for i in question.answer.order), language="python")
    if question.way:
        st.latex(compute.way_tex(question))
        st.caption(compute.legend(question))
    path, link = question.link
    page = PAGES[path]
    st.page_link(page.file, label=f"See it on {page.name}", query_params=dict(link), icon=":material/visibility:")


# ---- the end


def _score_card(attempt: Attempt) -> None:
    grades = attempt.grades()
    right, n = sum(grade.right for grade in grades), len(grades)
    st.markdown(f"### {right} of {n} right")
    rows = compute.tallies(attempt)
    st.dataframe(
        {
            "subject": [compute.SUBJECTS[row.subject] for row in rows],
            "right": [row.right for row in rows],
            "asked": [row.asked for row in rows],
            "share": [row.right / row.asked for row in rows],
        },
        hide_index=True, width="content",
        column_config={"share": st.column_config.ProgressColumn("share", format="percent", min_value=0, max_value=1)},
    )  # fmt: skip
    again = [compute.SUBJECTS[row.subject] for row in rows if row.right < row.asked]
    if again:
        st.markdown(f"To look at again: {', '.join(again)}.")
    with st.container(horizontal=True):
        st.button("Done", type="primary", on_click=_leave, key="leave")
        st.download_button("Download score card", compute.card_text(attempt), "attnviz-score.md", "text/markdown")
    for i, (question, given, grade) in enumerate(zip(attempt.questions, attempt.given, grades, strict=True), 1):
        mark = ":material/check: " if grade.right else ":material/close: "
        with st.expander(f"{mark}{i}. {escaped(question.text)}"):
            if question.code:
                st.code(question.code, language="python")
            said = f" {escaped(grade.says)}" if grade.says and grade.read else ""
            st.markdown(
                f"Given: {escaped(compute.shown(question, given))}.{said} The answer is {_code(question)}."
            )  # fmt: skip
            _way(question)


def _leave() -> None:
    st.session_state.pop(ATTEMPT, None)
    state.rerun()


# ---- write it yourself


def _write(view: View) -> None:
    """The tasks, and how they are judged at home: nobody's code is run by this app."""
    st.markdown(
        f"**{len(compute.TASKS)} tasks** to write in your own editor. A judge runs your file in a process of its own "
        "(20 s, 2 GiB), compares its outputs with those of AttnViz's modules on inputs drawn anew, and names the "
        "mistake where it knows it."
    )
    state.control(
        st.selectbox, "Task", "task", options=list(compute.TASKS), width=420,
        format_func=lambda name: f"{compute.TASKS[name].title} ({name})",
    )  # fmt: skip
    task = compute.TASKS[view.settings.task]
    left, right = st.columns([3, 2], gap="large")
    with left:
        st.markdown("##### The skeleton")
        st.code(task.source(), language="python")
    with right:
        st.markdown("##### On your own machine, in a checkout of AttnViz")
        st.code(
            f".venv/bin/python -m attnviz.practice new {task.name}\n"
            f".venv/bin/python -m attnviz.practice check practice/{task.file}\n"
            f".venv/bin/python -m attnviz.practice check practice/{task.file} --watch",
            language="bash",
        )
        st.markdown(
            "`new` writes the skeleton, `check` prints what was expected and what came, `--watch` checks at every "
            "save. The exit code is 0 only if all checks pass. Any right way "
            "of writing it passes: loops, einsum, fused kernels."
        )
        st.download_button("Download the skeleton", task.source(), task.file, "text/x-python")
        st.caption(
            f"{len(task.mistaken)} mistakes are known for this task. The limits protect from accidents, not from an "
            "attacker: judge your own code. This page runs no code of yours."
        )


PARTS = {"drills": _drills, "interview": _interview, "write": _write}
