"""Correct solutions in several styles pass and each known mistake is identified. All run in this process; the judge's
separate process is tested in test_judge.py."""

import pytest
import torch

from attnviz.mistakes import all_mistakes
from attnviz.practice.__main__ import new
from attnviz.practice.child import Refused
from attnviz.practice.judge import _check, _matching_mistake, difference, failing_argument, task_named_in
from attnviz.practice.known import known_mistakes
from attnviz.practice.live import OF_ONE_HEAD, WITH_MAPS, WITHOUT_ROPE
from attnviz.practice.task import Case
from attnviz.practice.tasks import TASKS
from attnviz.session.pages import PAGES
from attnviz.session.settings import TASKS as SETTINGS_TASKS
from attnviz.session.settings import Settings
from tests.practice.answers import ANSWERS, MISTAKEN, TOP_P_SORTED

CASES = [(name, i) for name, sources in ANSWERS.items() for i in range(len(sources)) if name != "flash"]
QUICK = [name for name in TASKS if name != "flash"]


def names_of(source: str) -> dict:
    names: dict = {}
    exec(source, names)
    return names


def checks(name: str, names: dict, seed: int = 11) -> list:
    cases = [case for case in TASKS[name].cases(seed) if not case.large]
    return [_check(case, case.run(TASKS[name].right), case.run(names)) for case in cases]


def test_each_task_is_known_everywhere():
    assert tuple(TASKS) == SETTINGS_TASKS, "list the tasks in this order in TASKS of attnviz/session/settings.py"
    assert TASKS.keys() == ANSWERS.keys(), "write an answer to each task in tests/practice/answers.py"
    assert {*WITH_MAPS, *WITHOUT_ROPE, *OF_ONE_HEAD} <= TASKS.keys(), "attnviz/practice/live.py names an unknown task"
    assert NAMED.keys() <= TASKS.keys()


@pytest.mark.parametrize(("name", "i"), [*CASES, ("flash", 0)])
def test_any_right_way_passes(name, i):
    """The solutions were written without looking at our modules, so they also check the right versions."""
    assert [row for seed in (2, 3) for row in checks(name, names_of(ANSWERS[name][i]), seed) if not row.passed] == []


NAMED = {  # at least so many mistakes of the page change the outputs of the task
    "attention": 3, "self-attention": 3, "mha": 8, "gqa": 9, "rope": 1, "rms-norm": 0, "swiglu": 1, "cache": 12,
    "block": 9, "top-p": 0, "mla": 6, "flash": 0,
}  # fmt: skip


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


def outputs_or_error(case, names):
    try:
        return case.run(names)
    except Exception as error:
        return f"{type(error).__name__} in line 7: {' '.join(str(error).split())}"


@pytest.mark.parametrize("name", TASKS)
@pytest.mark.slow
def test_each_mistake_of_a_task_and_of_the_mistakes_page_is_named(name, run_once):
    """Each mistaken version fails, and its outputs differ from those of every other version.

    The right version with a mistake of attnviz/mistakes is identified as that mistake, if its outputs change.
    """
    task = TASKS[name]
    cases = [case for case in task.cases(5) if not case.large]
    right = [case.run(task.right) for case in cases]
    found = [[outputs_or_error(case, each.names) for case in cases] for each in task.mistaken]
    named = [_matching_mistake(task, cases, right, outputs) for outputs in found]
    assert [n and n.explanation for n in named] == [each.explanation for each in task.mistaken] and len(named) >= 2
    for outputs in found:
        assert not all(_check(*each).passed for each in zip(cases, right, outputs, strict=True))
    named = {}
    for mistaken in known_mistakes(task):
        outputs = [outputs_or_error(case, mistaken.names) for case in cases]
        if mistaken in task.mistaken or all(
            not isinstance(f, str) and same(f, r) for f, r in zip(outputs, right, strict=False)
        ):
            continue
        match = _matching_mistake(task, cases, right, outputs)
        named[mistaken.mistake] = match and match.mistake
    assert all(id == found_id for id, found_id in named.items()) and len(named) >= NAMED.get(name, 0), named


@pytest.mark.parametrize(
    ("name", "explanation", "source", "right", "wrong"),
    [(*diagnosis, *edit) for diagnosis, edits in MISTAKEN.items() for edit in edits],
)
def test_a_typical_mistake_is_named(name, explanation, source, right, wrong):
    """A right solution with the mistake written into it gets the diagnosis, without the separate process."""
    assert source.count(right) == 1
    task, names = TASKS[name], names_of(source.replace(right, wrong))
    cases = [case for case in task.cases(3) if not case.large]
    outputs = [outputs_or_error(case, names) for case in cases]
    named = _matching_mistake(task, cases, [case.run(task.right) for case in cases], outputs)
    assert named and named.explanation == explanation


def test_the_fewest_tokens_are_kept_where_the_sum_equals_p_exactly():
    """Which of the equal tokens are kept is free."""
    last = TASKS["top-p"].cases(3)[-1]
    for kept in (torch.tensor([0.5, 0.5, 0, 0]), torch.tensor([0, 0.5, 0, 0.5])):
        assert _check(last, last.run(TASKS["top-p"].right), last.ordered([kept])).passed
    more = TOP_P_SORTED.replace("probs < p", "probs <= p")
    assert [row.label for row in checks("top-p", names_of(more)) if not row.passed] == [last.label]


