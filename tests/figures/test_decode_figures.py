"""The Decode page's sentences on times follow from the times, whichever is larger."""

import math
import re

import pytest
import torch

from attnviz import decode
from attnviz.checkpoints import load_checkpoint
from attnviz.compute import models
from attnviz.config import FAMILY
from attnviz.decode.comparisons import (
    Bounded,
    Compared,
    Member,
    Quantised,
    Shared,
    Speculated,
    Spread,
    spreads,
)
from attnviz.decode.roofline import Phase, Roofline
from attnviz.decode.writing import WrittenStep
from attnviz.figures import decode as figures
from attnviz.figures import decode_caches, decode_roofline, speculation
from attnviz.figures.theme import FAINT, OUTLINE, TEXT
from tests.reading import numbers_in, numbers_where


def around(seconds: float) -> Spread:
    """Quartiles a tenth below and above."""
    return Spread(0.9 * seconds, seconds, 1.1 * seconds, 9)


def member(model: str, token_bytes: int, seconds: float) -> Member:
    return Member(model, (2, 3, 5), token_bytes, around(seconds))


def test_runs_are_timed_in_turns() -> None:
    order: list[str] = []
    first, second = spreads(lambda: order.append("a"), lambda: order.append("b"), n=5)
    assert order == ["a", "b"] * 5
    assert 0 <= first.low <= first.median <= first.high and second.low <= second.median <= second.high


@pytest.mark.parametrize(
    ("mqa", "slowest", "times", "fastest", "order"),
    [
        (0.0017, "GQA-2", 4.1, "MQA", "MQA faster.*GQA-2 slower"),
        (0.0054, "GQA-2", 1.4, "MHA", "GQA-2 slower.*MQA within"),
        (0.0085, "MQA", 1.7, "MHA", "GQA-2 and MQA slower"),
    ],
)
def test_what_smaller_caches_did_to_a_step_is_what_was_measured(mqa, slowest, times, fastest, order) -> None:
    drawing = figures.family_times([member("mha", 6144, 0.005), member("gqa-2", 1536, 0.007), member("mqa", 768, mqa)])
    assert numbers_where(f"{slowest}'s .* # times {fastest}", drawing.title) == [times]
    assert re.search(order, drawing.note)


def test_quartiles_that_overlap_are_no_finding() -> None:
    near = figures.family_times([member("mha", 6144, 0.005), member("mqa", 768, 0.0051)])
    assert numbers_in(near.title) == [5, 5.1] and "within the spread" in near.title
    assert numbers_in(figures.rate_text(member("mha", 6144, 0.005))) == [200, 182, 222]


def compared(model: str, n_tokens: int) -> Compared:
    live = load_checkpoint(model)[0]
    return Compared(n_tokens, decode.step_with_cache(live, n_tokens), decode.step_without_cache(live, n_tokens), 3e-6)


def test_bars_of_one_unit_share_a_linear_scale_and_zero_is_printed() -> None:
    found = compared("mha", 117)
    drawing = figures.work(found)
    with_cache, without = drawing.chart.data
    assert numbers_in(drawing.title) == [1, 117] and not drawing.formula
    assert drawing.chart.layout["xaxis"].get("type") != "log" and without["text"][2] == "0"
    assert without["marker"] == {"color": FAINT, "line": OUTLINE}
    assert without["x"][0] / with_cache["x"][0] == pytest.approx(117)
    assert with_cache["x"][2] / with_cache["x"][1] == pytest.approx(
        found.with_cache.cache_bytes / found.with_cache.weight_bytes
    )
    assert "float16" not in drawing.note and "float16" in figures.work(found._replace(weights="float16")).note
    assert figures.work(compared("mla", 117)).formula  # absorbed and expanded: not one 117th


