"""Routes: their files, what is done of them, and what comes next."""

import re
from urllib.parse import urlencode

import pytest

from attnviz.compute import lessons, routes
from attnviz.exercises import CardState
from attnviz.session.lesson import LessonError
from attnviz.session.pages import PAGES
from attnviz.session.progress import LessonState, MistakeState, Progress, RouteState, TaskState
from attnviz.session.route import NOT_BEGUN, Item, Route, begun, noted, parse
from attnviz.session.settings import Settings

TODAY, BEGAN = "2026-11-29", "2026-11-29T07:00:00Z"
WRITTEN = """# A route

Minutes: 31

About it.

## A lesson

Link: ?lesson=one-head

Why.

## A mistake

Link: mistakes?mistake=tiled_kv_heads&hunt=1
Minutes: 3

## A task

Link: practice?tab=write&task=gqa
Minutes: 5

## An interview

Link: practice?tab=interview
Minutes: 7

## A look

Link: heads?layer=1
Minutes: 10
Day: 2
"""


def route(written: str = WRITTEN) -> Route:
    return parse("a-route", written, lambda name: {"one-head": 6}.get(name, 0))


def test_an_item_is_done_when_what_it_links_to_is():
    of = RouteState(BEGAN, BEGAN)
    done = {
        "A lesson": Progress({"one-head": LessonState(7, "2026-11-28")}),
        "A mistake": Progress(mistakes={"tiled_kv_heads": MistakeState(False, BEGAN, BEGAN)}),
        "A task": Progress(tasks={"gqa": TaskState("2026-11-28", "", BEGAN)}),
        "An interview": Progress(mocks=({"at": "2026-11-29T07:00:13Z"},)),
    }
    undone = [
        Progress({"one-head": LessonState(7)}),
        Progress({"many-heads": LessonState(7, "2026-11-28")}),
        Progress(mistakes={"rope_on_values": MistakeState(True, BEGAN, BEGAN)}),
        Progress(mistakes={"tiled_kv_heads": MistakeState(True, BEGAN)}),  # its line is found, and no more
        Progress(tasks={"gqa": TaskState("", "tiled_kv_heads", BEGAN)}),
        Progress(mocks=({"at": "2026-11-28T20:00:00Z"},)),  # an interview before the route was begun
    ]
    items = route().items
    for title, progress in done.items():
        assert [item.title for item in items if item.is_done(progress, of, TODAY)] == [title]
    for progress in undone:
        assert not any(item.is_done(progress, of, TODAY) for item in items)
    by_next = RouteState(BEGAN, BEGAN, ("a-look",))
    assert [item.title for item in items if item.is_done(Progress(), by_next, TODAY)] == ["A look"]


def test_what_is_done_is_skipped_and_the_rest_comes_round():
    of = route()
    progress = Progress(
        {"one-head": LessonState(7, "2026-11-28")}, tasks={"gqa": TaskState("2026-11-28")},
        routes={"a-route": RouteState(BEGAN, BEGAN, ("a-look",))},
    )  # fmt: skip
    assert of.left(Progress(), TODAY) == [1, 2, 3, 4, 5] and of.left(progress, TODAY) == [2, 4]
    assert [of.following(n, progress, TODAY) for n in (1, 2, 3, 4, 5)] == [2, 4, 4, 2, 2]
    assert of.minutes_left(progress, TODAY, []) == 3 + 7
    assert of.starts() == [0, 6, 9, 14, 0]
    through = Progress(routes={"a-route": RouteState(BEGAN, BEGAN, tuple(item.id for item in of.items))})
    assert of.following(5, through, TODAY) == 0 and of.left(through, TODAY) == []


def test_a_route_goes_on_where_it_was_and_begins_again_only_when_asked():
    of, later = route(), "2026-11-30T07:00:00Z"
    assert begun(of, Progress(), BEGAN) == RouteState(BEGAN, BEGAN)
    half = Progress(routes={"a-route": RouteState(BEGAN, BEGAN, ("a-look",))})
    assert begun(of, half, later) == RouteState(BEGAN, later, ("a-look",))
    through = Progress(routes={"a-route": RouteState(BEGAN, BEGAN, tuple(item.id for item in of.items))})
    assert begun(of, through, later) == RouteState(BEGAN, later, tuple(item.id for item in of.items))
    assert begun(of, through, later, again=True) == RouteState(later, later, (), 2)


