"""The RoPE page's losses beyond the training context."""

import json
from dataclasses import replace

import numpy as np
import pytest
import torch
from transformers import LlamaConfig
from transformers.modeling_rope_utils import ROPE_INIT_FUNCTIONS

from attnviz.analysis.groups import next_token_losses
from attnviz.compute import models, rope
from attnviz.compute.view import View
from attnviz.config import ModelConfig
from attnviz.experiments import rope_equalities
from attnviz.modules import Transformer
from attnviz.modules.rope_scaling import scaled_rope_frequencies
from attnviz.session.settings import Settings
from attnviz.session.shared import OWN_THETA
from attnviz.trace import predict

IDS = tuple(range(11, 11 + 29))


@pytest.mark.parametrize("settings", [Settings(model="mqa"), Settings(model="mla"), Settings(model="gqa-2", window=7)])
def test_losses_by_the_fused_kernel_are_those_of_attend(settings: Settings) -> None:
    view = View(settings)
    methods, _ = rope.scalings(view, 3.0, "")
    for name, found in rope.losses(view, IDS, methods).items():
        logits = predict(rope_equalities.with_scaling(view.model, methods[name]), IDS)
        assert found == pytest.approx(next_token_losses(logits, np.array(IDS)), abs=2e-5)


def test_only_a_method_that_changed_is_run_again(monkeypatch: pytest.MonkeyPatch) -> None:
    run, view, ids = rope_equalities.loss_by_position, View(Settings(model="mha")), IDS
    runs: list[np.ndarray] = []

    def recorded(model: Transformer, ids: np.ndarray) -> np.ndarray:
        runs.append(run(model, ids))
        return runs[-1]

    monkeypatch.setattr(rope_equalities, "loss_by_position", recorded)
    methods, _ = rope.scalings(view, 3.0, "")
    found = rope.losses(view, ids, methods)
    assert len(runs) == len(methods) == len(found)
    changed = rope.losses(view, ids, {**methods, "YaRN": replace(methods["YaRN"], beta_fast=17.0)})
    assert len(runs) == len(methods) + 1 and changed["YaRN"] is runs[-1]
    assert not np.array_equal(changed["YaRN"], found["YaRN"]) and changed["none"] is found["none"]


@pytest.mark.parametrize(
    "settings",
    [Settings(query=9, key=4), Settings(query=4, key=9, causal=False), Settings(model="mla", query=7, key=7)],
)
def test_a_score_moved_to_its_own_distance_is_that_of_the_trace(settings: Settings) -> None:
    view = View(settings)
    layer, head = view.layer_and_head
    parts, scores, bound = rope.moved_apart(view)
    here = abs(view.query - view.key)
    assert parts.shape == (len(rope.frequencies(view)) + 1, rope.MIN_FARTHEST + 1)
    assert scores[here] == pytest.approx(view.trace.layers[layer].scores_of(head)[view.query, view.key], abs=1e-4)
    assert (np.abs(scores) <= bound.values / view.config.head_dim**0.5 + 1e-9).all()
    assert parts[-1, 0] == rope.unrotated_part(view)
    *_, n_pairs = rope.by_distance(view)
    assert n_pairs == view.trace.allowed[layer].sum()


def test_maps_are_compared_with_the_first_on_one_scale() -> None:
    maps = [np.eye(7), np.full((7, 7), 0.25)]
    everywhere, diagonal = np.ones((7, 7), bool), np.eye(7, dtype=bool)
    assert rope.compared_weights(maps, everywhere) == (1, [0, 0.75])
    assert rope.compared_weights(maps[1:], diagonal) == (0.25, [0])


def test_the_parts_of_latent_scores_add_up_to_them() -> None:
    view = View(Settings(model="mla", layer=2, head=3))
    (content, position, whole), limit, spreads = rope.latent_scores(view)
    allowed = view.trace.allowed[2]
    np.testing.assert_allclose(content + position, whole, atol=1e-4)
    np.testing.assert_array_equal(whole, view.trace.layers[2].scores_of(3))
    assert limit == max(np.abs(part[allowed]).max() for part in (content, position, whole))
    assert spreads == [part[allowed].std() for part in (content, position, whole)]


LLAMA3 = (
    '{"rope_type": "llama3", "factor": 4, "low_freq_factor": 1, "high_freq_factor": 4, '
    '"original_max_position_embeddings": 8192}'
)


@pytest.mark.parametrize("form", ["%s", '"rope_scaling": %s,', '{"rope_scaling": %s}', '{"rope_parameters": %s}'])
def test_a_pasted_scaling_is_read_as_an_object_a_line_or_a_whole_configuration(form):
    methods, problem = rope.scalings(View(Settings()), 3.0, form % LLAMA3)
    assert problem is None and methods[rope.PASTED].rope_type == "llama3"


def test_published_parameters_are_read_without_their_base_and_phi3s_longrope_without_a_factor():
    """As in gpt-oss's config.json for transformers 5, and in Phi-3's, with this model's 12 pairs."""
    yarn = (
        '{"rope_type": "yarn", "rope_theta": 150000, "factor": 32.0, "beta_fast": 32.0, "truncate": false, '
        '"original_max_position_embeddings": 4096}'
    )
    methods, problem = rope.scalings(View(Settings()), 3.0, yarn)
    assert problem is None and methods[rope.PASTED].factor == 32
    lists = f'"short_factor": {[1.0] * 12}, "long_factor": {[2.0] * 12}'
    methods, problem = rope.scalings(View(Settings()), 3.0, f'{{"type": "su", {lists}}}')
    assert problem is None and (methods[rope.PASTED].rope_type, methods[rope.PASTED].factor) == ("longrope", 3)


