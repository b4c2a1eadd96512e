"""Controls and links of the Cost page: each moves the numbers that it is about, and says so in the address."""

import json
from types import SimpleNamespace

import pytest
from streamlit.testing.v1 import AppTest

from attnviz.compute import cost as compute_cost
from attnviz.compute import counting
from attnviz.compute.counting import BeingCounted
from attnviz.config import ConfigError
from attnviz.cost import count_parameters, load_presets
from attnviz.cost.variants import kind_of
from attnviz.session.pages import PAGES
from tests.pages import COST, linked, opened, shown
from tests.reading import numbers_where

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("no_links_to_pages")]
HELD = "Llama 3 8B and # sequences of # K tokens"


def use(app: AppTest, label: str, value: str) -> str:
    """Choose an option of a list; return what the parts that depend on it say: the others do not rerun."""
    next(each for each in (*app.selectbox, *app.button_group) if each.label == label).set_value(value).run()
    assert not app.exception
    return shown(app)


def test_the_precision_moves_the_cache_and_the_weights_move_the_memory():
    app = opened(COST, tab="memory", context="8192")
    assert numbers_where(HELD, shown(app)) == [56, 8]
    assert numbers_where(HELD, use(app, "Weights", "int4")) == [67, 8]
    assert app.query_params["weights"] == "int4"
    app = opened(COST, tab="memory", context="8192", weights="int4")
    assert numbers_where(HELD, use(app, "KV cache", "fp8")) == [134, 8]
    assert app.query_params["precision"] == "fp8"


def test_a_number_is_typed_or_slid_and_the_answer_follows():
    """Llama 3 8B caches 2 · 8 · 128 · 2 bytes in 32 layers: 128 KiB a token."""
    app = opened(COST, context="8192")
    app.number_input(key="control-typed-batch").set_value(13).run()
    assert app.query_params["batch"] == "13" and "13 GiB of cache in bf16 for 13 sequences of 8 K tokens" in shown(app)
    app = opened(COST, context="8192")
    app.select_slider(key="control-batch").set_value(2).run()
    assert app.query_params["batch"] == "2" and "2 GiB of cache" in shown(app)
    app = opened(COST)
    app.number_input(key="control-typed-context").set_value(20_000).run()
    assert app.query_params["context"] == "20000" and "2.44 GiB of cache in bf16 for 20,000 tokens" in shown(app)


def test_how_several_accelerators_divide_a_model_is_chosen_where_there_are_several():
    """DeepSeek-V3 caches 70,272 B per token: 2.14 GiB at 32 K, whole on each or for one of 8 sequences on each."""
    asked = {"preset": "deepseek-v3", "machine": "h200-sxm", "batch": "8", "weights": "fp8"}
    assert not [each for each in opened(COST, **asked).selectbox if each.label == "Divided by"]
    app = opened(COST, **asked, n_machines="8", tab="holders")
    there = shown(app)
    assert "17.2 GiB of cache" in there and "held 8 times, 17.2 GiB on each" in there
    assert "held once, 2.14 GiB on each" in there  # drawn beside it
    assert "2.14 GiB of cache" in use(app, "Divided by", "data") and app.query_params["parallel"] == "data"


def test_windows_and_pages_are_counted_as_chosen():
    """Gemma 3 27B at 5,000 tokens: 62 layers of 8,192 B per token; 52 hold 1,024 tokens, or all of 313 pages of 16."""
    app = opened(COST, preset="gemma-3-27b", context="5000", tab="memory")
    assert "807 MiB of cache" in shown(app) and "a lower bound" in shown(app)
    app.toggle(key="control-full_windows").set_value(True).run()
    assert app.query_params["full_windows"] == "1" and "2.37 GiB of cache" in shown(app)
    app.number_input(key="control-page_tokens").set_value(16).run()
    assert app.query_params["page_tokens"] == "16" and "whole pages of 16 tokens" in shown(app)
    assert not opened(COST, preset="llama-3-8b", tab="memory").toggle  # it has no window


def test_one_accelerator_offers_to_divide_it():
    app = opened(COST, tab="holders", preset="llama-3-8b")
    next(button for button in app.button if button.label.startswith("Divide")).click().run()
    assert app.query_params["n_machines"] == "8" and "is held once" in shown(app) and not app.exception


