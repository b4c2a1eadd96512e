"""Overview page: the maps of the current text and model, and links to all pages. Imports neither torch nor plotly.

The maps of the default text ship with the app, so they are shown before torch is imported.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import streamlit as st

from attnviz.analysis.layers import Arrays, Each
from attnviz.compute.view import View, always, drawable
from attnviz.phrases import count
from attnviz.session.pages import PAGES, PURPOSES, by_purpose
from attnviz.session.route import TODAY
from attnviz.text import tokenizer
from attnviz.ui import interview_day, offer_unfinished, progress, route_bar, route_end, state
from attnviz.ui.components.head_grid import head_grid
from attnviz.ui.headline import grid_options, headline, run_title

SHIPPED = Path(__file__).parents[2] / "checkpoints" / "front.npz"
FIRST_LESSON = ("one-head", "What one head does")  # its first step is the heads page with default settings
ROUTES = {"interview-20": "20 minutes", "interview-60": "60 minutes", "interview-week": "a week"}
FULL = "interview-60"  # the route whose plan is shown first
HOW_TO_READ = (
    "Each map is one attention head. A row is the token that attends (query), a column a token that it may attend to "
    "(key); the more a cell stands out, the larger its weight. Select a head to open it."
)
HUE = "The hue is that of the key/value (KV) head that the head reads."


def show() -> None:
    """Draw the page: a sentence, the first lesson, all heads on the text, links to all pages."""
    first_thing()
    with st.container(key="front"):  # on a phone, the routes come before the maps: page_style.css
        picture, links = st.columns([5, 3], gap="medium")
        with picture:
            maps()
        with links:
            page_links()


@state.part("first", always)
def first_thing(view: View) -> None:
    """What is unfinished, what is due today, where the person's route goes on; else a sentence and a lesson."""
    kept, today = progress.get(), progress.today().isoformat()
    due, following = _due(today), route_bar.open_item()
    with st.container(key="first-thing"):
        the_day = _on_the_day(today)
        if the_day and following and following[0] == TODAY:
            following = None  # that button goes on with it
        unfinished = offer_unfinished.offer(from_here=True, primary=not the_day)
        if due or following or unfinished:
            st.empty()  # in the place of what is replaced, which could be seen for a moment
            _go_on(due, following, after=the_day or bool(unfinished))
            return
        if the_day or kept.interview_on(today) == today:  # all of that day is done: nothing more is asked for
            return
        if kept.cards:
            from attnviz.ui.pages import practice_due  # imported late: it would delay the page without progress

            practice_due.lead_on()
            return
        with st.container(horizontal=True, vertical_alignment="center", gap="small", key=_awaited()):
            st.markdown(state.page().sentence, width="content")
            if kept.is_empty:
                _first_lesson()
            else:
                _next_lesson()


def _on_the_day(today: str) -> bool:
    """Offer the route for the morning of the interview, unless it was done today; return whether it is offered."""
    if progress.get().interview_on(today) != today:
        return False
    due = len(progress.due())
    if (on := route_bar.through_on(TODAY)) == today:
        if due:
            come = f"{count(due, 'question')} {'has' if due == 1 else 'have'} come back"
            st.info(f"You went through “Interview today”. Since then {come}.", icon=":material/event:")
        else:
            done = "All that is planned for the day of your interview is done."
            st.success(done, icon=":material/check_circle:")
        return False
    minutes = route_bar.minutes_today(TODAY, again=bool(on))
    asked = f"{count(due, 'question')} that {'is' if due == 1 else 'are'} due, and " if due else ""
    with st.container(key="on-the-day"):
        st.button(
            f"**Your interview is today: {count(minutes, 'minute')} for {asked}the numbers to remember**",
            key=f"begin-{TODAY}", type="primary", icon=":material/event:", on_click=route_bar.start,
            args=(TODAY, bool(on)),
        )  # fmt: skip
    return True


