"""Sets of questions, their score card, and missed questions that come back."""

from collections import Counter
from itertools import pairwise

import numpy as np
import pytest

from attnviz.exercises import SUBJECTS
from attnviz.practice.drills import (
    KINDS,
    LEVELS,
    Progress,
    kinds_of,
    make,
    question_set,
    score_card,
)
from attnviz.practice.drills.sets import GAPS, Missed


def test_a_set_is_reproducible_and_covers_the_subjects():
    one, same, other = (question_set("", 3, 12, seed) for seed in (5, 5, 6))
    assert one == same != other
    assert [sum(q.subject == s for q in one) for s in SUBJECTS] == [2] * 6
    assert len({q.kind for q in one}) == 12
    alone = question_set("rope", 1, 9, 5)
    assert len(alone) == 9 and {(q.subject, q.level) for q in alone} == {("rope", 1)}


@pytest.mark.parametrize("subject", ["heads", "cost", "rope", "decoding", "masks"])
def test_a_set_of_ten_asks_nothing_twice_where_a_kind_comes_again(subject):
    n_again = 0
    for seed in range(8):
        asked = question_set(subject, 1, 10, seed)
        assert len({(question.text, question.code, question.maps) for question in asked}) == 10
        n_again += 10 - len({question.kind for question in asked})
    assert n_again > 8


def test_the_score_card_counts_by_subject():
    questions = question_set("", 3, 12, 5)
    rows = score_card(questions, [q.subject != "rope" for q in questions])
    assert {row.subject: (row.right, row.asked) for row in rows} == {s: (0 if s == "rope" else 2, 2) for s in SUBJECTS}
    assert score_card([], []) == []


def test_missed_questions_repeat_at_growing_gaps_until_answered_correctly_three_times():
    missed, *others = question_set("heads", 1, 60, 5)
    others = [each for each in others if each.kind != missed.kind]
    progress, came, asked = Progress().after(missed, False), [], []
    for i, other in enumerate(others):
        for due in progress.due():
            came.append(i)
            asked.append(due)
            progress = progress.after(due, len(came) != 2)  # wrong again the second time
        progress = progress.after(other, True)
    assert asked[0] == missed and {each.kind for each in asked} == {missed.kind}
    seeds = [each.seed for each in asked]  # the same again after a wrong answer, other numbers after a right one
    assert seeds[1] == seeds[2] and len(set(seeds)) == len(seeds) - 1
    first, second, third = GAPS
    assert came == [n for n in np.cumsum([first, second, first, second, third]).tolist() if n < len(others)]
    assert len(came) >= 4 and progress.counts[missed.kind][1] >= len(came)
    assert Progress.of(progress.counts, progress.waiting) == progress
    assert Progress().after(missed, True).missed == ()


def test_missed_questions_can_be_repeated_before_they_are_due():
    first, second = question_set("heads", 1, 2, 5)
    progress = Progress().after(first, False).after(second, False)
    assert progress.again(5) == [first, second] and progress.again(1) == [first] and progress.due() == []
    assert [(t.subject, t.right, t.asked) for t in progress.tallies() if t.asked] == [("heads", 0, 2)]


def test_a_missed_kind_counts_once_until_one_of_it_is_answered_rightly_wherever_it_was_asked():
    """Three missed in the evening; in the morning two of them come back with other numbers and are right."""
    kinds = ("size_of_a_group", "width_of_a_head", "wavelength")
    progress = Progress()
    for kind in kinds:
        progress = progress.after(make(kind, 17), False)
    for kind, right in zip(kinds, (True, True, False), strict=True):
        progress = progress.after(make(kind, 19), right)
    assert [each.id for each in progress.last_missed] == ["wavelength:19"] and len(progress.missed) == 3
    progress = progress.after(progress.again(5)[0], True)
    assert progress.again(5) == [] and {each.gap for each in progress.missed} == {1}
    assert progress.after(make(kinds[0], 23), False).again(5) == [make(kinds[0], 23)]


def test_entries_of_another_version_and_impossible_ones_are_dropped():
    counts = {"scores": (1, 2), "nothing": (1, 1)}
    waiting = [("scores:1", 0, 3), ("scores:1", 9, 0), ("nothing:1", 0, 1), ("scores:x", 0, 1)]
    assert Progress.of(counts, waiting) == Progress({"scores": (1, 2)}, (Missed("scores:1", len(GAPS) - 1, 0),))
    many = [("scores:2", 0, 3), ("wavelength:5", 0, 7), ("scores:11", 0, 13)]  # as an earlier version kept them
    assert [each.id for each in Progress.of({}, many).missed] == ["wavelength:5", "scores:11"]


@pytest.mark.parametrize("subject", ["", *SUBJECTS])
@pytest.mark.parametrize("level", LEVELS)
def test_no_kind_is_asked_again_while_another_of_its_subject_waits(subject, level, monkeypatch):
    """In sets of any length: within a subject, two kinds are asked equally often, or one of them once more."""
    monkeypatch.setattr("attnviz.practice.drills.sets.make", lambda name, seed: (name, seed))
    monkeypatch.setattr("attnviz.practice.drills.sets.statement", str)
    for seed in range(40):
        asked = question_set(subject, level, 150 if not subject else 60, seed)
        of_subject = {name: [] for name in ([subject] if subject else SUBJECTS)}
        for name, _ in asked:
            of_subject[KINDS[name].subject].append(name)
        lengths = {len(names) for names in of_subject.values()}
        assert max(lengths) - min(lengths) <= 1
        for name, names in of_subject.items():
            kinds = {each.name for each in kinds_of(name, level)}
            assert all(one != other for one, other in pairwise(names))
            for start in range(0, len(names), len(kinds)):
                part = names[start : start + len(kinds)]
                assert len(set(part)) == len(part) and set(part) <= kinds
        assert len(set(asked)) == len(asked)  # no question twice either


def test_every_kind_is_asked_as_often_as_the_others_of_its_subject(monkeypatch):
    """In short sets, over many seeds: none of n kinds is far from 1 / n of the questions."""
    monkeypatch.setattr("attnviz.practice.drills.sets.make", lambda name, seed: name)
    monkeypatch.setattr("attnviz.practice.drills.sets.statement", str)
    for subject in SUBJECTS:
        names = [name for seed in range(400) for name in question_set(subject, 3, 5, seed)]
        expected = len(names) / len(kinds_of(subject, 3))
        counts = Counter(names)
        assert set(counts) == {each.name for each in kinds_of(subject, 3)}
        assert all(0.65 * expected < n < 1.35 * expected for n in counts.values()), (subject, counts)


@pytest.mark.parametrize("name", KINDS)
def test_a_missed_question_of_each_kind_is_kept(name):
    """Its id, as a browser stores it, is read again."""
    progress = Progress().after(make(name, 123_456), False)
    assert Progress.of(progress.counts, progress.waiting) == progress and len(progress.missed) == 1
