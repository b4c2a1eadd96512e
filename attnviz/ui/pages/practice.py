"""Practice page: drills, a mock interview, and coding tasks. Code sent to this page is never run."""

from __future__ import annotations

import random
import shlex
import time
from pathlib import Path

import streamlit as st

from attnviz.compute import own_code
from attnviz.compute import practice as compute
from attnviz.compute.practice import Attempt, Question
from attnviz.compute.view import View, always
from attnviz.figures.drawing import escaped
from attnviz.figures.phrases import count
from attnviz.practice.drills.answers import CellAnswer, ChoiceAnswer, ExpressionAnswer, NumberAnswer, OrderAnswer
from attnviz.session.pages import PAGES
from attnviz.ui import state
from attnviz.ui.components.answer_maps import answer_maps
from attnviz.ui.components.countdown import countdown
from attnviz.ui.components.focus_next import focus_next
from attnviz.ui.components.order_lines import order_lines
from attnviz.ui.components.source_walk import packed_walk
from attnviz.ui.walking import take_entry, take_step

ATTEMPT, PROGRESS, SERIAL = "practice attempt", "practice progress", "practice serial"
STAMP, UPLOADS = "practice file", "practice uploads"
PAGE = PAGES["practice"]
NEXT = [".st-key-next button", "[data-testid=stForm] input"]  # controls to focus, and those where these are missing
OR_ELSE = ["[data-testid=stForm] button", ".st-key-leave button"]


def prepare(view: View) -> None:
    """Compute and cache the questions of the selected set."""
    compute.set_of(view.settings)


def show() -> None:
    """Draw the page."""
    clock()
    parts()


@state.part("clock", always)
def clock(view: View) -> None:
    """Countdown of a set with a time limit; polls the user's own file for changes on the Write tab."""
    attempt = _attempt()
    if attempt and attempt.seconds and not attempt.done:
        name = "Mock interview" if attempt.of == "interview" else "Set of questions"
        countdown(attempt.left(time.monotonic()), label=name, key="time-left", on_up=_time_is_up)
    if PAGE.open_tab(view.settings.tab) == "write" and (file := _own_file()[0]):
        _watch(file)


@state.part("parts", always)
def parts(view: View) -> None:
    """The open tab."""
    tab = state.tabs(view, "Show", quiet=True)
    with st.container(key=f"practice-{tab}"):
        PARTS[tab](view)
    attempt = _attempt()
    focus_next(f"{_serial()} {attempt and (attempt.answered, attempt.done)}", NEXT, OR_ELSE)


def _attempt() -> Attempt | None:
    return st.session_state.get(ATTEMPT)


def _progress() -> compute.Progress:
    return st.session_state.get(PROGRESS) or compute.Progress()


def _store(attempt: Attempt, counted: Attempt | None = None) -> None:
    """Store the attempt; when it ends, add its answers to the progress unless they were added one by one."""
    if attempt.done and not (counted and counted.done) and not attempt.feedback:
        st.session_state[PROGRESS] = compute.with_answers(_progress(), attempt)
    st.session_state[ATTEMPT] = attempt


def _continue(after: Attempt, counted: Attempt | None = None) -> None:
    """Store the attempt and rerun its part; rerun the whole page when it ends, to remove the clock."""
    _store(after, counted)
    state.rerun(*([] if after.done else ["parts"]))


# ---- choosing


def _drills(view: View) -> None:
    attempt = _attempt()
    if attempt and attempt.of != "interview":
        _run(attempt)
        return
    if attempt and not attempt.done:
        _running("A mock interview", attempt, "interview")
        return
    s = view.settings
    subject = compute.SUBJECTS.get(s.subject, "all six subjects")
    st.markdown(
        f"**{count(s.questions, 'question')}** on {subject if s.subject == 'rope' else subject.lower()}, "
        f"made from live tensors, the shipped checkpoints and {len(compute.PRESETS)} published models, and graded by "
        "computation. Everyone with this page's link gets the same questions in the same order."
    )
    with st.container(horizontal=True, vertical_alignment="bottom"):
        state.control(
            st.selectbox, "Subject", "subject", options=["", *compute.SUBJECTS], width=215,
            format_func=lambda key: compute.SUBJECTS.get(key, "All subjects"),
        )  # fmt: skip
        state.control(
            st.selectbox, "Up to level", "level", options=list(compute.LEVELS), width=125,
            format_func=compute.LEVELS.__getitem__,
        )  # fmt: skip
        state.control(st.number_input, "Questions", "questions", min_value=1, max_value=50, width=120)
        state.control(st.number_input, "Minutes (0: no limit)", "minutes", min_value=0, max_value=120, width=150)
        _set_controls()
    with st.container(horizontal=True):
        _start("set", "Start")
        if n := len(_progress().missed):
            st.button(
                f"Repeat missed questions ({min(n, compute.MAX_REPEATED)})", on_click=_begin, args=("missed",),
                key="again", icon=":material/replay:",
            )  # fmt: skip
    _progress_section()