@pytest.mark.parametrize("preset, why", [("llama-3-8b", "without a latent"), ("deepseek-v3.2", "indexer")])
def test_a_model_without_an_absorbed_form_to_draw_says_why(preset, why):
    app = opened(COST, tab="speed", preset=preset)
    assert any(why in info.value for info in app.info) and "new tokens, the absorbed" not in shown(app)
    assert "Up to 170 new tokens, the absorbed" in shown(opened(COST, tab="speed", preset="deepseek-v3"))


def test_the_chosen_model_stays_through_all_tabs_and_the_sidebars_is_drawn_only_where_it_is_chosen():
    for tab in PAGES["cost"].tabs:
        for preset, name in (("deepseek-v3", "DeepSeek"), ("selected", "AttnViz toy GQA-4")):
            there = shown(opened(COST, tab=tab, preset=preset))
            assert f"**{name}" in there.replace("\\", "")
            assert ("live models were built" in there) == (preset == "selected" and tab in ("published", "measured"))


def test_a_model_chosen_on_the_tab_of_the_pasted_one_is_answered_for():
    facts = '{"n_layers": 3, "d_model": 32, "n_heads": 4, "name": "Mine"}'
    app = opened(COST, tab="facts", facts=facts)
    assert "**Mine needs" in shown(app)
    app.selectbox(key="control-preset").set_value("llama-3-8b").run()
    assert "**Llama 3 8B needs" in shown(app) and app.query_params["facts"] == [facts][0]
    app = opened(COST, facts=facts)
    app.selectbox(key="control-preset").set_value("pasted").run()
    assert "**Mine needs" in shown(app) and app.query_params["preset"] == "pasted"
    app = opened(COST)
    app.selectbox(key="control-preset").set_value("pasted").run()
    assert app.query_params["tab"] == "facts" and "Paste a model" in "".join(e.value for e in (*app.error, *app.info))


def test_a_memory_is_typed_in_where_the_accelerator_is_not_listed():
    app = opened(COST, context="8192", machine="own")
    assert "It fits** (24 GiB) with 5.64 GiB to spare" in shown(app) and "Decoding" not in shown(app)
    app.number_input(key="control-own_memory").set_value(8.0).run()
    assert "It does not fit** (8 GiB)" in shown(app) and app.query_params["own_memory"] == "8"
    assert "Decoding: at most" in shown(opened(COST, context="8192", machine="own", own_bandwidth="1008"))
    assert not opened(COST, machine="own", tab="speed").exception


@pytest.mark.parametrize("size", ["", "4", "more"])
@pytest.mark.parametrize("kinds", ["", "mla", "mha,mqa", "state"])
def test_the_list_of_models_has_those_of_the_chosen_sizes_and_kinds(size, kinds):
    billions = {"": (0, 1e6), "4": (0, 4), "more": (80, 1e6)}[size]
    n = sum(
        billions[0] <= count_parameters(model).total / 1e9 < billions[1]
        and (not kinds or kind_of(model) in kinds.split(","))
        for model in load_presets().values()
    )
    app = opened(COST, tab="models", machine="rtx-4090", context="8192", kinds=kinds, size=size)
    assert [len(frame.value) for frame in app.dataframe] == ([n] if n else [])
    assert n or "No published model" in shown(app)


def test_a_link_reopens_a_comparison_with_its_sentence():
    there = shown(opened(COST, context="131072", compare="gemma-3-27b,qwen3-32b", preset="selected"))
    assert numbers_where("# GiB with windows, # GiB without", there) == [10.4, 62]
    assert numbers_where("# K tokens: Gemma 3 27B # GiB and Qwen3 32B # GiB", there) == [128, 10.4, 32]
    assert numbers_where("# live models", there) == [5]


def test_measuring_another_model_stops_ones_own_measurement(monkeypatch):
    class Running:
        results, share, problem, running = (), 0.5, None, True

        def __init__(self, config):
            self.config, self.stopped = config, False

        def stop(self):
            self.stopped = True

    monkeypatch.setattr(compute_cost, "Measurement", Running)
    app = opened(COST, tab="measured")
    app.session_state["measurement"] = before = Running(config=None)
    next(each for each in app.button if each.label == "Measure").click().run()
    assert not app.exception
    assert before.stopped and not app.session_state["measurement"].stopped


MISTRAL = (
    '{"architectures": ["MistralForCausalLM"], "hidden_size": 4096, "vocab_size": 32768, "sliding_window": null,'
    ' "vision_config": {"hidden_size": 1024}}'
)


