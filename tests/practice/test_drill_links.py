"""A question's link opens the page with the number of its answer."""

import pytest

from attnviz.checkpoints import shipped_config
from attnviz.compute.cost import pasted_model
from attnviz.cost import load_presets
from attnviz.figures import cost as figures
from attnviz.practice.drills import (
    make,
)
from attnviz.practice.drills.answers import (
    NumberAnswer,
)
from attnviz.session.pages import PAGES
from attnviz.session.settings import Settings


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
