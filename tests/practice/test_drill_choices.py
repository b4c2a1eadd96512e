"""Solve the questions with a shape, options, a cell or a map from what they show, and check what their reasons say."""

import re

import numpy as np
import pytest
import torch

from attnviz.practice.drills import KINDS, Question, lines
from attnviz.practice.drills.answers import ChoiceAnswer, ShapeAnswer
from tests.practice.asked import make
from tests.reading import numbers_where

SEEDS = range(100)

# ---- shapes


def solve_shape(name: str, question: Question) -> tuple[int, ...]:
    text, code = question.text, question.code
    shapes = [torch.zeros(*map(int, found.split(","))) for found in re.findall(r"\((\d+(?:, \d+)+)\)", text)]
    match name:
        case "queries_by_head":
            B, T, C = shapes[0].shape
            (H,) = numbers_where("n_heads = #", text)
            return B, int(H), T, C // int(H)
        case "keys_in_gqa":
            K, D, B, T = map(int, numbers_where("# KV heads?, head_dim #, # texts of # tokens", text))
            return B, K, T, D
        case "weight_of_k_proj":
            C, K, D = map(int, numbers_where("d_model = #.*, # KV heads?, head_dim #", text))
            return tuple(torch.nn.Linear(C, K * D).weight.shape)
        case "scores" | "einsum_of_groups":
            names = {"q": shapes[0], "k": shapes[1], "torch": torch}
            return tuple(eval(code.removeprefix("scores = "), names).shape)
        case "heads_joined":
            return tuple(eval(code.removeprefix("out = "), {"out": shapes[0]}).shape)
        case "broadcast_mask":
            masked = shapes[0]
            for mask in shapes[1:]:
                masked = masked * mask
            return tuple(masked.shape)
        case "weight_of_the_latent":
            C, R, P = map(int, numbers_where("d_model = #.*kv_lora_rank #,.*qk_rope_head_dim #", text))
            return tuple(torch.nn.Linear(C, R + P).weight.shape)
        case "weight_that_expands_the_latent":
            H, R, N, V = map(int, numbers_where("# heads, kv_lora_rank #, qk_nope_head_dim #,.*v_head_dim #", text))
            return tuple(torch.nn.Linear(R, H * (N + V)).weight.shape)
        case "absorbed_query":
            (R,) = map(int, numbers_where("kv_lora_rank is #", text))
            q_nope, q_rope = shapes
            up = torch.zeros(q_nope.shape[1], q_nope.shape[3], R)
            return tuple(torch.cat((torch.einsum("bhtn,hnr->bhtr", q_nope, up), q_rope), -1).shape)
        case "read_from_the_latent":
            B, T, H, R = map(int, numbers_where("# texts of # tokens, # heads: kv_lora_rank is #", text))
            return tuple(torch.einsum("bhts,bsr->bhtr", torch.zeros(B, H, T, T), torch.zeros(B, T, R)).shape)
    raise AssertionError(f"no solver for {name}")


ON_SHAPES = [name for name in KINDS if isinstance(make(name, 1).answer, ShapeAnswer)]


@pytest.mark.parametrize("name", ON_SHAPES)
def test_a_shape_follows_from_what_the_question_gives_and_swapped_axes_do_not_pass(name):
    for seed in range(300):
        question = make(name, seed)
        shape = question.answer.shape
        assert shape == solve_shape(name, question), question.text
        assert question.grade(str(shape)).right
        for i in range(len(shape)):
            for j in range(i):
                swapped = list(shape)
                swapped[i], swapped[j] = shape[j], shape[i]
                assert (swapped == list(shape) and shape[i] == shape[j] == 1) or not question.grade(str(swapped)).right
        named = [int(n) for n in re.findall(r"\b\d+\b", re.sub(r"\(1, 2\)|, 1, 1,", "", question.text))]
        sizes = [n for n in named if n != 1]
        tensors = [tuple(map(int, found.split(", "))) for found in re.findall(r"\((\d+(?:, \d+)+)\)", question.text)]
        for tensor in tensors:
            several = [n for n in tensor if n != 1]
            assert len(set(several)) == len(several), question.text
        if not tensors:
            assert len(set(sizes)) == len(sizes), question.text


# ---- choices


@pytest.mark.parametrize("name", [name for name in KINDS if isinstance(make(name, 1).answer, ChoiceAnswer)])
def test_no_two_options_are_the_same_after_what_is_read_over(name):
    for seed in SEEDS:
        options = [re.sub(r"\s+", "", each.casefold()) for each in make(name, seed).answer.options]
        assert len(set(options)) == len(options) >= 3


