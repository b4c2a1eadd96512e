"""The tab Aloud without a browser: a card by its address, its points, a grade, what is due, the views it links to."""

import re
from datetime import UTC, date, datetime, timedelta
from typing import Any
from urllib.parse import parse_qsl

import pytest
from streamlit.testing.v1 import AppTest

from attnviz.compute import spoken
from attnviz.exercises import SPOKEN, CardState
from attnviz.figures.drawing import as_label
from attnviz.session.page import Element
from attnviz.session.pages import ELEMENTS, PAGES
from attnviz.session.progress import InterviewDay, Progress, merge
from tests.pages import PRACTICE, behind, linked, opened, sentences
from tests.pages import said as said_in_markdown
from tests.ui.test_lessons_pages import keys

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("no_links_to_pages")]

DECK = spoken.deck()
TODAY = datetime.now(UTC).date()  # AppTest names no time zone


def unescaped(markdown: str) -> str:
    return markdown.replace("\\", "")


def said(app: AppTest) -> str:
    return unescaped(said_in_markdown(app))


def press(app: AppTest, key: str) -> None:
    app.button(key=key).click().run()
    assert not app.exception, [each.value for each in app.exception]


def buttons(app: AppTest) -> set[str]:
    return {button.key for button in app.button}


def test_an_address_opens_a_card_whose_points_are_ticked_and_a_grade_asks_the_next() -> None:
    card = DECK["bytes-per-token"]
    app = opened(PRACTICE, tab="aloud", card=card.id, deck="cache")
    assert card.question in said(app) and "Cache · Basic · new" in said(app)
    assert not app.main.checkbox and "524,288" not in said(app) and "grade-2" not in buttons(app)
    press(app, "points")
    assert unescaped(app.main.checkbox[1].label).startswith("Llama 3.1 8B: 32 layers, 8 KV heads")
    assert app.main.checkbox[1].label.endswith("131,072 B in sixteen bits.")  # without markup, which is read aloud
    assert "points 2, 3 and 4: computed: bytes per token" in unescaped(behind(app))
    assert {box.help for box in app.main.checkbox} == {""} and not re.search("computed:|derivation", said(app))
    assert f"None of the {len(card.points)} points is ticked: Again?" in said(app)
    app.main.checkbox[0].check().run()
    app.main.checkbox[3].check().run()
    assert "is ticked: Again?" not in said(app)
    assert f"2 of {len(card.points)} points said" in said(app)
    assert "no factor of two, over 61 layers: 68.6 KiB" in said(app)  # the model answer, folded
    assert [unescaped(each.label) for each in app.expander if each.label.startswith("Follow")] == [
        "Follow-up: And with an eight-bit cache?", "Follow-up: Why is there no d_model in it?"
    ]  # fmt: skip
    assert "practice?tab=aloud&card=quantised-cache" in [each.proto.url for each in app.get("link_button")]
    labels = [app.button(key=f"grade-{i}").label for i in range(4)]
    assert labels == ["Again: today", "Hard: tomorrow", "Good: tomorrow", "Easy: in 4 days"]
    press(app, "grade-3")
    kept = app.session_state["progress"].cards
    assert kept == {card.id: CardState((TODAY + timedelta(days=4)).isoformat(), 4, 2.65, 1)}
    asked = linked(app)["card"]
    assert DECK[asked].subject == "cache" and asked != card.id and not app.main.checkbox
    app.query_params.update(card=card.id)
    app.run()
    assert "answered once, comes back in 4 days" in said(app)


def places(block: Any, path: tuple[int, ...] = ()) -> dict[str, tuple[int, ...]]:
    """Return where each expander stands, as its index in each block around it: there it is open or closed."""
    found = {}
    for i, child in getattr(block, "children", {}).items():
        if child.type == "expander":
            found[child.label] = (*path, i)
        found |= places(child, (*path, i))
    return found


def test_the_model_answer_that_is_open_stays_where_it_is_when_a_routes_card_is_graded() -> None:
    app = opened(PRACTICE, tab="aloud", card="gqa-same-flops", route="interview-20", route_item="3")
    press(app, "points")
    before = places(app.main)
    assert "A model answer of 90 seconds" in before
    press(app, "grade-2")
    assert app.success[0].value.startswith("Saved: comes back") and places(app.main) == before


