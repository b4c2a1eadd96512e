"""One question of the page Practice: its text, the control for the answer, what the answer was, and the explanation."""

from __future__ import annotations

from collections.abc import Callable

import streamlit as st

from attnviz.compute import practice as compute
from attnviz.compute.practice import Question
from attnviz.figures.drawing import escaped
from attnviz.practice.drills.answers import (
    CellAnswer,
    ChoiceAnswer,
    ExpressionAnswer,
    NumberAnswer,
    OrderAnswer,
    SpokenAnswer,
)
from attnviz.ui import charts, state
from attnviz.ui.components.answer_maps import answer_maps
from attnviz.ui.components.order_lines import order_lines
from attnviz.ui.components.spoken_timer import spoken_timer

MESSAGE = "practice message"  # session key: why an answer is asked again


def written(text: str) -> str:
    """Escape a text of the app for markdown, but for what it has as code."""
    parts = text.split("`")
    if len(parts) % 2 == 0:
        return escaped(text)
    return "`".join(part if i % 2 else escaped(part) for i, part in enumerate(parts))  # every second one is code


def draw(question: Question) -> None:
    """Draw the text of a question, and its code."""
    st.markdown(f"## {written(question.text)}")
    if question.code:
        st.code(question.code, language="python", wrap_lines=True)
    if question.whole:
        key = f"whole-{question.id.replace(':', '-')}"
        with st.expander("The whole function", type="compact", key=key, on_change="ignore"):
            st.code(question.whole, language="python", wrap_lines=True)


def ask(question: Question, key: str, take: Callable[[str], None]) -> None:
    """Ask for the answer. key: of the control that holds it. take: is called with the key, or "" if it is not known."""
    answer = question.answer
    said = isinstance(answer, SpokenAnswer)
    st.session_state.setdefault(key, None if isinstance(answer, ChoiceAnswer) else "said" if said else "")
    _pictures(question, key, st.session_state[key])
    match answer:
        case CellAnswer():
            chosen = st.session_state[key]
            st.caption(f"Chosen: {compute.shown(question, chosen)}" if chosen else "Nothing is chosen yet.")
        case OrderAnswer():
            st.session_state[key] = st.session_state[key] or ", ".join(str(i + 1) for i in range(len(answer.items)))
            st.caption("Drag the lines, or move them with their buttons.")
            order_lines(answer.items, key=f"{key}-order", on_order=lambda order: _put(key, order))
        case SpokenAnswer():
            st.caption("Answer aloud. At the end you see the points of a good answer, and tick those that you said.")
            spoken_timer(key, key=f"{key}-timer")
    with st.form(f"form-{key}", border=False):
        if isinstance(answer, ChoiceAnswer):
            st.radio(
                "Answer", range(len(answer.options)), index=None, key=key, horizontal=bool(question.maps),
                format_func=lambda i: f"`{answer.options[i]}`" if answer.code else written(answer.options[i]),
            )  # fmt: skip
        elif not isinstance(answer, CellAnswer | OrderAnswer | SpokenAnswer):
            st.text_input(_label(question), key=key, width=440, autocomplete="off")
        with st.container(horizontal=True):
            st.form_submit_button(
                "I have said it" if said else "Answer", type="secondary" if said else "primary", on_click=take,
                args=(key,), key="said" if said else None,
            )  # fmt: skip
            st.form_submit_button("I do not know", on_click=take, args=("",))
    if message := st.session_state.pop(MESSAGE, ""):
        st.warning(escaped(message))


def _label(question: Question) -> str:
    match question.answer:
        case NumberAnswer(unit=unit, tolerance=tolerance):
            within = f", within {100 * tolerance:g}%" if tolerance else ""
            if question.code:
                return "Number of the line"
            evaluated = " (an expression such as 2·32·8 is evaluated)" if question.solution else ""
            return f"Number{f', in {unit}' if unit else ''}{within}{evaluated}"
        case ExpressionAnswer(letters=letters):
            a, b, *_ = letters
            return f"Formula, such as 3·{a} + {b}"  # an asterisk would be markdown
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
    state.rerun("tabs")


def _choose_map(key: str, i: int) -> None:
    st.session_state[key] = i
    state.rerun("tabs")


def given_answer(question: Question, key: str) -> str | None:
    """Return what was answered, "" for what is not known; None for what cannot be read and is asked again."""
    value = st.session_state.get(key) if key else ""
    given = "" if value is None else str(value)
    grade = question.grade(given)
    if key and not grade.read:
        empty = "Nothing is answered yet. Answer, or press “I do not know”."
        st.session_state[MESSAGE] = grade.explanation if given.strip() else empty
        return None
    return given


def feedback(question: Question, given: str, key: str) -> None:
    """Say whether the answer is right, and explain it."""
    grade = question.grade(given)
    if grade.right:
        st.success(f"Right: {_code(question)}", icon=":material/check_circle:")
    elif not given:
        st.warning(f"Not answered. The answer is {_code(question)}.", icon=":material/help:")
    else:
        comment = f" {written(grade.explanation)}" if grade.explanation and grade.read else ""
        shown = escaped(compute.shown(question, given))
        st.error(f"Wrong: {shown}.{comment} The answer is {_code(question)}.", icon=":material/cancel:")
    if isinstance(question.answer, ChoiceAnswer) and not question.maps:
        st.markdown(_options(question.answer, given))
    _pictures(question, f"{key}-after", given, answered=True)
    with st.container(border=True):
        _explanation(question, given)


def _options(answer: ChoiceAnswer, given: str) -> str:
    """List the options in markdown: the right one and the chosen one are marked."""
    lines = []
    for i, option in enumerate(answer.options):
        marks = ["right"] * (i == answer.right) + ["your answer"] * (str(i) == given)
        text = f"`{option}`" if answer.code else written(option)
        lines.append(f"- {text} **({', '.join(marks)})**" if marks else f"- {text}")
    return "\n".join(lines)


def _code(question: Question) -> str:
    shown = question.answer.shown()
    code = isinstance(question.answer, ChoiceAnswer) and question.answer.code
    if isinstance(question.answer, OrderAnswer):
        return "the order below"
    return f"`{shown}`" if code else f"**{written(shown)}**"


def _explanation(question: Question, given: str) -> None:
    """Explanation of the answer with this question's numbers, and a link to the page that shows it."""
    st.markdown(written(question.because))
    orders = compute.orders(question, given)
    for column, (title, lines) in zip(st.columns(len(orders)) if orders else (), orders.items(), strict=True):
        column.markdown(f"**{title}**")
        column.code(lines, language="python", wrap_lines=True)
    if question.solution:
        charts.equations(compute.solution_tex(question))
        st.caption(escaped(compute.legend(question)))
    name, address = compute.where(question)
    seen = "See it with other numbers" if compute.with_other_numbers(question) else "See it"
    st.link_button(f"{seen} on {name}", address, icon=":material/open_in_new:")


def answered(question: Question, given: str, key: str) -> None:
    """Draw a question of a score card: what was given, the right answer, its explanation."""
    grade = question.grade(given)
    if question.code:
        st.code(question.code, language="python", wrap_lines=True)
    comment = f" {written(grade.explanation)}" if grade.explanation and grade.read else ""
    st.markdown(f"Given: {escaped(compute.shown(question, given))}.{comment} The answer is {_code(question)}.")
    _pictures(question, key, given, answered=True)
    _explanation(question, given)
