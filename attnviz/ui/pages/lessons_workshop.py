"""The plan of a workshop on the Lessons page: made to be printed, with the answers on a sheet of their own."""

from __future__ import annotations

from urllib.parse import urlsplit

import streamlit as st

from attnviz.compute import workshop as compute
from attnviz.compute.view import View
from attnviz.compute.workshop import Planned
from attnviz.figures.drawing import escaped
from attnviz.phrases import clock
from attnviz.session.local import is_loopback
from attnviz.session.route import Item, Route
from attnviz.ui import qr_code

WIDTH = 112  # of a QR code, in pixels: 3 cm on paper


def workshop(view: View) -> None:
    """The times, each step with its address, then the answers."""
    plan = compute.plan()
    st.markdown(f"## {escaped(plan.title)}\n\n{plan.about}\n\n{_timetable(plan)}")
    with st.container(key="workshop-print"):  # not on paper: page_style.css
        st.caption("Print the page with your browser (Ctrl + P): the steps, then the answers on a second sheet.")
        if is_loopback(urlsplit(st.context.url or "").hostname or ""):
            st.warning(
                "The codes below lead to this machine alone. Open this page at the address that your participants use, "
                "then print it."
            )
    planned = [(item, compute.steps(item)) for item in plan.items]
    for (item, steps), start in zip(planned, plan.starts(), strict=True):
        first, *others = enumerate(steps)
        with st.container(key=f"workshop-{item.id}"):  # no heading at the end of a page
            st.markdown(f"## {clock(start)} · {escaped(item.title)}, {item.minutes} min\n\n{item.text}")
            _step(first[1], key=f"{item.id}-0")
        for number, step in others:
            _step(step, key=f"{item.id}-{number}")
    with st.container(key="workshop-answers"):  # on paper, on a page of its own: page_style.css
        st.markdown("## Answers")
        for item, steps in planned:
            if answers := _answers(item, steps):
                st.markdown(answers)


def _timetable(plan: Route) -> str:
    """List the items in markdown: when each begins, and what it is."""
    return "\n".join(
        f"- {clock(start)} · {'Lesson: ' * bool(item.opened.lesson)}{escaped(item.title)}"
        for item, start in zip(plan.items, plan.starts(), strict=True)
    )


def _step(step: Planned, key: str) -> None:
    """A step's text and question beside its QR code."""
    link = qr_code.from_root(st.context.url or "", step.address)
    with st.container(horizontal=True, key=f"workshop-{key}", gap="medium"):
        if code := qr_code.svg(link):
            st.image(code, width=WIDTH)
        with st.container(gap="xxsmall"):
            if step.title:
                st.markdown(f"**{step.title}**\n\n{step.text}")
            for question, _ in step.asked:
                st.markdown(f"*{question}*")
            st.markdown(f"[{escaped(link.partition('//')[2] or link)}]({link})")


def _answers(item: Item, steps: list[Planned]) -> str:
    lines = [f"- {question} **{answer}**" for step in steps for question, answer in step.asked]
    if not lines:
        return ""
    return f"### {escaped(item.title)}\n\n" + "\n".join(lines)