def _due(today: str) -> str:
    """Say what is due on this day (an ISO date); "" if nothing is."""
    if not progress.due():
        return ""
    from attnviz.compute import progress as compute  # imported late: it would delay the page without progress

    return compute.due_on(progress.get(), today)


def _awaited(place: str = "") -> str | None:
    """Return the key of a container for who has no progress: a browser that has some does not show it meanwhile."""
    return f"awaited{place}" if progress.is_awaited() else None


def _go_on(due: str, following: tuple[str, str] | None, *, after: bool) -> None:
    """Draw the buttons for what is due and for the route's next item. after: what is unfinished comes first."""
    with st.container(key="go-on", horizontal=True, gap="small"):
        if due:
            st.button(
                f"**{due}**", key="due", icon=":material/event:", type="secondary" if after else "primary",
                on_click=route_end.open_due,
            )  # fmt: skip
        if following:
            name, item = following
            st.button(
                f"**{item}**", key="go-on-route", on_click=route_bar.start, args=(name,),
                type="secondary" if due or after else "primary", icon=":material/arrow_forward:",
            )  # fmt: skip


def _first_lesson() -> None:
    name, title = FIRST_LESSON
    with st.container(key="first-lesson", width="content"):
        st.page_link(
            PAGES["heads"].file, label=f"New to attention? Start with **{title}**", width="content",
            query_params={"lesson": name}, icon=":material/arrow_forward:", icon_position="right",
        )  # fmt: skip


def _next_lesson() -> None:
    """Link to the first lesson that is not done, at the step that was reached; nothing once all are done."""
    from attnviz.compute import lessons  # imported late: it would delay the page where nothing is kept

    kept = progress.get().lessons
    for name, lesson in lessons.lessons()[0].items():
        if name in kept and kept[name].done:
            continue
        at = min(kept[name].step, len(lesson.steps)) if name in kept else 1
        where = f"step {at} of {len(lesson.steps)}" if at > 1 else count(lesson.minutes, "minute")
        with st.container(key="first-lesson", width="content"):
            st.page_link(
                lesson.step(at).page.file, label=f"Next lesson: **{lesson.title}**, {where}", width="content",
                query_params=lesson.settings(at).to_link(), icon=":material/arrow_forward:", icon_position="right",
            )  # fmt: skip
        return


def has_maps(view: View) -> bool:
    """Check whether the maps ship with the app or can be computed."""
    return view.maps_ship or drawable(view)


@state.part("maps", has_maps)
def maps(view: View) -> None:
    """All layers and heads on the text, in the hues of the KV heads."""
    weights: Arrays
    allowed: Arrays
    if view.maps_ship:
        weights, allowed, labels, kv_head_of = _shipped()
        options: dict[str, Any] = {"kv_head_of": kv_head_of}
        readers, read = len(kv_head_of), max(kv_head_of) + 1
        title = f"Grouped-query attention (GQA): {readers} query heads read {read} KV heads, {len(labels)} tokens"
        sentence = f"{title}."
    else:
        weights, allowed, labels = Each(view.trace.layers, "weights"), view.trace.masks, view.labels
        title, sentence = run_title(view), headline(view)
        options = grid_options([layer.mixer for layer in view.config.layers])
        options |= {"sides": view.sides, "row_names": view.layer_names or None}
        options["masks"] = not view.saved or view.config.causal
    known = view.maps_ship or view.mixer.keys_known
    st.caption(f"{HOW_TO_READ} {HUE if known else 'Each head has a hue of its own.'} {sentence}")
    head_grid(
        weights, allowed, labels, key="front-grid", selected=_selected(view), on_select=_open, title=title, **options
    )  # fmt: skip


def _selected(view: View) -> tuple[int, int]:
    """Return the selected layer and head, without torch where the maps ship and nothing has to be found in them."""
    return view.settings.chosen_head if view.maps_ship and view.settings.selection != "auto" else view.layer_and_head


