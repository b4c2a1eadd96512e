"""A mistaken version is the project itself with the lines of the diff changed, and nothing else."""

import inspect
import sys
import traceback

import pytest
import torch

from attnviz.checkpoints import load_checkpoint
from attnviz.mistakes import RIGHT, SUBJECTS, Change, Mistake, Version, all_mistakes, load_mistake
from attnviz.mistakes.versions import ROOT
from attnviz.modules import Transformer
from attnviz.steps import record

MISTAKES = all_mistakes()
MLA = load_checkpoint("mla")[0].config
RECORDS = MISTAKES | {f"{name}, MLA": each.words_in(MLA) for name, each in MISTAKES.items() if each.latent}
VERSIONS = {
    f"{name}{', MLA' if latent else ''}": mistake.version(MLA if latent else None)
    for name, mistake in MISTAKES.items()
    for latent in ([False, True] if mistake.latent else [False])
}  # fmt: skip


def patched(wrong: str, diff: str) -> str:
    """Apply a unified diff by its line numbers alone."""
    old, new, at = wrong.splitlines(), [], 0
    for line in diff.splitlines():
        if line.startswith("@@"):
            first = int(line.split()[1].split(",")[0][1:]) - 1
            new += old[at:first]
            at = first
        elif line.startswith("+"):
            new.append(line[1:])
        else:
            assert old[at] == line[1:], "what the diff shows is what stands in the file"
            at += 1
            new += [line[1:]] if line.startswith(" ") else []
    return "\n".join([*new, *old[at:]]) + "\n"


@pytest.mark.parametrize("name", VERSIONS)
def test_the_right_source_is_the_mistaken_one_with_the_diff_applied(name):
    version = VERSIONS[name]
    for file, diff in version.diff().items():
        right = (ROOT / file).read_text()
        wrong = inspect.getsource(version.module(file.removesuffix(".py").replace("/", ".")))
        assert right == patched(wrong, diff) and wrong != right
        assert 1 <= sum(line[0] in "+-" for line in diff.splitlines()) <= 14, "a diff of a few lines"


@pytest.mark.parametrize("name", VERSIONS)
def test_files_without_a_change_are_run_as_they_are(name):
    version = VERSIONS[name]
    for module in ("modules.transformer", "modules.attention", "modules.latent", "modules.masks", "modules.rope"):
        file = module.replace(".", "/") + ".py"
        if file not in version.files:
            assert inspect.getsource(version.module(module)) == (ROOT / file).read_text()


def test_the_right_modules_stay_what_they_are():
    before = {name: module for name, module in sys.modules.items() if name.startswith("attnviz.modules")}
    for version in VERSIONS.values():
        version.module("modules.transformer")
    from attnviz.modules import attention

    assert before["attnviz.modules.attention"] is attention is RIGHT.module("modules.attention")
    assert inspect.getsource(attention) == (ROOT / "modules" / "attention.py").read_text()


def test_lines_that_do_not_stand_there_exactly_once_are_refused():
    for right in ("no such line", "super().__init__()"):
        times = 0 if right == "no such line" else 1
        change = Change("modules/attention.py", right, "pass")
        if times == 1:
            assert "        pass\n" in change.apply((ROOT / "modules" / "attention.py").read_text())
        else:
            with pytest.raises(ValueError, match="0 times"):
                change.apply((ROOT / "modules" / "attention.py").read_text())
    with pytest.raises(ValueError, match="Most similar is line 2:\na = 12"):
        Change("x.py", "a = 1", "a = 2").apply("b = 1\na = 12\n")
    with pytest.raises(ValueError, match=r"changes of attnviz/mistakes/catalogue/no_mask.py: modules/masks.py must"):
        Version("no_mask", (Change("modules/masks.py", "no such line", "pass"),)).source("modules/masks.py")
    with pytest.raises(ValueError, match=r"latent \(MLA\) of attnviz/mistakes/catalogue/no_mask.py"):
        Version("no_mask, MLA", (Change("modules/masks.py", "no such line", "pass"),)).diff()
    with pytest.raises(ValueError, match="2 times"):
        Change("x.py", "a = 1", "a = 2").apply("a = 1\nif a:\n    a = 1\n")


def test_a_traceback_shows_the_mistaken_line():
    version = load_mistake("attribute_before_assignment").version()
    with pytest.raises(AttributeError) as raised:
        version.module("modules.attention").GroupedQueryAttention(12, 6, 3)
    shown = "".join(traceback.format_exception(raised.value))
    assert "assert self.n_heads % n_kv_heads == 0" in shown
    assert "attention (attribute_before_assignment).py" in shown


