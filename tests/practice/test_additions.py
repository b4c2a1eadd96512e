"""Check that an added kind, model or accelerator changes only what it wins, and that draws are uniform."""

import inspect
import random
import re
from collections import Counter
from contextlib import suppress
from dataclasses import replace

import pytest

from attnviz.cost import load_accelerators, load_described, load_presets
from attnviz.exercises import SUBJECTS
from attnviz.practice.drills import KINDS, Kind, Question, kinds_of, make, question_set
from attnviz.practice.drills.ranks import draw, rank, ranked
from attnviz.practice.drills.sets import kinds_at

DRAWS_A_MODEL = re.compile(r"\b(published|published_with|plain|_fitting|on_a_machine|extended)\(\s*rng")
ON_MODELS = [name for name, each in KINDS.items() if DRAWS_A_MODEL.search(inspect.getsource(each.ask))]
ON_HYBRIDS = [name for name, each in KINDS.items() if "published_hybrid(rng" in inspect.getsource(each.ask)]
ON_SPEED = ["what_bounds", "tokens_per_second"]
ON_MACHINES = [*ON_SPEED, "sequences_that_fit", "time_to_first_token"]
LIKE = {  # the others: like Llama 3 8B
    "cache_of_mla": "deepseek-v2", "kv_heads_of_an_equal_cache": "deepseek-v2",
    "expanded_against_latent": "deepseek-v2", "numbers_rotated_in_mla": "deepseek-v2",
    "cache_behind_a_window": "gemma-2-9b", "growth_behind_windows": "gemma-2-9b",
    "pairs_without_a_full_rotation": "mistral-7b-v0.3", "pairs_that_yarn_leaves": "mistral-7b-v0.3",
}  # fmt: skip
BESIDE = {"mla_against_gqa": ("deepseek-v2",)}  # what is drawn besides the model
NAMES = [f"name {i}" for i in range(20)]
CHI_SQUARED = 43.8  # with 19 degrees of freedom, a uniform draw exceeds it once in 1,000


def chi_squared(drawn: list[str]) -> float:
    """Compute the sum of (count − expected)² / expected over NAMES."""
    counts, expected = Counter(drawn), len(drawn) / len(NAMES)
    return sum((counts[name] - expected) ** 2 / expected for name in NAMES)


def test_a_rank_is_the_same_in_every_process():
    assert rank("set", 1, "kv_head_read") == 10243904060519642683  # blake2b, 8 bytes, of "set/1/kv_head_read"


def test_draws_are_uniform_and_independent_of_the_number_drawn_before():
    assert chi_squared([draw(random.Random(seed), NAMES) for seed in range(4000)]) < CHI_SQUARED
    sets = [kinds_at(f"set {seed}", NAMES, 20) for seed in range(1000)]
    for place in (0, 7, 19):
        assert chi_squared([each[place] for each in sets]) < CHI_SQUARED
    rng = random.Random(1)
    assert chi_squared([draw(rng, NAMES) for _ in range(4000)]) < CHI_SQUARED
    assert chi_squared(["name 3"] * 50 + NAMES * 50) > CHI_SQUARED  # 4.9 % more of one name is found


def test_an_added_name_keeps_the_order_of_the_others_and_the_draws_after_it():
    for seed in range(200):
        one, other = random.Random(seed), random.Random(seed)
        before, after = ranked(one, NAMES), ranked(other, [*NAMES, "added"])
        assert [name for name in after if name != "added"] == before and one.random() == other.random()


def check(before: list[Question], after: list[Question], added: str) -> None:
    """Check that the questions that changed are those about what was added, and that there are some."""
    changed = [new for old, new in zip(before, after, strict=True) if old != new]
    assert changed and len(changed) < len(before) / 2 and all(added in question.text for question in changed)


@pytest.mark.parametrize("name", ON_MODELS)
def test_an_added_model_changes_only_the_questions_that_it_wins(name):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("attnviz.practice.drills.heads.facts_of", str)  # it knows only the models of presets.json
        before = [make(name, seed) for seed in range(80 if name in ON_SPEED else 160)]
        added = replace(load_described()[LIKE.get(name, "llama-3-8b")], name="An added model")
        models = load_described() | {"added": added}
        for module in ("heads", "decoding"):
            patch.setattr(f"attnviz.practice.drills.{module}.load_described", lambda: models)
        after = [make(question.kind, question.seed) for question in before]
    check(before, after, added.name)


