"""The models that questions on context extension name, and their scaling: those of the published configurations."""

import re

import pytest
import torch
from transformers import GptOssConfig, LlamaConfig
from transformers.modeling_rope_utils import ROPE_INIT_FUNCTIONS

from attnviz.cost import load_described
from attnviz.modules.rope_scaling import yarn_bounds
from attnviz.practice.drills.extended import METHODS, own_scaling
from attnviz.session.pages import PAGES
from attnviz.session.settings import Settings
from tests.practice.asked import make
from tests.reading import numbers_where

KINDS = [
    "pairs_that_a_method_slows", "position_after_interpolation", "interpolated_angle", "base_of_ntk_scaling",
    "scores_under_yarn", "pairs_that_yarn_leaves", "frequency_inside_the_ramp",
]  # fmt: skip
PUBLISHED = {  # method, factor, original context, base
    "Llama 3.1 405B": ("llama3", 8, 8192, 500_000), "Llama 3.2 1B": ("llama3", 32, 8192, 500_000),
    "Llama 3.2 3B": ("llama3", 32, 8192, 500_000), "Gemma 3 4B (text model)": ("linear", 8, None, 1_000_000),
    "Gemma 3 27B (text model)": ("linear", 8, None, 1_000_000), "gpt-oss-20b": ("yarn", 32, 4096, 150_000),
    "gpt-oss-120b": ("yarn", 32, 4096, 150_000), "Kimi K2 (1T)": ("yarn", 32, 4096, 50_000),
    "DeepSeek-V3 / R1 (671B)": ("yarn", 40, 4096, 10_000), "DeepSeek-V2 (236B)": ("yarn", 40, 4096, 10_000),
    "DeepSeek-V2-Lite (15.7B)": ("yarn", 40, 4096, 10_000),
}  # fmt: skip


YARN = {  # beta_fast, beta_slow, mscale and mscale_all_dim, as the published config.json have them
    "kimi-k2": (1, 1, 1, 1), "deepseek-v3": (32, 1, 1, 1), "deepseek-v2": (32, 1, 0.707, 0.707),
    "deepseek-v2-lite": (32, 1, 0.707, 0.707), "gpt-oss-20b": (32, 1, None, None), "gpt-oss-120b": (32, 1, None, None),
}  # fmt: skip


def named_in(text: str):
    (model,) = [m for m in load_described().values() if re.match(rf"(Suppose that )?{re.escape(m.name)} exten", text)]
    return model


@pytest.mark.parametrize("name", KINDS)
def test_a_question_on_longer_contexts_names_a_model_with_the_numbers_of_its_configuration(name):
    n_own = 0
    for seed in range(60):
        text = make(name, seed).text
        model, own = named_in(text), not text.startswith("Suppose")
        (factor,) = numbers_where("with a factor of #", text)
        method = next(method for method, said in METHODS.items() if said in text)
        context = numbers_where("context of # tokens", text) if "context of" in text else [None]
        if own:
            assert (method, factor, context[0], model.rope_theta) == PUBLISHED[model.name], text
        else:
            assert not model.rope_scaling and context == [model.max_context], text
        if "rotates" in text and "base is" in text:
            assert numbers_where("rotates # dimensions.*base is #", text) == [model.rotary_dim, model.rope_theta]
        n_own += own
    assert n_own == 0 if name == "base_of_ntk_scaling" else 15 < n_own < 55  # no configuration has NTK-aware scaling


def test_each_published_scaling_is_asked_about():
    asked = {named_in(text).name for name in KINDS for seed in range(80) if (text := make(name, seed).text)[0] != "S"}
    assert asked - {m.name for m in load_described().values() if not m.rope_scaling} == PUBLISHED.keys()


def test_the_numbers_of_yarn_are_the_published_ones():
    found = {
        id: own_scaling(m) for id, m in load_described().items() if dict(m.rope_scaling or ()).get("type") == "yarn"
    }
    assert {id: (s.beta_fast, s.beta_slow, s.mscale, s.mscale_all_dim) for id, s in found.items()} == YARN
    assert {id for id, s in found.items() if not s.truncate} == {"gpt-oss-20b", "gpt-oss-120b"}


@pytest.mark.parametrize("id", ["gpt-oss-20b", "gpt-oss-120b"])
def test_the_bounds_of_gpt_oss_are_not_rounded(id):
    """Those that vLLM prints since it reads `truncate` (vllm-project/vllm#28244), and the fields of transformers."""
    model = load_described()[id]
    assert yarn_bounds(32, model.rope_theta, own_scaling(model)) == pytest.approx(
        (8.092779115512402, 17.39802450158856)
    )
    fields = {name: value for name, value in GptOssConfig().rope_parameters.items() if not name.startswith("rope_")}
    assert {name: value for name, value in model.rope_scaling if name != "type"} == fields


@pytest.mark.parametrize("id", [id for id, m in load_described().items() if m.rope_scaling and own_scaling(m)])
def test_a_published_scaling_is_that_of_transformers(id):
    """Which pairs are slowed, and the factor on cos and sin, of the fields of the published config.json."""
    model, scaling = load_described()[id], own_scaling(load_described()[id])
    fields = {name: value for name, value in model.rope_scaling if name not in ("type", "applies_to")}
    config = LlamaConfig(
        head_dim=model.rotary_dim, hidden_size=2 * model.rotary_dim, num_attention_heads=2,
        max_position_embeddings=model.max_context,
        rope_parameters={"rope_type": scaling.rope_type, "rope_theta": model.rope_theta, **fields},
    )  # fmt: skip
    frequencies, factor = ROPE_INIT_FUNCTIONS[scaling.rope_type](config, torch.device("cpu"))
    base = model.rope_theta ** -(torch.arange(0, model.rotary_dim, 2, dtype=torch.float64) / model.rotary_dim)
    asked = [
        (question, int(numbers_where("frequency of pair #,", question.text)[0]))
        for question in (make("frequency_inside_the_ramp", seed) for seed in range(150))
        if question.text.startswith(f"{model.name} ")
    ]
    assert scaling.attention_factor == pytest.approx(factor)
    for question, pair in asked:
        assert question.answer.value == pytest.approx(float(frequencies[pair] / base[pair]), rel=0.01)
    assert asked or scaling.rope_type == "linear" or model.name.startswith("Kimi")  # whose ramp is a step


def test_a_link_extends_the_context_by_the_factor_or_the_most_that_the_page_has():
    for name in KINDS:
        for seed in range(30):
            question = make(name, seed)
            s, notices = Settings.from_link(dict(question.link[1]), PAGES["rope"])
            assert not notices and s.factor == min(32, *numbers_where("factor of #", question.text))
