"""A question's link opens the page with the number of its answer."""

import math
import re

import pytest

from attnviz.analysis.groups import kv_heads_read
from attnviz.checkpoints import shipped_config
from attnviz.compute.cost import pasted_model
from attnviz.compute.practice import with_other_numbers
from attnviz.cost import (
    PRECISIONS,
    Answer,
    Serving,
    attention_name,
    bits_with_scales,
    comparison,
    kv_cache_bytes,
    load_accelerators,
    load_presets,
    plan_memory,
)
from attnviz.cost.placed import TENSOR
from attnviz.cost.units import bytes_text
from attnviz.figures import cost as figures
from attnviz.figures.groups import sharing
from attnviz.practice.drills import KINDS
from attnviz.practice.drills.answers import (
    NumberAnswer,
)
from attnviz.session.pages import PAGES
from attnviz.session.settings import Settings
from tests.practice.asked import make
from tests.reading import numbers_where


@pytest.mark.parametrize("name", ["attention_parameters", "feed_forward_parameters", "embedding_parameters"])
@pytest.mark.parametrize("seed", range(5))
def test_a_question_on_parameters_leads_to_the_table_with_its_number(name, seed):
    question = make(name, seed)
    assert isinstance(question.answer, NumberAnswer) and question.link[1]["tab"] == "facts"
    model, _ = pasted_model(question.link[1]["facts"])
    tables = [
        figures.attention_parameters([model], model, None).table,
        figures.model_parameters([model], model, None).table,
    ]
    numbers = {n for table in tables for column in table.values() for n in column if isinstance(n, int)}
    per_layer = {n / model.n_layers for n in numbers} if name == "feed_forward_parameters" else set()
    assert question.answer.value in numbers | per_layer


@pytest.mark.parametrize("seed", range(12))
def test_the_weights_of_a_question_are_those_of_the_page_in_its_precision(seed):
    """int4 with its scales, as the page stores it."""
    question = make("weights_in_memory", seed)
    s, notices = Settings.from_link(dict(question.link[1]), PAGES["cost"])
    bits = bits_with_scales(s.weights)
    plan = plan_memory(load_presets()[s.preset], 10**13, 1, weight_bits=bits)
    assert plan.weights / 1e9 == pytest.approx(question.answer.value, rel=1e-6) and not notices


CACHES = {
    "cache_per_token": 1, "cache_of_mla": 1, "cache_of_a_context": 2**30, "cache_with_scales": 2**30,
    "cache_behind_a_window": 2**30,
}  # fmt: skip


@pytest.mark.parametrize("name", CACHES)
def test_a_question_on_a_cache_leads_to_the_formula_with_its_number(name):
    """The page's table has the bytes of the question's model, context, batch and precision."""
    for seed in range(12):
        question = make(name, seed)
        s, _ = Settings.from_link(dict(question.link[1]), PAGES["cost"])
        model, _ = pasted_model(s.facts)
        drawing = figures.cache([model], model, None, s.context, s.batch, s.precision)
        (found,) = drawing.table[f"bytes in {s.precision}"]
        assert found / CACHES[name] == pytest.approx(question.answer.value) and drawing.formula


def test_a_quantised_cache_leads_to_the_page_that_compares_it_with_bf16_in_its_own_block_of_scales():
    """By hand: 16 bits against those of a number and its share of a 16-bit scale."""
    blocks = set()
    for seed in range(40):
        question = make("times_smaller_when_quantised", seed)
        s, notices = Settings.from_link(dict(question.link[1]), PAGES["cost"])
        model, _ = pasted_model(s.facts)
        ((bits, block),) = re.findall(r"to int(\d), with a 16-bit scale per (\d+) numbers", question.text)
        drawing = figures.precisions(model, s.context, s.batch, s.precision)
        ((said, per, times),) = re.findall(r"int(\d), scale per (\d+) numbers: ([\d.]+) times", drawing.title)
        assert (said, per) == (bits, block) and f"int{bits} with a 16-bit scale per {block} numbers" in drawing.alt
        assert float(times) == pytest.approx(16 / (int(bits) + 16 / int(block)), rel=5e-4)
        assert question.answer.value == pytest.approx(float(times), rel=5e-4) and not notices
        sizes = dict(zip(drawing.table["precision"], drawing.table["bytes"], strict=True))
        quantised = sizes[f"int{bits} with a 16-bit scale per {block} numbers"]
        assert sizes["bf16"] / quantised == pytest.approx(question.answer.value)
        blocks.add((bits, block))
    assert len(blocks) == 5


