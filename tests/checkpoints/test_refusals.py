"""What is no model that can be opened is said with what to do, and the lines to run make it one."""

import json
import shutil
from pathlib import Path

import pytest
import torch
import transformers
from safetensors.torch import load_file, save_file
from transformers import GPT2Config, GPT2LMHeadModel, LlamaConfig, LlamaForCausalLM
from transformers.quantizers import HfQuantizer

from attnviz.checkpoints import OpenError, hub, open_model, refusals
from attnviz.checkpoints.architectures import read_config
from attnviz.checks import ConfigError, split_code
from tests.checkpoints.tokenizers import byte_level

SIZES = dict(vocab_size=331, hidden_size=20, intermediate_size=11, num_hidden_layers=3, num_attention_heads=2)
WEIGHTS, INDEX = "model.safetensors", "model.safetensors.index.json"


@pytest.fixture
def llama(tmp_path: Path) -> Path:
    torch.manual_seed(3)
    LlamaForCausalLM(LlamaConfig(**SIZES, max_position_embeddings=67)).save_pretrained(tmp_path / "llama")
    byte_level(tmp_path / "llama")
    return tmp_path / "llama"


def refused(folder: Path) -> tuple[str, str]:
    """Return the sentence and the code with which a folder is refused."""
    with pytest.raises(OpenError) as raised:
        open_model(folder)
    return split_code(str(raised.value))


def change(file: Path, **fields: object) -> None:
    file.write_text(json.dumps(json.loads(file.read_text()) | fields))


# ---- paths


def test_a_path_that_is_not_there_names_what_is(llama):
    assert refusals.of_path(llama.parent / "lama") == (
        f"There is no folder {llama.parent / 'lama'}. {llama.parent} has llama: is that the one you mean?"
    )
    for name in "bdc":
        (llama.parent / f"{name}{name}{name}").mkdir()
    assert refusals.of_path(llama.parent / "qwerty" / "x").endswith(
        f"{llama.parent} is there and has bbb, ccc, ddd and llama."
    )
    (llama.parent / "empty").mkdir()
    assert "is there and empty" in refusals.of_path(llama.parent / "empty" / "x")
    assert refusals.of_path(llama) == ""


@pytest.mark.parametrize(
    "name, words",
    [
        ("a.gguf", "a GGUF file"), ("a.zip", "an archive: unpack it"), ("a.tar.gz", "an archive"),
        ("pytorch_model.bin", "a pickle"), ("notes.txt", "is a file: give the folder that has the config.json"),
    ],
)  # fmt: skip
def test_a_file_says_what_it_is(name, words, tmp_path):
    (tmp_path / name).write_bytes(b"GGUF")
    assert words in refusals.of_path(tmp_path / name)


def test_folders_around_a_model_name_it(llama):
    for step in (500, 1500, 90):
        shutil.copytree(llama, llama.parent / "run" / f"checkpoint-{step}")
    said = refusals.of_path(llama.parent / "run")
    assert "3 checkpoints of a training" in said and said.endswith(f"{llama.parent / 'run' / 'checkpoint-1500'}.")
    assert refusals.of_path(llama.parent).endswith("has no config.json, but folders in it do: llama.")
    (llama.parent / "models--owner--name" / "snapshots").mkdir(parents=True)
    assert "open it by its hub id, owner/name" in refusals.of_path(llama.parent / "models--owner--name")


def test_a_model_in_the_hubs_cache_is_named_by_its_id(llama):
    (cached := llama.parent / "models--owner--name" / "snapshots").mkdir(parents=True)
    (llama / WEIGHTS).unlink()
    llama.rename(cached / ("5" * 40))
    assert refused(cached / ("5" * 40))[0].startswith("The model owner/name cannot be opened: ")


# ---- what to do


