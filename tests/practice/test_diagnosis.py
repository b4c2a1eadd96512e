"""Each known mistake is named, alone and in pairs, where its outputs are found, and nowhere else. In this process."""

from itertools import combinations

import pytest
import torch

from attnviz.mistakes import all_mistakes
from attnviz.practice import diagnosis
from attnviz.practice.diagnosis import diagnose, failing_argument, same
from attnviz.practice.judge import _check
from attnviz.practice.known import known_mistakes
from attnviz.practice.task import Case
from attnviz.practice.tasks import TASKS
from tests.practice.answers import ANSWERS, ATTENTION_DOUBLE, CACHE, GQA, RMS, ROPE
from tests.practice.diagnosed import MISTAKEN, PAIRS, RANDOM
from tests.practice.other_answers import OTHER_ANSWERS

NAMED = {  # at least so many mistakes of the page change the outputs of the task
    "attention": 3, "self-attention": 3, "mha": 8, "gqa": 9, "rope": 1, "rms-norm": 0, "swiglu": 1, "cache": 12,
    "block": 9, "top-p": 0, "mla": 6, "flash": 0,
}  # fmt: skip


def names_of(source: str) -> dict:
    names: dict = {}
    exec(source, names)
    return names


def outputs_or_error(case, names):
    try:
        return case.run(names)
    except Exception as error:
        return f"{type(error).__name__} in line 7: {' '.join(str(error).split())}"


def diagnosed(name: str, source: str, seed: int = 3):
    """Return the diagnosis of a source text; the outputs are computed as in the separate process, case by case."""
    task, names = TASKS[name], names_of(source)
    cases = [case for case in task.cases(seed) if not case.large]
    outputs = [outputs_or_error(case, names) for case in cases]
    return diagnose(task, cases, [case.run(task.right) for case in cases], outputs)


def edited(source: str, *edits: str) -> str:
    for right, wrong in zip(edits[::2], edits[1::2], strict=True):
        assert source.count(right) == 1, right
        source = source.replace(right, wrong)
    return source


@pytest.mark.parametrize("name", TASKS)
def test_the_versions_that_mistakes_change_are_right_without_one(name):
    task = TASKS[name]
    for case in task.cases(7):
        if not case.large:
            assert _check(case, case.run(task.right), case.run(task.build())).passed


@pytest.mark.parametrize("name", TASKS)
@pytest.mark.slow
def test_each_mistake_changes_an_output_and_no_other_one_gives_the_same_outputs(name):
    """With several seeds: what tells two mistakes apart does not depend on chance. NaN equals NaN."""
    task = TASKS[name]
    for seed in (5, 6, 7):
        cases = [case for case in task.cases(seed) if not case.large]
        right = [case.run(task.right) for case in cases]
        known = [(each, [outputs_or_error(case, task.build(**each.options)) for case in cases])
                 for each in task.mistaken if "shared" not in each.options]  # fmt: skip
        for mistaken, outputs in known:
            assert not equal(cases, outputs, right), mistaken.explanation
        for (one, outputs), (other, others) in combinations(known, 2):
            if one.explanation != other.explanation:
                assert not equal(cases, outputs, others), (one.explanation, other.explanation)


def equal(cases, found, others) -> bool:
    return all(
        f == o if isinstance(f, str) or isinstance(o, str) else same(f, o, case.tolerance)
        for case, f, o in zip(cases, found, others, strict=True)
    )


@pytest.fixture
def run_once(monkeypatch):
    """Run each version on each case once: otherwise every mistake is run again to name every other one."""
    run, kept = Case.run, {}

    def run_or_remember(case, names):
        if (id(case), id(names)) not in kept:
            try:
                found = run(case, names)
            except Exception as error:
                found = error
            kept[id(case), id(names)] = found, case, names  # so that no other has their ids
        found = kept[id(case), id(names)][0]
        if isinstance(found, Exception):
            raise found
        return found

    monkeypatch.setattr(Case, "run", run_or_remember)


@pytest.mark.parametrize("name", TASKS)
@pytest.mark.slow
def test_each_mistake_of_a_task_and_of_the_mistakes_page_is_named(name, run_once, monkeypatch):
    """The right version with a mistake of attnviz/mistakes is identified as that mistake, if its outputs change."""
    task = TASKS[name]
    cases = [case for case in task.cases(5) if not case.large]
    right = [case.run(task.right) for case in cases]
    known = list(known_mistakes(task))
    monkeypatch.setattr(diagnosis, "known_mistakes", lambda task: known)
    named = {}
    for mistaken, names in known:
        outputs = [outputs_or_error(case, names) for case in cases]
        if mistaken not in task.mistaken and equal(cases, outputs, right):
            continue
        found = diagnose(task, cases, right, outputs)
        assert found and found.whole and len(found.mistaken) == 1
        if mistaken in task.mistaken:
            assert found.mistaken[0].explanation == mistaken.explanation
        else:
            named[mistaken.mistake] = found.mistaken[0].mistake
    assert all(id == found_id for id, found_id in named.items()) and len(named) >= NAMED.get(name, 0), named


@pytest.mark.parametrize(
    ("name", "explanation", "source", "right", "wrong"),
    [(*kind, *edit) for kind, edits in MISTAKEN.items() for edit in edits],
)
def test_a_typical_mistake_is_named(name, explanation, source, right, wrong):
    """A right solution with the mistake written into it gets the diagnosis, and no other."""
    found = diagnosed(name, edited(source, right, wrong))
    assert found and found.sentence == f"Your output equals ours {explanation}." and found.whole