@pytest.mark.parametrize("precision", [name for name, (_, block) in PRECISIONS.items() if block])
def test_whatever_gives_bytes_in_a_quantised_precision_says_the_block_of_its_scales_beside_them(precision):
    """Not behind a question mark, nor inside a calculation that is folded."""
    bits, block = PRECISIONS[precision]
    model, own = load_presets()["llama-2-13b"], load_presets()["qwen3-next-80b-a3b"]
    serving = Serving(model, load_accelerators()["h100-sxm"], 4096, precision, weights=precision)
    beside = [
        figures.sentence(Answer(serving, 1)),
        figures.filling(serving).note,
        figures.cache([model], model, None, 4096, 1, precision).note,
        figures.caches_panel([model], 4096, 1, precision)["note"],
        figures.memory_of_layers(own, 4096, 1, precision).note,
        figures.saving_text(model, model, 4096, 1, precision),
        figures.models_finding([Answer(serving, 1)]),
    ]
    for said in beside:
        assert f"int{bits} with a 16-bit scale per {block} numbers" in said


@pytest.mark.parametrize(
    "name", [*CACHES, "what_bounds", "tokens_per_second", "sequences_that_fit", "time_to_first_token"]
)
def test_no_cache_is_asked_for_beyond_the_context_of_its_model(name):
    for seed in range(40):
        question = make(name, seed)
        link, n = question.link[1], int(question.link[1]["context"])
        model = load_presets()[link["preset"]] if "preset" in link else pasted_model(link["facts"])[0]
        assert n <= model.max_context and model.name in question.text
        assert n == 1 or name == "tokens_per_second" or f"{n:,} tokens" in question.text


@pytest.mark.parametrize(
    "name, tab",
    [("size_of_a_state", "state"), ("when_a_state_is_smaller", "context"), ("half_of_a_write", "state"),
     ("left_of_a_write", "remembers"), ("left_by_channel", "remembers"), ("keys_of_an_indexer", "indexer")],
)  # fmt: skip
def test_a_question_on_linear_and_sparse_attention_leads_to_a_model_that_has_it(name, tab):
    for seed in range(6):
        path, link = make(name, seed).link
        s, notices = Settings.from_link(dict(link), PAGES[path])
        config = shipped_config(s.model)
        assert (path, s.tab, notices) == ("linear", tab, [])
        if tab == "indexer":
            assert all(layer.mixer.top_k for layer in config.layers) and f"k = {s.keep} " in make(name, seed).text
        else:
            assert any(layer.mixer.state() for layer in config.layers)


@pytest.mark.parametrize("name", ["size_of_a_state", "when_a_state_is_smaller"])
def test_the_size_of_a_state_is_that_of_its_published_model(name):
    """transformers keeps a state in 32 bits; its cache has the model's KV heads."""
    seen = set()
    for seed in range(40):
        question = make(name, seed)
        model = next(m for m in load_presets().values() if question.text.startswith(f"{m.name}: "))
        mixers = [mixer for layer in model.layers for mixer in layer.mixers]
        state = next(mixer.state()[0] for mixer in mixers if mixer.state())
        assert (state.part, state.bits) == ("state", 32)
        size, attention = 4 * int(state.numbers.value), next(mixer for mixer in mixers if mixer.attends)
        seen.add(model.name)
        if name == "size_of_a_state":
            assert question.answer.value == size
            continue
        width = 2 if "bf16" in question.text else 1
        n, per_token = question.answer.value, 2 * width * attention.n_kv_heads * attention.head_dim
        assert (n - 1) * per_token <= size < n * per_token and n <= model.max_context
    assert len(seen) >= 4


@pytest.mark.parametrize("name", ["kv_heads_on_a_gpu", "copies_of_a_cache", "cache_on_a_gpu"])
def test_a_question_on_tensor_parallelism_leads_to_the_drawing_with_its_number(name):
    for seed in range(12):
        question = make(name, seed)
        s, notices = Settings.from_link(dict(question.link[1]), PAGES["cost"])
        machine = load_accelerators()[s.machine].times(s.n_machines)
        table = figures.holders(Serving(load_presets()[s.preset], machine, s.context), s.batch, TENSOR).table
        first, last = (re.findall(r"\d+", table["holds"][0]) * 2)[:2] if "KV" in table["holds"][0] else (0, 0)
        shown = {
            "kv_heads_on_a_gpu": int(last) - int(first) + 1,
            "copies_of_a_cache": table["times all of it is held"][0],
            "cache_on_a_gpu": table["bytes of cache and state"][0],
        }
        assert s.tab == "holders" and not notices and f"{s.n_machines} GPUs" in question.text
        assert question.answer.value == pytest.approx(shown[name])


