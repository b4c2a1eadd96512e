"""Route bar at the bottom of a page: the item, the minutes that are left, and the button that leads on.

The item is part of the settings, as a lesson's step is. While a lesson is open its own bar stands in its place, and
leads to the next item after its last step.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from importlib import import_module
from typing import TYPE_CHECKING

import streamlit as st

from attnviz.compute.view import View, always
from attnviz.figures.drawing import escaped
from attnviz.phrases import count, day
from attnviz.session.pages import ELEMENTS
from attnviz.session.settings import Settings
from attnviz.ui import bars, interview_day, progress, route_end, state
from attnviz.ui.components.in_sight import from_the_top
from attnviz.ui.components.lesson_mark import lesson_mark

if TYPE_CHECKING:
    from attnviz.session.lesson import Step
    from attnviz.session.route import Item, Route


def open_linked_item() -> None:
    """Open the page of an item whose link names only the route."""
    if (s := state.current()).route and not s.lesson and state.take_link_lesson() and (route := _open_route()):
        _open(route, s.route_item)


def route_bar() -> None:
    """Draw the bar if a route is open and no lesson is."""
    s = state.current()
    if s.route and not s.lesson and not s.present and not state.alone():
        with st.bottom, st.container(key="route-bar"):
            _bar()


@state.part(state.ROUTE, always)
def _bar(view: View) -> None:
    s, route = view.settings, _open_route()
    if route is None:
        st.warning(f"There is no route “{escaped(s.route[:40])}”. The Lessons page lists all routes.")
        st.button("Close", key="route-leave", on_click=_leave)
        return
    here = route.at(s.route_item)
    item, place = route.item(here), (route.name, here)
    open_now = still_to_do(item, done=here not in _left(route))
    if item.asks and open_now is None:  # also where an answer was shown, which nothing else keeps
        did_item()
    ended, whole = _is_at_end(route, s), bars.is_whole(place, asks=item.asks)
    end = route_end.said(route) if ended else ""
    with bars.frame(whole=whole, asks=item.asks or ended):
        with st.container(key="lesson-text"):
            st.markdown(end or _item(item, open_now))
        with st.container(horizontal=True, vertical_alignment="center", key="lesson-tools"):
            _tools(route, here, ended=ended, whole=whole, primary=open_now is None)
    _mark(route, here, end or f"Item {here} of {len(route.items)}: {item.title}. {_filled(item)}")


def _tools(route: Route, here: int, *, ended: bool, whole: bool, primary: bool) -> None:
    """Draw where the person is, and the buttons. primary: whether nothing is to be done in this item."""
    s = state.current()
    bars.caption(position(s, whole=whole))
    bars.fold_button((route.name, here), "route", whole=whole)
    back_button(here)
    if _is_elsewhere(route, s) and not ended:
        _button("Back to the item", "return", "G", route, here)
    if ended:
        _end_buttons(route)
    else:
        next_button(primary=primary)
    st.button("All items", key="route-home", shortcut="L", icon=":material/list:", on_click=_home)
    st.button(
        "Leave", key="route-leave", icon=":material/close:", on_click=_leave,
        type="primary" if ended and not route_end.to_do(route) else "secondary",
    )  # fmt: skip


def _mark(route: Route, here: int, announcement: str) -> None:
    """Announce the item, and outline its element if its page is open; without one, show the page from its top."""
    s, item, mark = state.current(), route.item(here), f"{route.name} {here}"
    element = ELEMENTS.get(item.target if state.page() == item.page else "")
    lesson_mark(
        f"Route: {route.title}", bars.spoken(announcement), element.css_class if element else "",
        element.name if element else "", mark, left=_is_elsewhere(route, s), answered=False,
    )  # fmt: skip
    if not element:
        from_the_top(mark)


def _end_buttons(route: Route) -> None:
    """What is left to do after the last item, the first of it primary; then to begin again."""
    later = route_end.to_do(route)
    for n, (label, key, opens) in enumerate(later):
        st.button(
            label, key=f"route-{key}", type="secondary" if n else "primary", on_click=_open_later, args=(route, opens)
        )
    if not _left(route):
        st.button("Begin again", key="route-again", on_click=start, args=(route.name, True))


def _open_later(route: Route, opens: int | Callable[[], None]) -> None:
    """Open an item that was skipped, or something else."""
    if isinstance(opens, int):
        _open(route, opens)
    else:
        opens()


def _is_at_end(route: Route, s: Settings) -> bool:
    """Check whether all is done or skipped, and no skipped item is open again."""
    left, skipped = _left(route), route.skipped(progress.get(), progress.today().isoformat())
    return left == skipped and (route.at(s.route_item) not in left or _is_elsewhere(route, s))


def _left(route: Route) -> list[int]:
    return route.left(progress.get(), progress.today().isoformat())


def still_to_do(item: Item, *, done: bool) -> str | None:
    """Say what is to be done in an item, as its page knows it; None if nothing is, or there is nothing to answer.

    Pages whose items ask something have `still_to_do`: a sentence while something is open, None once nothing is, and ""
    where the person has not begun it in this session.
    """
    if not item.asks:
        return None
    said = import_module(item.page.module).still_to_do(item) if state.page() == item.page else ""
    return None if said is None or (done and not said) else said or item.text


def _filled(item: Item) -> str:
    """Return an item's text with its numbers, which are computed for the settings of its link."""
    if "{" not in item.text:
        return item.text
    from attnviz.compute import placeholders  # imported late: it would delay items without numbers

    return placeholders.filled(item.text, View(item.opened))


