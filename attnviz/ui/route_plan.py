"""The plan of a route: its items with their times, which of them are done, skipped or next, and the interview's day."""

from __future__ import annotations

import streamlit as st

from attnviz.compute import routes
from attnviz.figures.drawing import escaped
from attnviz.phrases import clock, count
from attnviz.session.route import Item, Route
from attnviz.ui import interview_day, progress

MAY_BE_SKIPPED = "Nothing is compulsory: what you skip is listed at the end, and one press leads back to it."


def plan(route: Route, *, names_day: bool = True) -> None:
    """Draw what the route is about and its items. names_day: with the control of the day that its title names."""
    st.markdown(f"{route.about} {MAY_BE_SKIPPED}")
    if route.interview_in and names_day:
        with st.container(horizontal=True, vertical_alignment="center", key=f"day-of-{route.name}"):
            interview_day.choose()
            if said := interview_day.planned(route.interview_in):
                st.caption(said)
    _items(route)


def so_far(route: Route) -> str:
    """Say how many of its items are done and skipped; "" if none is."""
    kept, today = progress.get(), progress.today().isoformat()
    left, skipped = route.left(kept, today), route.skipped(kept, today)
    done = len(route.items) - len(left)
    later = f", {len(skipped)} skipped" if skipped else ""
    return f"{done} of {len(route.items)} done{later}" if done or skipped else ""


def _items(route: Route) -> None:
    """A link to each item: when it begins, its minutes, and whether it is done, skipped or comes next."""
    kept, today = progress.get(), progress.today().isoformat()
    left, skipped, opens = route.left(kept, today), route.skipped(kept, today), route.opens(kept, today)
    due = progress.due()
    for n, (item, start) in enumerate(zip(route.items, route.starts(), strict=True), 1):
        if item.day and not start:
            st.markdown(f"**Day {item.day}**")
        page, settings = routes.place(route, n, kept)
        icon, said = ("radio_button_unchecked", "") if n in left else ("check_circle", " · done")
        if n in skipped:
            icon, said = "skip_next", " · skipped"
        if left and n == opens:
            icon, said = "arrow_forward", f"{said} · **next**"
        title = f"{'Lesson: ' * bool(item.opened.lesson)}{escaped(item.title)}"
        st.page_link(
            page.file, label=f"{clock(start)} · {title}, {_minutes(item, due)}{said}",
            icon=f":material/{icon}:", query_params=settings.to_link(),
        )  # fmt: skip


def _minutes(item: Item, due: list[str]) -> str:
    """Say how long an item takes; of what comes back, for what is due by now."""
    if item.comes_back and not due:
        return "nothing is due so far"
    of_due = f" for what is due so far: {count(len(due), 'question')}" if item.comes_back else ""
    return f"{count(item.minutes_with(due), 'minute')}{of_due}"