def test_what_is_due_is_asked_first_and_nothing_may_be_due() -> None:
    states = {
        "why-root-d": CardState((TODAY - timedelta(days=2)).isoformat(), 3, 2.5, 2),
        "absorption": CardState(TODAY.isoformat(), 1, 2.5, 1),
        "board-gqa": CardState((TODAY + timedelta(days=1)).isoformat(), 1, 2.5, 1),
    }
    app = opened(PRACTICE, {"progress": Progress(cards=states)}, tab="aloud")
    assert DECK["why-root-d"].question in said(app) and "due today" in said(app)
    assert "Due today (2)" in app.selectbox(key="control-deck").options
    app.selectbox(key="control-deck").set_value("due").run()
    press(app, "points")
    press(app, "grade-2")
    assert DECK["absorption"].question in said(app)
    press(app, "points")
    assert [each.value for each in app.info] == [] and "points" not in buttons(app)
    press(app, "grade-0")  # it stays due, and is the only one
    assert DECK["absorption"].question in said(app)
    assert [each.value for each in app.info] == ["Noted: it comes back once more now."]
    press(app, "points")
    press(app, "grade-2")
    assert "No question to answer aloud is due today" in said(app) and buttons(app) & {"points", "next-card"} == set()
    press(app, "to-due")
    assert "Nothing is due today. The next 2 are due tomorrow." in said(app) and linked(app) == {"tab": "due"}
    assert app.session_state["progress"].cards["why-root-d"].interval_days == 8


def test_another_question_goes_through_a_subject_and_an_unknown_card_is_said() -> None:
    app = opened(PRACTICE, tab="aloud", deck="wrong-answers")
    seen = []
    for _ in range(7):
        seen.append(next(card.id for card in DECK.values() if card.question in said(app)))
        press(app, "next-card")
    assert len({*seen}) == 7 and {DECK[id].subject for id in seen} == {"wrong-answers"}
    app.selectbox(key="control-deck").set_value("board").run()
    assert "At the board · " in said(app) and "card" not in linked(app)
    app = opened(PRACTICE, tab="aloud", card="no-such-card")
    assert "card" in sentences(app) and "not “no-such-card”" in sentences(app)


@pytest.mark.parametrize("subject", SPOKEN)
def test_all_that_a_card_says_is_drawn(subject: str) -> None:
    card = next(card for card in DECK.values() if card.subject == subject)
    app = opened(PRACTICE, tab="aloud", card=card.id)
    press(app, "points")
    text = "\n".join([said(app), *(unescaped(box.label) for box in app.main.checkbox)])
    assert len(app.main.checkbox) == len(card.points) and spoken.filled(card.answer, card)[:60] in said(app)
    assert "{" not in text and "–" not in text.replace(" – ", "")


def _unusual() -> dict[str, Element]:
    """Return the elements that not every model has, by the address of the first card that links to each."""
    found: dict[str, Element] = {}
    for card in DECK.values():
        element = ELEMENTS.get(card.target)
        if element and not element.usual and element not in found.values():
            found[card.link] = element
    return found


@pytest.mark.parametrize("link", _unusual())
def test_the_view_of_a_card_has_what_not_every_model_has(link: str) -> None:
    """All other elements are on their pages with any settings: tests/ui/test_lessons_pages.py."""
    page, _, query = link.partition("?")
    assert _unusual()[link].key in keys(opened(PAGES[page].file, **dict(parse_qsl(query))))


