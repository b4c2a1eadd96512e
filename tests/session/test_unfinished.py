"""What is begun and not finished, as a browser keeps it: what is read of any content, and how two tabs agree."""

import json
from dataclasses import asdict, replace

import pytest

from attnviz.session.progress import Progress, merge, parsed
from attnviz.session.unfinished import MAX_BYTES, Unfinished

NAMED = {
    "id": "7f", "turn": 1, "began": "2026-11-28T21:00:00Z", "of": "set", "edits": 2, "version": 1,
    "asked": ["k:1", "k:2"],
}  # fmt: skip
OTHERS = [
    {"id": ""}, {"id": 7}, {"id": "a b"}, {"turn": -1}, {"turn": True}, {"began": "today"}, {"of": "exam"},
    {"of": "interview"}, {"ended": "no"}, {"asked": "k:1"}, {"asked": ["k:1"] * 65}, {"asked": [3]}, {"check": "<b>"},
    {"given": ["1", "2", "3"]}, {"given": ["x" * 201, "2"]}, {"given": ["\ud800", "2"]}, {"given": ["1"]},
    {"given": ["1"], "stamps": [1, 2]}, {"given": ["1", "2"], "stamps": [2.5, 1.5], "spent": 3},
    {"given": ["1"], "stamps": [9.0], "spent": 3}, {"answered": True}, {"again": "k:3", "given": ["1", "2"]},
    {"spent": float("nan")}, {"spent": -1}, {"seconds": 60, "spent": 61}, {"seconds": 10**9}, {"link": {"a": 1}},
    {"link": []}, {"link": {"subject": "x" * 101}},
]  # fmt: skip


@pytest.mark.parametrize("change", OTHERS, ids=str)
def test_what_is_unfinished_is_left_out_if_it_cannot_be_read(change: dict) -> None:
    def read(entry: object) -> Progress:
        return parsed(json.dumps({"attnviz progress": 1, "unfinished": {"set": entry}}))[0]

    assert read(NAMED).unfinished["set"].asked == ("k:1", "k:2")
    assert read({**NAMED, **change}) == read(None) == read([NAMED]) == Progress()


def test_of_what_is_unfinished_in_another_version_only_that_it_was_begun_is_read() -> None:
    entry = {**NAMED, "version": 2, "asked": {"of another": "form"}}
    (read,) = parsed(json.dumps({"attnviz progress": 1, "unfinished": {"set": entry}}))[0].unfinished.values()
    assert read == Unfinished("7f", 1, "2026-11-28T21:00:00Z", "set", 2, version=2)


def test_what_was_ended_does_not_come_back_from_another_tab_and_a_new_one_does() -> None:
    begun = Unfinished("7f", 1, "2026-11-28T21:00:00Z", edits=2, asked=("k:1", "k:2"))
    other_tab = replace(begun, edits=9, given=("5",), stamps=(3.0,), spent=3.0)
    next_one = Unfinished("1a", 2, "2026-11-28T21:00:00Z", asked=("k:1",))
    one, two, ended, new = (Progress(unfinished={"set": each}) for each in (begun, other_tab, begun.closed(), next_one))
    assert merge(one, two) == merge(two, one) == two
    assert merge(two, ended) == merge(ended, two) == ended and not ended.unfinished["set"].asked
    assert merge(ended, new) == merge(new, two) == new
    early = Progress(unfinished={"set": replace(next_one, turn=0, began="2026-11-28T21:00:01Z")})
    assert merge(early, ended) == merge(ended, early) == early  # begun before its browser has said what it holds
    assert new.for_file() == Progress()  # a file of progress does not bring it back either


def test_the_longest_set_fits() -> None:
    n, kind = 50, "a" * 60
    longest = Unfinished(
        "7f3a" * 3, 1000, "2026-11-28T21:00:00Z", asked=(f"{kind}:999999",) * n, check="f" * 16, given=("9" * 200,) * n,
        stamps=tuple(1000.5 + i for i in range(n)), spent=2000.5, answered=True,
    )  # fmt: skip
    assert len(json.dumps(asdict(longest))) < MAX_BYTES and longest.is_consistent
