"""Route bar at the bottom of a page: the item, the minutes that are left, and the button that leads on.

The item is part of the settings, as a lesson's step is. While a lesson is open its own bar stands in its place, and
leads to the next item after its last step.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from importlib import import_module
from typing import TYPE_CHECKING

import streamlit as st

from attnviz.compute.view import View, always
from attnviz.figures.drawing import escaped
from attnviz.phrases import count, day
from attnviz.session.settings import Settings
from attnviz.ui import bars, progress, state
from attnviz.ui.components.in_sight import from_the_top

if TYPE_CHECKING:
    from attnviz.session.lesson import Step
    from attnviz.session.route import Item, Route


def open_linked_item() -> None:
    """Open the page of an item whose link names only the route."""
    if (s := state.current()).route and not s.lesson and state.take_link_lesson():
        _open(s.route, s.route_item)


def route_bar() -> None:
    """Draw the bar if a route is open and no lesson is."""
    s = state.current()
    if s.route and not s.lesson and not s.present and not state.alone():
        with st.bottom, st.container(key="route-bar"):
            _bar()


@state.part(state.ROUTE, always)
def _bar(view: View) -> None:
    s, route = view.settings, _route(view.settings.route)
    if route is None:
        st.warning(f"There is no route “{escaped(s.route[:40])}”. The Lessons page lists all routes.")
        st.button("Close", key="route-leave", on_click=_leave)
        return
    here = route.at(s.route_item)
    item, place = route.item(here), (route.name, here)
    open_now = still_to_do(item, done=here not in _left(route))
    if (
        item.asks and open_now is None and here in _left(route)
    ):  # also where an answer was shown, which nothing else keeps
        progress.did_item(route.name, item.id)
    left, whole = _left(route), bars.is_whole(place, asks=True)
    with bars.text(whole=whole):
        st.markdown(_through(route) if not left else _item(item, open_now))
    with st.container(horizontal=True, vertical_alignment="center", key="lesson-tools"):
        bars.caption(position(s, whole=whole))
        bars.fold_button(place, "route", whole=whole)
        _button("Back", "back", "K", route, here - 1, active=here > 1)
        if _is_elsewhere(route, s):
            _button("Back to the item", "return", "G", route, here)
        if left:
            next_button(route.name, primary=open_now is None)
        else:
            st.button("Begin again", key="route-again", on_click=start, args=(route.name, True))
        st.button("All items", key="route-home", shortcut="L", icon=":material/list:", on_click=_home)
        st.button("Leave", key="route-leave", icon=":material/close:", on_click=_leave)
    from_the_top(f"{route.name} {here}")


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


def _item(item: Item, open_now: str | None) -> str:
    text = open_now or ("This item is done." if item.asks else item.text)
    of_day = f"Day {item.day} · " if item.day else ""
    about = f" About {count(item.minutes, 'minute')}." if text == item.text else ""
    return f"## {of_day}{item.title}\n\n{text}{about}"


def _through(route: Route) -> str:
    due = len(progress.get().due(_tomorrow()))
    tomorrow = f" {due} will be due tomorrow." if due else ""
    on = f" on {on}" if (on := done_on(route.name)) else ""
    return f"## {route.title}: done{on}\n\nAll {count(len(route.items), 'item')} are done.{tomorrow}"


def _tomorrow() -> str:
    return (progress.today() + timedelta(days=1)).isoformat()


def position(s: Settings, *, whole: bool) -> str:
    """Say where a route is: the item of how many, and the minutes of what is not done; "" outside a route.

    whole: with the route's title, and what the minutes are the sum of.
    """
    route = _route(s.route)
    if route is None:
        return ""
    left = _left(route)
    minutes = route.minutes_left(progress.get(), progress.today().isoformat())
    then = f"{count(minutes, 'minute')} left" if left else "all done"
    at = f"tem {route.at(s.route_item)} of {len(route.items)}, {then}"
    of = f" ({count(len(left), 'item')} not done)" if left else ""
    return f"{route.title}, i{at}{of}" if whole else f"{'i' if s.lesson else 'I'}{at}"


def next_button(name: str, primary: bool = True) -> None:
    """Button that marks the item as done and opens the next one that is not; not primary while it is to be done."""
    route = _route(name)
    if route is None:
        return
    here = route.at(state.current().route_item)
    following = route.following(here, progress.get(), progress.today().isoformat())
    label = f"Next: {route.item(following).title}" if following else "That was all"
    st.button(
        label, key="route-next", shortcut="J", type="primary" if primary else "secondary", on_click=_go_on,
        args=(name, here, following),
    )  # fmt: skip


def item() -> Item | None:
    """Return the item of the open route."""
    s = state.current()
    return route.item(s.route_item) if (route := _route(s.route)) else None


def ended_set() -> None:
    """Record a set of questions that was ended as done, if it is what the item of the open route asks."""
    if (here := item()) and is_set(here):
        did_item()


def is_set(asked: Item | Step) -> bool:
    """Check whether an item, or a lesson's step, asks the set of questions on the page that is open."""
    return asked.asks and state.page() == asked.page and asked.link.get("tab", "drills") == "drills"


def did_item() -> None:
    """Record the item of the open route as done."""
    if here := item():
        progress.did_item(state.current().route, here.id)


def next_title() -> str:
    """Return the title of the item to which "Next" leads; "" outside a route and at its end."""
    s = state.current()
    if (route := _route(s.route)) is None:
        return ""
    following = route.following(route.at(s.route_item), progress.get(), progress.today().isoformat())
    return route.item(following).title if following else ""


def open_item() -> tuple[str, Item] | None:
    """Return the name of the route that was opened last and its next item; None if there is none, or all is done."""
    last = progress.get().route()
    route = _route(last[0]) if last else None
    if route is None or done_on(route.name):
        return None
    left = route.left(progress.get(), progress.today().isoformat())
    return (route.name, route.item(left[0])) if left else None


def done_on(name: str) -> str:
    """Return the day, "29 November", on which all of a route was done; "" before."""
    kept = progress.get()
    route = _route(name) if name in kept.routes else None
    on = route.done_on(kept, progress.today().isoformat()) if route else ""
    return day(on) if on else ""


def start(name: str, again: bool = False) -> None:
    """Open a route at its first item that is not done, from a callback. again: begin another round of it."""
    from attnviz.session import route as routes

    if (route := _route(name)) is None:
        return
    begun = routes.begun(route, progress.get(), progress.now(), again=again)
    progress.record(routes={**progress.get().routes, name: begun})
    today = progress.today().isoformat()
    _open(name, next(iter(route.left(progress.get(), today)), 1))


def _go_on(name: str, done: int, following: int) -> None:
    if route := _route(name):
        progress.did_item(name, route.item(done).id)
        if (s := state.current()).lesson:  # at its last step
            progress.reached(s.lesson, s.lesson_step, last=True)
    if following:
        _open(name, following)
    else:
        _home()


def _open(name: str, number: int) -> None:
    from attnviz.compute import routes

    if route := routes.route(name):
        page, settings = routes.place(route, number, progress.get())
        state.go(page.path, settings)


def _button(label: str, name: str, shortcut: str, route: Route, to: int, active: bool = True) -> None:
    st.button(
        label, key=f"route-{name}", shortcut=shortcut, disabled=not active, icon=bars.ICONS[name], on_click=_open,
        args=(route.name, to),
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
    state.go(state.page().path, replace(state.current(), route="", route_item=1))


def _route(name: str) -> Route | None:
    from attnviz.compute import routes  # imported late: it would delay pages without a route

    return routes.route(name) if name else None
