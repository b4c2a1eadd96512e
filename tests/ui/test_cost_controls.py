"""Controls and links of the Cost page: each moves the numbers that it is about, and says so in the address."""

import json

import pytest
from streamlit.testing.v1 import AppTest

from attnviz.compute import cost as compute_cost
from tests.pages import COST, opened, shown
from tests.reading import numbers_where

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("no_links_to_pages")]
HELD = "Llama 3 8B and # sequences of # K tokens"


def use(app: AppTest, label: str, value: str) -> str:
    """Choose an option of a segmented control; return what the parts that depend on it say: the others do not rerun."""
    next(each for each in app.button_group if each.label == label).set_value(value).run()
    assert not app.exception
    return shown(app)


def test_the_precision_moves_the_cache_and_the_weights_move_the_memory():
    app = opened(COST, tab="memory", context="8192")
    assert numbers_where(HELD, shown(app)) == [56, 8]
    assert numbers_where(HELD, use(app, "Weight dtype", "int4")) == [67, 8]
    assert app.query_params["weights"] == "int4"
    app = opened(COST, tab="memory", context="8192", weights="int4")
    assert numbers_where(HELD, use(app, "Cache dtype", "fp8")) == [134, 8]
    assert app.query_params["precision"] == "fp8"
    app = opened(COST, tab="memory", context="8192", precision="fp8")
    below = use(app, "Part", "published")  # the selected model below the published ones
    assert numbers_where("GQA-4 caches # MiB", below) == [6]


def test_the_number_of_sequences_moves_the_cache_and_the_speed():
    app = opened(COST, tab="speed", context="8192")
    app.select_slider(key="control-batch").set_value(2).run()
    assert app.query_params["batch"] == "2" and "2 sequences" in shown(app)
    below = use(opened(COST, tab="speed", context="8192", batch="2"), "Part", "published")
    assert numbers_where("GQA-4 caches # MiB", below) == [24]


def test_a_link_reopens_a_comparison_with_its_sentence():
    there = shown(opened(COST, context="131072", compare="gemma-3-27b,qwen3-32b"))
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
    next(area for area in app.text_area if "config.json" in area.label).set_value('{"model_type": "mamba"}').run()
    assert any("mamba" in error.value for error in app.error)


def test_of_a_mixture_with_a_window_active_parameters_and_both_growths_are_shown():
    """gpt-oss-20b: 24 layers, every other with a window of 128; 8 KV heads of 64 numbers, 32 experts, 4 per token."""
    pasted = {"model_type": "gpt_oss", "num_hidden_layers": 24, "num_local_experts": 32}
    there, expert = shown(opened(COST, tab="facts", facts=json.dumps(pasted))), 3 * 2880 * (2880 + 1)
    total, active = numbers_where("gpt.*oss: # parameters, # active per token", there)
    assert total == 20_914_757_184 and total - active == 24 * 28 * expert + (201_088 - 1) * 2880
    layer = 2 * 8 * 64 * 2
    growth = numbers_where(r"first # tokens adds \*\*# B\*\*.*after them \*\*# B", there)
    assert growth == [128, 24 * layer, 12 * layer] and "By formula only" in there
