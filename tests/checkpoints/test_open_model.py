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
from attnviz.checkpoints.architectures import read_config
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


@pytest.fixture
def llama(tmp_path: Path, unchanged: dict[str, tuple[Path, nn.Module]]) -> Path:
    """Return a folder with a Llama of its own, to be damaged."""
    return shutil.copytree(unchanged["llama"][0], tmp_path / "llama")


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


LINEAR = {"type": "linear", "factor": 4.0}
YARN = {"rope_type": "yarn", "factor": 4.0}
LLAMA3 = {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0}
UNSCALED = {"rope_type": "default"}
WRITTEN = {  # a model, and how its config.json is changed by hand; None: the field is removed
    "a scaling added": ("llama", {"rope_scaling": LINEAR, "rope_theta": 500.0}),
    "an empty scaling": ("llama", {"rope_scaling": {}, "rope_parameters": LINEAR}),
    "theta beside": ("llama", {"rope_parameters": UNSCALED, "rope_theta": 500.0}),
    "theta in both": ("llama", {"rope_parameters": None, "rope_scaling": LINEAR | {"rope_theta": 70.0},
                                "rope_theta": 500.0}),
    "dynamic's context": ("llama", {"rope_parameters": {
        "rope_type": "dynamic", "factor": 4.0, "original_max_position_embeddings": 16}}),
    "yarn without context": ("llama", {"rope_parameters": YARN}),
    "yarn, context beside": ("llama", {"rope_parameters": YARN | {"original_max_position_embeddings": 32},
                                       "original_max_position_embeddings": 16}),
    "yarn, a step": ("llama", {"rope_parameters": YARN | {"original_max_position_embeddings": 16, "beta_fast": 1.0,
                                                          "beta_slow": 1.0}}),
    "llama3 without context": ("llama", {"rope_parameters": LLAMA3}),
    "llama3, context beside": ("llama", {"rope_parameters": LLAMA3, "original_max_position_embeddings": 16}),
    "longrope, context beside": ("llama", {"rope_parameters": {
        name: value for name, value in ROPE["longrope"].items() if name[0] not in "of"},
        "original_max_position_embeddings": 16}),
    "gemma 3, a scaling added": ("gemma3", {"rope_scaling": {"rope_type": "linear", "factor": 8.0}}),
    "gemma 3, older": ("gemma3", {"rope_parameters": None, "rope_theta": 900.0, "rope_local_base_freq": 70.0,
                                  "rope_scaling": {"rope_type": "linear", "factor": 8.0}}),
    "gemma 3, a method's older name": ("gemma3", {"rope_scaling": LINEAR}),
    "gemma 3, theta beside": ("gemma3", {"rope_parameters": {"full_attention": UNSCALED, "sliding_attention": UNSCALED},
                                         "rope_theta": 77.0, "rope_local_base_freq": 33.0}),
    "gemma 3 without theta": ("gemma3", {"rope_parameters": {"full_attention": UNSCALED}}),
    "gemma 3, windowed alone": ("gemma3", {"rope_parameters": {"sliding_attention": {**UNSCALED, "rope_theta": 50.0}}}),
    "gemma 3, null": ("gemma3", {"rope_parameters": {"full_attention": None}}),
    "gemma 3, flat": ("gemma3", {"rope_parameters": {**UNSCALED, "rope_theta": 300.0}}),
    "gemma 3, yarn": ("gemma3", {"rope_parameters": {"full_attention": YARN},
                                 "original_max_position_embeddings": 16}),
    "gemma 3, caps": ("gemma3", {"attn_logit_softcapping": 1.0, "final_logit_softcapping": 3.0}),
}  # fmt: skip


@pytest.fixture(scope="module")
def unchanged(tmp_path_factory, tokenizer_file) -> dict[str, tuple[Path, nn.Module]]:
    folders = {name: tmp_path_factory.mktemp("unchanged") for name in ("llama", "gemma3")}
    return {name: (folder, saved(name, folder, tokenizer_file)) for name, folder in folders.items()}


@pytest.mark.parametrize("change", WRITTEN)
def test_a_configuration_written_by_hand_is_read_as_by_transformers(change, unchanged, tmp_path_factory):
    name, fields = WRITTEN[change]
    folder, (source, original) = tmp_path_factory.mktemp("written"), unchanged[name]
    shutil.copytree(source, folder, dirs_exist_ok=True)
    rewrite(folder, fields)
    theirs = type(original)(type(original.config).from_pretrained(folder, attn_implementation="eager")).eval()
    theirs.load_state_dict(original.state_dict())
    ours, _ = open_model(folder)
    assert_same(theirs, ours, 9)
    assert_same(theirs, ours, 70)


