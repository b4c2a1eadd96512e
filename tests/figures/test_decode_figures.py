"""The Decode page's sentences on times follow from the times, whichever is larger."""

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
    ("names", "odds", "left", "said"),
    [
        (("model", "top-p"), (0.31, 0.155, 0.1), 3, "“ the” 0.3100, 2.0 times as likely as “ a”; 3 of 7 pass top-p"),
        (("model", "temperature"), (0.3, 0.299, 0.1), 7, "0.3000, about as likely as “ a”; no filter removes a token"),
        (("model", "top-k", "min-p"), (0.9, 0.05, 0.01), 1, "18 times as likely as “ a”; 1 of 7 pass the filters"),
        (("model", "greedy"), (0.9, 0.0, 0.0), 1, "over 1,000 times as likely as “ a”; greedy takes the largest"),
        (("model", "top-k"), (0.1, 0.3, 0.2), 2, "“ a” 0.3000, 1.5 times as likely as “ it”; 2 of 7 pass top-k"),
    ],
)
def test_the_title_over_the_candidates_is_what_was_found(names, odds, left, said) -> None:
    assert figures.choice_title(step(names, odds, left), WORDS).endswith(said)


def test_a_step_of_a_checkpoint_reads_more_weights_than_cache() -> None:
    """The page claims this; it holds up to the longest text that it decodes."""
    for name in list_checkpoints():
        work = decode.step_with_cache(load_checkpoint(name)[0], compute.MOST_TOKENS)
        assert work.weight_bytes > work.cache_bytes


@pytest.mark.parametrize(("drafter", "passes"), [("n-grams", False), ("mqa", True)])
def test_only_a_model_that_drafts_has_passes_of_its_own(drafter: str, passes: bool) -> None:
    found = Speculated((decode.Round([7, 11, 13], 2, [7, 11, 17]), decode.Round([19], 1, [19, 23])), 0.005, 0.004)
    note = decode_parts.rounds(found, drafter).note
    assert "1.25 times" in note and "Accepted: 3 of 4" in note
    assert ("takes a pass of" in note) is passes
