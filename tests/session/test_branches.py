"""Earlier continuations: which are stored, where they leave the present text, and how they were sampled."""

from attnviz.session.branches import (
    MAX_BRANCHES,
    Branch,
    departure,
    leaving,
    other_sampling,
    sampling_settings,
    with_branch,
)
from attnviz.session.settings import Settings

SAMPLING = sampling_settings(Settings())


def test_only_a_text_that_would_be_lost_is_stored() -> None:
    branch = Branch((3, 5, 7), SAMPLING)
    for now in ((3, 5, 7), (3, 5, 7, 11)):
        assert with_branch([], branch, now) == []
    for now in ((), (3, 5), (3, 5, 11, 13)):
        assert with_branch([], branch, now) == [branch]
    assert with_branch([], Branch((), SAMPLING), (3,)) == []
    again = Branch((3, 5, 7), SAMPLING | {"draw_seed": 2})
    assert with_branch([branch], again, ()) == [again]


def test_the_oldest_are_dropped() -> None:
    found: list[Branch] = []
    for i in range(MAX_BRANCHES + 2):
        found = with_branch(found, Branch((i,), SAMPLING), ())
    assert [branch.written for branch in found] == [(i,) for i in range(2, MAX_BRANCHES + 2)]


def test_a_continuation_is_offered_from_where_it_leaves_the_text() -> None:
    branches = [Branch(written, SAMPLING) for written in ((3, 5), (3, 11, 13), (3, 5, 7, 11))]
    assert leaving(branches, (3, 5, 7)) == branches[1:]
    assert [departure(branch, (3, 5, 7)) for branch in branches[1:]] == [1, 3]


def test_the_settings_that_would_change_are_named() -> None:
    branch = Branch((3,), sampling_settings(Settings(temperature=0.5, draw_seed=7)))
    assert other_sampling(branch, Settings(draw_seed=7)) == "temperature 0.5"
    assert other_sampling(branch, Settings(temperature=0.5)) == "seed 7"
    assert other_sampling(branch, Settings(temperature=0.5, draw_seed=7)) == ""
