"""The plan of a workshop: its times, all steps of its lessons with their addresses, and all answers."""

from urllib.parse import parse_qsl

from attnviz.compute import lessons, workshop
from attnviz.figures.drawing import escaped
from attnviz.mistakes import all_mistakes
from attnviz.practice.drills import question_set
from attnviz.session.lesson import FOLDER
from attnviz.session.pages import PAGES
from attnviz.session.settings import Settings


def test_the_workshop_takes_90_minutes_and_its_addresses_open_without_naming_a_mistake():
    plan = workshop.plan()
    assert plan.minutes == sum(item.minutes for item in plan.items) == 90
    assert plan.starts()[-1] + plan.items[-1].minutes == 90
    for item in plan.items:
        for step in workshop.steps(item):
            path, _, query = step.address.partition("?")
            assert Settings.from_link(dict(parse_qsl(query)), PAGES[path])[1] == []
            assert not any(name in step.address for name in all_mistakes())


def test_it_has_each_step_of_a_lesson_with_its_numbers_and_each_answer():
    (item,) = [item for item in workshop.plan().items if item.link.get("lesson") == "shared-kv-heads"]
    lesson, steps = lessons.lesson("shared-kv-heads"), workshop.steps(item)
    assert [step.address for step in steps] == [
        f"?lesson=shared-kv-heads&lesson_step={n}" for n in range(1, len(lesson.steps) + 1)
    ]
    assert [step.title.partition(". ")[2] for step in steps] == [step.title for step in lesson.steps]
    assert "GQA-4: 8 query heads read 4 KV heads, so 2 query heads share each" in steps[1].text
    assert sum(len(step.asked) for step in steps) == sum(bool(step.question) for step in lesson.steps)
    assert "{" not in "".join(f"{step.text}{step.asked}" for step in steps)


def test_the_answers_of_a_mistake_and_of_a_set_are_theirs():
    found = {item.title: item for item in workshop.plan().items}
    ((_, answer),) = workshop.steps(found["Find the mistake: grouping"])[0].asked
    mistake = all_mistakes()["groups_mixed_up"]
    assert answer.startswith(f"{mistake.answers[mistake.answer]}. {mistake.title}")
    asked = workshop.steps(found["Four questions together"])[0].asked
    questions = question_set("cost", 2, 4, 398)
    assert [question for question, _ in asked] == [escaped(each.text) for each in questions]
    assert all(
        answer.startswith(escaped(each.answer.shown())) for (_, answer), each in zip(asked, questions, strict=True)
    )


def test_a_lecture_of_ones_own_is_planned_from_its_order(tmp_path, monkeypatch):
    (tmp_path / "order.txt").write_text("mla\none-head\n")
    monkeypatch.setenv(FOLDER, str(tmp_path))
    plan = workshop.plan()
    assert [item.link["lesson"] for item in plan.items] == ["mla", "one-head"]
    assert plan.minutes == sum(lessons.lesson(name).minutes for name in ("mla", "one-head"))
    assert len(workshop.steps(plan.items[1])) == len(lessons.lesson("one-head").steps)