def test_a_question_on_expanded_latents_leads_to_the_bytes_of_both_forms():
    """The drawing's bytes of a layer; expanded by hand: each head's key with its RoPE part, and its value."""
    for seed in range(12):
        question = make("expanded_against_latent", seed)
        s, _ = Settings.from_link(dict(question.link[1]), PAGES["cost"])
        model = load_presets()[s.preset]
        drawing = figures.two_forms(Serving(model, load_accelerators()[s.machine], s.context, s.precision))
        (kept,), (absorbed,) = (
            {*drawing.table[f"bytes moved, {form}"]} for form in ("expanded once and cached", "absorbed")
        )
        assert kept == 2 * model.n_heads * (model.head_dim + model.v_head_dim) and bytes_text(kept) in drawing.note
        assert kept / absorbed == pytest.approx(question.answer.value) and s.tab == "speed"


@pytest.mark.parametrize(
    "name, settings",
    [("oldest_token_behind_sinks", {"bound": "at most # tokens"}),
     ("tokens_after_a_cached_prefix", {"block_size": "blocks of # tokens"}),
     ("traffic_of_tiles", {"block": "tiles of # queries"}),
     ("reach_of_windows", {"mask_window": "window of # tokens"}),
     ("masked_key", {"mask_window": "window of # tokens", "mask_sinks": "and # sink token"}),
     ("base_of_ntk_scaling", {"head_dim": "rotates # dim", "theta": "base is #", "factor": "factor of #"}),
     ("pairs_that_yarn_leaves", {"head_dim": "rotates # dim", "theta": "base is #"})],
)  # fmt: skip
def test_a_link_has_the_numbers_of_its_question(name, settings):
    for seed in range(12):
        question = make(name, seed)
        path, link = question.link
        s, notices = Settings.from_link(dict(link), PAGES[path])
        assert s.tab in PAGES[path].tabs and not notices
        for setting, said in settings.items():
            assert [getattr(s, setting)] == numbers_where(said, question.text), setting


@pytest.mark.parametrize(
    "name, page, tab, model",
    [("weight_of_the_latent", "query_groups", "latent", "mla"), ("absorbed_query", "query_groups", "latent", "mla"),
     ("weight_that_expands_the_latent", "query_groups", "latent", "mla"),
     ("read_from_the_latent", "query_groups", "latent", "mla"), ("numbers_rotated_in_mla", "rope", "latent", "mla"),
     ("kv_heads_of_an_equal_cache", "query_groups", "latent", "mla"),
     ("row_with_a_learned_sink", "linear", "sinks", "sinks"), ("cache_shared_by_layers", "linear", "shared", "shared")],
)  # fmt: skip
def test_a_question_leads_to_a_checkpoint_that_has_what_it_asks_about(name, page, tab, model):
    path, link = make(name, 1).link
    s, notices = Settings.from_link(dict(link), PAGES[path])
    assert (path, s.tab, s.model, notices) == (page, tab, model, [])
    layers = shipped_config(model).layers
    assert {
        "mla": all(layer.mixer.absorbed for layer in layers),
        "sinks": any(layer.mixer.sink_logits for layer in layers),
        "shared": any(layer.mixer.reads_cache for layer in layers),
    }[model]


def test_the_models_of_a_comparison_are_those_of_its_link():
    for seed in range(12):
        question = make("mla_against_gqa", seed)
        s, notices = Settings.from_link(dict(question.link[1]), PAGES["cost"])
        latent, grouped = (load_presets()[id] for id in s.compare)
        assert question.text.startswith(f"{latent.name} uses MLA") and f"; {grouped.name} uses GQA" in question.text
        assert not notices and latent.attention == "mla" and grouped.attention == "gqa"
        sizes = [kv_cache_bytes(model, 1) / model.n_layers for model in (grouped, latent)]
        assert question.answer.value == pytest.approx(sizes[0] / sizes[1])


def serving_of(question) -> tuple[Serving, Settings]:
    """Return what the page answers for with a question's link: a published model on an accelerator."""
    s, notices = Settings.from_link(dict(question.link[1]), PAGES["cost"])
    assert not notices
    machine = load_accelerators()[s.machine].times(s.n_machines)
    kept = {"precision": s.precision, "weights": s.weights, "reserve": s.reserve / 100}
    return Serving(load_presets()[s.preset], machine, s.context, **kept), s


def tokens_per_second(question) -> float:
    serving, s = serving_of(question)
    return Answer(serving, s.batch).tokens_per_second


