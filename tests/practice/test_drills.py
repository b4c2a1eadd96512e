"""Check every kind of question for many seeds: one right answer, distinct wrong ones, a solution that reaches it."""

import math
import re

import numpy as np
import pytest
import torch

from attnviz.compute.practice import legend, solution_tex
from attnviz.cost import count_parameters, decode_step, kv_cache_bytes, load_accelerators, load_presets, prefill
from attnviz.exercises import SUBJECTS
from attnviz.practice import drills
from attnviz.practice.drills import (
    KINDS,
    LEVELS,
    lines,
    question_set,
)
from attnviz.practice.drills.answers import (
    ChoiceAnswer,
    NumberAnswer,
)
from attnviz.practice.drills.heads import GROUPED, orders
from attnviz.practice.drills.lines import differs
from attnviz.session.pages import PAGES
from attnviz.session.settings import Settings
from tests.arithmetic import NOTHING, check
from tests.practice.asked import make
from tests.practice.forms import forms, listed, wrong_answers

SEEDS = range(25)
ONE = torch.ones(2)


def test_there_are_enough_kinds_in_each_subject_and_level():
    assert len(KINDS) >= 100
    assert {(k.subject, k.level) for k in KINDS.values()} == {(s, level) for s in SUBJECTS for level in LEVELS}


