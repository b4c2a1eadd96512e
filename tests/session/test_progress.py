"""Progress: its JSON, what is read of other JSON, and merging."""

import json
from dataclasses import asdict, replace
from datetime import date, timedelta

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from attnviz.exercises import CardState
from attnviz.session.progress import (
    MAX_BYTES,
    MAX_DRAFT,
    MAX_DROPPED,
    MAX_MOCKS,
    Draft,
    InterviewDay,
    LessonState,
    Missed,
    MistakeState,
    Progress,
    RouteState,
    TaskState,
    merge,
    parsed,
)
from attnviz.session.unfinished import Unfinished

FULL = Progress(
    {"one-head": LessonState(7, "2026-11-28"), "mla": LessonState(3)},
    {"mask_after_softmax": MistakeState(True, "2026-11-28T20:11:13Z", "2026-11-28T20:12:11Z")},
    {"weight": (5, 7)},
    Missed(7, (("weight:23", 0, 10),)),
    {"why-gqa": CardState("2026-11-29", 1, 2.5, 1)},
    {"gqa": TaskState("2026-11-28", "tiled_kv_heads", "2026-11-28T19:03:00Z")},
    ({"at": "2026-11-28T21:00:00Z", "right": 7, "asked": 11},),
    {"60": RouteState("2026-11-28T20:00:00Z", "2026-11-28T21:00:00Z", ("mock",))},
    InterviewDay("2026-12-01", "2026-11-28T21:00:00Z"),
    {"7f": "2026-11-28T22:00:00Z"},
    {
        "set": Unfinished(
            "7f3a", 2, "2026-11-28T21:00:00Z", "set", 3, link={"subject": "cost", "questions": "3"},
            asked=("weight:23", "shape:17", "weight:5"), check="00ff", given=("1.5 GiB", ""), stamps=(31.5, 40.0),
            seconds=600, spent=47.5, answered=True,
        ),
        "interview": Unfinished("2b", 1, "2026-11-28T20:00:00Z", "interview", 5, ended=True),
    },
    Draft("gqa", "def attend(q, k):\n    return q @ k.mT  # 查询\n", "2026-11-28T22:00:00Z"),
)  # fmt: skip

KEYS = [*asdict(Unfinished("")), "a", "step", "done", "at", "due", "waiting", "answered", "seen", "ease", "set"]
NAMES = st.sampled_from(["a", "b", "c"])
DAYS = st.sampled_from(["", "2026-11-28", "2026-11-29"])
TIMES = st.sampled_from(["2026-11-28T20:00:00Z", "2026-11-28T20:00:01Z", "2026-11-29T07:00:00Z"])
COUNTS = st.integers(0, 13)
ITEMS = st.lists(NAMES, unique=True).map(sorted).map(tuple)
WAITING = st.tuples(NAMES, COUNTS, COUNTS)


def written(mock: dict) -> str:
    return json.dumps(mock, sort_keys=True)


UNFINISHED = st.one_of(
    st.builds(Unfinished, NAMES, COUNTS, TIMES, st.sampled_from(["set", "missed"]), COUNTS, ended=st.just(True)),
    st.builds(Unfinished, NAMES, COUNTS, TIMES, edits=COUNTS, asked=st.just(("k:1", "k:2")), 
              given=st.sampled_from([(), ("5", "7")])),
)  # fmt: skip
PROGRESS = st.builds(
    Progress,
    st.dictionaries(NAMES, st.builds(LessonState, COUNTS, DAYS)),
    st.dictionaries(NAMES, st.builds(MistakeState, st.booleans(), TIMES, TIMES | st.just(""))),
    st.dictionaries(NAMES, st.tuples(COUNTS, COUNTS).map(lambda pair: (min(pair), max(pair)))),
    st.builds(Missed, COUNTS, st.lists(WAITING, max_size=3, unique_by=lambda each: each[0]).map(tuple)),
    st.dictionaries(NAMES, st.builds(CardState, DAYS, COUNTS, st.sampled_from([1.3, 2.5]), COUNTS)),
    st.dictionaries(NAMES, st.builds(TaskState, DAYS, NAMES, TIMES)),
    st.lists(st.fixed_dictionaries({"at": TIMES, "right": COUNTS}), max_size=3, unique_by=written)
    .map(lambda mocks: tuple(sorted(mocks, key=lambda each: (each["at"], written(each)), reverse=True))),
    st.dictionaries(NAMES, st.builds(RouteState, TIMES, TIMES, ITEMS, st.integers(1, 2), DAYS, ITEMS)),
    st.builds(InterviewDay, DAYS, TIMES),
    st.dictionaries(NAMES, TIMES),
    st.fixed_dictionaries({}, optional={"set": UNFINISHED}),
    st.builds(Draft, NAMES, st.sampled_from(["", "x = 1", "y = 2"]), TIMES),
)  # fmt: skip


