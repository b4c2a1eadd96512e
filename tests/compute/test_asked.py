"""A route does not ask the same question twice: sets and interviews ask something else than the items before them."""

import pytest

from attnviz.compute import interview, lessons, practice, routes
from attnviz.compute.asked import asked_before
from attnviz.practice.drills import kinds_of, question_set
from attnviz.session.progress import Progress
from attnviz.session.settings import Settings


def asked_by(of, number: int) -> list[str]:
    """What a person is asked in one item: the questions themselves, drawn as the page draws them."""
    page, s = routes.place(of, number, Progress())
    item = of.item(number)
    if lesson := lessons.lesson(s.lesson):
        links = [step.link for step in lesson.steps if step.page.path == "mistakes"]
        sets = [lesson.settings(n) for n, step in enumerate(lesson.steps, 1) if "questions" in step.link]
        drills = [question.kind for one in sets for question in practice.set_of(one)]
        return [*(f"mistake_{link['mistake']}" for link in links), *drills]
    if "mistake" in item.link:
        return [f"mistake_{s.mistake}"]
    if "card" in item.link:
        return [item.link["card"]]
    if item.link.get("tab") == "interview":
        return [question.kind for question in interview.begin(s, 0.0).questions]
    return [question.kind for question in practice.set_of(s)] if "questions" in item.link else []


@pytest.mark.parametrize("of", routes.routes().values(), ids=routes.routes())
def test_no_question_of_a_route_comes_twice(of):
    asked = [kind for number in range(1, len(of.items) + 1) for kind in asked_by(of, number)]
    assert len(asked) > 3 and sorted(asked) == sorted({*asked})


def test_the_same_link_outside_a_route_asks_as_before():
    of = routes.routes()["interview-60"]
    link = {"tab": "interview", "interview": "15", "question_set": "64"}
    s = Settings(tab="interview", interview="15", question_set=64)
    assert of.item(9).link == link and asked_before(s) == frozenset()
    assert interview.begin(s, 0.0).questions[0].kind == "rope-distance"  # which the item before the interview asks
    assert "rope-distance" in asked_before(Settings(route="interview-60", route_item=9))


@pytest.mark.parametrize("seed", [2, 3, 5])
def test_a_set_leaves_kinds_out_where_enough_others_are_left(seed):
    kinds = [kind.name for kind in kinds_of("cost", 2)]
    half = kinds[::2]
    assert {*half}.isdisjoint(question.kind for question in question_set("cost", 2, 5, seed, half))
    but_two = question_set("cost", 2, 5, seed, kinds[2:])
    assert but_two == question_set("cost", 2, 5, seed)