@pytest.mark.parametrize(
    ("n_tokens", "without", "numbers"),
    [(29, 0.012, [29, 3]), (512, 0.0042, [4, 4.2])],  # tokens and times as long; both in ms, since they overlap
)
def test_the_times_of_a_step_are_said_with_their_spread(n_tokens: int, without: float, numbers: list) -> None:
    found = compared("gqa-4", n_tokens)
    drawing = figures.step_times(found, (around(0.004), around(without)))
    assert numbers_in(drawing.title) == numbers and "wide" not in drawing.note
    assert ("overlap" in drawing.title) == (without < 0.005)
    times = pytest.approx(without / 0.004, abs=0.051)
    assert numbers_where("# times the multiplications take # times", drawing.note) == [n_tokens, times]
    rate = pytest.approx(2e-9 * found.without.multiplications / without, rel=5e-3)
    assert numbers_where("# GFLOP/s instead of", drawing.note) == [rate]
    assert all(trace.get("textposition") == "middle right" for trace in drawing.chart.data if "text" in trace)
    apart = Spread(0.001, 0.004, 0.009, 9)
    assert numbers_where("# of # ranges", figures.step_times(found, (apart, around(0.1))).note) == [1, 2]
    assert "Each range" in figures.step_times(found, (apart, apart)).note


def step(names: tuple[str, ...], odds: tuple[float, ...], left: int) -> WrittenStep:
    found, counts = tuple((name, odds) for name in names), (*(7 for _ in names[1:]), left)
    return WrittenStep(2, 2, odds[0], (2, 3, 5), found, counts, (13,), torch.zeros(1, 1))


WORDS = ("", "", " the", " a", "", " it", "")


@pytest.mark.parametrize(
    ("odds", "names", "numbers"),
    [
        ((0.31, 0.155, 0.1), [" the"], [0.31]),
        ((0.3, 0.3, 0.1), [" the"], [0.3]),
        ((0.0294, 0.0483, 0.01), [" the", " a"], [0.0294, 0.0483]),
    ],
)
def test_the_title_over_the_candidates_names_the_token_that_is_written(odds, names, numbers) -> None:
    title = figures.choice_title(step(("model",), odds, 7), WORDS)
    assert (re.findall("“(.*?)”", title), numbers_in(title)) == (names, numbers)


@pytest.mark.parametrize(
    ("token", "names", "numbers"),
    [(2, [" the"], [0.6, 0.75]), (3, [" a", " the"], [0.2, 0, 0.6]), (5, [" it", " the"], [0.1, 0.6])],
)
def test_the_probability_of_the_draw_stands_beside_the_models_where_they_differ(token, names, numbers) -> None:
    """Of a top-k of 2 after a penalty on “ a”: those of the last column of the table."""
    odds = {2: (0.6, 0.55, 0.75), 3: (0.2, 0.1, 0.0), 5: (0.1, 0.12, 0.10004)}
    columns = zip(("model", "repetition penalty", "top-k"), zip(*odds.values(), strict=True), strict=True)
    one = WrittenStep(token, 2, odds[token][0], (2, 3, 5), tuple(columns), (7, 7, 2), (13,), torch.zeros(1, 1))
    title = figures.choice_title(one, WORDS)
    assert (re.findall("“(.*?)”", title), numbers_in(title)) == (names, numbers)
    assert title.removeprefix(f"“{WORDS[token]}”, ").startswith(figures.odds_text(one))


@pytest.mark.parametrize(
    ("names", "left", "numbers"),
    [
        (("model", "top-p"), 3, [3, 7]),
        (("model", "top-k", "min-p"), 1, [1, 7]),
        (("model", "temperature"), 7, []),
        (("model", "greedy"), 1, []),
    ],
)
def test_what_passes_the_filters_is_counted(names, left, numbers) -> None:
    said = figures.passing_text(step(names, (0.3, 0.2, 0.1), left), len(WORDS))
    assert numbers_in(said) == numbers and ("top-p" in said) == (names[1:] == ("top-p",))


def test_steps_that_leave_nothing_to_draw_are_counted_unless_greedy() -> None:
    one, two = (step(("model", "top-p"), (0.3, 0.2, 0.1), left) for left in (1, 2))
    assert numbers_in(figures.single_text([one, two, one]))[:2] == [2, 3]
    assert figures.single_text([one, two]) == ""
    assert figures.single_text([step(("model", "greedy"), (0.3, 0.2, 0.1), 1)] * 3) == ""


def test_a_step_of_a_checkpoint_reads_more_weights_than_cache() -> None:
    """The page claims this; it holds up to the longest text that it decodes."""
    for name in FAMILY:
        work = decode.step_with_cache(load_checkpoint(name)[0], models.MAX_TOKENS)
        assert work.weight_bytes > work.cache_bytes


ROUNDS = (decode.Round([1, 2, 3], 2, [1, 2, 4]), decode.Round([6], 1, [6, 5]))


