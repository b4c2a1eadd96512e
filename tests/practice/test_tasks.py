"""Correct solutions in several styles pass, and wrong ones fail with every seed. All run in this process; the judge's
separate process is tested in test_judge.py."""

import pytest
import torch

from attnviz.exercises import TASKS as TITLES
from attnviz.mistakes import all_mistakes
from attnviz.practice.__main__ import new
from attnviz.practice.child import Refused
from attnviz.practice.judge import _check, difference, task_named_in
from attnviz.practice.live import OF_ONE_HEAD, WITH_MAPS, WITHOUT_ROPE
from attnviz.practice.tasks import TASKS
from attnviz.session.pages import PAGES
from attnviz.session.settings import Settings
from tests.practice.answers import ANSWERS, TOP_P_SORTED
from tests.practice.other_answers import OTHER_ANSWERS
from tests.practice.wrong import WRONG

RIGHT = {name: (*ANSWERS[name], *OTHER_ANSWERS[name]) for name in TASKS}
CASES = [(name, i) for name, sources in RIGHT.items() for i in range(len(sources))]
QUICK = [name for name in TASKS if name != "flash"]


def names_of(source: str) -> dict:
    names: dict = {}
    exec(source, names)
    return names


def checks(name: str, names: dict, seed: int = 11) -> list:
    cases = [case for case in TASKS[name].cases(seed) if not case.large]
    return [_check(case, case.run(TASKS[name].right), case.run(names)) for case in cases]


def test_each_task_is_known_everywhere():
    assert tuple(TASKS) == tuple(TITLES), "list the tasks in TASKS of attnviz/exercises.py"
    assert TASKS.keys() == ANSWERS.keys(), "write an answer to each task in tests/practice/answers.py"
    assert {*WITH_MAPS, *WITHOUT_ROPE, *OF_ONE_HEAD} <= TASKS.keys(), "attnviz/practice/live.py names an unknown task"


@pytest.mark.parametrize(("name", "i"), CASES)
def test_any_right_way_passes(name, i):
    """The solutions were written without looking at our modules, so they also check the right versions."""
    assert [row for seed in (2, 3) for row in checks(name, names_of(RIGHT[name][i]), seed) if not row.passed] == []


class Wrong:
    """Wrong programs of a task. Each runs first the check that it failed with the seed before; else the smallest."""

    def __init__(self, name: str) -> None:
        self.task, self.first = TASKS[name], {}
        self.programs = {}
        for source, right, wrong in WRONG[name]:
            assert right in source
            self.programs[source, right, wrong] = names_of(source.replace(right, wrong))

    def passing(self, seed: int) -> list[tuple[str, str]]:
        """Return what was replaced by what in the programs that pass all checks with this seed."""
        cases = [(case, case.run(self.task.right)) for case in self.task.cases(seed) if not case.large]
        return [edit[1:] for edit, names in self.programs.items() if not self._fails(edit, names, cases)]

    def _fails(self, edit, names, cases) -> bool:
        sizes = [sum(tensor.numel() for tensor in case.tensors.values()) for case, _ in cases]
        order = sorted(range(len(cases)), key=lambda i: (i != self.first.get(edit), sizes[i]))
        for i in order:
            case, right = cases[i]
            try:
                passed = _check(case, right, case.run(names)).passed
            except Exception:
                passed = False
            if not passed:
                self.first[edit] = i
                return True
        return False


@pytest.mark.parametrize("name", TASKS)
def test_wrong_programs_fail(name):
    wrong = Wrong(name)
    assert {seed: found for seed in range(3) if (found := wrong.passing(seed))} == {}


@pytest.mark.parametrize("name", TASKS)
@pytest.mark.slow
def test_wrong_programs_fail_with_each_of_100_seeds(name):
    """The first three are those of the test above."""
    wrong = Wrong(name)
    assert {seed: found for seed in range(3, 100) if (found := wrong.passing(seed))} == {}


def test_the_fewest_tokens_are_kept_where_the_sum_equals_p_exactly():
    """Which of the equal tokens are kept is free."""
    last = TASKS["top-p"].cases(3)[-1]
    for kept in (torch.tensor([0.5, 0.5, 0, 0]), torch.tensor([0, 0.5, 0, 0.5])):
        assert _check(last, last.run(TASKS["top-p"].right), last.ordered([kept])).passed
    more = TOP_P_SORTED.replace("probs < p", "probs <= p")
    assert [row.label for row in checks("top-p", names_of(more)) if not row.passed] == [last.label]


def test_each_named_mistake_opens_on_its_page():
    for task in TASKS.values():
        for mistaken in task.mistaken:
            settings, notices = Settings.from_link({"mistake": mistaken.mistake or "tiled_kv_heads"}, PAGES["mistakes"])
            assert not notices and settings.mistake in all_mistakes()


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


def test_of_a_call_that_returns_two_tensors_the_wrong_one_is_named():
    right = names_of(ANSWERS["delta"][0])["gated_delta_rule"]

    def doubled_state(*args, **kwargs):
        output, state = right(*args, **kwargs)
        return output, 2 * state

    found = checks("delta", {"gated_delta_rule": doubled_state})
    assert [row.got.split(": ")[0] for row in found[:2]] == ["state of call 1", "state"]
    without = checks("delta", {"gated_delta_rule": lambda *args, **kwargs: right(*args, **kwargs)[0]})
    assert without[1].got == "1 tensor instead of 2"


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


def test_the_eps_of_each_norm_is_checked():
    both = "self.attn_norm, self.ffn_norm = Norm(d_model), Norm(d_model)"
    for i, label in ((0, "small x, where eps of attn_norm matters"),
                     (1, "small x after the attention, where eps of ffn_norm matters")):  # fmt: skip
        norms = ["Norm(d_model)", "Norm(d_model)"]
        norms[i] = "nn.RMSNorm(d_model, eps=1e-5)"
        wrong = ANSWERS["block"][0].replace(both, f"self.attn_norm, self.ffn_norm = {norms[0]}, {norms[1]}")
        assert label in [row.label for row in checks("block", names_of(wrong)) if not row.passed]