def rewrite(folder: Path, fields: dict) -> None:
    """Change fields of a config.json; None removes one."""
    facts = json.loads((folder / "config.json").read_text()) | fields
    kept = {name: value for name, value in facts.items() if value is not None or name not in fields}
    (folder / "config.json").write_text(json.dumps(kept))


@pytest.mark.parametrize("name", ["llama tied, biases", "gpt2"])
def test_another_output_layer_beside_tied_embeddings_is_refused(name, tmp_path, tokenizer_file):
    """Transformers does not tie them then; with tie_word_embeddings false, both compute the same."""
    kind = type(saved(name, tmp_path, tokenizer_file))
    weights = load_file(tmp_path / "model.safetensors")
    embeddings = weights["transformer.wte.weight" if name == "gpt2" else "model.embed_tokens.weight"]
    save_file(weights | {"lm_head.weight": embeddings.clone()}, tmp_path / "model.safetensors", {"format": "pt"})
    assert open_model(tmp_path)[0].config.tie_embeddings  # a copy is no other
    save_file(weights | {"lm_head.weight": embeddings.flip(0)}, tmp_path / "model.safetensors", {"format": "pt"})
    theirs = kind.from_pretrained(tmp_path, attn_implementation="eager").eval()
    with pytest.raises(OpenError, match=r"lm_head.weight differs from .*; set it to false in config.json"):
        open_model(tmp_path)
    rewrite(tmp_path, {"tie_word_embeddings": False})
    assert_same(theirs, open_model(tmp_path)[0])


@pytest.mark.parametrize(
    ("name", "dtype"),
    [
        ("llama tied, biases", torch.bfloat16),
        ("gpt2", torch.float16),
        ("gemma2", torch.bfloat16),
        ("qwen3", torch.float16),
    ],
)
def test_half_precision_stays_as_stored_and_computes_in_float32(name, dtype, tmp_path, tokenizer_file):
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


@pytest.mark.parametrize(
    "change, words",
    [
        (lambda w: w.pop("model.layers.1.mlp.up_proj.weight"), "model.layers.1.mlp.up_proj.weight is missing"),
        (lambda w: w.update(surplus=torch.ones(2)), "the tensor surplus"),
        (lambda w: w.update({"model.norm.weight": torch.ones(C + 1)}), r"model.norm.weight .*\(42,\), not \(43,\)"),
        (
            lambda w: w.update({"model.norm.weight": torch.ones(C, dtype=torch.int8)}),
            "norm.weight .* not I8",
        ),
    ],
)
def test_a_tensor_that_does_not_fit_is_named(change, words, llama):
    weights = load_file(llama / "model.safetensors")
    change(weights)
    save_file(weights, llama / "model.safetensors")
    with pytest.raises(OpenError, match=words):
        open_model(llama)


@pytest.mark.parametrize(
    "change, words",
    [
        (dict(architectures=["BloomForCausalLM"]), "BloomForCausalLM"), (dict(architectures=[{}]), "architecture"),
        (dict(hidden_act="relu"), "hidden_act must be silu"), (dict(auto_map={"a": "b"}), "its own code"),
        (dict(quantization_config={"bits": 4}), "quantised"),
        (dict(rope_parameters=dict(rope_type="proportional")), "rope_type"),
        (dict(rope_parameters=dict(partial_rotary_factor=0.5)), "partial_rotary_factor"),
        (dict(model_type="mistral"), "architectures names LlamaForCausalLM, but model_type is 'mistral'"),
        (dict(rope_scaling="linear"), "rope_scaling must be a mapping"),
        (dict(rope_parameters=[1]), "rope_parameters must be a mapping"),
        (dict(rope_parameters={}, rope_theta="1000"), "rope_theta must be a number above 1, not '1000'"),
        (dict(num_attention_heads=0), "num_attention_heads"), (dict(hidden_size="x"), "hidden_size"),
        (dict(rope_parameters=ROPE["longrope"] | {"long_factor": [1.0] * 4}),
         "rope_parameters.long_factor must hold 5 numbers, one per pair, not 4"),
        (dict(rope_scaling=ROPE["longrope"] | {"short_factor": [1.0] * 6}), "rope_scaling.short_factor must hold 5"),
        (dict(head_dim=2, rope_parameters=ROPE["dynamic"]), "head_dim must be at least 4"),
        (dict(rope_parameters=ROPE["linear"] | {"factor": 0}), "rope_parameters.factor must be"),
        (dict(original_max_position_embeddings=1, rope_parameters=ROPE["yarn"]), ": original_max_position_embeddings"),
        (dict(rms_norm_eps="x"), ": rms_norm_eps must be"),
    ],
)  # fmt: skip
def test_a_configuration_that_does_not_run_is_a_sentence(change, words, llama):
    facts = json.loads((llama / "config.json").read_text())
    (llama / "config.json").write_text(json.dumps(facts | change))
    with pytest.raises(OpenError, match=words):
        open_model(llama)