def sequences_that_fit(question) -> float:
    serving, s = serving_of(question)
    return Answer(serving, s.batch).most


def time_to_first_token(question) -> float:
    table = figures.first_token(serving_of(question)[0]).table
    shown = dict(zip(table["tokens of the prompt"], table["seconds to the first token at least"], strict=True))
    return 1e3 * shown[serving_of(question)[1].context]


def cache_as_large_as_the_weights(question) -> float:
    """The tokens of one sequence, which takes as much as the weights and with one token less takes less."""
    serving, s = serving_of(question)
    plan = Answer(serving, 1).plan
    per_token = plan.cache_of_one / s.context
    assert plan.cache_of_one >= plan.weights > plan.cache_of_one - per_token
    return s.context


def mla_against_gqa(question) -> float:
    """The bytes of a token in all layers, of which the question asks about one."""
    s, _ = Settings.from_link(dict(question.link[1]), PAGES["cost"])
    models = [load_presets()[id] for id in s.compare]
    said = figures.caches_panel(models, s.context, s.batch, s.precision)
    latent, grouped = (int(n.replace(",", "")) for n in re.findall(r"([\d,]+) B\b", said["alt"]))
    assert s.preset == s.compare[0] and f"{grouped / latent:.2g} times" in question.because
    return grouped / latent * models[0].n_layers / models[1].n_layers


def of_pasted(question) -> tuple:
    s, _ = Settings.from_link(dict(question.link[1]), PAGES["cost"])
    model, _ = pasted_model(s.facts)
    return figures.cache(comparison(model), model, None, s.context, s.batch, s.precision), model, s


def times_smaller(question) -> float:
    drawing, model, _ = of_pasted(question)
    shown = dict(zip(drawing.table["attention"], drawing.table["bytes in bf16"], strict=True))
    return shown[attention_name(comparison(model)[0])] / shown[attention_name(model)]


def numbers_added(question) -> float:
    """A number takes a byte in fp8, which the list of precisions has."""
    drawing, model, _ = of_pasted(question)
    return dict(zip(drawing.table["attention"], drawing.table["bytes in fp8"], strict=True))[attention_name(model)]


def growth_behind_windows(question) -> float:
    _, model, s = of_pasted(question)
    said = figures.growth_text(model, s.precision)
    assert f"In {s.precision}" in said
    return int(re.findall(r"\*\*([\d,]+) B\*\*", said)[-1].replace(",", ""))


def wavelength(question) -> float:
    s, _ = Settings.from_link(dict(question.link[1]), PAGES["rope"])
    return 2 * math.pi * s.theta ** (2 * s.pair / s.head_dim)


def kv_head_read(question) -> float:
    (head,) = numbers_where("does query head # read", question.text)
    return groups_drawn(question)[int(head)]["kv"]


def still_right_when_tiled(question) -> float:
    return sum(not each["wrong"] for each in groups_drawn(question))


def groups_drawn(question) -> list[dict]:
    s, _ = Settings.from_link(dict(question.link[1]), PAGES["query_groups"])
    read = kv_heads_read(s.n_heads, s.n_kv_heads, tiled=s.tiled)
    return sharing(s.n_heads, s.n_kv_heads, read, 0)["queries"]


SHOWN = {
    each.__name__: each for each in (
        tokens_per_second, sequences_that_fit, time_to_first_token, cache_as_large_as_the_weights, mla_against_gqa,
        times_smaller, numbers_added, growth_behind_windows, wavelength, kv_head_read, still_right_when_tiled,
    )
}  # fmt: skip
TESTED_ABOVE = {
    *CACHES, "attention_parameters", "feed_forward_parameters", "embedding_parameters", "weights_in_memory",
    "times_smaller_when_quantised", "kv_heads_on_a_gpu", "copies_of_a_cache", "cache_on_a_gpu",
    "expanded_against_latent",
}  # fmt: skip


@pytest.mark.parametrize("name", SHOWN)
def test_what_the_page_shows_is_the_number_that_was_asked_for(name):
    for seed in range(8):
        question = make(name, seed)
        assert SHOWN[name](question) == pytest.approx(question.answer.value, rel=5e-3), question.text


def test_every_number_that_a_page_is_said_to_show_is_compared_with_the_page():
    """The link to another page says that its numbers are others."""
    asked = {name for name, kind in KINDS.items() if kind.drawn and isinstance(make(name, 1).answer, NumberAnswer)}
    assert asked == {*SHOWN, *TESTED_ABOVE}
    assert not with_other_numbers(make("cache_per_token", 1)) and with_other_numbers(make("rotated_pair", 1))
