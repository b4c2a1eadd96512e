"""Lessons parse or report the line and reason; the elements they point at are on the page that they open."""

import math
import re
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from attnviz.analysis.groups import paired_difference
from attnviz.compute import heads, query_groups, rope
from attnviz.compute import lessons as compute
from attnviz.compute.lessons import SHIPPED, Unread
from attnviz.compute.placeholders import PLACEHOLDERS, filled, table
from attnviz.compute.view import View
from attnviz.cost import kv_cache_bytes, load_presets
from attnviz.figures.group_quality import AVERAGED, TRAINED
from attnviz.session.lesson import LessonError, parse, placeholders, replaced
from attnviz.session.pages import ALL, ELEMENTS, PAGES, PURPOSES
from attnviz.session.settings import Settings
from attnviz.session.shared import SELECTION

LESSON = """# A title

Minutes: 5

What it is about.

## First

Link: heads?layer=1&head=3
Look at: head-grid

It has {n_tokens} tokens.

Question: Why
so?
Answer: Because.

## Second

Link: rope?tab=longer&factor=3
Look at: figure-slowed

By {factor}.
"""


def test_a_lesson_is_read_into_steps() -> None:
    lesson = parse("a-name", LESSON, PLACEHOLDERS)
    assert (lesson.title, lesson.minutes, lesson.about) == ("A title", 5, "What it is about.")
    first, second = lesson.steps
    assert (first.page.path, first.target, first.line) == ("heads", "head-grid", 7)
    assert (first.question, first.answer, first.text) == ("Why so?", "Because.", "It has {n_tokens} tokens.")
    assert (second.title, second.question, second.settings().factor) == ("Second", "", 3)
    assert lesson.settings(9).lesson_step == 2 and lesson.settings(1).lesson == "a-name"


def test_braces_in_formulas_and_in_code_are_no_placeholders() -> None:
    text = r"$\frac{a}{\sqrt{d_k}}$, `{}` and {n_tokens} tokens; {theta}$"
    assert list(placeholders(text)) == ["n_tokens", "theta"]
    for block in ("```\n{a}\n```", "$$\n\\sqrt{a}\n$$", "``{`a`}``", "$\\frac{a}\n{b}$"):
        assert list(placeholders(f"{block} {{theta}}")) == ["theta"], block
    assert replaced(text, "<{}>".format) == r"$\frac{a}{\sqrt{d_k}}$, `{}` and <n_tokens> tokens; <theta>$"
    assert (
        parse("a-name", LESSON.replace("By {factor}.", r"By $\sqrt{24}$."), PLACEHOLDERS).steps[1].text
        == r"By $\sqrt{24}$."
    )


BROKEN = {
    "no title": (LESSON.replace("# A", "A"), 1, "title"),
    "no minutes": (LESSON.replace("Minutes: 5", ""), 5, "Minutes"),
    "minutes in words": (LESSON.replace("5", "five"), 3, "five"),
    "no steps": (LESSON.split("##", maxsplit=1)[0], 6, "## "),
    "no link": (LESSON.replace("Link: heads?layer=1&head=3\n", ""), 7, "Link"),
    "another page": (LESSON.replace("heads?", "tails?"), 9, "tails"),
    "a value out of range": (LESSON.replace("head=3", "factor=99"), 9, "factor"),
    "no such setting": (LESSON.replace("head=3", "hat=3"), 9, "hat"),
    "a lesson in a lesson": (LESSON.replace("head=3", "lesson=x"), 9, "lesson"),
    "no such element": (LESSON.replace("head-grid", "head-gird"), 10, "head-gird"),
    "an element of another tab": (LESSON.replace("tab=longer&", ""), 21, "figure-slowed"),
    "no such placeholder": (LESSON.replace("{factor}", "{faktor}"), 23, "faktor"),
    "a field twice": (LESSON.replace("Answer: Because.", "Question: Why?"), 16, "two"),
    "a question alone": (LESSON.replace("Answer: Because.", ""), 14, "Answer"),
    "an answer alone": (LESSON.replace("Question: Why\nso?\n", ""), 14, "Question"),
    "an empty field": (LESSON.replace("Because.", ""), 16, "Answer"),
    "a formula over two lines": (LESSON.replace("By {factor}", "By $\\frac{a}\n{b}$"), 23, "on one line"),
    "no text": (LESSON.replace("By {factor}.", ""), 18, "text"),
    "a step without a title": (LESSON.replace("## Second", "## "), 18, "title"),
}