def _shipped() -> tuple[np.ndarray, np.ndarray, list[str], list[int]]:
    """Return weights (L, H, T, T), allowed pairs (L, T, T), T labels, and the KV head of each of H heads."""
    with np.load(SHIPPED, allow_pickle=False) as file:
        weights, ids = file["weights"].astype(np.float32), file["ids"].tolist()
    L, H, T, _ = weights.shape
    causal = np.broadcast_to(np.tri(T, dtype=bool), (L, T, T))
    return weights, causal, tokenizer().labels(ids), [head // 2 for head in range(H)]


def _open(layer: int, head: int) -> None:
    state.go("heads", state.changed(layer=layer, head=head))


def routes() -> None:
    """Buttons that lead through a route; the last one that was opened goes on where it was."""
    last, of = progress.get().route(), _offered()
    done = {name: route_bar.done_on(name) for name in of}
    starts = _starts(of, done, last[0] if last else "")
    with st.container(
        border=True, gap="xxsmall", key=_awaited("-routes") or ("kept-routes" if last and TODAY not in of else None)
    ):
        st.markdown(f"## {interview_day.heading()}")
        begins = " It begins at the top of this page." if TODAY in of and not done[TODAY] else ""
        st.caption(f"One thing after the other, chosen for you.{begins} Close the browser and go on later.")
        with st.container(horizontal=True, gap="small", key="routes"):
            for name, label in starts.items():
                st.button(label, key=f"begin-{name}", on_click=route_bar.start, args=(name, bool(done[name])))
            _plans(of, last[0] if last else "")
        if any(done.values()):
            st.caption(" ".join(f"Done on {on}: {of[name]}." for name, on in done.items() if on))
        where_you_are()


def _starts(of: Mapping[str, str], done: Mapping[str, str], last: str) -> dict[str, str]:
    """Return the label of each route's button. last: the route that was opened last."""
    labels = {}
    for name, label in of.items():
        if name == TODAY and not done[name]:
            continue  # it is the first thing on the page
        goes_on = f"Go on: {label}, {route_bar.position_in(name)}" if name == last else label
        labels[name] = f"Begin again: {label}" if done[name] else goes_on
    return labels


def _offered() -> dict[str, str]:
    """Return the routes that make sense on this day: on that of the interview, the one for it."""
    today = progress.today().isoformat()
    return {TODAY: "what is due, and the numbers"} if progress.get().interview_on(today) == today else ROUTES


def _plans(names: Mapping[str, str], last: str) -> None:
    """The routes' items and times, once one asks for them. last: the route that was opened last."""
    plans = st.popover("What is in it?", key="plans", on_change="rerun", type="tertiary", icon=":material/list:")
    if not plans.open:
        return
    from attnviz.compute import routes  # imported late: it would delay the page for who does not ask
    from attnviz.ui import route_plan

    of, first = routes.routes(progress.get()), names.get(last) or names.get(FULL)
    for tab, name in zip(plans.tabs([*names.values()], default=first, key="plan"), names, strict=True):
        with tab:
            route_plan.plan(of[name], names_day=False)


def where_you_are() -> None:
    """Say how far the person is, and ask when the interview is; nothing where the browser keeps nothing."""
    if progress.get().is_empty:
        return
    from attnviz.compute import progress as compute  # imported late: it would delay the page where nothing is kept

    st.caption(compute.done(progress.get()))
    interview_day.choose()


@state.part("doors", always)
def page_links(view: View) -> None:
    """The routes, how far the person is, and links to all pages, grouped by purpose."""
    routes()
    for purpose, pages in by_purpose().items():
        with st.container(border=True, gap="xxsmall"):
            st.markdown(f"## {purpose}")
            st.caption(PURPOSES[purpose])
            with st.container(horizontal=True, gap="small"):
                for page in pages:
                    link = state.settings_on(page).to_link()
                    st.page_link(
                        page.file, label=f"**{page.name}**", help=page.sentence, query_params=link, width="content",
                        icon=":material/arrow_forward:", icon_position="right",
                    )  # fmt: skip
