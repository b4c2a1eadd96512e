"""Who holds what: the pieces drawn are the bytes of the formulas, in the KV heads' hues, copies hatched."""

import pytest

from attnviz.cost import Serving, count_parameters, load_accelerators, load_presets
from attnviz.cost.placed import PARALLEL, on_one
from attnviz.figures import cost as figures
from attnviz.figures.cost.holders import held
from attnviz.figures.theme import kv_colour
from tests.reading import numbers_in

PRESETS, CARD = load_presets(), load_accelerators()["h200-sxm"]
GIB = 2**30


def serving(id, n, n_tokens=32_768, **options) -> Serving:
    return Serving(PRESETS[id], CARD.times(n), n_tokens, **options)


@pytest.mark.parametrize(
    "id, parallel, numbers",  # by hand: 320 KiB and 70,272 B per token
    [
        ("llama-3-70b", "tensor", [2, 12.5, 16]),  # 10 sequences, 2 · 8 · 128 · 2 B in 80 layers, an eighth of it each
        ("llama-3-70b", "data", [10, 16]),  # one sequence on each of ten
        ("deepseek-v3", "tensor", [16, 21.4, 16]),
        ("deepseek-v3", "data", [2.14, 16]),
    ],
)
def test_the_title_says_how_often_the_cache_is_held_and_how_much_of_it_on_each(id, parallel, numbers):
    title = figures.holders(serving(id, 16), 10, parallel).title
    assert numbers_in(title) == numbers and ("held once" in title) == (parallel == "data")


@pytest.mark.parametrize("parallel", PARALLEL)
@pytest.mark.parametrize("id", ["llama-3-8b", "qwen2.5-7b", "deepseek-v3", "gemma-3-27b", "qwen3.5-397b-a17b"])
@pytest.mark.parametrize("n", [2, 3, 14])
def test_the_fullest_accelerator_caches_what_the_plan_counts(id, n, parallel):
    here = serving(id, n, 5_000, parallel=parallel, precision="int4", page=16)
    ranks = [sum(piece.size for piece in rank) for rank in held(here, 5)]
    assert float(max(ranks)) == pytest.approx(here.here(5) * here.plan().cache_of_one, abs=n * 5)
    drawing = figures.holders(here, 5, parallel)
    assert drawing.table["bytes of cache and state"] == [round(size) for size in ranks]
    bars = [trace for trace in drawing.chart.data if trace["yaxis"] == "y"]
    unit = 2**30 if "GiB" in drawing.chart.layout["yaxis"]["title"]["text"] else 2**20
    for rank in range(min(n, 8)):
        drawn = sum(trace["y"][rank] or 0 for trace in bars)
        assert drawn * unit == pytest.approx(float(ranks[rank]))
    assert drawing.figure  # plotly validates it


def test_a_copy_has_its_heads_hue_and_is_hatched():
    drawing = figures.holders(serving("llama-3-70b", 16), 10, "tensor")
    bars = [trace for trace in drawing.chart.data if trace["yaxis"] == "y"]
    assert len(bars) == 4 and len(drawing.table["holds"]) == 16  # 8 accelerators are drawn
    for head, trace in enumerate(bars):
        holding = [rank for rank, y in enumerate(trace["y"]) if y]
        assert holding == [2 * head, 2 * head + 1]
        assert trace["marker"]["color"] == kv_colour(head, 8)
        assert [trace["text"][rank] for rank in holding] == [str(head)] * 2
        assert [trace["marker"]["pattern"]["shape"][rank] for rank in holding] == ["", "/"]
    assert drawing.table["of it copies"] == [0, 12.5 * GIB] * 8
    assert drawing.table["holds"] == [f"KV head {rank // 2}" for rank in range(16)]


def test_the_latent_is_copied_with_tensor_parallelism_and_attentions_weights_in_the_other_case():
    tensor, data = (figures.holders(serving("deepseek-v3", 8), 32, way) for way in PARALLEL)
    assert [size > 0 for size in tensor.table["of it copies"]] == [False] + [True] * 7
    assert set(data.table["of it copies"]) == {0}
    assert sum(tensor.table["bytes of cache and state"]) == 8 * sum(data.table["bytes of cache and state"])
    for drawing, way in ((tensor, "tensor"), (data, "data")):
        assert set(drawing.table["bytes of weights"]) == {
            2 * count_parameters(on_one(PRESETS["deepseek-v3"], 8, way)).total
        }
        assert drawing.chart.layout["yaxis"]["range"] == tensor.chart.layout["yaxis"]["range"]
    assert data.table["bytes of weights"][0] > tensor.table["bytes of weights"][0]


def test_a_mixed_models_states_are_drawn_beside_its_heads():
    """Qwen3.5 397B: 45 layers with states, 15 with 2 KV heads, each held by four of eight."""
    drawing = figures.holders(serving("qwen3.5-397b-a17b", 8), 4, "tensor")
    assert drawing.table["holds"] == [f"KV head {rank // 4} and state" for rank in range(8)]
    assert [size > 0 for size in drawing.table["of it copies"]] == [False, True, True, True] * 2
    assert "cache and state are held 3.52 times" in drawing.title


def test_only_pieces_with_room_have_their_number_and_the_note_speaks_of_heads_only_where_there_are_some():
    """GPT-3 on 8: 12 of 96 heads each, less than a twentieth of the axis, which has room for all of them."""
    drawing = figures.holders(serving("gpt3-175b", 8), 2, "tensor")
    assert {text for trace in drawing.chart.data if trace["yaxis"] == "y" for text in trace["text"]} == {""}
    assert "the KV head" in drawing.note and "KV heads" in drawing.below
    latent = figures.holders(serving("deepseek-v3", 8), 2, "tensor")
    assert "KV head" not in latent.note + latent.below


def test_thousands_of_accelerators_and_one_are_drawn():
    many = figures.holders(serving("llama-3-8b", 4096, 100), 3, "tensor")
    assert "first 8 of 4,096" in many.note and many.table["holds"][:2] == ["KV head 0", "no cache"]
    assert figures.holders(serving("llama-3-8b", 1, 100), 3, "data").table["holds"] == ["KV heads 0 to 7"]