def test_a_pickle_opens_once_the_lines_have_run(llama):
    torch.save(load_file(llama / WEIGHTS), llama / "pytorch_model.bin")
    (llama / WEIGHTS).unlink()
    for other in ("optimizer.pt", "rng_state.pth", "scheduler.pt", "training_args.bin"):  # first in the alphabet
        (llama / other).write_bytes(b"")
    sentence, code = refused(llama)
    assert "its weights are in pytorch_model.bin, a pickle" in sentence
    exec(code)
    assert open_model(llama)[0].config.n_layers == 3


def test_the_state_of_a_training_is_not_called_weights(llama):
    (llama / WEIGHTS).unlink()
    for name in ("optimizer.pt", "rng_state_0.pth", "training_args.bin", "trainer_state.json"):
        (llama / name).write_bytes(b"")
    assert "only the state of a training was saved here" in refused(llama)[0]
    (llama / "pytorch_model_fsdp_0").mkdir()
    assert refused(llama)[1] == f"accelerate merge-weights '{llama / 'pytorch_model_fsdp_0'}' '{llama}'"
    (llama / "zero_to_fp32.py").write_text("")
    assert "python zero_to_fp32.py . . --safe_serialization" in refused(llama)[1]


def test_a_tokenizer_of_other_files_is_written_by_the_lines(llama):
    written = json.loads((llama / "tokenizer.json").read_text())["model"]
    merges = [" ".join(pair) if isinstance(pair, list) else pair for pair in written["merges"]]
    GPT2LMHeadModel(GPT2Config(vocab_size=330, n_positions=67, n_embd=14, n_layer=1, n_head=2)).save_pretrained(llama)
    (llama / "vocab.json").write_text(json.dumps(written["vocab"]))
    (llama / "merges.txt").write_text("#version: 0.2\n" + "\n".join(merges))
    (llama / "tokenizer.json").unlink()
    _, code = refused(llama)
    exec(code)
    assert open_model(llama)[1].encode("a red ball")


def test_a_tokenizer_that_is_elsewhere_is_taken_from_the_base_model(llama):
    (llama / "tokenizer.json").unlink()
    sentence, code = refused(llama)
    assert "BASE being the model that it was trained from" in sentence and "'BASE'" in code
    change(llama / "config.json", _name_or_path="owner/base")
    sentence, code = refused(llama)
    assert "BASE" not in sentence and "AutoTokenizer.from_pretrained('owner/base')" in code


def test_an_adapter_is_merged_into_its_base_model(llama):
    (llama / "config.json").unlink()
    (llama / "tokenizer.json").unlink()
    (llama / "adapter_config.json").write_text(json.dumps({"base_model_name_or_path": "owner/base"}))
    for sentence, code in (refused(llama), split_code(refusals.of_path(llama))):
        assert "an adapter of owner/base" in sentence
        assert f"AutoPeftModelForCausalLM.from_pretrained('{llama}').merge_and_unload()" in code
        assert f"AutoTokenizer.from_pretrained('owner/base').save_pretrained('{llama}-converted')" in code
        compile(code, "code", "exec")


def test_missing_parts_are_counted(llama):
    model = LlamaForCausalLM.from_pretrained(llama)
    (llama / WEIGHTS).unlink()
    model.save_pretrained(llama, max_shard_size="5KB")
    parts = sorted(llama.glob("model-*.safetensors"))
    parts[1].unlink()
    parts[-1].unlink()
    assert f"{parts[1].name}, named in {INDEX}, is missing (2 of {len(parts)} weight files are)" in refused(llama)[0]


# ---- other formats and kinds


def test_a_gguf_file_is_converted_by_transformers(llama):
    (llama / WEIGHTS).rename(llama / "q4.gguf")
    for said in ("\n\n".join(refused(llama)), refusals.of_path(llama / "q4.gguf")):
        sentence, code = split_code(said)
        assert "q4.gguf is a GGUF file" in sentence and "gguf_file='q4.gguf'" in code
        compile(code, "code", "exec")
    assert callable(HfQuantizer.remove_quantization_config)  # named in the code; gguf itself is not installed here


