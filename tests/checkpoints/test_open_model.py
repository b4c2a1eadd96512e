"""Open models that `transformers` saved in Hugging Face's layout, and compare their results with transformers'."""

import json
import shutil
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import nn
from transformers import (
    Gemma2Config,
    Gemma2ForCausalLM,
    Gemma3ForCausalLM,
    Gemma3TextConfig,
    GPT2Config,
    GPT2LMHeadModel,
    LlamaConfig,
    LlamaForCausalLM,
    MistralConfig,
    MistralForCausalLM,
    Qwen2Config,
    Qwen2ForCausalLM,
    Qwen3Config,
    Qwen3ForCausalLM,
)  # fmt: skip

from attnviz.checkpoints import OpenError, open_model
from attnviz.checkpoints.stored import Stored
from attnviz.modules import Recording
from attnviz.trace import trace
from tests.checkpoints.tokenizers import byte_level
from tests.oracles import agree

T, C, H, K, L, F, VOCAB = 13, 42, 6, 3, 3, 23, 307
USUAL = dict(
    vocab_size=VOCAB, hidden_size=C, intermediate_size=F, num_hidden_layers=L, num_attention_heads=H,
    num_key_value_heads=K, max_position_embeddings=64, head_dim=10,
)  # fmt: skip
GEMMA = USUAL | dict(query_pre_attn_scalar=7, sliding_window=4)
FACTORS = [1.0 + i / 4 for i in range(5)]
ROPE = {
    "linear": dict(rope_type="linear", factor=3.0),
    "dynamic": dict(rope_type="dynamic", factor=2.0),
    "yarn": dict(rope_type="yarn", factor=4.0, original_max_position_embeddings=16),
    "llama3": dict(rope_type="llama3", factor=8.0, original_max_position_embeddings=16, low_freq_factor=1.0,
                   high_freq_factor=4.0),
    "longrope": dict(rope_type="longrope", factor=4.0, original_max_position_embeddings=8, short_factor=FACTORS,
                     long_factor=[2 * f for f in FACTORS]),
}  # fmt: skip
MODELS = {
    "llama": (LlamaForCausalLM, LlamaConfig(**USUAL)),
    "llama tied, biases": (LlamaForCausalLM, LlamaConfig(
        **USUAL | dict(tie_word_embeddings=True, attention_bias=True, mlp_bias=True, head_dim=14, rms_norm_eps=0.01))),
    "llama mqa": (LlamaForCausalLM, LlamaConfig(**USUAL | dict(num_key_value_heads=1, head_dim=None,
                                                               hidden_size=60))),
    **{f"llama {kind}": (LlamaForCausalLM, LlamaConfig(**USUAL, rope_parameters={"rope_theta": 500.0, **values}))
       for kind, values in ROPE.items()},
    "mistral": (MistralForCausalLM, MistralConfig(**USUAL, sliding_window=5)),
    "mistral no window": (MistralForCausalLM, MistralConfig(**USUAL, sliding_window=None)),
    "qwen2": (Qwen2ForCausalLM, Qwen2Config(**USUAL | dict(head_dim=7 * 2, hidden_size=84, use_sliding_window=True,
                                                           sliding_window=4, max_window_layers=1))),
    "qwen3": (Qwen3ForCausalLM, Qwen3Config(**USUAL, tie_word_embeddings=True)),
    "gpt2": (GPT2LMHeadModel, GPT2Config(
        vocab_size=VOCAB, n_positions=17, n_embd=C, n_layer=L, n_head=H, n_inner=F, layer_norm_epsilon=0.01)),
    "gemma2": (Gemma2ForCausalLM, Gemma2Config(**GEMMA, attn_logit_softcapping=3.0, final_logit_softcapping=5.0)),
    "gemma3": (Gemma3ForCausalLM, Gemma3TextConfig(**GEMMA, layer_types=[
        "sliding_attention", "full_attention", "sliding_attention"], rope_parameters={
            "full_attention": dict(rope_type="linear", factor=2.0, rope_theta=900.0),
            "sliding_attention": dict(rope_type="default", rope_theta=70.0)})),
}  # fmt: skip


@pytest.fixture(scope="module")
def tokenizer_file(tmp_path_factory) -> Path:
    return byte_level(tmp_path_factory.mktemp("tokenizer"))


def theirs_of(name: str) -> nn.Module:
    kind, config = MODELS[name]
    config._attn_implementation = "eager"
    torch.manual_seed(5)
    model = kind(config).eval()
    for parameter in model.parameters():
        nn.init.normal_(parameter, std=0.3)
    return model


def saved(name: str, folder: Path, tokenizer_file: Path, **how) -> nn.Module:
    model = theirs_of(name)
    dtype = how.pop("dtype", torch.float32)
    model.to(dtype).save_pretrained(folder, **how)
    shutil.copy(tokenizer_file, folder / "tokenizer.json")
    if dtype == torch.float32:
        return model
    return type(model).from_pretrained(folder, dtype=torch.float32, attn_implementation="eager").eval()


def assert_same(theirs: nn.Module, ours, n: int = T) -> None:
    ids, record = torch.randint(VOCAB, (1, n)), Recording()
    with torch.no_grad():
        expected, got = theirs(ids, output_attentions=True), ours(ids, record=record)
    assert agree(got, expected.logits, 1e-4)
    assert len(record) == len(expected.attentions) == L
    assert all(agree(r.weights, weights, 1e-5) for r, weights in zip(record, expected.attentions, strict=True))


