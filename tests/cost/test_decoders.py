"""Every causal decoder that the installed transformers can build: counted exactly, or refused in a sentence."""

from __future__ import annotations

import dataclasses
import json

import pytest
from transformers.models.auto.configuration_auto import CONFIG_MAPPING

from attnviz.checks import ConfigError
from attnviz.cost import count_parameters
from attnviz.cost.hf_config import read_hf_config
from tests.cost import decoders, defaults

REFUSED = (
    "axk2 blt cohere_compass_text cpmant dbrx dots3_note dots3_note_text gemma4_assistant "
    "gemma4_unified_assistant hrm_text hy_v4 inkling2_text inkling_text jetmoe mllama modernbert-decoder openai-gpt "
    "phi4_multimodal qwen4_exp qwen4_exp_text recurrent_gemma xlstm zamba2 zaya"
).split()
UNBUILT = (  # whose default configuration transformers itself cannot build as a causal model
    "cohere_compass_text dbrx emu3 gemma4_assistant gemma4_unified_assistant mllama qwen4_exp qwen4_exp_text"
).split()
OF_THEIR_OWN = ("got_ocr2", "moss_transcribe_diarize")  # models of several inputs that give the decoder other defaults
NOT_RESTORED = ("bailing_hybrid",)  # transformers writes another head_dim to the file than it read
DECODERS = [name for name in decoders.ALL if name not in decoders.NOT_DECODERS]
COUNTED = [name for name in DECODERS if name not in REFUSED and name not in UNBUILT]


def written(model_type: str, **fields: object) -> dict:
    """Return a config.json with these fields alone."""
    configuration = decoders.configured(model_type, **fields)
    if model_type in OF_THEIR_OWN:
        return decoders.as_json(configuration)
    return {"model_type": configuration.model_type, **decoders.NEEDED.get(model_type, {}), **fields}


def shortened(model_type: str) -> dict[str, int]:
    """Return how to build the first layers alone, which are of each kind."""
    needed = decoders.NEEDED.get(model_type, {})
    layers = ("num_hidden_layers", "n_layer", "n_layers", "num_layers")
    names = dataclasses.fields(CONFIG_MAPPING[model_type])
    found = next((f.name for f in names if f.name in layers and isinstance(f.default, int)), None)
    n = {"bailing_hybrid": 6, "gpt_neo": 24, "zamba": 9}.get(model_type, 5)
    return {} if found is None or found in needed else {found: n}


def assert_held(model_type: str, **fields: object) -> None:
    live = decoders.built(decoders.configured(model_type, **fields))
    model = read_hf_config(written(model_type, **fields)).model
    assert count_parameters(model).total == decoders.n_parameters(live) - decoders.n_unused(live)
    for n_tokens in (9, 40):
        assert decoders.expected(model, n_tokens) == decoders.held(live, n_tokens)


@pytest.mark.slow
@pytest.mark.parametrize("model_type", [name for name in COUNTED if name not in (*decoders.REAL, "gemma3n")])
def test_the_defaults_have_the_parameters_of_transformers(model_type):
    """Where the file gives no field, and where it gives all."""
    configuration = decoders.configured(model_type)
    n = decoders.n_parameters(decoders.built(configuration))
    assert count_parameters(read_hf_config(written(model_type)).model).total == n
    if model_type not in NOT_RESTORED:
        assert count_parameters(read_hf_config(decoders.as_json(configuration)).model).total == n


@pytest.mark.slow
@pytest.mark.parametrize("model_type", [name for name in COUNTED if name not in (*decoders.REAL, "gemma3n")])
def test_cache_and_state_are_what_transformers_holds(model_type):
    """The first layers of the defaults, after 9 and 40 tokens."""
    assert_held(model_type, **shortened(model_type))


@pytest.mark.slow
@pytest.mark.parametrize("model_type", sorted(decoders.REAL))
def test_those_that_only_run_with_weights(model_type):
    assert_held(model_type, **decoders.REAL[model_type])


@pytest.mark.parametrize("model_type", sorted(set(REFUSED) - set(UNBUILT)))
def test_the_others_are_refused_in_a_sentence(model_type):
    with pytest.raises(ConfigError) as raised:
        read_hf_config(decoders.as_json(decoders.configured(model_type)))
    assert len(str(raised.value)) > 40


def test_at_least_ninety_architectures_are_counted():
    assert len(COUNTED) >= 90
    assert set(REFUSED) <= set(DECODERS)


def test_the_table_of_defaults_is_that_of_the_installed_transformers():
    """Written by python -m tests.cost.defaults."""
    assert json.loads(defaults.FILE.read_text(encoding="utf-8")) == defaults.table()
