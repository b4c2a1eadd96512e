"""What the Decode page says of times follows from the times, whichever way they fall."""

import pytest
import torch

from attnviz import decode
from attnviz.checkpoints import list_checkpoints, load_checkpoint
from attnviz.compute import decode as compute
from attnviz.decode.comparisons import Member, Speculated, Spread, spreads
from attnviz.decode.writing import WrittenStep
from attnviz.figures import decode as figures
from attnviz.figures import decode_parts


def member(model: str, token_bytes: int, seconds: float) -> Member:
    return Member(model, (2, 3, 5), token_bytes, Spread(seconds, seconds, seconds))


def test_runs_are_timed_in_turns() -> None:
    order: list[str] = []
    first, second = spreads(lambda: order.append("a"), lambda: order.append("b"), n=5)
    assert order == ["a", "b"] * 5
    assert 0 <= first.low <= first.median <= first.high and second.low <= second.median <= second.high


@pytest.mark.parametrize(("mqa", "said"), [(0.0017, "0.34 times"), (0.0085, "1.70 times")])
def test_what_a_smaller_cache_did_to_a_step_is_what_was_measured(mqa: float, said: str) -> None:
    drawing = figures.family_times([member("mha", 6144, 0.005), member("gqa-2", 1536, 0.007), member("mqa", 768, mqa)])
    assert "1/8 of MHA's bytes" in drawing.note and said in drawing.note


def step(names: tuple[str, ...], odds: tuple[float, ...], left: int) -> WrittenStep:
    found, counts = tuple((name, odds) for name in names), (*(7 for _ in names[1:]), left)
    return WrittenStep(2, 2, odds[0], (2, 3, 5), found, counts, (13,), torch.zeros(1, 1))


WORDS = ("", "", " the", " a", "", " it", "")


@pytest.mark.parametrize(
    ("odds", "title"),
    [
        ((0.31, 0.155, 0.1), "“ the”, probability 0.3100, the most likely"),
        ((0.3, 0.3, 0.1), "“ the”, probability 0.3000, the most likely"),
        ((0.0294, 0.0483, 0.01), "“ the”, probability 0.0294; most likely “ a”, 0.0483"),
    ],
)
def test_the_title_over_the_candidates_names_the_token_that_is_written(odds, title) -> None:
    assert figures.choice_title(step(("model",), odds, 7), WORDS) == title


@pytest.mark.parametrize(
    ("names", "left", "said"),
    [
        (("model", "top-p"), 3, "3 of 7 tokens pass top-p."),
        (("model", "top-k", "min-p"), 1, "1 of 7 tokens passes the filters."),
        (("model", "temperature"), 7, "No filter removes a token."),
        (("model", "greedy"), 1, "Greedy decoding takes the most likely token."),
    ],
)
def test_what_passes_the_filters_is_counted(names, left, said) -> None:
    assert figures.passing_text(step(names, (0.3, 0.2, 0.1), left), len(WORDS)) == said


def test_steps_that_leave_nothing_to_draw_are_counted_unless_greedy() -> None:
    one, two = (step(("model", "top-p"), (0.3, 0.2, 0.1), left) for left in (1, 2))
    assert figures.single_text([one, two, one]).startswith("In 2 of 3 steps computed so far, only one token")
    assert figures.single_text([one, two]) == ""
    assert figures.single_text([step(("model", "greedy"), (0.3, 0.2, 0.1), 1)] * 3) == ""


def test_a_step_of_a_checkpoint_reads_more_weights_than_cache() -> None:
    """As the page says, up to the longest text that it decodes."""
    for name in list_checkpoints():
        work = decode.step_with_cache(load_checkpoint(name)[0], compute.MOST_TOKENS)
        assert work.weight_bytes > work.cache_bytes


@pytest.mark.parametrize(("drafter", "passes"), [("n-grams", False), ("mqa", True)])
def test_only_a_model_that_drafts_has_passes_of_its_own(drafter: str, passes: bool) -> None:
    found = Speculated((decode.Round([7, 11, 13], 2, [7, 11, 17]), decode.Round([19], 1, [19, 23])), 0.005, 0.004)
    note = decode_parts.rounds(found, drafter).note
    assert "1.25 times" in note and "Accepted: 3 of 4" in note
    assert ("takes a pass of" in note) is passes