def test_the_type_of_attention_follows_from_the_heads_in_the_text():
    for seed in SEEDS:
        question = make("name_of_the_attention", seed)
        H, K = numbers_where("has # query heads?, and its cache holds the keys and values of # head", question.text)
        assert question.answer.shown() == ("MHA" if H == K else "MQA" if K == 1 else "GQA")


def test_one_option_lists_the_readers_of_a_kv_head():
    for seed in SEEDS:
        question = make("readers_of_a_kv_head", seed)
        H, K, j = numbers_where("# query heads, # KV heads. .*KV head #", question.text)
        right = {h for h in range(int(H)) if h * K // H == j}
        options = [{int(h) for h in each.split(", ")} for each in question.answer.options]
        assert [each == right for each in options].count(True) == 1 and options[question.answer.right] == right


def test_one_line_repeats_the_kv_heads():
    for seed in SEEDS:
        question = make("line_that_repeats", seed)
        K, H = (int(n) for n in numbers_where(r"\(B, #, S, D\).*for # query", question.text))
        k = torch.arange(K).view(1, K, 1, 1).expand(2, K, 7, 5)
        read = []
        for line in question.answer.options:
            out = eval(line, {"k": k})
            wanted = (torch.arange(H) * K // H).view(1, H, 1, 1).expand(2, H, 7, 5)
            read.append(out.shape == wanted.shape and bool((out == wanted).all()))
        assert read == [i == question.answer.right for i in range(len(read))]


def test_one_option_is_the_row_of_the_mask():
    for seed in SEEDS:
        question = make("row_of_a_mask", seed)
        text = question.text
        (n,) = numbers_where("# keys;", text)
        w = int(numbers_where("window of # tokens", text)[0]) if "window" in text else 99
        sinks = 1 if "1 attention-sink" in text else 0
        past = 3 if "3 tokens are cached" in text else 0
        i = past + int(numbers_where("token # " if past else "query # ", text)[0])
        row = ["1" if j <= i and (i - j < w or j < sinks) else "0" for j in range(int(n))]
        right = [each.split() == row for each in question.answer.options]
        assert right == [k == question.answer.right for k in range(len(right))], text
        reasons = [numbers_where("window of #", why) for why in question.answer.explanations if "window of" in why]
        assert len(reasons) == sum("window of" in why for why in question.answer.explanations)


def test_one_option_has_the_best_keys_that_the_query_may_attend_to():
    """Sorted by score, then by position; the other options are what their reasons say of the same table."""
    few = 0
    for seed in SEEDS:
        question = make("keys_of_an_indexer", seed)
        i, T, k = map(int, numbers_where("of query # .*text of # tokens.* k = # keys", question.text))
        keys, scores = zip(*(line.split() for line in question.code.split("\n")[1:]), strict=True)
        assert keys == tuple(map(str, range(T)))
        few += i + 1 < k

        def best(among: range, later_first: bool = False) -> set[int]:
            order = sorted(among, key=lambda j: (-float(scores[j]), -j if later_first else j))  # noqa: B023
            return set(order[:k])  # noqa: B023

        seen = set(range(i + 1))
        expected = {
            "": best(range(i + 1)), "masked afterwards": best(range(T)) & seen, "are masked for this": best(range(T)),
            "equal scores": best(range(i + 1), later_first=True),
        }  # fmt: skip
        for option, why in zip(question.answer.options, question.answer.explanations, strict=True):
            (found,) = [kept for said, kept in expected.items() if (said in why if said else not why)]
            assert {int(j) for j in option.split(", ") if option != "none"} == found, question.text
        assert len(question.answer.options) == (3 if i + 1 <= k else 4)
    assert 15 < few < 45


def test_one_option_is_the_softmax_of_a_fully_masked_row():
    for seed in SEEDS:
        question = make("softmax_of_nothing", seed)
        (n,) = numbers_where("All # keys", question.text)
        row = torch.full((int(n),), float("-inf") if "−inf" in question.text else -1e9).softmax(0)
        right = "NaN for every key" if row.isnan().all() else f"{1 / n:.3g} for every key"
        assert question.answer.shown() == right


def test_one_option_has_the_distance_of_the_question_and_each_reason_its_own():
    for seed in SEEDS:
        question = make("same_score", seed)
        m, n = numbers_where("query at position # and a key at position #", question.text)
        distances = [a - b for a, b in (numbers_where("q at #, k at #", each) for each in question.answer.options)]
        assert [d == m - n for d in distances] == [i == question.answer.right for i in range(len(distances))]
        for distance, why in zip(distances, question.answer.explanations, strict=True):
            if why:
                a, b, c, told = numbers_where("distance is # - # = #, not #", why)
                assert (a - b, told) == (c, m - n) and c == distance
                assert "-" not in why  # a minus sign, not a hyphen


def test_one_line_raises_and_one_line_is_wrong():
    for seed in SEEDS:
        question = make("line_that_raises", seed)
        shape = [int(n) for n in numbers_where(r"\(#, #, #, #\)", question.text)]
        raising = []
        for line in question.answer.options:
            try:
                eval(line, {"out": torch.zeros(shape)})
                raising.append(False)
            except RuntimeError:
                raising.append(True)
        assert raising == [i == question.answer.right for i in range(len(raising))]
    for seed in SEEDS:
        question = make("wrong_line", seed)
        shown = [line[3:] for line in question.code.split("\n")]
        differing = [i for i, (a, b) in enumerate(zip(shown, lines.ATTENTION, strict=True)) if a != b]
        assert differing == [question.answer.value - 1]


def test_the_blank_has_one_right_option():
    right = {line: lines.run((line.replace("___", option),)) for line, option in lines.RIGHT_BLANKS.items()}
    for seed in SEEDS:
        question = make("blank_in_a_line", seed)
        runs = [lines.run((question.code.replace("___", option),)) for option in question.answer.options]
        same = [isinstance(each, torch.Tensor) and torch.equal(each, right[question.code]) for each in runs]
        assert same == [i == question.answer.right for i in range(len(same))]


def test_what_bounds_a_step_follows_from_the_numbers_in_the_text():
    """With 2 FLOPs per weight of 2 bytes, as a reader without the sizes of the layers has to count."""
    for seed in SEEDS:
        question = make("what_bounds", seed)
        W, B, M, bandwidth, peak = numbers_where(
            "reads # GB of weights, decodes # sequences?.* with # GB of cache.* reads # TB/s and computes # TFLOP/s",
            question.text,
        )
        reading, arithmetic = (W + M) / bandwidth, W * B / peak
        assert (reading < arithmetic) == (question.answer.shown() == "arithmetic"), question.text


def test_one_option_says_which_pairs_the_method_of_the_question_slows():
    """Interpolation divides all positions, a larger base leaves pair 0, the others leave pairs that rotate often."""
    seen, wanted = set(), {"interpolation": "all pairs, by", "NTK": "all pairs but the fastest"}
    often = dict.fromkeys(("YaRN", "Llama 3's scaling"), "those that rotate ")
    for seed in SEEDS:
        question = make("pairs_that_a_method_slows", seed)
        (said,) = [part for name, part in (wanted | often).items() if name in question.text]
        if said in often.values() and "Llama 3" not in question.text:
            (limit,) = [option for option in question.answer.options if said in option]
            assert ("less than once" if "Kimi K2" in question.text else "fewer than 32 times") in limit
        assert [said in each for each in question.answer.options] == [i == question.answer.right for i in range(4)]
        for option, why in zip(question.answer.options, question.answer.explanations, strict=True):
            assert not why or "none" in option or any(n in why and s in option for n, s in (wanted | often).items())
        seen.add(said)
    assert len(seen) == 3


def test_one_key_is_masked_and_each_reason_is_true_of_its_key():
    outside = 0
    for seed in SEEDS:
        question = make("masked_key", seed)
        w, n_sinks, t = map(int, numbers_where("window of # tokens.*and # sink tokens?.*for query #", question.text))
        keys = [int(each.removeprefix("key ")) for each in question.answer.options]
        masked = [n_sinks <= j <= t - w for j in keys]
        assert masked == [i == question.answer.right for i in range(4)], question.text
        outside += keys[question.answer.right] == t - w
        for j, why in zip(keys, question.answer.explanations, strict=True):
            if "sink" in why:
                assert j < n_sinks
            elif "window" in why:
                assert numbers_where("has # keys.*: # to #", why) == [w, j, t] and t - j == w - 1
            else:
                assert why.startswith("A query") == (j == t)
    assert outside > 50  # the key just outside the window, which an off-by-one error takes for the last one inside


def test_one_number_of_gpus_gives_each_the_same_heads():
    """Query heads in a row on each GPU, with the KV heads that they read: as many of both on all of them."""
    for seed in SEEDS:
        question = make("gpus_that_divide_the_heads", seed)
        H, K = map(int, numbers_where("has # query heads and # KV heads", question.text))
        even = []
        for n in map(int, question.answer.options):
            whole_kv_heads = K % n == 0 or n % K == 0
            even.append(H % n == 0 and whole_kv_heads)
        assert even == [i == question.answer.right for i in range(4)], question.text
        for n, why in zip(map(int, question.answer.options), question.answer.explanations, strict=True):
            if why:
                told, gpus = numbers_where("^# .* on # GPUs", why)
                assert gpus == n and (told % n if "query" in why else told == K and told % n and n % told)


# ---- maps


def drawn(question: Question) -> list[np.ndarray]:
    return [np.array([[w or 0.0 for w in row] for row in each.values]) for each in question.maps]


def share(told: str, weights: np.ndarray, labels: tuple[str, ...]) -> tuple[float, int]:
    """Compute by plain loops the mean weight that a sentence speaks of, and over how many queries."""
    T, found = len(weights), []
    for i in range(1, T):
        if "token before them" in told:
            keys = [i - 1]
        elif "own token" in told:
            keys = [i]
        elif "first token" in told:
            keys = [0]
        else:
            keys = [j + 1 for j in range(i) if labels[j] == labels[i]]
        if keys:
            found.append(sum(weights[i, j] for j in keys))
    return float(np.mean(found)), len(found)


def test_the_sentences_on_maps_print_the_shares_of_their_maps():
    """The maps of induction heads have 26 to 35 % of all weight on the token after an earlier occurrence."""
    for seed in range(60):
        for name in ("map_of_a_role", "map_without_training"):
            question = make(name, seed)
            maps, labels = drawn(question), question.maps[0].labels
            told = dict(zip(question.answer.options, question.answer.explanations, strict=True))
            if name == "map_of_a_role":
                told[question.answer.shown()] = question.because
            for letter, sentence in told.items():
                if not sentence:
                    continue
                mean, n = share(sentence, maps["ABCD".index(letter)], labels)
                (printed,) = numbers_where("put #% of their weight", sentence)
                assert printed == pytest.approx(100 * mean, abs=0.51) and "most of" not in sentence, sentence
                if "whose token occurred before" in sentence:
                    assert numbers_where("the # queries", sentence) == [n]


def test_the_untrained_map_is_below_what_its_sentence_says():
    for seed in range(60):
        question = make("map_without_training", seed)
        least, most = numbers_where("average #% or more.*puts at most #% on", question.because)
        for i, weights in enumerate(drawn(question)):
            labels = question.maps[0].labels
            found = [
                100 * share(told, weights, labels)[0] for told in ("token before them", "own token", "an occurrence")
            ]
            if i == question.answer.right:
                assert max(found) == pytest.approx(most, abs=0.51)
            else:
                assert max(found) >= least


def test_the_weight_read_off_a_map_is_that_of_its_cell():
    for seed in SEEDS:
        question = make("weight_off_a_map", seed)
        i, j = (int(n) for n in numbers_where("query # put on key #", question.text))
        weight = drawn(question)[0][i, j]
        for option, why in zip(question.answer.options, question.answer.explanations, strict=True):
            if why:
                (step,) = numbers_where("That is # too", why)
                sign = 1 if "too high" in why else -1
                assert float(option) == pytest.approx(weight + sign * step, abs=0.0051)
            else:
                assert float(option) == pytest.approx(weight, abs=0.0051)


@pytest.mark.parametrize("name", ["strongest_key", "earliest_key_of_a_window", "pattern_of_a_map", "cell_of_the_group"])
def test_the_cell_follows_from_the_question(name):
    for seed in SEEDS:
        question = make(name, seed)
        text, (i, j) = question.text, question.answer.cell
        assert i == numbers_where("query (?:head )?#", text[text.index("Click") :])[0]
        if name == "strongest_key":
            row = [w or 0.0 for w in question.answer.values[i]]
            assert row[j] == max(row)
        elif name == "earliest_key_of_a_window":
            (w,) = numbers_where("window of # tokens", text)
            assert j == min(key for key in range(i + 1) if i - key < w)
        elif name == "pattern_of_a_map":
            words = [each.partition(":")[2] for each in re.search("“(.*?)”", text)[1].split()]
            assert [key + 1 for key in range(i) if words[key] == words[i]] == [j]
        else:
            H, K = numbers_where("# query heads, columns are # KV heads", text)
            assert j == i // (H / K)


def test_the_weight_to_read_off_a_map_is_as_often_the_lowest_option_as_the_highest():
    """Most weights are small: without care the right one is nearly always the lowest."""
    ranks = [0, 0, 0]
    for seed in SEEDS:
        answer = make("weight_off_a_map", seed).answer
        ranks[sorted(answer.options, key=float).index(answer.shown())] += 1
    assert min(ranks) > 20 and sum(ranks) == len(SEEDS)