@pytest.mark.parametrize(
    "given, words",
    [
        ({"quant_method": "gptq", "bits": 4}, "quantised (GPTQ"), ({"quant_method": "awq"}, "quantised (AWQ"),
        ({"quant_method": "fp8"}, "quantised (FP8"), ({"quant_method": "new-one"}, "quantised (new-one"),
    ],
)  # fmt: skip
def test_quantised_weights_are_named_with_their_method(given, words, llama):
    change(llama / "config.json", quantization_config=given)
    sentence, code = refused(llama)
    assert words in sentence and "open the model that it was quantised from" in sentence and not code


@pytest.mark.parametrize("given", [{"quant_method": "bitsandbytes", "load_in_8bit": True}, {"load_in_4bit": True}])
def test_weights_of_bitsandbytes_are_converted_by_transformers(given, llama):
    change(llama / "config.json", quantization_config=given)
    sentence, code = refused(llama)
    assert "quantised (bitsandbytes" in sentence and f"from_pretrained('{llama}').dequantize()" in code
    compile(code, "code", "exec")
    assert callable(transformers.PreTrainedModel.dequantize)


def test_float_weights_that_came_from_a_gguf_file_open(llama):
    change(llama / "config.json", quantization_config={"quant_method": "gguf", "gguf_file": "a.gguf"})
    assert open_model(llama)[0].config.n_layers == 3
    weights = load_file(llama / WEIGHTS)
    save_file(weights | {"model.norm.weight": weights["model.norm.weight"].to(torch.int8)}, llama / WEIGHTS)
    assert "must be float32, float16 or bfloat16" in refused(llama)[0]


@pytest.mark.parametrize(
    "model_type, is_counted, words",
    [
        ("bert", False, "'BertModel', an encoder, whose tokens attend in both directions"),
        ("t5", False, "an encoder and a decoder with cross-attention between them"),
        ("mixtral", True, "'MixtralModel' is not supported"),
        ("mamba", True, "'MambaModel' is not supported"),
        ("xlstm", False, "'XlstmModel' is not supported"),
    ],
)
def test_the_cost_page_is_named_only_where_it_counts_the_model(model_type, is_counted, words):
    config = transformers.CONFIG_MAPPING[model_type]().to_dict()
    with pytest.raises(ConfigError) as raised:
        read_config(config | {"architectures": [f"{model_type.capitalize()}Model"]})
    assert words in str(raised.value) and ("Cost page" in str(raised.value)) == is_counted


# ---- the hub


@pytest.mark.parametrize(
    "files, words",
    [
        (["config.json", "pytorch_model.bin"], "its weights are pickles"),
        (["adapter_config.json", "adapter_model.safetensors"], "is an adapter"),
        (["a.Q4_K_M.gguf", "README.md"], "has GGUF files"),
        (["README.md"], "has no config.json on the hub"),
    ],
)
def test_what_the_hub_has_instead_is_said(files, words):
    sentence, code = split_code(refusals.on_the_hub("owner/name", files, "config.json"))
    assert words in sentence and sentence[-1] == (":" if code else ".")
    compile(code, "code", "exec")


def test_a_model_that_cannot_be_run_is_refused_before_its_weights_are_downloaded(llama, monkeypatch):
    change(llama / "config.json", quantization_config={"quant_method": "gptq"})
    asked = []
    remote = hub.Remote("owner/name", "5" * 40, {"config.json": 700, "tokenizer.json": 900, WEIGHTS: 9000})
    monkeypatch.setattr(hub, "look_up", lambda name: remote)
    monkeypatch.setattr(hub, "_fetch", lambda remote, file, report: asked.append(file))
    monkeypatch.setattr("huggingface_hub.hf_hub_download", lambda name, file, revision: str(llama / file))
    with pytest.raises(OpenError, match="GPTQ"):
        hub.download("owner/name")
    assert asked == ["config.json"]