@pytest.mark.parametrize("name", MODELS)
def test_opened_equals_transformers(name, tmp_path, tokenizer_file):
    theirs = saved(name, tmp_path, tokenizer_file)
    ours, tokenizer = open_model(tmp_path)
    assert_same(theirs, ours)
    assert tokenizer.encode("a b")


@pytest.mark.parametrize("name", ["llama longrope", "llama dynamic"])
def test_beyond_the_training_context_too(name, tmp_path, tokenizer_file):
    theirs = saved(name, tmp_path, tokenizer_file)
    assert_same(theirs, open_model(tmp_path)[0], 7)
    assert_same(theirs, open_model(tmp_path)[0], 70)


@pytest.mark.parametrize("name", ["llama tied, biases", "gpt2", "gemma2", "qwen3"])
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_half_precision_stays_on_disk_and_computes_in_float32(name, dtype, tmp_path, tokenizer_file):
    theirs = saved(name, tmp_path, tokenizer_file, dtype=dtype)
    ours, _ = open_model(tmp_path)
    assert_same(theirs, ours)
    large = [p for p in ours.parameters() if p.ndim == 2]
    assert all(isinstance(p, Stored) and p.dtype == dtype for p in large)
    found = trace(ours, range(5))
    assert found.logits.dtype == found.q.dtype == "float32" and type(found.q) is not Stored


@pytest.mark.parametrize("name", ["llama", "gpt2"])
def test_several_files_are_read_by_their_index(name, tmp_path, tokenizer_file):
    theirs = saved(name, tmp_path, tokenizer_file, max_shard_size="30KB")
    files = sorted(tmp_path.glob("*.safetensors"))
    assert len(files) > 2
    assert_same(theirs, open_model(tmp_path)[0])
    files[1].unlink()
    with pytest.raises(OpenError, match=files[1].name):
        open_model(tmp_path)
    index = tmp_path / "model.safetensors.index.json"
    index.write_text(json.dumps({"weight_map": {"a": "../a.safetensors"}}))
    with pytest.raises(OpenError, match="beside it"):
        open_model(tmp_path)


def test_weights_are_views_of_the_file(tmp_path, tokenizer_file):
    saved("gpt2", tmp_path, tokenizer_file)
    attn = open_model(tmp_path)[0].blocks[1].attn
    assert len({p.weight.untyped_storage().data_ptr() for p in (attn.q_proj, attn.k_proj, attn.v_proj)}) == 1
    path = str(tmp_path / "model.safetensors")
    assert any(path in line for line in Path("/proc/self/maps").read_text().splitlines())


@pytest.mark.parametrize(
    "change, words",
    [
        (lambda w: w.pop("model.layers.1.mlp.up_proj.weight"), "model.layers.1.mlp.up_proj.weight is missing"),
        (lambda w: w.update(surplus=torch.ones(2)), "the tensor surplus"),
        (lambda w: w.update({"model.norm.weight": torch.ones(C + 1)}), r"model.norm.weight .*\(42,\), not \(43,\)"),
        (
            lambda w: w.update({"model.norm.weight": torch.ones(C, dtype=torch.int8)}),
            "norm.weight .* not torch.int8",
        ),
    ],
)
def test_a_tensor_that_does_not_fit_is_named(change, words, tmp_path, tokenizer_file):
    saved("llama", tmp_path, tokenizer_file)
    weights = load_file(tmp_path / "model.safetensors")
    change(weights)
    save_file(weights, tmp_path / "model.safetensors")
    with pytest.raises(OpenError, match=words):
        open_model(tmp_path)


@pytest.mark.parametrize(
    "change, words",
    [
        (dict(architectures=["BloomForCausalLM"]), "BloomForCausalLM"), (dict(architectures=[{}]), "architecture"),
        (dict(hidden_act="relu"), "hidden_act must be silu"), (dict(auto_map={"a": "b"}), "its own code"),
        (dict(quantization_config={"bits": 4}), "quantised"),
        (dict(rope_parameters=dict(rope_type="proportional")), "rope_type"),
        (dict(rope_parameters=dict(partial_rotary_factor=0.5)), "partial_rotary_factor"),
        (dict(num_attention_heads=0), "num_attention_heads"), (dict(hidden_size="x"), "hidden_size"),
    ],
)  # fmt: skip
def test_a_configuration_that_does_not_run_is_a_sentence(change, words, tmp_path, tokenizer_file):
    saved("llama", tmp_path, tokenizer_file)
    facts = json.loads((tmp_path / "config.json").read_text())
    (tmp_path / "config.json").write_text(json.dumps(facts | change))
    with pytest.raises(OpenError, match=words):
        open_model(tmp_path)


def test_what_is_not_there_is_named_and_pickles_are_refused(tmp_path, tokenizer_file):
    saved("llama", tmp_path, tokenizer_file)
    for name, words in (("tokenizer.json", "no tokenizer.json"), ("model.safetensors", "neither model.safetensors"),
                        ("config.json", "no config.json")):  # fmt: skip
        (tmp_path / name).rename(tmp_path / "elsewhere")
        with pytest.raises(OpenError, match=words):
            open_model(tmp_path)
        (tmp_path / "elsewhere").rename(tmp_path / name)
    (tmp_path / "model.safetensors").rename(tmp_path / "pytorch_model.bin")
    with pytest.raises(OpenError, match="pytorch_model.bin, a pickle"):
        open_model(tmp_path)
    (tmp_path / "config.json").write_text("{")
    with pytest.raises(OpenError, match="config.json is not valid JSON"):
        open_model(tmp_path)
    with pytest.raises(OpenError, match="There is no folder"):
        open_model(tmp_path / "nothing")
