"""Offers to go on with what is unfinished in this browser, or to drop it: on the front page and on Practice."""

from __future__ import annotations

import streamlit as st

from attnviz.session.unfinished import MOCK, Unfinished
from attnviz.ui import progress, state, this_tab


def offer(*, from_here: bool = False, primary: bool = True) -> list[Unfinished]:
    """Draw a button for each, and return them.

    from_here: also for what runs in this tab. primary: whether nothing else on the page comes before the first of them.
    """
    found = [each for each in progress.unfinished() if from_here or this_tab.runs(each.kind) != each.id]
    for i, each in enumerate(found):
        with st.container(key=f"unfinished-{each.kind}", horizontal=True, vertical_alignment="center", gap="small"):
            st.button(
                f"**Go on with {each.said()}**", key=f"go-on-{each.kind}", icon=":material/resume:",
                type="primary" if primary and not i else "secondary", on_click=_go_on, args=(each,),
            )  # fmt: skip
            what = "the interview" if each.of == MOCK else "the set"
            with st.popover(f"Drop {what}", type="tertiary", key=f"drop-{each.kind}"):
                st.markdown(f"{'' if each.is_through else 'It cannot be continued afterwards. '}{each.lost}")
                st.button("Drop it now", key=f"drop-{each.kind}-now", type="primary", on_click=_drop, args=(each,))
    return found


def _go_on(found: Unfinished) -> None:
    from attnviz.compute import unfinished  # imported late: torch would delay the front page
    from attnviz.ui.pages import practice_kept

    if practice_kept.own_id() != found.id:
        practice_kept.take_up(found)
    state.go("practice", state.changed(**unfinished.place(found)))


def _drop(found: Unfinished) -> None:
    if this_tab.runs(found.kind) == found.id:
        this_tab.end(found.kind)
    progress.keep_unfinished(found.closed())
    state.redraw_progress()
