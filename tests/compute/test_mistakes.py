"""Computations of the Mistakes page and of the mistaken walk."""

import ast
import builtins

import numpy as np
import pytest

from attnviz.checkpoints import shipped_config
from attnviz.compute import mistakes as compute
from attnviz.compute import steps
from attnviz.compute.view import View
from attnviz.mistakes import all_mistakes
from attnviz.session.settings import Settings
from tests.mistakes.states_by_hand import ONLY_IN

VIEW = View(Settings())
ASSIGNED = "self.n_heads, self.n_kv_heads, self.dropout = n_heads, n_kv_heads, dropout"


def walkable() -> list[str]:
    return [name for name, each in all_mistakes().items() if compute.can_be_walked(each)]


def test_the_shown_diff_is_the_diff_without_common_indentation():
    for name, mistake in all_mistakes().items():
        for file, shown in compute.diffs(VIEW.but(mistake=name)).items():
            whole = mistake.diff(VIEW.config)[file]
            for a, b in zip(shown.splitlines(), whole.splitlines(), strict=True):
                if b.startswith("@@"):
                    assert a == f"@@ line {b[4:].split(',')[0]} @@"
                else:
                    assert a[0] == b[0] and a[1:].strip() == b[1:].strip()
            assert min(len(a) - len(a[1:].lstrip()) for a in shown.splitlines() if a[2:].strip() and a[0] != "@") == 2


def code(line: str) -> str:
    return line.partition("  #")[0]


def test_an_excerpt_is_the_mistaken_code_without_a_mark_or_a_repair():
    for name, mistake in all_mistakes().items():
        found = compute.excerpt(VIEW.but(mistake=name))
        assert found.files == tuple(mistake.diff(VIEW.config)) and found.mistaken
        whole = [line for diff in mistake.diff(VIEW.config).values() for line in diff.splitlines()]
        wrong, around = ([line[1:].strip() for line in whole if line[0] == sign and line[1:].strip()] for sign in "- ")
        repaired = {line[1:].strip() for line in whole if line[0] == "+"}
        only_comments = {line for line in wrong if line not in repaired and code(line) in set(map(code, repaired))}
        only_comments = only_comments if len(only_comments) < len(wrong) else set()
        assert [found.lines[i].strip() for i in sorted(found.mistaken)] == [
            line for line in wrong if line not in only_comments
        ], name
        others = [line.strip() for i, line in enumerate(found.lines) if i not in found.mistaken]
        assert [line for line in others if line not in only_comments] == around, name
        assert bool(only_comments) == (name == "tiled_kv_heads"), name


def names_of_the_module(source: str) -> set[str]:
    """What a reader of one function is not told: imports, constants and functions of the file, and Python's own."""
    names = set(dir(builtins))
    for node in ast.parse(source).body:
        names |= {each.asname or each.name.split(".")[0] for each in getattr(node, "names", ())}
        names |= {node.name} if isinstance(node, ast.FunctionDef | ast.ClassDef) else set()
        names |= {each.id for each in ast.walk(node) if isinstance(each, ast.Name) and isinstance(each.ctx, ast.Store)}
    return names


@pytest.mark.parametrize("name", all_mistakes())
def test_an_excerpt_comes_with_the_function_that_explains_it(name: str):
    """It has the mistaken lines, and each name that it reads is assigned in it, its parameter or its module's."""
    found, mistake = compute.excerpt(VIEW.but(mistake=name)), all_mistakes()[name]
    version, lines = mistake.version(VIEW.config), [line.strip() for line in found.functions.splitlines()]
    assert {found.lines[i].strip() for i in found.mistaken} <= {*lines}
    tree, known = (
        ast.parse(found.functions),
        set().union(*(names_of_the_module(version.source(f)) for f in found.files)),
    )
    assert tree.body and all(isinstance(node, ast.FunctionDef) for node in tree.body)
    read = {each.id: each.lineno for each in ast.walk(tree) if isinstance(each, ast.Name)}
    known |= {each.arg for each in ast.walk(tree) if isinstance(each, ast.arg)}
    known |= {each.id for each in ast.walk(tree) if isinstance(each, ast.Name) and isinstance(each.ctx, ast.Store)}
    assert read.keys() <= known
    if name == "attribute_before_assignment":  # the mistake is where it is assigned
        assert lines.index(ASSIGNED) > lines.index("assert self.n_heads % n_kv_heads == 0")