def test_gemmas_scale_of_scores_must_be_a_number_above_zero(tmp_path, tokenizer_file):
    saved("gemma2", tmp_path, tokenizer_file)
    facts = json.loads((tmp_path / "config.json").read_text())
    for value in (0, None, -4, "256"):
        (tmp_path / "config.json").write_text(json.dumps(facts | {"query_pre_attn_scalar": value}))
        with pytest.raises(OpenError, match="query_pre_attn_scalar must be a number above 0"):
            open_model(tmp_path)


@pytest.mark.parametrize(
    ("name", "field", "value", "words"),
    [
        ("gemma2", "attn_logit_softcapping", 0, "attn_logit_softcapping must be a number"),
        ("gemma2", "final_logit_softcapping", -1, "final_logit_softcapping must be a number"),
        ("gpt2", "layer_norm_epsilon", 0, "layer_norm_epsilon must be a number"),
        ("gemma3", "rope_parameters", {"full_attention": {"rope_type": "linear", "factor": 0.5}},
         "rope_parameters.full_attention.factor must be"),
    ],
)  # fmt: skip
def test_a_field_has_its_name_in_the_file(name, field, value, words):
    with pytest.raises(ValueError, match=f"^{words}"):
        read_config(MODELS[name][1].to_dict() | {"architectures": [MODELS[name][0].__name__], field: value})


POINTER = b"version https://git-lfs.github.com/spec/v1\noid sha256:4d7a\nsize 135\n"


@pytest.mark.parametrize(
    "name, change, words",
    [
        ("model.safetensors", lambda p: p.write_bytes(POINTER), "has 68 bytes .* run git lfs pull"),
        ("tokenizer.json", lambda p: p.write_bytes(POINTER), "tokenizer.json has 68 bytes .* run git lfs pull"),
        ("model.safetensors", lambda p: p.write_bytes(p.read_bytes()[:900]), "of 900 bytes, .*incomplete.*again"),
        ("model.safetensors", lambda p: p.write_bytes(b""), "model.safetensors is empty; download it again"),
        ("model.safetensors", lambda p: p.rename(p.with_name("model-00001-of-00001.safetensors")), "rename it"),
        ("model.safetensors", lambda p: p.rename(p.with_name("a.bin")), "a.bin, a pickle(.|\n)*save_pretrained"),
        ("config.json", lambda p: p.rename(p.with_name("adapter_config.json")), "adapter.*merge it"),
        ("tokenizer.json", lambda p: p.unlink(), "no tokenizer.json, (.|\n)*AutoTokenizer.from_pretrained"),
    ],
)
def test_a_file_that_cannot_be_read_is_named_with_what_to_do(name, change, words, llama):
    change(llama / name)
    with pytest.raises(OpenError, match=f"^The model [^:]* cannot be opened: .*{words}") as raised:
        open_model(llama)
    assert str(raised.value).count("cannot be opened") == 1 and ".." not in str(raised.value)


@pytest.mark.parametrize("index", [{"weight_map": ["a"]}, {"weight_map": {"a": {}}}, {}])
def test_an_index_that_maps_nothing_is_refused(index, llama):
    (llama / "model.safetensors").unlink()
    (llama / "model.safetensors.index.json").write_text(json.dumps(index))
    with pytest.raises(OpenError, match="must map tensors to safetensors files"):
        open_model(llama)


def test_parts_without_their_index_are_named(tmp_path, tokenizer_file):
    saved("llama", tmp_path, tokenizer_file, max_shard_size="30KB")
    (tmp_path / "model.safetensors.index.json").unlink()
    with pytest.raises(OpenError, match="model-00001-of-.* but no model.safetensors.index.json"):
        open_model(tmp_path)


def test_what_is_not_there_is_named_and_pickles_are_refused(llama):
    for name, words in (("tokenizer.json", "no tokenizer.json"), ("model.safetensors", "neither model.safetensors"),
                        ("config.json", "no config.json")):  # fmt: skip
        (llama / name).rename(llama / "elsewhere")
        with pytest.raises(OpenError, match=words):
            open_model(llama)
        (llama / "elsewhere").rename(llama / name)
    (llama / "model.safetensors").rename(llama / "pytorch_model.bin")
    with pytest.raises(OpenError, match="pytorch_model.bin, a pickle"):
        open_model(llama)
    (llama / "config.json").write_text("{")
    with pytest.raises(OpenError, match="config.json is not valid JSON"):
        open_model(llama)
    with pytest.raises(OpenError, match="There is no folder"):
        open_model(llama / "nothing")