def _set_controls() -> None:
    state.control(st.number_input, "Set", "question_set", min_value=0, max_value=999_999, width=130)
    st.button("Another set", on_click=_another, icon=":material/casino:")


def _interview(view: View) -> None:
    attempt = _attempt()
    if attempt and attempt.of == "interview":
        _run(attempt)
        return
    if attempt and not attempt.done:
        _running("A set of questions", attempt, "drills")
        return
    st.markdown(
        f"**{compute.INTERVIEW_QUESTIONS} questions in {compute.INTERVIEW_MINUTES} minutes**, on all subjects and "
        "levels, with no feedback until the end. Everyone with this page's link gets the same questions."
    )
    with st.container(horizontal=True, vertical_alignment="bottom"):
        _set_controls()
        _start("interview", "Start the interview")


def _running(what: str, attempt: Attempt, tab: str) -> None:
    """Say that an attempt runs on another tab: starting one here would discard its answers."""
    st.info(
        f"{what} is running, at question {attempt.at + 1} of {len(attempt.questions)}. End it before you start "
        "another.",
        icon=":material/timer:",
    )
    st.button("Go on with it", type="primary", key="go-on", on_click=_open_tab, args=(tab,))


def _open_tab(tab: str) -> None:
    state.change(tab=tab)
    state.rerun()


def _another() -> None:
    state.change(question_set=random.randrange(1_000_000))
    state.rerun("parts")


def _start(of: str, label: str) -> None:
    st.button(label, type="primary", on_click=_begin, args=(of,), key=f"start-{of}", icon=":material/play_arrow:")


def _begin(of: str) -> None:
    st.session_state[SERIAL] = _serial() + 1
    st.session_state[ATTEMPT] = compute.begin(state.current(), of, _progress(), time.monotonic())
    state.rerun()


def _serial() -> int:
    """Return a counter of sets and questions, which makes the widget keys of each question unique."""
    return st.session_state.get(SERIAL, 0)


def _progress_section() -> None:
    """Table of the user's progress, and saving to and loading from a file; the server stores nothing."""
    progress = _progress()
    kinds = {subject: sum(k.subject == subject for k in compute.KINDS.values()) for subject in compute.SUBJECTS}
    st.markdown("## Your progress")
    st.table(  # a dataframe's toolbar would lie on its header, and on a phone its last column would be cut off
        {
            "Subject": list(compute.SUBJECTS.values()),
            "Kinds of questions": [kinds[row.subject] for row in progress.tallies()],
            "Answered": [row.asked for row in progress.tallies()],
            "Right": [f"{row.right / row.asked:.0%}" if row.asked else "–" for row in progress.tallies()],
        },
        hide_index=True, width="content", border="horizontal",
    )  # fmt: skip
    first, second, third = compute.GAPS
    st.caption(
        f"A missed question comes back after {first} other answers; once answered right, after {second} and then "
        f"{third} more. {len(progress.missed)} still to repeat. Progress lasts until this page is closed or loaded "
        "again; save it to a file to keep it. The server stores nothing."
    )
    with st.expander("Save or load progress"):
        st.download_button("Save progress", progress.written(), "attnviz-practice.json", "application/json")
        uploads = st.session_state.setdefault(UPLOADS, 0)  # a new key after each upload makes the server drop the file
        st.file_uploader("Load progress", type="json", key=f"progress-file-{uploads}", on_change=_load)
        if message := st.session_state.pop("progress message", ""):
            st.warning(escaped(message))


def _load() -> None:
    file = st.session_state[f"progress-file-{st.session_state[UPLOADS]}"]
    if file is None:
        return
    st.session_state[UPLOADS] += 1
    try:
        st.session_state[PROGRESS] = compute.Progress.read(file.read(compute.LARGEST_FILE + 1))
    except ValueError as error:
        st.session_state["progress message"] = str(error)
    state.rerun("parts")