def test_each_mistake_is_in_one_subject_with_the_words_of_the_model():
    by_subject = compute.ids_by_subject()
    assert [name for names in by_subject.values() for name in names] == list(all_mistakes())
    mla = VIEW.but(model="mla", mistake="cache_sized_with_n_heads")
    assert compute.shown_mistake(mla).answers != compute.mistake_of(mla.settings).answers
    assert compute.shown_mistake(mla.but(model="mqa")) == compute.mistake_of(mla.settings)


def test_a_long_text_is_cut_at_the_limit_and_computed_once():
    view = VIEW.but(text="word " * 400)
    found = compute.symptom_of(view)
    assert len(view.ids) > compute.MAX_TOKENS == len(found.right) == len(compute.labels_of(view, found))
    assert compute.symptom_of(view) is found


def test_padding_is_labelled():
    view = VIEW.but(mistake="fully_masked_row")
    labels = compute.labels_of(view, compute.symptom_of(view))
    assert labels[:3] == ["padding"] * 3 and labels[3:] == view.labels


@pytest.mark.parametrize(
    ("mistake", "changes", "expected"),
    [
        ("tiled_kv_heads", {"model": "mha"}, "gqa-4"),
        ("dropout_in_evaluation", {"model": "mla"}, "mha"),
        ("keys_rotated_twice", {"rope": False}, None),
        ("causal_mask_without_offset", {"causal": False}, None),
    ],
)
def test_a_checkpoint_is_offered_where_it_occurs_with_these_settings(mistake, changes, expected):
    view = VIEW.but(mistake=mistake, **changes)
    assert compute.reason(view) and compute.where_it_occurs(view) == expected


def walked() -> list[tuple[str, str]]:
    """Return the mistakes with the models in which they change other lines."""
    gqa, mla = shipped_config("gqa-4"), shipped_config("mla")
    found = [(ONLY_IN.get(name, "gqa-4"), name) for name in walkable()]
    for name in walkable():
        mistake = all_mistakes()[name]
        if mistake.diff(mla) != mistake.diff(gqa) and not compute.reason(VIEW.but(mistake=name, model="mla")):
            found.append(("mla", name))
    return found


@pytest.mark.slow
def test_walks_begin_at_a_changed_line_in_both_versions_if_it_runs_and_in_most_it_does():
    n_found = 0
    for model, name in walked():
        view = compute.walked(VIEW.but(mistake=name, model=model, text="The old man found a red ball."))
        assert not compute.reason(view), (model, name)
        signs = [row for diff in compute.diffs(view).values() for row in diff.splitlines()]
        for version, sign in (("mistaken", "-"), ("right", "+")):
            at = view.but(version=version)
            walk = steps.walk_of(at)
            index = steps.stop_of(at, walk)
            stop = walk.stops[index]
            call = walk.run.calls[stop.line.call]
            line = call.source.splitlines()[stop.line.number - call.first].strip()
            changed = {row[1:].strip() for row in signs if row[0] == sign}
            cached = name == "keys_rotated_twice"  # its line runs only with a cache, and the walk has none
            away = not steps._changed_stops(at, walk)  # its lines do not run with this model
            assert cached or line in changed or away, (model, name, version)
            assert (f"({name}" in call.file) == (version == "mistaken") or away, (model, name, version)
            n_found += model == "gqa-4" and version == "mistaken" and index > 0
            assert index > 0 or name not in ONLY_IN, "with a layer that has the line, the walk begins at it"
    assert n_found >= 10


def test_a_mistaken_walk_comes_to_the_mistaken_logits():
    view = VIEW.but(mistake="sigmoid_gate", version="mistaken")
    run = steps.run_of(view)
    assert np.abs(run.logits - view.trace.logits).max() > 1
    assert np.array_equal(steps.run_of(VIEW.but(mistake="sigmoid_gate", version="right")).logits, view.trace.logits)
    assert steps.run_of(VIEW) is steps.run_of(VIEW.but(mistake="sigmoid_gate", version="right"))