@pytest.mark.parametrize("name", ON_HYBRIDS)
def test_an_added_hybrid_changes_only_the_questions_that_it_wins(name, monkeypatch):
    before = [make(name, seed) for seed in range(60)]
    models = load_presets() | {"added": replace(load_presets()["olmo-hybrid-7b"], name="An added hybrid")}
    monkeypatch.setattr("attnviz.practice.drills.linear.load_presets", lambda: models)
    check(before, [make(question.kind, question.seed) for question in before], "An added hybrid")


@pytest.mark.parametrize("name", ON_MACHINES)
def test_an_added_accelerator_changes_only_the_questions_that_it_wins(name):
    before = [make(name, seed) for seed in range(80)]
    added = replace(load_accelerators()["h100-sxm"], name="An added accelerator")
    machines = load_accelerators() | {"added": added}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("attnviz.practice.drills.decoding.load_accelerators", lambda: machines)
        after = [make(question.kind, question.seed) for question in before]
    check(before, after, added.name)


@pytest.mark.parametrize("n_kinds", [2, 12])
def test_an_added_kind_takes_places_and_only_kinds_it_displaced_move(n_kinds):
    """A place changes if the added kind wins it, or a kind that lost an earlier place; most sets change little."""
    names, n_changed, n_won = [f"kind {i}" for i in range(n_kinds)], 0, 0
    for seed in range(300):
        before, after = (kinds_at(f"set {seed}", each, n_kinds) for each in (names, [*names, "added"]))
        moving = {"added"}
        for old, new in zip(before, after, strict=True):
            assert old == new or new in moving
            moving |= {old} if old != new else set()
        assert len(set(before)) == len(set(after)) == n_kinds
        n_changed += sum(old != new for old, new in zip(before, after, strict=True))
        n_won += "added" in after
    assert n_won == pytest.approx(300 * n_kinds / (n_kinds + 1), rel=0.1) and n_changed < 2.5 * n_won


def test_an_added_kind_changes_few_sets_and_leaves_the_questions_of_the_others(monkeypatch):
    """In a mixed set of six, one place belongs to the subject, and its kinds win it equally often."""
    before = {seed: question_set("", 3, 6, seed) for seed in range(30)}
    monkeypatch.setitem(KINDS, "added", Kind("added", "heads", 1, KINDS["kv_head_read"].ask))
    n_won = 0
    for seed, questions in before.items():
        for old, new in zip(questions, question_set("", 3, 6, seed), strict=True):
            assert old == new or (new.kind == "added" and old.subject == "heads")
            n_won += new.kind == "added"
    assert 0 < n_won < 3 * len(before) / len(kinds_of("heads", 3))


def test_a_kind_keeps_its_question_when_its_place_changes(monkeypatch):
    monkeypatch.setattr("attnviz.practice.drills.sets.make", lambda name, seed: (name, seed))
    monkeypatch.setattr("attnviz.practice.drills.sets.statement", str)
    for subject in SUBJECTS:
        before = dict(question_set(subject, 3, 8, 5))
        monkeypatch.setitem(KINDS, "added", Kind("added", subject, 1, KINDS["kv_head_read"].ask))
        after = dict(question_set(subject, 3, 9, 5))
        assert len(set(before) & set(after)) >= 6
        assert all(after[name] == before[name] for name in set(before) & set(after))


@pytest.mark.parametrize("name", [name for name in ON_MODELS if name not in ON_MACHINES])
def test_each_published_model_can_be_asked_about(name, monkeypatch):
    """A question whose known answers clash is drawn again; a model with which they always do would never be asked."""
    described, asked = load_described(), []
    for id, model in described.items():
        alone = {id: model} | {other: described[other] for other in BESIDE.get(name, ())}
        monkeypatch.setattr("attnviz.practice.drills.heads.load_described", lambda alone=alone: alone)
        for seed in range(12):
            with suppress(IndexError):  # the kind, or what it drew before the model, is about others
                asked.append(make(name, seed).text)
    assert sum(any(model.name in text for text in asked) for model in described.values()) >= 4