@pytest.mark.parametrize(("written", "line", "reason"), BROKEN.values(), ids=BROKEN)
def test_what_does_not_parse_is_said_with_line_and_reason(written: str, line: int, reason: str) -> None:
    with pytest.raises(LessonError) as error:
        parse("a-name", written, PLACEHOLDERS)
    assert error.value.line == line and reason in error.value.reason, error.value


def test_a_folder_of_ones_own_is_read_and_what_is_wrong_in_it_is_said(tmp_path: Path, monkeypatch) -> None:
    (tmp_path / "mine.md").write_text(LESSON)
    (tmp_path / "one-head.md").write_text(LESSON)
    (tmp_path / "broken.md").write_text("Hello\n")
    (tmp_path / "Bad Name.md").write_text(LESSON)
    (tmp_path / "latin.md").write_bytes(b"# caf\xe9")
    (tmp_path / ".#mine.md").symlink_to("user@host.1234")  # as Emacs does beside a file with changes
    monkeypatch.setenv(compute.FOLDER, str(tmp_path))
    found, unread = compute.lessons()
    assert found["mine"].title == found["one-head"].title == "A title"
    assert {each.file for each in unread} == {"broken.md", "Bad Name.md", "latin.md"}
    assert [each.name for each in compute.own(found)] == ["mine", "one-head"]
    assert "line 1" in next(each.reason for each in unread if each.file == "broken.md")
    (tmp_path / "mine.md").write_text(LESSON.replace("A title", "Another title"))
    assert compute.lessons()[0]["mine"].title == "Another title"


def test_a_file_without_end_is_not_read(tmp_path: Path, monkeypatch) -> None:
    (tmp_path / "long.md").write_text(LESSON + "a" * compute.MAX_BYTES)
    monkeypatch.setenv(compute.FOLDER, str(tmp_path))
    assert [type(each) for each in compute.lessons()[1]] == [Unread]


# ---- the shipped lessons


SHIPPED_LESSONS, UNREAD = compute.lessons()
STEPS = [(name, i) for name, lesson in SHIPPED_LESSONS.items() for i in range(1, len(lesson.steps) + 1)]


def test_at_least_eight_lessons_of_five_to_ten_steps_ship() -> None:
    assert UNREAD == [] and len(SHIPPED_LESSONS) >= 8
    assert {
        name: len(lesson.steps) for name, lesson in SHIPPED_LESSONS.items() if not 5 <= len(lesson.steps) <= 10
    } == {}
    assert {lesson.minutes for lesson in SHIPPED_LESSONS.values()} <= set(range(5, 11))
    assert list(SHIPPED_LESSONS) == (SHIPPED / "order.txt").read_text().split()
    assert all(lesson.about for lesson in SHIPPED_LESSONS.values())
    words = "one two three four five six seven eight nine ten".split()
    lengths = [len(lesson.steps) for lesson in SHIPPED_LESSONS.values()]
    said = f"{words[min(lengths) - 1]} to {words[max(lengths) - 1]} steps"
    assert said in PAGES["lessons"].sentence and said in PURPOSES["Understand it"]


@pytest.mark.slow
@pytest.mark.parametrize("name, number", STEPS)
def test_every_step_points_at_something_and_its_numbers_compute(name: str, number: int) -> None:
    lesson = SHIPPED_LESSONS[name]
    step = lesson.step(number)
    assert step.target in {element.key for element in step.page.shown(step.link.get("tab", ""))}
    again, notices = Settings.from_link(lesson.settings(number).to_link(), step.page)
    assert again == lesson.settings(number) and notices == []
    view = View(lesson.settings(number))
    selected = {name: value for name, value in step.link.items() if name in SELECTION}
    assert not view.ids or view.link_notices(selected) == []
    for text in (step.text, step.question, step.answer):
        shown = re.sub(r"\$[^$]+\$", "", filled(text, view))  # formulas have braces
        assert not re.search(r"[{}]|\bnan\b|\binf\b|None|–", shown), shown


@pytest.mark.parametrize("name", SHIPPED_LESSONS)
def test_no_number_is_typed(name: str) -> None:
    """Digits occur only in links, placeholders, names in formulas and numbers of papers."""
    for step in SHIPPED_LESSONS[name].steps:
        written = " ".join((step.text, step.question, step.answer))
        assert not re.search(r"(?<![\w.-])\d[\d.,]*", re.sub(r"\{[^}]*\}|arXiv \d{4}\.\d{5}", "", written)), written


# ---- placeholders against independent computations