@pytest.mark.parametrize(
    ("change", "line", "reason"),
    [
        (("Minutes: 31", "Minutes: 32"), 3, "take 31 minutes, not 32"),
        (("?lesson=one-head", "?lesson=no-such"), 7, "whole number, not “0”"),
        (("heads?layer=1", "practice?tab=due"), 31, "as long as what is due"),
        (("heads?layer=1", "head?layer=1"), 30, "not a link of an item"),
        (("heads?layer=1", "heads?layer=1&route=x"), 30, "not a link of an item"),
        (("heads?layer=1", "heads?colour=mauve"), 30, "colour"),
        (("Minutes: 7", "Minutes: seven"), 26, "whole number"),
        (("## A look", "## A task"), 1, "two items have one title"),
        (("# A route", "A route"), 1, "title"),
    ],
)
def test_a_broken_file_names_the_line(change, line, reason):
    with pytest.raises(LessonError, match=reason) as error:
        route(WRITTEN.replace(*change))
    assert error.value.line == line


@pytest.mark.parametrize("of", routes.routes().values(), ids=routes.routes())
def test_the_shipped_routes_open_and_their_times_add_up(of):
    """A parsed file's addresses have no notices and its minutes add up; here, what the addresses name exists."""
    for number, item in enumerate(of.items, 1):
        page, settings = routes.place(of, number, Progress())
        link = settings.to_link()
        assert Settings.from_link(link, page) == (settings, []), urlencode(link)
        assert (settings.route, settings.route_item) == (of.name, number)
        if name := item.link.get("lesson"):
            lesson = lessons.lesson(name)
            assert lesson and item.minutes == lesson.minutes and page == lesson.steps[0].page
        assert item.text and not item.is_done(Progress(), NOT_BEGUN, TODAY)
    if any(item.day for item in of.items):
        days = [item.day for item in of.items]
        assert days == sorted(days) and set(days) == set(range(1, 8))
        per_day = [sum(item.minutes for item in of.items if item.day == day) for day in range(1, 8)]
        assert max(per_day) <= 40
    elif of.interview_in:  # there are several for this day, which differ in how long they take
        assert str(of.minutes) in of.title
    else:
        assert not re.search(r"\d", of.title)  # what is due takes its own time


def test_a_lesson_of_a_route_goes_on_at_the_step_that_was_reached():
    of = routes.routes()["interview-20"]
    name = of.items[0].link["lesson"]
    at = [
        routes.place(of, 1, Progress({name: kept}))[1].lesson_step for kept in (LessonState(3), LessonState(3, TODAY))
    ]
    assert at == [3, 1]


def test_a_spoken_question_is_done_until_it_is_due_again():
    of = RouteState(BEGAN, BEGAN)
    item = Item("Aloud", PAGES["practice"], {"tab": "aloud", "card": "why"}, 4, "Say it.")
    for due, done in (("2026-11-30", True), ("2026-11-29", False)):
        assert item.is_done(Progress(cards={"why": CardState(due, 1, 2.5, 1)}), of, TODAY) is done


def test_what_was_done_stays_done_where_a_card_is_due_again():
    of = routes.routes()["interview-60"]
    cards = [item.link["card"] for item in of.items if "card" in item.link]
    others = tuple(item.id for item in of.items if "card" not in item.link)
    kept = Progress(
        cards={card: CardState("2026-11-30", 1, 2.5, 1) for card in cards},
        routes={of.name: RouteState(BEGAN, BEGAN, others)},
    )  # fmt: skip
    assert len(cards) == 3 and of.left(kept, TODAY) == [] and len(of.left(kept, "2026-11-30")) == 3
    later = routes.with_done_items(kept, TODAY)
    assert of.left(later, "2026-12-05") == [] and of.done_on(later, "2026-12-05") == TODAY
    assert routes.with_done_items(later, "2026-12-05") == later
    half = Progress(cards=kept.cards, routes={of.name: RouteState(BEGAN, BEGAN)})
    state = noted(of, half, TODAY)
    assert len(state.done) == 3 and state.through == "" and of.done_on(half, TODAY) == ""