def test_a_mixed_interview_is_spoken_computed_ticked_kept_and_compared() -> None:
    last = {"minutes": 15, "right": 1, "asked": 8, "used": 600, "at": "2026-11-20T08:00:00Z"}
    app = opened(PRACTICE, {"progress": Progress(mocks=(last,))}, tab="interview", interview="15", question_set="11")
    assert "8 questions in 15 minutes" in said(app) and "2 to answer aloud, 3 to compute, 1 on reading code" in said(
        app
    )
    press(app, "start-interview")
    attempt = app.session_state["practice attempt"]
    assert attempt.plan[0] == "spoken" and attempt.questions[0].text in said(app)
    next(button for button in app.button if button.label == "I have said it").click().run()
    for _ in range(7):
        next(button for button in app.button if button.label == "I do not know").click().run()
        assert not app.exception and not app.error
    assert re.search(r"## 0 of 8 right so far in 0:0\d, 1 answer aloud not ticked", said(app))
    assert "Last time, on 2026-11-20: 1 of 8 right in 10:00." in said(app)  # compared once it is ticked
    assert app.table[0].value["Right"].tolist()[0] == "0 of 2, 1 to tick"
    assert app.session_state["progress"].mocks[0]["unticked"] == 1
    app.checkbox(key="none-0").check().run()
    assert re.search(r"## 0 of 8 right in 0:0\d\n", said(app)) and "10:00; 1 fewer now" in said(app)
    assert app.table[0].value["Right"].tolist()[0] == "0 of 2" and app.checkbox(key="none-0").value
    assert [each["right"] for each in app.session_state["progress"].mocks] == [0, 1]  # kept before anything is pressed
    assert all(f"- {point}" in said(app) for point in attempt.questions[5].answer.points)  # not known: no boxes
    points = [box for box in app.main.checkbox if box.key.startswith("said-0-")]
    assert len(points) == len(attempt.questions[0].answer.points)
    for key in [box.key for box in points[:4]]:
        app.checkbox(key=key).check().run()
    assert not app.checkbox(key="none-0").value
    assert "1 of 8 right in" in said(app) and "as many now" in said(app) and "4 of 5 points ticked" in said(app)
    assert [each["right"] for each in app.session_state["progress"].mocks] == [1, 1]  # with the ticks, and once
    box = app.expander[-8]
    assert box.label.startswith(":material/record_voice_over: 1. ") and box.proto.expanded
    assert {"keep-card", "keep-card-below"} <= buttons(app)
    press(app, "keep-card-below")
    kept = app.session_state["progress"]
    assert len(kept.mocks) == 2 and kept.mocks[0]["forms"]["spoken"][:2] == [1, 2]
    assert kept.cards[attempt.questions[0].kind].interval_days == 1
    assert {id: card.due for id, card in kept.cards.items()}[attempt.questions[5].kind] == TODAY.isoformat()
    assert "8 questions in 15 minutes" in said(app)
    assert app.success[0].value.startswith("Score card kept in this browser: 1 of 8 right in ")
    assert "Past mock interviews (2)" in [each.label for each in app.expander]
    assert (
        app.table[0].value["Right"].tolist() == ["1 of 8", "1 of 8"] and app.table[0].value["Time"].iloc[1] == "10:00"
    )
    press(app, "start-interview")
    assert not app.success
    press(app, "end-now")
    assert len(app.session_state["progress"].mocks) == 3
    another_tab = app.session_state["progress"]
    press(app, "leave")  # closed without keeping
    assert app.session_state["progress"].mocks == kept.mocks
    assert merge(app.session_state["progress"], another_tab).mocks == kept.mocks


def test_where_the_browser_stores_nothing_no_sentence_says_that_it_keeps(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("attnviz.ui.progress.stays", lambda: False)
    app = opened(PRACTICE, tab="aloud", card="bytes-per-token")
    press(app, "points")
    assert said(app).count("kept until this page is closed or loaded again") == 1  # the grades
    assert "Kept until this page is closed or loaded again, not on the server." in said(app)  # the interview's day
    assert "in this browser" not in said(app)
    app = opened(PRACTICE, tab="interview", interview="15")
    press(app, "start-interview")
    press(app, "end-now")
    assert "This card is kept until this page is closed" in said(app) and "in this browser" not in said(app)
    press(app, "keep-card")
    assert app.success[0].value.startswith("Score card kept until this page is closed or loaded again: 0 of ")


def test_the_label_of_a_point_has_a_backslash_only_before_markup() -> None:
    points = [spoken.filled(point.text, card) for card in DECK.values() for point in card.points]
    plain = [text for text in points if as_label(text) == text]
    assert len(plain) > 0.8 * len(points)
    assert as_label("In d_model, 2 × 3.5. (A: b)") == "In d_model, 2 × 3.5. (A: b)"
    assert as_label("a*b $c$ [d](e) _f_ :red[g]") == r"a\*b \$c\$ \[d](e) \_f\_ \:red\[g]"


def test_on_the_day_of_the_interview_nothing_is_said_to_come_back_in_time() -> None:
    day = InterviewDay(TODAY.isoformat(), "2026-11-28T08:00:00Z")
    app = opened(PRACTICE, {"progress": Progress(interview=day)}, tab="aloud", card="bytes-per-token")
    press(app, "points")
    assert [app.button(key=f"grade-{n}").label for n in range(4)] == ["Again: later today", "Hard", "Good", "Easy"]
    assert "Your interview is today: Again asks this question once more today, the others only after it." in said(app)
    assert "in time for it" not in said(app)


def test_grades_are_offered_with_the_days_that_they_differ_in() -> None:
    now = date(2026, 11, 29)
    for days, interview, labels, sentence in (
        ([0, 1, 3, 8], "", ["today", "tomorrow", "in 3 days", "in 8 days"], "The question comes back after that time."),
        (
            [0, 1, 1, 1],
            "2026-12-01",
            ["today", "", "", ""],
            "comes back tomorrow, in time for your interview. After that",
        ),
        (
            [0, 1, 1, 1],
            "2026-11-30",
            ["today", "", "", ""],
            "comes back tomorrow, the day of your interview. After that",
        ),
        ([0, 1, 2, 2], "2026-12-02", ["today", "tomorrow", "in 2 days", "in 2 days"], "is on 2 December: what you do"),
        ([0, 1, 2, 9], "2026-11-29", ["later today", "", "", ""], "the others only after it."),
    ):
        offered = spoken.offered(days, interview, now)
        assert offered[0] == labels and sentence in offered[1]