def value(name: str, **fields: object) -> str:
    return PLACEHOLDERS[name].value(View(Settings(**fields)))


def test_numbers_of_the_model_and_the_cache() -> None:
    assert [value(name) for name in ("n_layers", "n_heads", "n_all_heads", "n_kv_heads")] == [
        "4",
        "8",
        "32",
        "4 KV heads",
    ]
    own = {"model": "own", "n_heads": 7, "n_kv_heads": 7, "d_model": 98, "n_layers": 3}
    assert value("cache", **own) == f"{2 * 3 * 7 * 14 * 4:,} B"  # K and V, layers, heads, head_dim, bytes of a float32
    assert value("cache_share", **own) == "100%" and value("group_size", **own) == "1"
    assert value("cache", model="mla") == f"{4 * (64 + 16) * 4:,} B" and value("latent", model="mla") == "64"
    assert value("cache_share", model="mqa") == "12.5%"


def test_numbers_of_a_published_model() -> None:
    assert value("published_cache", preset="llama-3-8b") == f"{2 * 32 * 8 * 128 * 2:,} B"
    assert value("published_cache_at_context", preset="llama-3-8b", context=8192) == "1 GiB"
    model = load_presets()["deepseek-v3"]
    assert value("published_cache", preset="deepseek-v3") == f"{kv_cache_bytes(model, 1):,} B" == "70,272 B"
    assert value("published_parameters", preset="llama-2-7b") == "6.74 billion"


def test_numbers_of_a_head_follow_from_the_softmax() -> None:
    import numpy as np

    view = View(Settings(layer=1, head=3))
    t, query, key = view.trace, view.query, view.key
    scores = (t.q[1, 3].astype(float) @ t.k[1, 1].astype(float).T / np.sqrt(t.q.shape[-1]))[query, : query + 1]
    weights = np.exp(scores) / np.exp(scores).sum()
    assert float(value("score")) == pytest.approx(scores[key], abs=1e-4)
    assert float(value("weight")) == pytest.approx(weights[key], abs=1e-4)
    rest = np.delete(scores, key), np.delete(weights, key)
    assert float(value("next_score")) == pytest.approx(rest[0].max(), abs=1e-4)
    assert float(value("exp_score")) / float(value("exp_sum")) == pytest.approx(float(value("weight")), abs=1e-4)
    assert math.log(float(value("exp_score"))) == pytest.approx(float(value("score")), abs=1e-3)
    assert float(value("next_weight")) == pytest.approx(rest[1].max(), abs=1e-4)
    assert (value("n_allowed"), value("n_masked")) == (str(query + 1), str(len(view.ids) - query - 1))


def test_what_scores_are_divided_by_is_the_models_own_scale() -> None:
    view = View(Settings())
    assert value("sqrt_head_dim") == f"{math.sqrt(view.config.head_dim):.2f}"
    gemma = SimpleNamespace(mixer=replace(view.mixer, scale=0.125))
    assert PLACEHOLDERS["sqrt_head_dim"].value(gemma) == "8.00"


def test_the_lesson_s_induction_head_raises_the_token_of_its_strongest_key_most() -> None:
    view = View(SHIPPED_LESSONS["one-head"].settings(7))
    assert int(heads.logit_effects_of(view).argmax()) == view.ids[view.key]
    assert view.ids[view.key - 1] == view.ids[view.query], "it followed the same token the first time"


def test_the_difference_by_tiles_is_that_of_rounding() -> None:
    assert 0 < float(value("tile_difference", layer=1, head=3).replace("−", "-")) < 1e-5