@pytest.mark.parametrize(
    "pasted, method",
    [
        ('{"type": "yarn", "factor": 4, "original_max_position_embeddings": 4096, "finetuned": true}', "yarn"),
        (f'{{"type": "su", "short_factor": {[1.0] * 12}, "long_factor": {[2.0] * 12}, "long_mscale": 1.1}}',
         "longrope"),
        ('{"type": "dynamic", "factor": 2.0, "alpha": 1000.0}', "dynamic"),
        ('{"rope_type": null, "type": "linear", "factor": 2}', "linear"),
        ('"rope_scaling": null,', None), ("null", None), ('{"hidden_size": 64, "rope_scaling": null}', None),
        ('{"full_attention": {"rope_type": "linear", "factor": 8.0}, "sliding_attention": {"rope_type": "default"}}',
         "linear"),
        ('"rope_parameters": {"full_attention": {"type": "linear", "factor": 8.0}}', "linear"),
        ('{"full_attention": null, "sliding_attention": {"rope_type": "default"}}', None),
    ],
)  # fmt: skip
def test_what_published_files_hold_besides_is_no_reason_to_refuse_them(pasted, method):
    methods, problem = rope.scalings(View(Settings()), 3.0, pasted)
    found = methods[rope.PASTED]
    assert problem is None and (found and found.rope_type) == method


@pytest.mark.parametrize("pasted", ["[1]", "3", '{"full_attention": [1]}', '{"rope_scaling": {"factor": 2}}'])
def test_what_is_no_scaling_is_refused_with_a_sentence(pasted):
    methods, problem = rope.scalings(View(Settings()), 3.0, pasted)
    assert rope.PASTED not in methods and problem.startswith("rope_scaling")


@pytest.mark.parametrize("given", [
    {"rope_type": "yarn", "factor": 4.0},
    {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0},
])  # fmt: skip
def test_without_a_training_context_it_is_the_models_as_in_transformers(given):
    view = View(Settings())
    found = rope.scalings(view, 3.0, json.dumps(given))[0][rope.PASTED]
    config = LlamaConfig(hidden_size=24, num_attention_heads=1, max_position_embeddings=rope.trained_on(view),
                         rope_parameters=given | {"rope_theta": 10_000.0})  # fmt: skip
    expected, _ = ROPE_INIT_FUNCTIONS[given["rope_type"]](config, "cpu")
    np.testing.assert_allclose(scaled_rope_frequencies(24, 10_000.0, found), expected, rtol=1e-6)


def test_frequencies_of_training_stay_where_another_base_is_chosen():
    there, other = (rope.learned_frequencies(View(Settings(theta=base))) for base in (10_000.0, 500_000.0))
    np.testing.assert_array_equal(there, other)
    own = View(Settings(model="own", theta=500_000.0))
    np.testing.assert_allclose(rope.learned_frequencies(own), 500_000.0 ** (-np.arange(12) / 12), rtol=1e-12)


GEMMA3 = ModelConfig(
    4, 24, 2, vocab_size=331, sliding_window=5, full_layers=(3,), rope_theta=1e6, rope_theta_windowed=1e4
)


def test_losses_are_those_of_the_run_whatever_layer_is_selected(monkeypatch):
    """With a chosen base all layers have it; the selected layer's own may be the same number."""
    model = Transformer.random(GEMMA3, seed=5)
    monkeypatch.setattr(models, "opened_config", lambda name: GEMMA3)
    monkeypatch.setattr(models, "weights_key", lambda settings: ("gemma-3, for this test", None, 0))
    models.run_of.cache_clear()
    monkeypatch.setattr(models.Run, "model", property(lambda run: model.with_config(run.config)))
    views = [View(Settings(model="some/gemma-3", layer=layer, theta=theta)) for layer in (0, 3) for theta in (0, 1e4)]
    ids = tuple(np.random.default_rng(7).integers(0, 331, 29).tolist())
    own, chosen, again, chosen_again = (rope.losses(view, ids, {"none": None})["none"] for view in views)
    assert again is own and chosen_again is chosen
    for found, view in ((own, views[0]), (chosen, views[1])):
        logits = torch.tensor(predict(models.model_of(view.settings), ids))[:-1]
        expected = torch.nn.functional.cross_entropy(logits, torch.tensor(ids[1:]), reduction="none")
        np.testing.assert_allclose(found, expected, atol=1e-5)
    assert abs(own - chosen).max() > 1e-3


@pytest.mark.parametrize(("layer", "own"), [(0, 1e4), (3, 1e6)])
def test_each_layer_of_gemma_3_has_the_base_of_its_kind_unless_one_is_chosen(layer, own, monkeypatch):
    monkeypatch.setattr(models, "opened_config", lambda name: GEMMA3)
    view = View(Settings(model="some/gemma-3", layer=layer))
    trained = own ** (-np.arange(6) / 6)
    for theta, run in ((OWN_THETA, trained), (20_000.0, 20_000.0 ** (-np.arange(6) / 6))):
        chosen = view.but(theta=theta)
        assert rope.own_theta(chosen) == own
        np.testing.assert_allclose(rope.frequencies(chosen), run, rtol=1e-12)
        np.testing.assert_allclose(rope.learned_frequencies(chosen), trained, rtol=1e-12)