@settings(max_examples=100, deadline=None)
@given(PROGRESS, PROGRESS, PROGRESS)
def test_tabs_that_merge_each_others_progress_agree(a: Progress, b: Progress, c: Progress) -> None:
    assert merge(a, b).json() == merge(b, a).json()
    assert merge(a, merge(b, c)).json() == merge(merge(a, b), c).json()
    assert merge(a, a).json() == merge(a, Progress()).json() == a.json()
    assert parsed(merge(a, b).json()) == (merge(a, b), "")


@pytest.mark.parametrize("code", ["x" * (MAX_DRAFT - 1), "查" * (MAX_DRAFT // 6 + 1), 3, "\ud800", ["x"]])
def test_code_that_is_too_long_or_none_is_not_kept_and_nothing_else_is_lost(code: object) -> None:
    held = json.loads(FULL.json()) | {"draft": {"task": "gqa", "code": code, "at": "2026-11-28T22:00:00Z"}}
    assert parsed(json.dumps(held)) == (replace(FULL, draft=Draft()), "")
    if isinstance(code, str) and len(code) > 1:
        assert Draft.of("gqa", code, "").code == ""
    longest = "x" * (MAX_DRAFT - 2)  # and two quotation marks
    assert Draft.of("gqa", longest, "").code == longest and FULL.for_file().draft == Draft()


def test_the_later_state_of_a_thing_stays_and_what_was_done_stays_done() -> None:
    before = Progress(
        {"one-head": LessonState(7, "2026-11-28")}, {"m": MistakeState(False, "2026-11-28T20:00:00Z")}, {"k": (2, 3)},
        Missed(3, (("k:1", 0, 6),)), {"c": CardState("2026-12-01", 3, 2.5, 2)},
        {"gqa": TaskState("2026-11-28", "", "2026-11-28T20:00:00Z")},
    )  # fmt: skip
    after = Progress(
        {"one-head": LessonState(2)}, {"m": MistakeState(True, "2026-11-29T07:00:00Z")}, {"k": (4, 5)},
        Missed(5, ()), {"c": CardState("2026-11-29", 0, 2.3, 3)},
        {"gqa": TaskState("", "tiled_kv_heads", "2026-11-29T07:00:00Z")},
    )  # fmt: skip
    assert merge(before, after) == Progress(
        {"one-head": LessonState(7, "2026-11-28")}, after.mistakes, {"k": (4, 5)}, Missed(5, ()), after.cards,
        {"gqa": TaskState("2026-11-28", "tiled_kv_heads", "2026-11-29T07:00:00Z")},
    )  # fmt: skip


def test_of_one_mock_interview_the_card_with_the_latest_ticks_stays() -> None:
    before = {"at": "2026-11-28T20:00:00Z", "id": "7f", "right": 5}
    ticked, unticked = before | {"right": 7, "edits": 1}, before | {"right": 6, "edits": 2}
    other = {"at": "2026-11-27T20:00:00Z", "right": 5}
    one, two = Progress(mocks=(ticked,)), Progress(mocks=(before, other))
    assert merge(one, two).mocks == merge(two, one).mocks == (ticked, other)
    assert merge(merge(one, two), Progress(mocks=(unticked,))).mocks == (unticked, other)


def test_a_mock_interview_that_was_removed_stays_removed_whatever_another_tab_has() -> None:
    kept = Progress(mocks=({"at": "2026-11-28T20:00:00Z", "id": "7f", "right": 5},))
    removed = Progress(dropped={"7f": "2026-11-28T20:01:00Z"})
    ticked_elsewhere = Progress(mocks=({"at": "2026-11-28T20:00:00Z", "id": "7f", "right": 6, "edits": 99},))
    assert merge(kept, removed).mocks == merge(removed, kept).mocks == ()
    assert merge(merge(kept, removed), ticked_elsewhere).mocks == ()


def test_of_removed_mock_interviews_the_latest_are_known() -> None:
    times = {f"m{n}": f"2026-11-{1 + n // 60:02}T20:{n % 60:02}:00Z" for n in range(MAX_DROPPED + 7)}
    read, problem = parsed(Progress(dropped=times).json())
    assert set(read.dropped) == {f"m{n}" for n in range(7, MAX_DROPPED + 7)} and problem == ""
    assert merge(read, Progress(dropped={"m0": times["m0"]})) == read


def test_of_mock_interviews_the_newest_stay() -> None:
    mocks = [{"at": f"2026-11-{day:02}T20:00:00Z", "right": day} for day in range(1, 18)]
    merged = merge(Progress(mocks=tuple(mocks[:9])), Progress(mocks=tuple(mocks[5:])))
    assert [each["right"] for each in merged.mocks] == [17, 16, 15, 14, 13, 12, 11, 10, 9, 8]
    assert len(merged.mocks) == MAX_MOCKS


def test_a_route_begun_again_starts_without_what_was_done_before() -> None:
    first = RouteState("2026-11-28T20:00:00Z", "2026-11-28T21:00:00Z", ("mock", "drills"))
    again = RouteState("2026-11-29T20:00:00Z", "2026-11-29T20:00:00Z", (), 2)
    assert first.merged(again) == again.merged(first) == again
    other_tab = replace(again, done=("drills",), at="2026-11-29T20:20:00Z")
    assert again.merged(other_tab) == other_tab


def test_a_route_begun_before_the_browser_has_said_how_far_it_is_goes_on() -> None:
    kept = RouteState("2026-11-28T20:00:00Z", "2026-11-28T21:00:00Z", ("drills",))
    too_early = RouteState("2026-11-29T20:00:00Z", "2026-11-29T20:00:00Z")
    assert too_early.merged(kept) == RouteState("2026-11-28T20:00:00Z", "2026-11-29T20:00:00Z", ("drills",))


def test_what_is_written_is_read() -> None:
    assert parsed(FULL.json()) == (FULL, "")
    assert parsed(Progress().json()) == (Progress(), "")
    assert Progress().is_empty and not FULL.is_empty


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "not valid JSON"),
        ("{", "not valid JSON"),
        ("[" * 20_000, "not valid JSON"),
        ("null", "not progress"),
        ('{"theme": "dark"}', "not progress"),
        ('{"attnviz progress": 2}', "not progress"),
        ('{"attnviz progress": 1, "lessons": "' + "é" * (MAX_BYTES // 2) + '"}', "200,000 bytes"),
    ],
)
def test_broken_and_foreign_json_gives_nothing_and_a_reason(text: str, problem: str) -> None:
    read, reason = parsed(text)
    assert read == Progress() and problem in reason


@settings(max_examples=150, deadline=None)
@given(
    st.dictionaries(
        st.sampled_from([*json.loads(FULL.json())]),
        st.recursive(
            st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
            lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(KEYS), inner, max_size=4),
        ),
    )
)  # fmt: skip
def test_entries_that_cannot_be_read_are_left_out(record: dict) -> None:
    read, _ = parsed(json.dumps({**record, "attnviz progress": 1}))
    assert parsed(read.json())[0].json() == read.json()


def test_single_entries_that_cannot_be_read_are_left_out() -> None:
    record = json.loads(FULL.json())
    record["lessons"]["../etc"] = {"step": 2}
    record["lessons"]["two"] = {"step": "2"}
    record["cards"]["late"] = {"due": "tomorrow", "interval_days": 1, "ease": 2.5, "seen": 1}
    record["cards"]["less"] = {"due": "2026-11-29"}
    record["mistakes"]["long"] = {"found": True, "at": "0001-01-01T00:00:00+23:00"}
    record["drills"]["more"] = [3, 2]
    record["mocks"].append({"at": "2026-11-28T21:00:00Z", "text": "x" * 5_000})
    record["of another version"] = [1]
    assert parsed(json.dumps(record)) == (FULL, "")


def test_a_file_saved_by_the_practice_page_before_is_read() -> None:
    old = {"attnviz practice": 1, "counts": {"weight": [2, 3], "shape": [0, 2]}, "missed": [["shape:17", 1, 13]]}
    read, problem = parsed(json.dumps(old))
    assert not problem
    assert read == Progress(drills={"weight": (2, 3), "shape": (0, 2)}, missed=Missed(5, (("shape:17", 1, 13),)))


def test_cards_are_due_from_their_day_on() -> None:
    cards = {id: CardState(f"2026-{day}", 1, 2.5, 1) for id, day in (("b", "11-29"), ("a", "11-28"), ("c", "11-30"))}
    assert Progress(cards=cards).due("2026-11-29") == ["a", "b"]


@pytest.mark.parametrize(
    ("answered", "interval", "interview", "back"),
    [
        ("2026-11-28", 1, "2026-12-01", "2026-11-29"),  # due earlier anyway
        ("2026-11-28", 8, "2026-12-01", "2026-11-30"),  # the day before
        ("2026-11-30", 4, "2026-12-01", "2026-12-01"),  # answered the day before: on the day itself
        ("2026-12-01", 4, "2026-12-01", "2026-12-05"),  # answered on the day: as without an interview
        ("2026-11-28", 21, "2026-12-01", "2026-12-19"),  # solid
        ("2026-11-28", 8, "", "2026-12-06"),
    ],
)
def test_what_is_not_solid_comes_back_before_an_interview(answered, interval, interview, back):
    due = (date.fromisoformat(answered) + timedelta(days=interval)).isoformat()
    card = CardState(due, interval, 2.5, 3)
    assert card.comes_back(interview) == back
    kept = Progress(cards={"c": card}, interview=InterviewDay(interview, "2026-11-28T21:00:00Z"))
    assert kept.coming(answered)["c"].due == back and kept.due(back) == ["c"]
    after = "2026-12-02"  # the interview is past and forgotten
    assert kept.coming(after) == {"c": card} and kept.interview_on(after) == ""