def test_numbers_of_rope() -> None:
    import math

    theta, dim = 10_000, 24
    frequencies = [theta ** (-2 * i / dim) for i in range(dim // 2)]
    assert value("n_pairs") == "12"
    assert value("shortest_wavelength") == "6.28"
    assert value("longest_wavelength") == f"{2 * math.pi / frequencies[-1]:,.0f}"
    assert value("n_turning") == str(sum(28 * f >= 2 * math.pi for f in frequencies))


def losses_of_a_long_text(factor: float, **changed: float) -> dict[str, tuple[float, float]]:
    """Return the mean loss within and beyond the training context by method. changed: fields of YaRN's scaling."""
    view = View(Settings(factor=factor))
    methods, _ = rope.scalings(view, factor, "")
    methods["YaRN"] = replace(methods["YaRN"], **changed)
    losses = rope.losses(view, rope.long_ids(view, 256)[0], methods)
    return {name: (float(each[:256].mean()), float(each[256:].mean())) for name, each in losses.items()}


def test_what_the_lesson_says_about_a_larger_factor_is_so() -> None:
    """Linear scaling is worse everywhere; YaRN is better, mostly by the factor that it multiplies the scores by."""
    two, eight = losses_of_a_long_text(2), losses_of_a_long_text(8)
    assert all(np.greater(eight["linear"], two["linear"]))
    assert min(two, key=lambda name: two[name][1]) == min(eight, key=lambda name: eight[name][1]) == "YaRN"
    assert (
        value("best_scaling", factor=8) == "YaRN" and value("late_loss_scaled", factor=8) == f"{eight['YaRN'][1]:.2f}"
    )
    first = next(iter(two))  # without scaling, whatever the factor
    assert value("early_loss") == f"{two[first][0]:.2f}" and value("late_loss") == f"{two[first][1]:.2f}"
    unscaled = losses_of_a_long_text(8, attention_factor=1.0)["YaRN"][1]
    assert unscaled - eight["YaRN"][1] > 0.5 * (two["YaRN"][1] - eight["YaRN"][1]) > 0


def test_the_models_trained_with_fewer_kv_heads_are_within_two_errors_of_mha() -> None:
    """As the lesson on sharing says; averaged into fewer KV heads, all are worse by more than that."""
    losses = query_groups.losses_of_sharing(Settings(), View(Settings()).ids)
    mha = losses[TRAINED][8]

    def errors(way: str) -> list[float]:
        found = [paired_difference(losses[way][k], mha) for k in (1, 2, 4)]
        return [each.mean / each.error for each in found]

    assert np.abs(errors(TRAINED)).max() < 2 < min(errors(AVERAGED))


def test_numbers_of_a_drafter_add_up() -> None:
    """Each pass yields the accepted tokens and one token of the model itself."""
    names = ("drafted", "accepted", "passes", "drafted_tokens")
    drafted, accepted, passes, written = (int(value(name, drafter="n-grams")) for name in names)
    assert written == accepted + passes and 0 < accepted <= drafted


def test_the_number_of_a_mistake_follows_from_a_softmax_over_queries() -> None:
    import numpy as np

    view = View(Settings())
    q, k = (array[0].astype(float) for array in (view.trace.q, view.trace.k))  # layer 0: (H, T, D), (KV heads, T, D)
    k = k.repeat(len(q) // len(k), axis=0)
    scores = np.where(view.trace.allowed[0], q @ k.transpose(0, 2, 1) / np.sqrt(q.shape[-1]), -np.inf)
    weights = np.exp(scores) / np.exp(scores).sum(1, keepdims=True)
    chosen = {"mistake": "softmax_over_queries"}
    assert float(value("mistake_number", **chosen)) == pytest.approx(weights.sum(2).max(), abs=1e-3)
    assert float(value("mistake_expected", **chosen)) == 1


def test_a_text_that_cannot_run_leaves_a_dash() -> None:
    assert filled("{n_tokens} of {score}", View(Settings(text=""))) == "– of –"
    assert value("text_loss", text="a") == "–"


def test_every_placeholder_says_what_it_is_and_is_listed() -> None:
    listed = (Path(__file__).parents[2] / "docs" / "lessons.md").read_text()
    assert table() in listed, "write the output of `python -m attnviz.compute.placeholders` there"
    assert [key for key in ELEMENTS if f"`{key}`" not in listed] == []
    assert set(placeholders(listed)) - set(PLACEHOLDERS) == set()


def test_elements_have_short_names() -> None:
    """They stand side by side above a long page, in the bar of a lesson, and in that of a presentation."""
    drawings = {e.name for e in ELEMENTS.values() if e.drawing}
    assert {name for name in drawings if len(name.split()) > 5 or len(name) > 28} == set()
    assert {name for name in drawings if name.split()[0] in ("The", "A", "An")} == set()
    for page in ALL:
        for tab in page.tabs or ("",):
            shown = [e.name for e in page.shown(tab) if e.drawing]
            assert len(set(shown)) == len(shown), (page.path, tab)


def test_elements_belong_to_pages_and_tabs_that_are_there() -> None:
    assert [e.key for page in ALL for e in page.elements if e.tab and e.tab not in page.tabs] == []
    assert len(ELEMENTS) == sum(len(page.elements) for page in ALL)
    assert {page.purpose for page in ALL} <= PURPOSES.keys()
    assert {element.tab for element in PAGES["rope"].drawings("nonsense")} == {"", "distance"}