def _item(item: Item, open_now: str | None) -> str:
    text = open_now or ("This item is done." if item.asks else _filled(item))
    of_day = f"Day {item.day} · " if item.day else ""
    minutes = item.minutes_with(progress.due())
    about = f" About {count(minutes, 'minute')}." if minutes and text == item.text else ""
    return f"## {of_day}{item.title}\n\n{text}{about}"


def position(s: Settings, *, whole: bool) -> str:
    """Say where a route is: the item of how many, and the minutes of what is not done; "" outside a route.

    whole: with the route's title, and what the minutes are the sum of.
    """
    route = _open_route()
    if route is None:
        return ""
    kept, today, due = progress.get(), progress.today().isoformat(), progress.due()
    left, skipped, minutes = _left(route), route.skipped(kept, today), route.minutes_left(kept, today, due)
    then = f"{count(minutes, 'minute')} left" if minutes else f"{count(len(left), 'item')} left" if left else "all done"
    at = f"tem {route.at(s.route_item)} of {len(route.items)}, {then}"
    later = f", {len(skipped)} of them skipped" if skipped else ""
    of = f" ({count(len(left), 'item')} not done{later})" if left else ""
    return f"{route.title}, i{at}{of}" if whole else f"{'i' if s.lesson else 'I'}{at}"


def next_button(primary: bool = True) -> None:
    """Button that leaves the item and opens the next one; it says so where the item is left undone.

    From another lesson than the item's it opens the item, if that is not done.
    primary: whether nothing is to be done here. At a lesson's last step, what it asks on its page is the item's.
    """
    route, s = _open_route(), state.current()
    if route is None:
        return
    here = route.at(s.route_item)
    if s.lesson not in ("", route.item(here).opened.lesson) and here in _left(route):
        st.button(
            f"Next: {route.item(here).title}", key="route-next", shortcut="J",
            type="primary" if primary else "secondary", on_click=_open, args=(route, here),
        )  # fmt: skip
        return
    following = route.following(here, progress.get(), progress.today().isoformat())
    done = here not in _left(route) or (primary and _does_by_next(route.item(here), s))
    label = ("Next: " if done else "Skip to: ") + route.item(following).title
    st.button(
        label if following else "Finish" if done else "Skip to the end", key="route-next", shortcut="J",
        type="primary" if primary else "secondary", on_click=_go_on, args=(route, here, following, done),
    )  # fmt: skip


def _does_by_next(item: Item, s: Settings) -> bool:
    """Check whether to go on does an item: nothing is to be answered in it, or its lesson is open, at its last step."""
    return bool(s.lesson == item.opened.lesson) if item.opened.lesson else not item.asks


def back_button(here: int) -> None:
    """Button that leads to the item before this one, to a lesson's last step."""
    if route := _open_route():
        st.button(
            "Back", key="route-back", shortcut="K", disabled=here < 2, icon=bars.ICONS["back"], on_click=_open,
            args=(route, here - 1), kwargs={"end": True},
        )  # fmt: skip


def item() -> Item | None:
    """Return the item of the open route."""
    route = _open_route()
    return route.item(state.current().route_item) if route else None


def is_open() -> bool:
    """Check whether a route is open; a link can name one that there is not."""
    return _open_route() is not None


def ended_set() -> None:
    """Record a set of questions that was ended as done, if it is what the item of the open route asks."""
    if (here := item()) and is_set(here):
        did_item()


def is_set(asked: Item | Step) -> bool:
    """Check whether an item, or a lesson's step, asks the set of questions on the page that is open."""
    return asked.asks and state.page() == asked.page and asked.link.get("tab", "drills") == "drills"


def did_item() -> None:
    """Record the item of the open route as done."""
    route, s = _open_route(), state.current()
    if route and route.at(s.route_item) in _left(route):
        progress.did_item(route.name, route.item(s.route_item).id)


def did_lesson(name: str) -> None:
    """Record the item of the open route as done if this lesson, which was read to its end, is what it asks."""
    if (here := item()) and here.opened.lesson == name:
        did_item()