@pytest.mark.parametrize(
    ("name", "failing", "sentence"),
    [
        ("attention", {1, 2, 3}, "Every check with the argument mask fails; every other check passes."),
        ("attention", {0, 4, 5}, "Every check with the argument mask passes; every other check fails."),
        ("attention", {2, 3}, "Every check with the argument mask in 4 dimensions fails; every other check passes."),
        ("attention", {1}, "The check with the argument mask in 2 dimensions fails; every other check passes."),
        ("rope", {3}, "The check with the argument theta fails; every other check passes."),
        ("attention", {1, 2}, ""), ("attention", {0, 1, 2, 3, 4, 5}, ""), ("attention", set(), ""),
    ],
)  # fmt: skip
def test_an_argument_is_named_with_which_exactly_the_failing_checks_are_made(name, failing, sentence):
    cases = TASKS[name].cases(3)
    assert failing_argument(cases, [i not in failing for i in range(len(cases))]) == sentence


def test_each_named_mistake_opens_on_its_page():
    for task in TASKS.values():
        for mistaken in task.mistaken:
            settings, notices = Settings.from_link({"mistake": mistaken.mistake or "tiled_kv_heads"}, PAGES["mistakes"])
            assert not notices and settings.mistake in all_mistakes()


def same(found, right) -> bool:
    return all(torch.allclose(f.double(), r.double(), 2e-3, 2e-3) for f, r in zip(found, right, strict=True))


def test_what_is_right_is_named_nothing():
    task = TASKS["gqa"]
    cases = task.cases(1)
    right = [case.run(task.right) for case in cases]
    assert _matching_mistake(task, cases, right, right) is None
    assert _matching_mistake(task, cases, right, [[each + 1 for each in outputs] for outputs in right]) is None


@pytest.mark.parametrize("name", QUICK)
def test_the_skeleton_is_python_and_fails(name):
    with pytest.raises(NotImplementedError):
        checks(name, names_of(TASKS[name].source()))
    docstring, end, rest = TASKS[name].source().partition('"""\n\n')
    assert names_of(f"{docstring}{end}from __future__ import annotations\n{rest}")["__doc__"]


def test_a_skeleton_names_the_command_for_the_folder_it_is_written_to(tmp_path, capsys):
    assert new(TASKS["self-attention"], tmp_path / "mine") == 0
    file = tmp_path / "mine" / "self_attention.py"
    command = f".venv/bin/python -m attnviz.practice check {file}"
    assert file.read_text().splitlines()[0] == f'# TASK = "self-attention", read by: {command}'
    assert command in capsys.readouterr().out and task_named_in(file) == "self-attention"


@pytest.mark.parametrize("name", QUICK)
def test_inputs_are_new_with_each_seed(name):
    one, same, other = (TASKS[name].cases(seed) for seed in (1, 1, 2))

    def equal(a, b):
        return a.tensors.keys() == b.tensors.keys() and all(torch.equal(a.tensors[k], b.tensors[k]) for k in a.tensors)

    assert all(equal(a, b) for a, b in zip(one, same, strict=True))
    assert sum(equal(a, b) for a, b in zip(one, other, strict=True)) <= 1  # top-p's case of a near-certain token


@pytest.mark.parametrize(
    ("found", "explanation"),
    [
        (torch.zeros(2, 3), "shape (2, 3)"),
        (torch.tensor([1.0, float("nan")]), "1 of 2 are NaN"),
        (torch.tensor([1.0, float("inf")]), "1 of 2 differ"),
        (torch.tensor([1.5, 2.0]), "[0]: 1.5 instead of 1"),
        (torch.tensor([1.0, 2.0 + 1e-6]), ""),
    ],
)
def test_how_an_output_differs(found, explanation):
    text = difference(found, torch.tensor([1.0, 2.0]), 2e-4)
    assert explanation in text and bool(explanation) == bool(text)


def test_of_several_outputs_the_wrong_one_is_named():
    names = names_of(ANSWERS["cache"][0])
    doubled = {"decode_step": lambda *args, **kwargs: 2 * names["decode_step"](*args, **kwargs)}
    assert {row.got.split(": ")[0] for row in checks("cache", names | doubled)} == {"call 1"}
    twice = type("Cache", (names["Cache"],), {"nbytes": property(lambda self: 2 * names["Cache"].nbytes.fget(self))})
    case = TASKS["cache"].cases(11)[0]
    (right, found) = (case.run({**names, "Cache": cache})[-1].item() for cache in (names["Cache"], twice))
    assert found == 2 * right
    assert checks("cache", names | {"Cache": twice})[0].got == f"cache.nbytes: {found:,} instead of {right:,}"


def test_what_is_returned_instead_of_a_tensor_or_a_property_is_said():
    right = names_of(ANSWERS["attention"][0])["attention"]
    with pytest.raises(Refused, match="attention returned NoneType in a tuple; return the output alone"):
        checks("attention", {"attention": lambda *args, **kwargs: (right(*args, **kwargs), None)})
    with pytest.raises(Refused, match="attention returned NoneType instead of a tensor"):
        checks("attention", {"attention": lambda *args, **kwargs: None})
    names = names_of(ANSWERS["cache"][0])
    method = type("Cache", (names["Cache"],), {"nbytes": lambda self: names["Cache"].nbytes.fget(self)})
    with pytest.raises(Refused, match="nbytes is a method; the task needs a property"):
        checks("cache", names | {"Cache": method})


def test_the_smallest_eps_is_checked():
    names = names_of(ANSWERS["block"][0].replace("1e-6", "1e-5"))
    assert [row.label for row in checks("block", names) if not row.passed] == ["small x, where eps matters"]