# ---- one question


def _run(attempt: Attempt) -> None:
    if attempt.done:
        _score_card(attempt)
        return
    question, n = attempt.question, len(attempt.questions)
    subject = f"{compute.SUBJECTS[question.subject]} · {compute.LEVELS[question.level]}"
    st.progress(len(attempt.given) / n)
    if attempt.again:
        st.caption(f":material/replay: Repeated: you missed this question. It does not count for the set. · {subject}")
    else:
        st.caption(f"Question {attempt.at + 1} of {n} · {subject}")
    st.markdown(f"## {escaped(question.text)}")
    if question.code:
        st.code(question.code, language="python", wrap_lines=True)
    key = f"answer-{_serial()}"
    if attempt.answered:
        _feedback(attempt, question, key)
    else:
        _ask(question, key)
    _end_here(n - len(attempt.given), n)


def _end_here(left: int, n: int) -> None:
    """Button that ends the set; while `left` of its n questions are unanswered, it asks first."""
    if not left:
        st.button("End here", on_click=_end, key="end-now", type="tertiary")
        return
    with st.popover("End here", type="tertiary", key="end"):
        unanswered = "is not answered and counts as wrong" if left == 1 else "are not answered and count as wrong"
        st.markdown(f"{left} of {count(n, 'question')} {unanswered}. The set cannot be continued after its end.")
        st.button("End now", on_click=_end, key="end-now", type="primary")


def _ask(question: Question, key: str) -> None:
    answer = question.answer
    st.session_state.setdefault(key, None if isinstance(answer, ChoiceAnswer) else "")
    _pictures(question, key, st.session_state[key])
    match answer:
        case CellAnswer():
            chosen = st.session_state[key]
            st.caption(f"Chosen: {compute.shown(question, chosen)}" if chosen else "Nothing is chosen yet.")
        case OrderAnswer():
            st.session_state[key] = st.session_state[key] or ", ".join(str(i + 1) for i in range(len(answer.items)))
            st.caption("Drag the lines, or move them with their buttons.")
            order_lines(answer.items, key=f"{key}-order", on_order=lambda order: _put(key, order))
        case ExpressionAnswer():
            st.caption(" · ".join(f"{letter}: {meaning}" for letter, meaning in answer.letters.items()))
    with st.form(f"form-{key}", border=False):
        if isinstance(answer, ChoiceAnswer):
            st.radio(
                "Answer", range(len(answer.options)), index=None, key=key, horizontal=bool(question.maps),
                format_func=lambda i: f"`{answer.options[i]}`" if answer.code else answer.options[i],
            )  # fmt: skip
        elif not isinstance(answer, CellAnswer | OrderAnswer):
            st.text_input(_label(question), key=key, width=440, autocomplete="off")
        with st.container(horizontal=True):
            st.form_submit_button("Answer", type="primary", on_click=_take, args=(key,))
            st.form_submit_button("I do not know", on_click=_take, args=("",))
    if message := st.session_state.pop("practice message", ""):
        st.warning(escaped(message))


def _label(question: Question) -> str:
    match question.answer:
        case NumberAnswer(unit=unit, tolerance=tolerance):
            within = f", within {100 * tolerance:g} %" if tolerance else ""
            return f"Number{f', in {unit}' if unit else ''}{within} (an expression such as 2·32·8 is evaluated)"
        case ExpressionAnswer():
            return "Formula, such as 2*S*L"
    return "Shape, such as 2, 3, 5"


def _put(key: str, order: list[int]) -> None:
    st.session_state[key] = ", ".join(str(i + 1) for i in order)


def _pictures(question: Question, key: str, given: object, *, answered: bool = False) -> None:
    """The question's maps: choose one map, or a cell of a single map; once answered, the right one is outlined."""
    answer = question.answer
    if isinstance(answer, CellAnswer):
        cell = compute.cell_of(given)
        answer_maps(
            [(answer.values, "")], key=f"{key}-map", pick="" if answered else "cell", axes=answer.axes, width=420,
            chosen=(0, *cell) if cell else (), right=(0, *answer.cell) if answered else (),
            on_pick=lambda at: _choose_cell(key, at[1:]),
        )  # fmt: skip
    elif question.maps:
        many = len(question.maps) > 1
        number = int(str(given)) if many and str(given).isdecimal() else None
        answer_maps(
            [(each.values, each.title) for each in question.maps], key=f"{key}-map", labels=question.maps[0].labels,
            pick="map" if many and not answered else "", show_weights=question.maps[0].show_values or answered,
            width=215 if many else 420, chosen=() if number is None else (number,),
            right=(answer.right,) if answered and many and isinstance(answer, ChoiceAnswer) else (),
            on_pick=lambda at: _choose_map(key, at[0]),
        )  # fmt: skip