@pytest.mark.parametrize(("drafter", "passes"), [("n-grams", False), ("mqa", True)])
def test_what_speculation_saves_is_said_apart_from_what_it_writes(drafter: str, passes: bool) -> None:
    drawing = speculation.rounds(Speculated(ROUNDS), (around(0.005), around(0.004)), drafter)
    said = drawing.note + drawing.more
    assert numbers_in(drawing.title) == [5, 2, 1.5] and numbers_where("Accepted: # of #", said) == [3, 4]
    assert numbers_where("# are written per pass", said) == [2.5]
    assert numbers_where("saves # of # passes", said) == [3, 5]
    span = r"# ms \(quartiles #–#\)"
    measured = numbers_where(f"{span} with the drafter.*{span} without, # times the time", drawing.more)
    assert measured == [5, 4.5, 5.5, 4, 3.6, 4.4, 1.25]
    near = speculation.rounds(Speculated(ROUNDS), (around(0.0045), around(0.004)), drafter)
    assert "ranges overlap" in near.more and "times the time" not in near.more
    assert ("MQA" in drawing.more) is passes and ("MQA" in drawing.note) is passes


def test_tokens_of_a_pass_keep_their_spaces_and_can_be_read_as_a_text() -> None:
    words = ["", " The", " old", " ~man~", " dog", "s", " sle", "  "]
    text = speculation.passes_text(
        Speculated((*ROUNDS, decode.Round([], 0, [7]))), lambda ids: "".join(words[i] for i in ids)
    )
    assert text == (
        " :blue-background[The old] :orange-background[~~\\~man\\~~~] :gray-background[**dog**]"
        " :blue-background[sle]:gray-background[**s**]  :gray-background[**··**]"
    )


def test_a_drafter_that_found_nothing_says_so() -> None:
    said = speculation.no_proposal(Speculated((decode.Round([], 0, [3]), decode.Round([], 0, [5]))))
    assert numbers_in(said) == [2]  # passes


# ---- bounded and shared caches


def test_a_curve_that_ends_is_marked_and_coinciding_curves_get_narrower() -> None:
    found = [Bounded(name, (2.0,) * n, (), 2048) for name, n in (("all", 9), ("stop", 4), ("slide", 9), ("sinks", 9))]
    *curves, end = decode_caches.losses(found, 4, own=True).chart.data
    assert end["x"] == [4] and end["mode"] == "markers"
    widths = [curve["line"]["width"] for curve in curves]
    assert widths == sorted(widths, reverse=True) and len({*widths}) == 4
    assert len(decode_caches.losses(found, 9, own=True).chart.data) == 4  # it is not full


def test_each_token_is_drawn_as_held_dropped_or_not_read() -> None:
    every, stop, slide, sinks = range(9), range(4), range(5, 9), (0, 6, 7, 8)
    found = [
        Bounded(name, (2.0,) * n, tuple(kept), 2048)
        for name, n, kept in (("all", 9, every), ("stop", 4, stop), ("slide", 9, slide), ("sinks", 9, sinks))
    ]
    drawing = decode_caches.held(found)
    runs = {bar["name"]: list(zip(bar["y"], bar["base"], bar["x"], strict=True)) for bar in drawing.chart.data}
    assert runs["held"] == [(0, 0, 9), (1, 0, 4), (2, 5, 4), (3, 0, 1), (3, 6, 3)]
    assert runs["dropped"] == [(2, 0, 5), (3, 1, 5)] and runs["not read"] == [(1, 4, 5)]
    assert sorted(s["x0"] for s in drawing.chart.layout["shapes"]) == [1, 5, 6]
    assert numbers_in(drawing.title) == [4, 9, 2048, 2]


def test_loss_and_error_of_fewer_bits_stand_beside_the_bars() -> None:
    """Differences of 0.1, 0.2 and 0.6: their mean is 0.3, their variance 0.07, and √(0.07 / 3) = 0.1528."""
    drawing = decode_caches.precisions(
        [Quantised("float32", 4096, (1.0, 2.0, 3.0), 0.0, 0), Quantised("int8", 1024, (1.1, 2.2, 3.6), 0.25, 2)]
    )
    assert drawing.chart.data[0]["text"] == [
        "4,096 B (4 KiB)", "1,024 B (1 KiB)<br>loss +0.3000 ± 0.1528<br>2 of 3 top-1 tokens change",
    ]  # fmt: skip
    assert numbers_in(drawing.title)[-2:] == [0.3, 0.1528]