def test_the_orders_of_kv_heads_are_those_of_the_question():
    assert orders(12, 3) == ("0 1 2 0 1 2 …", "0 0 0 0 1 1 …")
    for H, K in GROUPED:
        heads = torch.arange(K)
        for shown, expected in zip(orders(H, K), (heads.repeat(H // K), heads.repeat_interleave(H // K)), strict=True):
            read = [int(head) for head in shown.removesuffix(" …").split()]
            assert K < len(read) <= H and read == expected[: len(read)].tolist()


@pytest.mark.slow
@pytest.mark.parametrize("name", KINDS)
def test_a_kind(name):
    texts, n_wrong = set(), 0
    for seed in SEEDS:
        question = make(name, seed)
        answer, where = question.answer, f"{name} {seed}: {question.text}"
        texts.add((question.text, question.code, answer.shown()))
        assert (question.kind, question.seed, question.subject) == (name, seed, KINDS[name].subject)
        assert question.text.endswith(("?", ".")) and question.because.endswith(".") and "  " not in question.text, (
            where
        )
        for form in forms(answer):
            assert question.grade(form).right, (where, form)
        wrong = wrong_answers(answer)
        grades = [question.grade(given) for given in wrong]
        assert not any(grade.right for grade in grades) and all(grade.read for grade in grades), (where, wrong, grades)
        assert len(set(wrong)) == len(wrong), where
        n_wrong += len(wrong)
        if isinstance(answer, ChoiceAnswer):
            assert len(set(answer.options)) == len(answer.options) >= 2, where
        if question.solution:
            assert isinstance(answer, NumberAnswer) or name == "what_bounds", where
            assert "=" in question.solution[-1].text(), where
        if question.solution and isinstance(answer, NumberAnswer):
            assert math.isclose(question.solution[-1].value, answer.value, rel_tol=1e-6), (
                where,
                question.solution[-1].text(),
            )
        assert question.because not in [grade.explanation for grade in grades], where  # it is printed below
        assert not question.grade("").right and not question.grade("nonsense ☃").read, where
        path, link = question.link
        settings, notices = Settings.from_link(dict(link), PAGES[path])
        assert not notices and (not link.get("tab") or settings.tab in PAGES[path].tabs), (where, notices)
    assert len(texts) >= 2 and n_wrong >= len(SEEDS) / 2
    assert drills.make(name, 7) == make(name, 7)


@pytest.mark.parametrize("seed", range(40))
def test_maps_of_roles_are_told_apart_by_plain_means(seed):
    """Identify roles by mean weights on the previous, the current and the first token; the rest is induction."""
    question = make("map_of_a_role", seed)
    maps = [np.array([[w or 0.0 for w in row] for row in drawn.values]) for drawn in question.maps]
    means = {
        "a previous-token head": [m.diagonal(-1)[1:].mean() for m in maps],
        "a current-token head": [m.diagonal()[1:].mean() for m in maps],
        "an attention sink": [m[2:, 0].mean() for m in maps],
    }
    found = {name: int(np.argmax(each)) for name, each in means.items()}
    found["an induction head"] = ({0, 1, 2, 3} - set(found.values())).pop()
    assert len(set(found.values())) == 4
    asked = next(name for name in found if question.text.endswith(f"Which one is {name}?"))
    assert question.answer.right == found[asked]


@pytest.mark.parametrize("seed", range(40))
def test_the_map_with_a_mistake_is_the_one_that_is_not_causal_or_does_not_sum_to_1(seed):
    question = make("map_with_a_mistake", seed)
    maps = [np.array([[w or 0.0 for w in row] for row in drawn.values]) for drawn in question.maps]
    wrong = [bool(np.triu(m, 1).sum() > 0.1 or abs(m.sum(1) - 1).max() > 0.1) for m in maps]
    assert wrong == [i == question.answer.right for i in range(4)]


def test_the_untrained_map_has_no_diagonal():
    """A trained head here puts its weight on one diagonal: the current token, the previous one, or one phrase back."""
    for seed in range(40):
        question = make("map_without_training", seed)
        maps = [np.array([[w or 0.0 for w in row] for row in drawn.values]) for drawn in question.maps]
        diagonal = [max(m.diagonal(-k)[1:].mean() for k in range(len(m) - 4)) for m in maps]
        rest = [d for i, d in enumerate(diagonal) if i != question.answer.right]
        assert diagonal[question.answer.right] < 0.4 < min(rest), diagonal


@pytest.mark.parametrize("name", ["what_bounds", "tokens_per_second"])
def test_weights_and_caches_in_questions_on_speed_fit_in_memory(name):
    questions = [make(name, seed) for seed in range(40)]
    for question in questions:
        link = question.link[1]
        model, tokens, batch = load_presets()[link["preset"]], int(link["context"]), int(link.get("batch", 1))
        n_bytes = 2 * count_parameters(model).total + kv_cache_bytes(model, tokens, batch)
        assert n_bytes <= load_accelerators()[link["machine"]].memory
    if name == "what_bounds":
        limits = [question.answer.shown() for question in questions]
        assert set(limits) == {"memory bandwidth", "arithmetic"} and 10 < limits.count("arithmetic") < 30


def test_a_version_of_a_line_is_judged_by_running_it():
    assert lines.run(("y = 1 / torch.zeros(1)[3]",)).startswith("It raises IndexError")
    assert differs(torch.ones(2, 3), torch.ones(3, 2)).endswith("(2, 3) instead of (3, 2).")
    assert differs(torch.full((2,), math.nan), torch.ones(2)).endswith("NaN.") and not differs(ONE, ONE)
    for n in range(len(lines.MISTAKES)):
        assert sum(a != b for a, b in zip(lines._with(n), lines.ATTENTION, strict=True)) == 1


@pytest.mark.parametrize("name", KINDS)
def test_what_is_printed_evaluates_and_each_letter_is_named(name):
    for seed in range(12):
        question = make(name, seed)
        printed = [question.because, question.text, *(listed(question.answer) or [])]
        if question.solution:
            printed += [solution_tex(question), *(each.text() for each in question.solution)]
            named = {letter for each in question.solution for letter in each.legend()}
            assert named <= {part.partition(" = ")[0] for part in legend(question).split(" · ")}, question.text
        for text in printed:
            assert check(text) in ([], [NOTHING]), (seed, text)


def test_the_tokens_at_which_caches_are_as_large_as_the_weights_are_whole():
    for seed in range(20):
        question = make("cache_as_large_as_the_weights", seed)
        model = load_presets()[question.link[1]["preset"]]
        n, weights = question.answer.value, 2 * count_parameters(model).total
        assert isinstance(n, int) and "." not in question.answer.shown()
        assert kv_cache_bytes(model, n - 1) < weights <= kv_cache_bytes(model, n)
        assert "summed over all sequences" in question.text


def test_the_output_over_two_tiles_is_that_of_torchs_kernel_over_all_keys():
    """A tile of two keys, one with the maximum score and the value 0, has l = 1 + exp(s − m) and o = exp(s − m) · v."""
    for seed in range(40):
        question = make("merge_of_two_tiles", seed)
        text = question.text.translate(str.maketrans("₁₂−", "12-"))
        largest, sums, outs = (
            [float(x) for x in re.findall(rf"{name}[12] = (-?\d+(?:\.\d+)?)", text)] for name in "mlo"
        )
        scores = torch.tensor([s for m, n in zip(largest, sums, strict=True) for s in (m, m + math.log(n - 1))])
        values = torch.tensor([v for n, out in zip(sums, outs, strict=True) for v in (0.0, out / (n - 1))])
        kernel = torch.nn.functional.scaled_dot_product_attention(
            torch.ones(1, 1, 1), scores[None, :, None], values[None, :, None], scale=1.0
        )
        assert question.answer.value == pytest.approx(float(kernel), rel=1e-5)
        assert question.grade(repr(sum(outs) / sum(sums))).explanation.startswith("Rescale both tiles")


def test_one_more_sequence_would_not_fit_beside_the_weights():
    for seed in range(40):
        question = make("sequences_that_fit", seed)
        numbers = (
            r"(\d+) layers.*?(\d+) KV heads?, head_dim (\d+), ([\d,]+) parameters.* of ([\d,]+) tokens.*\(([\d,]+) B"
        )
        L, K, D, N, S, memory = (int(n.replace(",", "")) for n in re.search(numbers, question.text).groups())
        n, left = 0, memory - 2 * N
        while left >= 2 * L * K * D * S * 2:
            n, left = n + 1, left - 2 * L * K * D * S * 2
        assert question.answer.value == n >= 2
        link = question.link[1]
        model, machine = load_presets()[link["preset"]], load_accelerators()[link["machine"]]
        assert (count_parameters(model).total, kv_cache_bytes(model, S)) == (N, 4 * L * K * D * S)
        assert machine.memory == memory and link["reserve"] == "0" and int(link["context"]) == S
        gib = round(memory / 2**30, 2) * 2**30  # as it is printed first
        assert (gib - 2 * N) // (4 * L * K * D * S) == n


def test_the_time_to_the_first_token_is_that_of_the_page():
    """One number in the question, its steps and on the page: no second one that counts something else."""
    for seed in range(40):
        question = make("time_to_first_token", seed)
        link = question.link[1]
        model, machine = load_presets()[link["preset"]], load_accelerators()[link["machine"]]
        page = prefill(model, int(link["context"]))
        assert page.bound_by(machine) == "compute" and not model.moe
        assert machine.memory >= 2 * count_parameters(model).total
        assert question.answer.value == question.solution[-1].value == pytest.approx(1000 * page.seconds(machine))
        assert "ms" not in question.because


def test_the_blocks_and_empty_slots_of_a_paged_cache_are_counted_one_by_one():
    asked = set()
    for seed in range(40):
        question = make("blocks_of_a_paged_cache", seed)
        size, *lengths = (int(n) for n in re.findall(r"\d+", question.text))
        blocks = {(i, position // size) for i, length in enumerate(lengths) for position in range(length)}
        counted = {"blocks": len(blocks), "slots": len(blocks) * size - sum(lengths)}
        assert question.answer.value == counted[question.answer.unit] and int(question.link[1]["block_size"]) == size
        asked.add(question.answer.unit)
    assert asked == set(counted)


def test_sampling_is_seen_on_decode_with_the_settings_of_the_question():
    for seed in range(20):
        temperature, top_p, top_k = (
            Settings.from_link(dict(make(name, seed).link[1]), PAGES["decode"])[0]
            for name in ("most_probable", "kept_by_top_p", "probability_after_top_k")
        )
        texts = [make(name, seed).text for name in ("most_probable", "kept_by_top_p", "probability_after_top_k")]
        assert f"temperature {temperature.temperature:g}?" in texts[0] and temperature.temperature != 1
        assert f"p = {top_p.top_p:g} " in texts[1] and f"k = {top_k.top_k}," in texts[2]
        assert (temperature.top_k, temperature.top_p) == (0, 1)
        assert (top_p.temperature, top_p.top_k) == (1, 0) and (top_k.temperature, top_k.top_p) == (1, 1)
        assert all(make(name, seed).link[0] == "decode" for name in ("most_probable", "kept_by_top_p", "speculated"))


def test_a_question_on_sharing_leads_to_a_drawing_of_its_heads():
    for name in ("kv_head_read", "readers_of_a_kv_head", "still_right_when_tiled", "cell_of_the_group"):
        for seed in range(20):
            question = make(name, seed)
            s, notices = Settings.from_link(dict(question.link[1]), PAGES["query_groups"])
            told = [int(n) for n in re.findall(r"(\d+) (?:query|KV) heads", question.text)[:2]]
            assert told == [s.n_heads, s.n_kv_heads] and not notices and s.own_config()


@pytest.mark.parametrize("seed", [0, 1, 7, 123_456, 999_999])
@pytest.mark.parametrize("level", LEVELS)
def test_any_link_to_a_set_opens_questions_with_their_answers(seed, level):
    for question in question_set("", level, 18, seed):
        assert question.grade(forms(question.answer)[0]).right and make(question.kind, question.seed) == question


def test_the_wrong_options_on_readers_name_the_head_that_they_read():
    """Read off the text: query head h reads KV head h · K / H."""
    for seed in range(60):
        question = make("readers_of_a_kv_head", seed)
        H, K = (int(n) for n in re.findall(r"(\d+) (?:query|KV) heads", question.text))
        for option, why in zip(question.answer.options, question.answer.explanations, strict=True):
            if found := re.fullmatch(r"These read KV head (\d+)\.", why):
                assert {int(h) * K // H for h in option.split(", ")} == {int(found[1])}


def test_a_weight_is_printed_with_the_decimals_that_are_asked_for():
    for seed in range(10):
        question = make("missing_weight", seed)
        assert re.fullmatch(r"0\.\d\d", question.answer.shown())
        assert question.solution[0].text().endswith(f" {question.answer.shown()}")


def test_no_question_on_what_bounds_is_near_the_balance_and_it_says_what_decides():
    for seed in range(40):
        question = make("what_bounds", seed)
        of = r"([\d,.]+) GB of weights.* ([\d,.]+) GB of cache.* ([\d,.]+) TB/s.* ([\d,.]+) TFLOP/s"
        weights, cache, bandwidth, rate = (float(n.replace(",", "")) for n in re.search(of, question.text).groups())
        batch = int(re.search(r"decodes ([\d,]+)", question.text)[1].replace(",", ""))
        reading = (weights + cache) / 1e3 / bandwidth
        arithmetic = weights / 1e3 * batch / rate  # 2 FLOPs for each weight of 2 bytes; attention's only add to them
        if question.answer.shown() == "memory bandwidth":
            assert reading > 1.5 * arithmetic
        else:
            link = question.link[1]
            step = decode_step(load_presets()[link["preset"]], int(link["context"]), batch)
            assert step.intensity >= 2 * load_accelerators()[link["machine"]].ridge


def test_what_bounds_derives_both_numbers_and_gives_a_reason_per_option():
    for seed in range(40):
        question = make("what_bounds", seed)
        link = question.link[1]
        model, machine = load_presets()[link["preset"]], load_accelerators()[link["machine"]]
        step = decode_step(model, int(link["context"]), int(link["batch"]))
        flops, intensity, ridge = question.solution
        assert flops.value == pytest.approx(step.flops)
        assert intensity.value == pytest.approx(step.intensity) and ridge.value == pytest.approx(machine.ridge)
        assert f"does {step.intensity:.1f} FLOPs per byte" in question.because
        for name in ("what_bounds", "softmax_of_nothing"):
            answer = make(name, seed).answer
            reasons = [why for i, why in enumerate(answer.explanations) if i != answer.right]
            assert len(set(reasons)) == len(answer.options) - 1 and all(reasons)


def test_the_strongest_key_is_seen_at_a_glance():
    for seed in range(40):
        question = make("strongest_key", seed)
        row = sorted((w for w in question.answer.values[question.answer.cell[0]] if w is not None), reverse=True)
        assert row[0] - row[1] >= 0.1