def _choose_cell(key: str, cell: tuple[int, ...]) -> None:
    st.session_state[key] = f"{cell[0]}, {cell[1]}"
    state.rerun("parts")


def _choose_map(key: str, i: int) -> None:
    st.session_state[key] = i
    state.rerun("parts")


def _take(key: str) -> None:
    """Grade the answer. An answer that cannot be parsed gets a message and is asked again. key "": skipped."""
    attempt = _attempt()
    if attempt is None or attempt.done or attempt.answered:
        return
    value = st.session_state.get(key) if key else ""
    given, question = "" if value is None else str(value), attempt.question
    grade = question.grade(given)
    if key and not grade.read:
        st.session_state["practice message"] = grade.explanation
        state.rerun("parts")
        return
    after = attempt.answer(given, time.monotonic())
    if attempt.feedback and after.answered:
        st.session_state[PROGRESS] = _progress().after(question, grade.right)
    if not after.answered:
        st.session_state[SERIAL] = _serial() + 1
    _continue(after, counted=attempt)


def _next() -> None:
    if attempt := _attempt():
        st.session_state[SERIAL] = _serial() + 1
        _continue(attempt.next(_progress().due()))


def _end() -> None:
    if attempt := _attempt():
        _continue(attempt.stop(), counted=attempt)


def _time_is_up() -> None:
    """End the set, or correct the countdown of a browser whose clock runs ahead of the server's."""
    attempt = _attempt()
    if attempt and not attempt.done and not attempt.left(time.monotonic()):
        _continue(attempt.stop(), counted=attempt)
    else:
        state.rerun("clock")


def _feedback(attempt: Attempt, question: Question, key: str) -> None:
    given = attempt.answer_given
    grade = question.grade(given)
    if grade.right:
        st.success(f"Right: {_code(question)}", icon=":material/check_circle:")
    elif not given:
        st.warning(f"Not answered. The answer is {_code(question)}.", icon=":material/help:")
    else:
        comment = f" {escaped(grade.explanation)}" if grade.explanation and grade.read else ""
        shown = escaped(compute.shown(question, given))
        st.error(f"Wrong: {shown}.{comment} The answer is {_code(question)}.", icon=":material/cancel:")
    _pictures(question, f"{key}-after", given, answered=True)
    with st.container(border=True):
        _explanation(question)
    last = attempt.at + 1 == len(attempt.questions) and not attempt.again
    st.button("Score card" if last else "Next question", type="primary", on_click=_next, key="next")


def _code(question: Question) -> str:
    shown = question.answer.shown()
    code = isinstance(question.answer, ChoiceAnswer) and question.answer.code
    if isinstance(question.answer, OrderAnswer):
        return "the order below"
    return f"`{shown}`" if code else f"**{escaped(shown)}**"


def _explanation(question: Question) -> None:
    """Explanation of the answer with this question's numbers, and a link to the page that shows it."""
    st.markdown(escaped(question.because))
    if lines := compute.correct_order(question):
        st.code("\n".join(lines), language="python", wrap_lines=True)
    if question.solution:
        st.latex(compute.solution_tex(question))
        st.caption(compute.legend(question))
    name, address = compute.where(question)
    st.link_button(f"See it on {name}", address, icon=":material/open_in_new:")


# ---- the end