def test_a_config_json_is_counted_and_what_was_assumed_is_shown():
    app = opened(COST, tab="facts")
    field = next(area for area in app.text_area if "config.json" in area.label)
    field.set_value(MISTRAL).run()
    there = shown(app)
    assert numbers_where("mistral: # parameters\n", there) == [7_248_023_552]
    assert numbers_where(r"Each token adds \*\*# B", there) == [131_072]
    used = next(line for line in there.splitlines() if "Used from config.json" in line)
    assert "hidden_size` 4096" in used and "sliding_window` null" in used
    assert "num_hidden_layers` 32" in next(line for line in there.splitlines() if "assumed" in line)
    assert "**Not counted**: the image encoder" in there
    next(area for area in app.text_area if "config.json" in area.label).set_value('{"model_type": "xlstm"}').run()
    assert any("xlstm" in error.value for error in app.error)


def test_of_a_mixture_with_a_window_active_parameters_and_both_growths_are_shown():
    """gpt-oss-20b: 24 layers, every other with a window of 128; 8 KV heads of 64 numbers, 32 experts, 4 per token."""
    pasted = {"model_type": "gpt_oss", "num_hidden_layers": 24, "num_local_experts": 32}
    there, expert = shown(opened(COST, tab="facts", facts=json.dumps(pasted))), 3 * 2880 * (2880 + 1)
    total, active = numbers_where("gpt.*oss: # parameters, # active per token .*the one row", there)
    assert total == 20_914_757_184 and total - active == 24 * 28 * expert + (201_088 - 1) * 2880
    layer = 2 * 8 * 64 * 2
    growth = numbers_where(r"first # tokens adds \*\*# B\*\*.*after them \*\*# B", there)
    assert growth == [128, 24 * layer, 12 * layer] and "By formula only" in there


@pytest.mark.parametrize(
    ("pasted", "layers", "state", "sentence"),
    [
        ({"model_type": "qwen3_next"}, "36 × gated delta rule and 12 × GQA-2", True, ""),
        (
            {"model_type": "nemotron_h", "hybrid_override_pattern": "M-M*ME", "num_nextn_predict_layers": 1},
            "3 × Mamba-2 and 1 × GQA-8",
            True,
            "Mamba-2",
        ),
        ({"model_type": "gemma3n"}, "16 × GQA-2, window 512 and 4 × GQA-2; 15 layers more read the cache", False, ""),
        ({"model_type": "llama4"}, "36 × GQA-8, chunks of 8,192 and 12 × GQA-8", False, ""),
        ({"model_type": "deepseek_v32"}, "61 × MLA, top 2,048 keys", False, ""),
        ({"model_type": "jamba"}, "28 × Mamba and 4 × GQA-8", True, "Mamba"),
        ({"model_type": "mamba2"}, "64 × Mamba-2", True, "Mamba-2"),
    ],
    ids=lambda case: case["model_type"] if isinstance(case, dict) else None,
)
def test_a_decoder_whose_layers_differ_is_counted_by_its_layers(pasted, layers, state, sentence):
    """Parameters, cache and state by name; what cannot be shown of it is said; no other type of attention is drawn."""
    app = opened(COST, tab="facts", facts=json.dumps(pasted))
    there = shown(app)
    assert not app.exception and not app.error
    assert layers in there and "of MHA's" not in there
    assert ("of state" in there) == state
    assert any(sentence in info.value for info in app.info) == bool(sentence)


def test_a_newer_model_under_an_older_type_is_refused_by_its_field():
    app = opened(COST, tab="facts", facts=json.dumps({"model_type": "kimi_linear", "mla_use_output_gate": True}))
    assert any("mla" in error.value and "does not know" in error.value for error in app.error)


def test_a_configuration_stays_in_the_box_while_it_is_counted(monkeypatch):
    answers = iter([BeingCounted(SimpleNamespace(running=False))])

    def counted(_config: dict) -> dict:
        raise next(answers, ConfigError("none was found"))

    monkeypatch.setattr(counting, "why_not", lambda: "")
    monkeypatch.setattr(counting, "counted", counted)
    app, pasted = opened(COST, tab="facts"), '{"model_type": "banana", "hidden_size": 64}'
    app.text_area(key="control-facts").set_value(pasted).run()
    assert app.text_area(key="control-facts").value == linked(app)["facts"] == pasted
    assert any("banana" in error.value for error in app.error)
