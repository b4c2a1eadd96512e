"""A route does not ask the same question twice: sets and interviews ask something else than the items before them."""

import pytest

from attnviz.compute import interview, lessons, practice, routes
from attnviz.compute.asked import asked_before
from attnviz.practice.drills import KINDS, kinds_of, question_set
from attnviz.practice.drills.sets import Limits
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
    assert (len(asked) > 3 or of.name == "interview-today") and sorted(asked) == sorted({*asked})


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
    assert {*half}.isdisjoint(question.kind for question in question_set("cost", 2, 5, seed, Limits(frozenset(half))))
    but_two = question_set("cost", 2, 5, seed, Limits(frozenset(kinds[2:])))
    assert but_two == question_set("cost", 2, 5, seed)


LESSONS = list(lessons.lessons()[0])
SETS_OF_LESSONS = [
    (name, n) for name, each in lessons.lessons()[0].items() for n, step in enumerate(each.steps, 1)
    if step.page.path == "practice" and step.page.open_tab(step.link.get("tab", "")) == "drills"
]  # fmt: skip
SETS_OF_ROUTES = [
    (name, n) for name, of in {**routes.routes(), routes.WORKSHOP: routes.workshop()}.items()
    for n, item in enumerate(of.items, 1)
    if item.page.path == "practice" and item.page.open_tab(item.opened.tab) == "drills"
]  # fmt: skip


def explained(asked, names) -> list[bool]:
    """Whether one of these lessons explains what each question asks."""
    return [bool({*names}.intersection(KINDS[question.kind].lessons)) for question in asked]


@pytest.mark.parametrize("name, number", SETS_OF_LESSONS)
def test_the_set_of_a_lesson_begins_with_what_it_explains_and_asks_nothing_that_comes_later(name, number):
    s = lessons.lesson(name).settings(number)
    asked = practice.set_of(s)
    own = explained(asked, [name])
    assert all(explained(asked, LESSONS[: LESSONS.index(name) + 1])) and own[0]
    assert own == sorted(own, reverse=True) and len({question.kind for question in asked}) == len(asked) == s.questions


@pytest.mark.parametrize("name, number", SETS_OF_ROUTES)
def test_the_set_of_a_route_asks_what_its_lessons_have_explained(name, number):
    of = routes.workshop() if name == routes.WORKSHOP else routes.route(name)
    before = [item.opened.lesson for item in of.items[: number - 1] if item.opened.lesson]
    s = of.item(number).opened if name == routes.WORKSHOP else routes.place(of, number, Progress())[1]
    asked = practice.set_of(s)
    assert all(explained(asked, before)), [question.kind for question in asked]
    just = [item.opened.lesson for item in of.items[: number - 1] if item.day == of.item(number).day]
    on_subject = {lesson for kind in kinds_of(s.subject, s.level) for lesson in kind.lessons}
    if on_subject.intersection(just):
        assert explained(asked[:1], just) == [True]


def test_outside_lessons_and_in_a_lesson_that_explains_no_kind_a_set_asks_any():
    link = {"subject": "cost", "questions": 12, "question_set": 3}
    plain, own = Settings(**link), Settings(**link, lesson="paged", lesson_step=2)
    assert practice.set_of(plain) == practice.set_of(own) == tuple(question_set("cost", 2, 12, 3))
    assert not all(explained(practice.set_of(plain), LESSONS[:5]))


def test_each_lesson_that_a_kind_names_exists_and_each_lesson_is_asked_about():
    named = {name for kind in KINDS.values() for name in kind.lessons}
    assert named == {*LESSONS}


def test_a_set_repeats_kinds_rather_than_ask_what_no_lesson_explained():
    few = question_set("cost", 2, 5, 1, Limits(lessons=frozenset(["mla"])))
    assert {question.kind for question in few} == {"mla_against_gqa"} and len({question.text for question in few}) > 1
    assert question_set("rope", 1, 4, 1, Limits(lessons=frozenset(["mla"]))) == question_set("rope", 1, 4, 1)