def test_one_thing_takes_as_long_in_all_routes():
    """What is due takes the time of its answers (3 minutes) and of what was missed (2); nothing, where nothing is."""
    taken: dict[tuple[str, str], set[int]] = {}
    for item in (each for of in routes.routes().values() for each in of.items if not each.comes_back):
        kind = next((name for name in ("lesson", "mistake", "card", "task") if name in item.link), "")
        if kind:
            taken.setdefault((kind, item.link[kind]), set()).add(item.minutes)
            if kind in ("mistake", "card"):
                taken.setdefault((kind, ""), set()).add(item.minutes)
    assert len(taken) > 15 and [name for name, minutes in taken.items() if len(minutes) > 1] == []
    due = ["swiglu", "why-root-d", "drill:wavelength", "mistake:rope_on_values"]
    back = [each for of in routes.routes().values() for each in of.items if each.comes_back]
    assert len(back) == 3 and {(each.minutes_with(due), each.minutes_with([])) for each in back} == {(10, 0)}


def test_a_lesson_has_one_name_in_all_routes():
    titles = {name: lesson.title for name, lesson in lessons.lessons()[0].items()}
    items = [item for each in routes.routes().values() for item in each.items if set(item.link) == {"lesson"}]
    assert len(items) > 10
    assert [
        (item.title, titles[item.link["lesson"]]) for item in items if item.title != titles[item.link["lesson"]]
    ] == []


def test_an_item_that_was_skipped_is_left_and_comes_after_those_that_were_not():
    of = route()
    items = {item.title: item.id for item in of.items}
    state = RouteState(BEGAN, BEGAN, (items["A look"],), skipped=(items["A mistake"], items["A look"]))
    progress = Progress({"one-head": LessonState(7, "2026-11-28")}, routes={"a-route": state})
    assert of.left(progress, TODAY) == [2, 3, 4] and of.skipped(progress, TODAY) == [2]
    assert [of.following(n, progress, TODAY) for n in (1, 2, 3, 4, 5)] == [3, 3, 4, 3, 3]
    assert of.opens(progress, TODAY) == 3
    rest = {name: items[name] for name in ("A mistake", "A task", "An interview")}
    ended = Progress(
        progress.lessons, routes={"a-route": RouteState(BEGAN, BEGAN, state.done, 1, "", (*rest.values(),))}
    )
    assert of.left(ended, TODAY) == of.skipped(ended, TODAY) == [2, 3, 4] and of.opens(ended, TODAY) == 2
    assert [of.following(n, ended, TODAY) for n in (2, 3, 4, 5)] == [3, 4, 0, 0]
    assert of.done_on(ended, TODAY) == ""


def test_another_run_asks_other_questions_and_mistakes_and_counts_nothing_of_the_one_before():
    written = WRITTEN.replace("&hunt=1\n", "&hunt=1\nLater runs: heads_joined_x, rope_on_values\n")
    with pytest.raises(LessonError, match="heads_joined_x"):
        route(written)
    of = route(
        written.replace("heads_joined_x", "groups_mixed_up").replace("tab=interview", "tab=interview&question_set=64")
    )
    runs = [of.in_run(n) for n in (1, 2, 3, 4)]
    assert runs[0].items == of.items
    mistakes = [each.items[1].link["mistake"] for each in runs]
    assert mistakes == ["tiled_kv_heads", "groups_mixed_up", "rope_on_values", "tiled_kv_heads"]
    seeds = [int(each.items[3].link["question_set"]) for each in runs]
    assert seeds[0] == 64 and len({*seeds}) == 4 and all(0 <= seed < 10**6 for seed in seeds)
    assert [[item.id for item in each.items] for each in runs] == [[item.id for item in of.items]] * 4
    before, second = "2026-11-28T20:00:00Z", RouteState(BEGAN, BEGAN, (), 2)
    kept = Progress(
        {"one-head": LessonState(7, TODAY)}, {"groups_mixed_up": MistakeState(True, before, before)},
        tasks={"gqa": TaskState(TODAY)}, mocks=({"at": before},), routes={"a-route": second},
    )  # fmt: skip
    assert runs[1].left(kept, TODAY) == [1, 2, 3, 4, 5]
    now = Progress(
        mistakes={"groups_mixed_up": MistakeState(False, BEGAN, BEGAN)}, mocks=({"at": BEGAN},), routes=kept.routes
    )
    assert runs[1].left(now, TODAY) == [1, 3, 5]


@pytest.mark.parametrize("of", routes.routes().values(), ids=routes.routes())
def test_the_mistakes_of_later_runs_are_no_others_of_the_same_route(of):
    named = [each for item in of.items if "mistake" in item.link for each in (item.link["mistake"], *item.later)]
    assert len(named) == len({*named})