def is_for_tomorrow() -> bool:
    """Check whether the open route is one for the evening before an interview."""
    route = _open_route()
    return bool(route and route.interview_in == 1)


def is_done() -> bool:
    """Check whether the item of the open route is done."""
    route = _open_route()
    return bool(route and route.at(state.current().route_item) not in _left(route))


def next_title() -> str:
    """Return the title of the item to which "Next" leads; "" outside a route and at its end."""
    s = state.current()
    if (route := _open_route()) is None:
        return ""
    following = route.following(route.at(s.route_item), progress.get(), progress.today().isoformat())
    return route.item(following).title if following else ""


def open_item() -> tuple[str, str] | None:
    """Return the name of the route that was opened last, and with what it goes on: its next item, and its minutes now.

    None if there is none, or all is done.
    """
    last = progress.get().route()
    route = _route(last[0]) if last else None
    if route is None or not _left(route):
        return None
    kept, today = progress.get(), progress.today().isoformat()
    item = route.item(route.opens(kept, today))
    minutes = item.minutes_with(progress.due())
    takes = f", {count(minutes, 'minute')}" if minutes else ""
    return route.name, f"Go on with “{route.title}”: {item.title}{takes}"


def position_in(name: str) -> str:
    """Say at which of its items a route goes on: "item 4 of 10"."""
    route = _route(name)
    return f"item {route.opens(progress.get(), progress.today().isoformat())} of {len(route.items)}" if route else ""


def minutes_today(name: str, *, again: bool) -> int:
    """Return the minutes that a route takes today, with what is due: all of it again, or what is left of it."""
    route = _route(name)
    kept, today = progress.get(), progress.today().isoformat()
    return route.minutes_ahead(kept, today, progress.due(), again=again) if route else 0


def through_on(name: str) -> str:
    """Return the day (an ISO date) on which all of a route was done; "" before."""
    kept = progress.get()
    route = _route(name) if name in kept.routes else None
    return route.done_on(kept, progress.today().isoformat()) if route else ""


def done_on(name: str) -> str:
    """Return that day as it is said: "29 November"."""
    on = through_on(name)
    return day(on) if on else ""


def start(name: str, again: bool = False) -> None:
    """Open a route at its first item that is not done, from a callback. again: begin another run."""
    from attnviz.session import route as routes

    if (route := _route(name)) is None:
        return
    begun = routes.begun(route, progress.get(), progress.now(), again=again)
    progress.record(routes={**progress.get().routes, name: begun})
    if route.interview_in:
        interview_day.plan_for(route.interview_in)
    if route := _route(name):  # in its new run
        _open(route, route.opens(progress.get(), progress.today().isoformat()))


def _go_on(route: Route, here: int, following: int, done: bool) -> None:
    if (s := state.current()).lesson and done:  # at its last step
        progress.reached(s.lesson, s.lesson_step, last=True)
    (progress.did_item if done else progress.skipped_item)(route.name, route.item(here).id)
    if route.item(here).link.get("tab") == "interview":
        from attnviz.ui.pages import practice_kept  # imported late: torch would delay pages that ask nothing

        practice_kept.set_aside()  # its clock waits
    if following:
        _open(route, following)
    else:
        _home()


def _open(route: Route, number: int, *, end: bool = False) -> None:
    from attnviz.compute import routes

    page, settings = routes.place(route, number, progress.get(), end=end)
    state.go(page.path, settings)


def _button(label: str, name: str, shortcut: str, route: Route, to: int) -> None:
    st.button(
        label, key=f"route-{name}", shortcut=shortcut, icon=bars.ICONS[name], on_click=_open, args=(route, to)
    )  # fmt: skip


def _is_elsewhere(route: Route, s: Settings) -> bool:
    """Check whether another page, tab or mistake is open than the item's."""
    from attnviz.compute import routes

    page, settings = routes.place(route, s.route_item, progress.get())
    other = "mistake" in route.item(s.route_item).link and s.mistake != settings.mistake
    return state.page() != page or page.open_tab(s.tab) != page.open_tab(settings.tab) or other


def _home() -> None:
    state.go("lessons", replace(state.current(), lesson="", lesson_step=1))


def _leave() -> None:
    state.go(state.page().path, replace(state.current(), route="", route_item=1, route_run=1))


def _open_route() -> Route | None:
    """Return the run of the route that the settings name."""
    from attnviz.compute import routes  # imported late: it would delay pages without a route

    s = state.current()
    return routes.route(s.route, s.route_run) if s.route else None


def _route(name: str) -> Route | None:
    """Return the route of this name, in the run in which the person is."""
    from attnviz.compute import routes

    return routes.routes(progress.get()).get(name) if name else None