def _score_card(attempt: Attempt) -> None:
    grades = attempt.grades()
    right, n = sum(grade.right for grade in grades), len(grades)
    unanswered = sum(not given for given in attempt.given)
    st.markdown(f"## {right} of {n} right{f', {unanswered} not answered' if unanswered else ''}")
    rows = compute.tallies(attempt)
    st.dataframe(
        {
            "Subject": [compute.SUBJECTS[row.subject] for row in rows],
            "Right": [row.right for row in rows],
            "Asked": [row.asked for row in rows],
            "Share": [row.right / row.asked for row in rows],
        },
        hide_index=True, width="content",
        column_config={"Share": st.column_config.ProgressColumn("Share", format="percent", min_value=0, max_value=1)},
    )  # fmt: skip
    if again := compute.pages_to_review(attempt):
        st.markdown("**To look at again**")
        st.markdown(
            "\n".join(
                f"- {subject}: {', '.join(f'[{name}]({address})' for name, address in places)}"
                for subject, places in again
            )
        )
    with st.container(horizontal=True):
        st.button("Done", type="primary", on_click=_leave, key="leave")
        st.download_button("Save the score card for printing", compute.card(attempt), "attnviz-score.html", "text/html")
    for i, (question, given, grade) in enumerate(zip(attempt.questions, attempt.given, grades, strict=True), 1):
        mark = ":green[:material/check:]" if grade.right else ":red[:material/close:]" if given else ":material/remove:"
        with st.expander(f"{mark} {i}. {escaped(question.text)}"):
            if question.code:
                st.code(question.code, language="python", wrap_lines=True)
            comment = f" {escaped(grade.explanation)}" if grade.explanation and grade.read else ""
            st.markdown(f"Given: {escaped(compute.shown(question, given))}.{comment} The answer is {_code(question)}.")
            _pictures(question, f"card-{_serial()}-{i}", given, answered=True)
            _explanation(question)


def _leave() -> None:
    st.session_state.pop(ATTEMPT, None)
    state.rerun()


# ---- write it yourself


def _own_file() -> tuple[Path | None, str]:
    """Return the file of `make run CODE=…` if it may be run here; otherwise None and the reason, "" without CODE."""
    file = own_code.own_file()
    if file is None:
        return None, ""
    reason = own_code.refused(st.get_option("server.address"), st.context.headers.to_dict(), st.context.ip_address)
    return (None, reason) if reason else (file, "")


@st.fragment(run_every=0.7)
def _watch(file: Path) -> None:
    """Rerun the page when the file is saved."""
    before = st.session_state.get(STAMP)
    st.session_state[STAMP] = own_code.stamp_of(file)
    if before not in (None, st.session_state[STAMP]):
        st.rerun()


def _write(view: View) -> None:
    """Tasks and how to check them locally; with `make run CODE=…`, the user's own file with its verdict and maps."""
    file, reason = _own_file()
    if file:
        _own(view, file)
        return
    st.markdown(
        f"**{len(compute.TASKS)} tasks** to write in your own editor. A judge on your machine runs your file in a "
        "separate process (20 s, 2 GiB), compares its outputs with those of AttnViz's modules on new random inputs, "
        "and names the mistake if it is a known one."
    )
    if reason:
        st.warning(f"Your file is shown only on the machine it is stored on. {reason}", icon=":material/lock:")
    _choose_task()
    task = compute.TASKS[view.settings.task]
    left, right = st.columns([3, 2], gap="large")
    with left:
        st.markdown("## The skeleton")
        st.code(task.source(), language="python", wrap_lines=True)
    with right:
        _local_commands(task)


def _choose_task() -> None:
    state.control(
        st.selectbox, "Task", "task", options=list(compute.TASKS), width=420,
        format_func=lambda name: f"{compute.TASKS[name].title} ({name})",
    )  # fmt: skip


def _local_commands(task: compute.Task) -> None:
    """Commands that judge a file, in a terminal and in the app."""
    st.markdown("## On your own machine, in a checkout of AttnViz")
    file = f"practice/{task.file}"
    for text, command in (
        (f"Write the skeleton to `{file}`:", f".venv/bin/python -m attnviz.practice new {task.name}"),
        (
            "Judge it: prints expected and actual outputs and the mistake. The exit code is 0 only if all checks pass; "
            "`--watch` repeats it at every save:",
            f"{compute.CHECK} {file}",
        ),
        (
            "Or on this page: the verdict at every save, your maps with the shipped weights beside the correct ones, "
            "and your source line by line:",
            f"make run CODE={file}",
        ),
    ):
        st.markdown(text)
        st.code(command, language="bash", wrap_lines=True)
    st.markdown("Any correct implementation passes: loops, einsum, fused kernels.")
    st.download_button("Download the skeleton", task.source(), task.file, "text/x-python")
    st.caption(
        "The limits protect against accidents, not against an attacker: judge only your own code. This page runs no "
        "code sent to it."
    )


# ---- the user's own file


