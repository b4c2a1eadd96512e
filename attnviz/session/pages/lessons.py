"""The Lessons page, and the lesson that is open beside any page."""

from dataclasses import dataclass

from attnviz.session.kinds import Number, Text, setting
from attnviz.session.page import Page

PAGE = Page(
    "lessons", "pages/9_lessons.py", "Lessons",
    "Guided tours of the pages in six to ten steps, with what to look at and this model's numbers.",
    tabs={"all": "All lessons", "workshop": "Workshop plan"},
    needs_text=False,
    purpose="Understand it",
)  # fmt: skip


@dataclass(frozen=True)
class LessonSettings:
    """Settings of the lesson, and of the route that leads through lessons and exercises."""

    lesson: str = setting("", Text(100))  # name of the current lesson
    lesson_step: int = setting(1, Number(1, 99))
    route: str = setting("", Text(100))  # name of the current route
    route_item: int = setting(1, Number(1, 99))
    route_run: int = setting(1, Number(1, 999))  # how often the route was begun, which its questions depend on