@pytest.mark.parametrize("name", RANDOM)
def test_dropout_in_evaluation_is_named(name):
    source, *edits = RANDOM[name]
    found = diagnosed(name, edited(source, *edits))
    assert found and "dropout that is active in evaluation" in found.sentence
    assert found.mistakes == ("dropout_in_evaluation",)


def test_what_is_random_in_one_of_two_tensors_is_seen():
    """Of the first check's two calls with the same inputs, the outputs differ and the states do not."""
    found = diagnosed("delta", edited(ANSWERS["delta"][0], "torch.stack(out, 2), S",
                                      "torch.nn.functional.dropout(torch.stack(out, 2), 0.1), S"))  # fmt: skip
    assert found and found.mistakes == ("dropout_in_evaluation",)


@pytest.mark.parametrize(("name", "one", "other", "source", "edits"), [(*pair[:4], pair[4:]) for pair in PAIRS])
def test_two_mistakes_at_once_are_both_named(name, one, other, source, edits):
    found = diagnosed(name, edited(source, *edits))
    assert found and {each.explanation for each in found.mistaken} == {one, other} and found.whole
    assert found.sentence.startswith("Your output equals ours with two mistakes: ")
    for first in (edits[:2], edits[2:]):  # each alone is named alone
        alone = diagnosed(name, edited(source, *first))
        assert alone and [each.explanation for each in alone.mistaken] in ([one], [other])


def test_a_known_mistake_in_some_checks_is_named_with_these_checks():
    """The other failed checks have an unknown mistake: scores with a mask of four dimensions are 1 % too small."""
    small = ("        if mask is None:\n", "        if mask is not None and mask.ndim == 4:\n            q = 0.99 * q\n"
             "        if mask is None:\n")  # fmt: skip
    found = diagnosed("gqa", edited(GQA, *small, "dtype=torch.bool).tril()", "dtype=torch.bool)"))
    assert found and not found.whole and found.mistakes == ("mask_never_used",)
    assert "without a causal mask if mask is None, in 6 of the 9 failed checks: " in found.sentence
    assert "“K = 1: MQA”" in found.sentence and "(B, H, T, T)" not in found.sentence
    assert diagnosed("gqa", edited(GQA, *small)) is None


@pytest.mark.parametrize(
    ("name", "source", "right", "wrong"),
    [
        # 4,099 is 4,100 in float16, so one check equals that of positions that start at 1
        ("rope", ROPE, "positions[:, None]", "positions.half()[:, None]"),
        # near −1,000 a masked score of −100 gets the same weights as one of 0
        ("attention", ATTENTION_DOUBLE, 'float("-inf")).softmax(-1)',
         "-100.0).softmax(-1) * mask.any(-1, keepdim=True)"),
        # eps² is as small as what the largest of eps and the root makes of small x
        ("rms-norm", RMS, "+ eps)", "+ eps ** 2)"),
        # as many bytes as without the batch, in one check
        ("cache", CACHE, "for t in self.k + self.v)", "for t in self.k[-1:] + self.v[-1:])"),
    ],
)  # fmt: skip
def test_a_mistake_is_not_named_that_equals_one_check_by_chance(name, source, right, wrong):
    assert diagnosed(name, edited(source, right, wrong)) is None


@pytest.mark.parametrize("name", TASKS)
def test_what_is_right_or_wrong_in_an_unknown_way_is_named_nothing(name):
    task = TASKS[name]
    cases = [case for case in task.cases(1) if not case.large]
    right = [case.run(task.right) for case in cases]
    assert diagnose(task, cases, right, right) is None
    assert diagnose(task, cases, right, [[0.97 * each for each in outputs] for outputs in right]) is None
    assert all(diagnosed(name, source) is None for source in (*ANSWERS[name], *OTHER_ANSWERS[name]))


def test_a_mistake_that_is_not_known_is_not_named_as_one_that_is():
    assert diagnosed("attention", edited(ATTENTION_DOUBLE, "** 0.5", "** 0.4")) is None


@pytest.mark.parametrize(
    ("name", "failing", "sentence"),
    [
        ("attention", {1, 2, 3, 4, 5, 6}, "Every check with the argument mask fails; every other check passes."),
        ("attention", {0, 7, 8, 9}, "Every check with the argument mask passes; every other check fails."),
        ("attention", {2, 3, 4, 5},
         "Every check with the argument mask in 4 dimensions fails; every other check passes."),
        ("attention", {1, 6}, "Every check with the argument mask in 2 dimensions fails; every other check passes."),
        ("rope", {3}, "The check with the argument theta fails; every other check passes."),
        ("attention", {1, 2}, ""), ("attention", set(range(10)), ""), ("attention", set(), ""),
    ],
)  # fmt: skip
def test_an_argument_is_named_with_which_exactly_the_failing_checks_are_made(name, failing, sentence):
    cases = TASKS[name].cases(3)
    assert failing_argument(cases, [i not in failing for i in range(len(cases))]) == sentence


def test_each_named_mistake_is_on_its_page():
    for task in TASKS.values():
        assert {mistaken.mistake for mistaken in task.mistaken} - {""} <= all_mistakes().keys()


def test_nan_is_a_value_that_is_compared():
    nan = torch.tensor([1.0, float("nan")])
    assert same([nan], [nan], 1e-5) and not same([nan], [torch.ones(2)], 1e-5)