@pytest.mark.parametrize("sliding", [(2.0, 2.0, 3.1, 3.5), (2.0,) * 4])
def test_what_sliding_does_is_said_with_its_standard_error(sliding: tuple[float, ...]) -> None:
    """After 2 tokens of losses 2: 1.1 and 1.5 more have the mean 1.3 and the standard error 0.2."""
    plain = (2.0,) * 4
    rows = (("all", plain), ("stop", plain[:2]), ("slide", sliding), ("sinks", plain))
    drawing = decode_caches.losses([Bounded(name, losses, (), 2048) for name, losses in rows], 2, own=True)
    assert numbers_where("over # tokens", drawing.note) == [2]
    if sliding == plain:
        assert "no collapse" in drawing.note
    else:
        assert numbers_where("# ± #", drawing.note) == [1.3, 0.2]


def test_the_losses_of_the_title_differ_by_the_change_of_the_note() -> None:
    plain, sliding = (2.0, 2.0, 2.0754, 2.0754), (2.0, 2.0, 2.1806, 2.1806)  # 2.181 − 2.075 would be 0.106
    rows = (("all", plain), ("stop", plain[:2]), ("slide", sliding), ("sinks", plain))
    drawing = decode_caches.losses([Bounded(name, losses, (), 2048) for name, losses in rows], 2, own=True)
    of_all, slid = numbers_where("loss # with all tokens, # sliding", drawing.title)
    assert numbers_where(r"by \+# ±", drawing.note) == [0.1052] == [round(slid - of_all, 4)]


@pytest.mark.parametrize("copied", [{2: 1}, {}])
def test_copied_blocks_are_marked(copied: dict[int, int]) -> None:
    found = Shared(((0, 2), (0, 1)), (2, 1, 1), copied, ((), ()), 8, 8, 512, 0, 9, 512, 1e-6, ())
    drawing = decode_caches.blocks(found)
    assert len(drawing.chart.layout.get("shapes", ())) == len(copied)
    assert not copied or numbers_where("block # is a copy of block #", drawing.note) == [2, 1]
    (cells,) = drawing.chart.data
    assert cells["text"][0][1] == 2 and cells["textfont"]["color"] == TEXT
    assert drawing.chart.layout["xaxis"]["ticktext"] == ["tokens 0–7", "8–15"]


# ---- the roofline


def test_the_roofline_has_ticks_labels_and_quartiles() -> None:
    phases = (
        Phase("prefill", 29, 120_000_000, 8_000_000, around(0.02)),
        Phase("decode", 1, 4_000_000, 8_000_000, around(0.004)),
    )
    drawing = decode_roofline.roofline(Roofline(around(90e9), around(11e9), phases))
    halved = decode_roofline.roofline(Roofline(around(90e9), around(11e9), phases, "bfloat16"))
    for legend, dtype in ((drawing.legend, False), (halved.legend, True)):
        assert ("bfloat16" in legend) == dtype != ("With 2 bytes" in legend)
    low, high = (10**end for end in drawing.chart.layout["yaxis"]["range"])
    assert sum(low < tick < high for tick in drawing.chart.layout["yaxis"]["tickvals"]) > 2
    assert drawing.table["share of the roof"] == ["7%", "18%"]  # 6 of 90 GFLOP/s; 1 of 11 / 2
    assert numbers_where("#–# GFLOP/s", drawing.more) == [81, 99]
    assert numbers_where(r"# ms \(quartiles #–#\)", drawing.more) == [20, 18, 22]
    _, points = drawing.chart.data
    copy, product = drawing.chart.layout["annotations"]
    assert (numbers_in(copy["text"]), numbers_in(product["text"])) == ([11], [90])
    assert copy["yanchor"] == "top" and copy["yshift"] < 0 < product["yshift"] and product["yanchor"] == "bottom"
    assert product["y"] == pytest.approx(math.log10(90e9)) and not drawing.chart.layout["yaxis"]["showgrid"]
    assert points["error_y"]["array"] == pytest.approx([p.flops * (1 / 0.9 - 1) / p.seconds.median for p in phases])