def test_the_recorder_of_steps_sees_the_mistaken_lines():
    model = load_checkpoint("gqa-4")[0]
    run = record(load_mistake("mask_after_softmax").model(model), [5, 17, 101, 3], 1)
    (call,) = [each for each in run.calls if each.function == "attend"]
    assert "weights = scores.softmax(-1) * mask" in call.source
    weights = [m for line in call.lines for m in run.lines[line].made if m.name == "weights"][-1]
    assert weights.value.entries.sum(-1).min() < 0.9


def run_test(version: Version, test: str) -> None:
    """Run a mistake's test on a version. Its exceptions propagate."""
    path = str(ROOT / "mistakes" / f"test ({version.name}).py")
    module = version.run_text(test, f"attnviz.mistakes.test ({version.name})", path)
    for name, function in vars(module).items():
        if name.startswith("test_"):
            function()


@pytest.mark.parametrize("name", RECORDS)
def test_its_test_passes_on_the_right_version_and_fails_on_each_mistaken_one(name):
    mistake = RECORDS[name]
    for seed in range(2):  # for any random numbers
        torch.manual_seed(seed)
        run_test(RIGHT, mistake.test)
    failures = (
        AssertionError,
        pytest.fail.Exception,
        *([AttributeError, RuntimeError] if mistake.kind == "raises" else []),
    )
    for seed in range(2):
        torch.manual_seed(seed)
        with pytest.raises(failures):
            run_test(VERSIONS[name], mistake.test)


@pytest.mark.parametrize("name", RECORDS)
def test_its_test_is_about_five_lines(name):
    body = RECORDS[name].test.partition("def test_")[2].splitlines()[1:]
    assert 1 <= len(body) <= 6 and RECORDS[name].test.count("def test_") == 1


def test_a_model_shares_its_weights_with_the_right_one():
    model = load_checkpoint("mqa")[0]
    other = load_mistake("mask_never_used").model(model)
    assert isinstance(model, Transformer) and not isinstance(other, Transformer)
    assert all(a is b for a, b in zip(model.parameters(), other.parameters(), strict=True))


def test_ids_are_names_of_files_and_subjects_come_in_their_order():
    files = {path.stem for path in (ROOT / "mistakes" / "catalogue").glob("[a-z]*.py")}
    assert set(MISTAKES) == files
    assert {each.kind for each in MISTAKES.values()} == {"raises", "nan", "silent"}
    subjects = [each.subject for each in MISTAKES.values()]
    assert subjects == sorted(subjects, key=list(SUBJECTS).index) and set(subjects) == set(SUBJECTS)
    for subject in SUBJECTS:
        titles = [each.title for each in MISTAKES.values() if each.subject == subject]
        assert len(titles) >= 3 and titles == sorted(titles)
    assert all(each.id == name for name, each in MISTAKES.items())
    with pytest.raises(ValueError, match="no mistake 'nonsense'"):
        load_mistake("nonsense")


@pytest.mark.parametrize("name", RECORDS)
def test_a_record_is_complete(name):
    each: Mistake = RECORDS[name]
    assert 3 <= len(each.answers) <= 4 and len(set(each.answers)) == len(each.answers)
    assert 0 <= each.answer < len(each.answers)
    assert each.sources and all(source.url.startswith("https://") for source in each.sources)
    assert all(len(text) > 40 for text in (each.question, each.what, each.noticed, each.interview))


def test_words_are_about_the_attention_on_screen():
    """A question about GQA's lines says nothing about MLA, and one about MLA's lines nothing about KV heads."""
    for name, each in RECORDS.items():
        if not MISTAKES[each.id].latent:
            continue
        said = " ".join((each.title, each.question, *each.answers, each.what, each.noticed, each.interview))
        other = ("n_kv_heads", "KV heads", "H · D") if name.endswith("MLA") else ("MLA", "latent", "P)")
        assert not [word for word in other if word in said], name
        assert each.answer == MISTAKES[each.id].answer, "an answer given for one is marked the same for the other"


def test_the_factors_of_a_mistaken_cache_are_those_of_its_answers():
    for model in ("gqa-4", "gqa-2", "mqa", "mla"):
        live, each = load_checkpoint(model)[0], MISTAKES["cache_sized_with_n_heads"]
        c, found, words = live.config, each.symptom(live, [5, 17, 101]), each.words_in(live.config)
        factor = (
            c.n_heads / c.n_kv_heads if model != "mla" else 2 * c.kv_lora_rank / (c.kv_lora_rank + c.qk_rope_head_dim)
        )
        assert found.number / found.expected == pytest.approx(factor)
        answer = "By 2·R / (R + P)" if model == "mla" else "By n_heads / n_kv_heads"
        assert words.answers[words.answer] == answer


def test_right_answers_stand_in_any_place():
    places = [each.answer for each in MISTAKES.values()]
    assert all(places.count(place) >= 3 for place in range(4))


def test_a_version_without_changes_is_the_project():
    assert RIGHT.module("modules.latent") is sys.modules["attnviz.modules.latent"] and Version("none").diff() == {}