def _own(view: View, file: Path) -> None:
    name = own_code.task_of(file, view.settings.task)
    task = compute.TASKS[name]
    st.markdown(f"## {task.title}: {escaped(file.name)}")
    if own_code.stamp_of(file) == (0, 0):
        st.warning(f"There is no file {escaped(str(file))} yet. This command writes it:")
        st.code(f".venv/bin/python -m attnviz.practice new {name} --folder {shlex.quote(str(file.parent))}")
        _choose_task()
        return
    with st.spinner("Running your file …"):
        verdict = own_code.verdict_of(file, name)
    _verdict(verdict)
    if not verdict.checks:
        return
    if not view.ids:
        st.info("Type a text in the sidebar, or choose an example, to see your maps.", icon=":material/edit:")
        return
    _selected(view)
    with st.spinner("Running your file on the shipped weights …"):
        look = own_code.run_on_weights(view, file, name)
    if look.found.right is not None:
        _own_maps(look, name)
    st.markdown("### Your source, line by line")
    if look.found.walk:
        packed_walk(look.found.walk, look.found.places, key="own-walk", on_step=take_step, on_entry=take_entry)
    else:
        st.warning(escaped(look.found.walk_problem or "No line made a tensor."), icon=":material/code_off:")


def _verdict(verdict: own_code.Verdict) -> None:
    passed, n = sum(check.passed for check in verdict.checks), len(verdict.checks)
    if verdict.passed:
        st.success(f"All {count(n, 'check')} passed.", icon=":material/check_circle:")
    else:
        message = escaped(verdict.problem) or f"{passed} of {count(n, 'check')} passed."
        if verdict.mistaken:
            message += f" **Your output equals ours {escaped(verdict.mistaken.explanation)}.**"
        st.error(message, icon=":material/cancel:")
        if verdict.mistaken and verdict.mistaken.mistake:
            address = f"mistakes?mistake={verdict.mistaken.mistake}"
            st.link_button("See this mistake", address, icon=":material/open_in_new:")
    if verdict.checks:
        st.dataframe(
            {
                "": ["✓" if check.passed else "✗" for check in verdict.checks],
                "Check": [check.label for check in verdict.checks],
                "Expected": [check.expected for check in verdict.checks],
                "Got": [check.got for check in verdict.checks],
            },
            hide_index=True,
        )
    if verdict.printed.strip():
        with st.expander("Output of the file"):
            st.code("\n".join(verdict.printed.strip().splitlines()[-40:]), language=None)


def _selected(view: View) -> None:
    """Controls for the layer, and for the head whose maps are large."""
    with st.container(horizontal=True, vertical_alignment="bottom"):
        for label, field, n in (("Layer", "layer", view.config.n_layers), ("Head", "head", view.config.n_heads)):
            shown = min(getattr(view.settings, field), n - 1)
            state.control(st.selectbox, label, field, shown=shown, options=range(n), width=110)


def _own_maps(look: own_code.ShippedRun, task: str) -> None:
    """The user's maps beside the correct ones: the selected head large, all heads small."""
    st.markdown("### Your maps with the shipped weights, beside the correct ones")
    if look.found.yours is None:
        st.warning(escaped(look.found.maps_problem or "Your code returned no maps."), icon=":material/grid_off:")
        return
    maps, differences = look.maps, look.max_difference
    at = look.head if len(maps) > 1 else 0
    worst = max(differences)
    same = "They are equal" if worst < own_code.LEAST_SHOWN else f"They differ by up to {worst:.2f}"
    rope = " The task has no RoPE, so both maps are computed without it." if task in own_code.WITHOUT_ROPE else ""
    where = f"checkpoint {look.checkpoint}, layer {look.layer}"
    st.markdown(f"{where.capitalize()}, {count(len(look.labels), 'token')}. {same}.{rope}")
    answer_maps(
        [(maps[at][0], f"Yours, head {look.head}"), (maps[at][1], f"Right, head {look.head}")],
        key="own-head", title=f"Yours and right, {where}",
        labels=look.labels, hues=(look.kv_heads[at],) * 2, n_kv_heads=look.n_kv_heads, width=400,
    )  # fmt: skip
    if len(maps) > 1:
        yours = [
            (m[0], f"{h}: yours{' ✗' if differences[h] > own_code.LEAST_SHOWN else ''}") for h, m in enumerate(maps)
        ]
        answer_maps(
            [*yours, *((m[1], f"{h}: right") for h, m in enumerate(maps))],
            key="own-heads", title=f"Yours above, right below, {where}", per_row=len(maps),
            labels=look.labels, hues=look.kv_heads * 2, n_kv_heads=look.n_kv_heads,
        )  # fmt: skip


PARTS = {"drills": _drills, "interview": _interview, "write": _write}
