"""Why a path or a folder is no model that can be opened, and the code that makes it one.

Each function returns a sentence; `with_code` adds the lines to run. Names are those of Hugging Face's libraries.
"""

from __future__ import annotations

import difflib
import json
import re
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Any

from attnviz.checks import is_hub_id, with_code
from attnviz.phrases import count, listed

CONFIG, TOKENIZER, ONE_FILE, INDEX = (
    "config.json",
    "tokenizer.json",
    "model.safetensors",
    "model.safetensors.index.json",
)
ADAPTER = "adapter_config.json"
PICKLES = (".bin", ".pt", ".pth", ".ckpt")
ARCHIVES = (".zip", ".tar", ".gz", ".tgz", ".xz", ".7z")
NO_WEIGHTS = ("training_args.bin", "optimizer.bin", "optimizer.pt", "scheduler.pt", "scheduler.bin", "scaler.pt")
OTHER_TOKENIZERS = (
    "tokenizer.model",
    "vocab.json",
    "vocab.txt",
    "merges.txt",
    "spiece.model",
    "sentencepiece.bpe.model",
)
CHECKPOINT = re.compile(r"checkpoint-(\d+)")  # of transformers' Trainer
MAX_NAMED = 5  # entries of a folder
ENCODERS = {
    "albert", "bert", "camembert", "deberta", "deberta-v2", "distilbert", "electra", "ernie", "esm", "modernbert",
    "mpnet", "nomic_bert", "roberta", "roformer", "xlm-roberta",
}  # fmt: skip
ENCODER_DECODERS = {
    "bart", "blenderbot", "led", "longt5", "m2m_100", "marian", "mbart", "mt5", "pegasus", "t5", "t5gemma", "umt5",
    "whisper",
}  # fmt: skip
DEQUANTISED_BY = "bitsandbytes"  # the method whose weights transformers converts back on any machine
QUANTISED = {"awq": "AWQ", "bitsandbytes": "bitsandbytes", "fp8": "FP8", "gptq": "GPTQ", "mxfp4": "MXFP4"}


def of_path(path: Path) -> str:
    """Return why this path is no folder with a model, or "" if it has a config.json."""
    if path.is_dir():
        return _of_folder(path)
    return _of_file(path) if path.exists() else _of_nothing(path)


def _of_nothing(path: Path) -> str:
    there = next((parent for parent in path.parents if parent.is_dir()), None)
    missing = f"There is no folder {path}."
    if there is None or not path.is_absolute():
        return missing
    step, names = path.relative_to(there).parts[0], _names(there)
    if close := difflib.get_close_matches(step, names, 1):
        return f"{missing} {there} has {close[0]}: is that the one you mean?"
    return f"{missing} {there} is there and has {_first(names)}." if names else f"{missing} {there} is there and empty."


def _names(folder: Path) -> list[str]:
    """Return the sorted names in a folder that are not hidden; none if it may not be read."""
    try:
        return sorted(path.name for path in folder.iterdir() if not path.name.startswith("."))
    except OSError:
        return []


def _first(names: Sequence[str]) -> str:
    more = len(names) - MAX_NAMED
    return listed([*names[:MAX_NAMED], *([f"{more:,} more"] if more > 0 else [])])


def _of_file(path: Path) -> str:
    if path.suffix == ".gguf":
        return _gguf(path)
    if path.suffix in ARCHIVES:
        return f"{path} is an archive: unpack it, and give the folder that has the {CONFIG}."
    if path.suffix in PICKLES:
        return f"{path} is a pickle, which can run code when it is loaded: give its folder, {path.parent}."
    return f"{path} is a file: give the folder that has the {CONFIG}, the {TOKENIZER} and the weights."


def _of_folder(path: Path) -> str:
    names = _names(path)
    if CONFIG in names:
        return ""
    if ADAPTER in names:
        return f"The folder {path} cannot be opened: {adapter(path)}"
    if files := [name for name in names if name.endswith(".gguf")]:
        return _gguf(path / files[0])
    inside = [name for name in names if (path / name / CONFIG).is_file() or (path / name / ADAPTER).is_file()]
    if checkpoints := sorted((name for name in inside if CHECKPOINT.fullmatch(name)), key=_step):
        return (f"The folder {path} has no {CONFIG}; it has {count(len(checkpoints), 'checkpoint')} of a training, of "
                f"which the last is {path / checkpoints[-1]}.")  # fmt: skip
    if (path / "snapshots").is_dir():
        name = path.name.removeprefix("models--").replace("--", "/")
        return f"The folder {path} is the hub's cache of {name}: open it by its hub id, {name}."
    if inside:
        return f"The folder {path} has no {CONFIG}, but folders in it do: {_first(inside)}."
    return f"There is no folder {path} with a {CONFIG}: it has {_first(names) if names else 'no files'}."


def _step(name: str) -> int:
    match = CHECKPOINT.fullmatch(name)
    return int(match[1]) if match else 0


def _gguf(path: Path) -> str:
    """Explain how a GGUF file becomes a folder: transformers reads it, in float32."""
    folder, file, new = repr(str(path.parent)), repr(path.name), repr(str(path.with_suffix("")))
    return with_code(
        f"{path.name} is a GGUF file, the quantised format of llama.cpp, which is not read. transformers converts it:",
        "# pip install transformers gguf accelerate",
        "from transformers import AutoModelForCausalLM, AutoTokenizer",
        f"model = AutoModelForCausalLM.from_pretrained({folder}, gguf_file={file})",
        "model.hf_quantizer.remove_quantization_config(model)",
        f"model.save_pretrained({new})",
        f"AutoTokenizer.from_pretrained({folder}, gguf_file={file}).save_pretrained({new})",
    )


def adapter(folder: Path) -> str:
    """Explain how to merge a LoRA adapter into its base model."""
    base = _facts(folder / ADAPTER).get("base_model_name_or_path")
    base = base if isinstance(base, str) and base else ""
    source = base if base and not _has_tokenizer(folder) else str(folder)
    of = f" of {base}" if base else ""
    sentence = f"it is an adapter{of} ({ADAPTER}) and not a whole model; merge it into its base model:"
    return with_code(sentence, *_merged(str(folder), source, f"{folder}-converted"))


def _merged(adapter: str, tokenizer: str, new: str) -> list[str]:
    return [
        "# pip install transformers peft",
        "from peft import AutoPeftModelForCausalLM",
        "from transformers import AutoTokenizer",
        f"model = AutoPeftModelForCausalLM.from_pretrained({adapter!r}).merge_and_unload()",
        f"model.save_pretrained({new!r})",
        f"AutoTokenizer.from_pretrained({tokenizer!r}).save_pretrained({new!r})",
    ]


def no_tokenizer(folder: Path) -> str:
    """Explain how to write a tokenizer.json: from another tokenizer's files, or that of the model it was made from."""
    base = _facts(folder / CONFIG).get("_name_or_path")
    known = isinstance(base, str) and (is_hub_id(base) or Path(base).is_dir()) and base != str(folder)
    source = str(folder) if _has_tokenizer(folder) else base if known else "BASE"
    where = ", BASE being the model that it was trained from" if source == "BASE" else ""
    return with_code(
        f"there is no {TOKENIZER}, the only tokenizer file that is read; write it{where}:",
        "from transformers import AutoTokenizer",
        f"AutoTokenizer.from_pretrained({source!r}).save_pretrained({str(folder)!r})",
    )


def _has_tokenizer(folder: Path) -> bool:
    return any((folder / name).is_file() for name in (TOKENIZER, *OTHER_TOKENIZERS))


def no_weights(folder: Path) -> str:
    """Explain why a folder has neither of the usual weight files, and what to do about it."""
    names = _names(folder)
    others = [name for name in names if name.endswith(".safetensors")]
    if ADAPTER in names:
        return adapter(folder)
    if len(others) == 1:
        return f"there is {others[0]} but no {ONE_FILE}; rename it, or add the {INDEX} that names it"
    if others:
        return f"there are {others[0]} and others, but no {INDEX}, which names them; copy it into the folder"
    if files := [name for name in names if name.endswith(".gguf")]:
        return _gguf(folder / files[0])
    pickles = [n for n in names if n.endswith(PICKLES) and n not in NO_WEIGHTS and not n.startswith("rng_state")]
    if pickles:
        return with_code(
            f"its weights are in {pickles[0]}, a pickle, which can run code when it is loaded. Only safetensors are "
            "opened. If you trust the file, convert it:",
            "from transformers import AutoModelForCausalLM",
            f"AutoModelForCausalLM.from_pretrained({str(folder)!r}).save_pretrained({str(folder)!r})",
        )
    return f"there is neither {ONE_FILE} nor {INDEX}{_of_training(folder, names)}"


def _of_training(folder: Path, names: Sequence[str]) -> str:
    """Explain a Trainer's folder without weights: in parts of each process, in checkpoints, or never saved."""
    if "zero_to_fp32.py" in names:
        lines = f"cd {str(folder)!r}", "python zero_to_fp32.py . . --safe_serialization"
        return with_code("; DeepSpeed saved the weights in parts, which it joins:", *lines)
    if parts := [name for name in names if name.startswith("pytorch_model_fsdp")]:
        line = f"accelerate merge-weights {str(folder / parts[0])!r} {str(folder)!r}"
        return with_code("; FSDP saved the weights in parts, which accelerate joins:", line)
    if checkpoints := sorted(filter(CHECKPOINT.fullmatch, names), key=_step):
        return f"; the last checkpoint of the training is {checkpoints[-1]} in it"
    if set(names) & {*NO_WEIGHTS, "trainer_state.json"}:
        return "; only the state of a training was saved here, save the model with trainer.save_model()"
    return ""


def missing_parts(missing: Sequence[str], n: int) -> str:
    """Explain that weight files which the index names are not there."""
    are = "is" if len(missing) == 1 else "are"
    return (f"{missing[0]}, named in {INDEX}, is missing ({len(missing):,} of {n:,} weight files {are}); download or "
            "copy the model again")  # fmt: skip


def is_converted(facts: object) -> bool:
    """Check whether quantization_config only names the GGUF file that float weights were converted from."""
    return isinstance(facts, dict) and facts.get("quant_method") == "gguf"


def quantised(facts: object, folder: Path) -> str:
    """Explain what to do with quantised weights: `facts` is the config.json's quantization_config."""
    facts = facts if isinstance(facts, dict) else {}
    method = facts.get("quant_method") or (DEQUANTISED_BY if any(name.startswith("load_in_") for name in facts) else "")
    name, new = QUANTISED.get(str(method), str(method)[:40]), f"{folder}-converted"
    said = (
        f"its weights are quantised ({name}, by quantization_config), and only float32, float16 and bfloat16 are read"
    )
    if method != DEQUANTISED_BY:
        return f"{said}; open the model that it was quantised from"
    return with_code(
        f"{said}; convert them:",
        "# pip install transformers accelerate bitsandbytes",
        "from transformers import AutoModelForCausalLM, AutoTokenizer",
        f"model = AutoModelForCausalLM.from_pretrained({str(folder)!r}).dequantize()",
        f"model.save_pretrained({new!r}, save_original_format=False)",
        f"AutoTokenizer.from_pretrained({str(folder)!r}).save_pretrained({new!r})",
    )


def other_kind(model_type: object) -> str:
    """Return what a model is that has no causal decoder alone: ", an encoder, …", or ""."""
    if model_type in ENCODERS:
        return ", an encoder, whose tokens attend in both directions and which predicts no next token,"
    if model_type in ENCODER_DECODERS:
        return ", an encoder and a decoder with cross-attention between them,"
    return ""


def on_the_hub(name: str, files: Collection[str], missing: str) -> str:
    """Explain why a model of the hub with these files cannot be opened: the file `missing` is not among them."""
    new = name.rpartition("/")[2]
    if ADAPTER in files:
        sentence = f"The model {name} is an adapter ({ADAPTER}) and not a whole model; merge it into its base model:"
        return with_code(sentence, *_merged(name, name, new))
    if any(file.endswith(".gguf") for file in files):
        return (f"The model {name} has GGUF files, the quantised format of llama.cpp, which is not read; open the "
                "model that they were made from, which its page on the hub names.")  # fmt: skip
    if any(file.endswith(PICKLES) and file not in NO_WEIGHTS for file in files):
        return with_code(
            f"The model {name} has no {missing} on the hub: its weights are pickles, which are never opened. If you "
            "trust them, convert them:",
            "from transformers import AutoModelForCausalLM, AutoTokenizer",
            f"AutoModelForCausalLM.from_pretrained({name!r}).save_pretrained({new!r})",
            f"AutoTokenizer.from_pretrained({name!r}).save_pretrained({new!r})",
        )
    return f"The model {name} has no {missing} on the hub."


def not_here(name: str, has_form: bool) -> str:
    """Explain how to get a model of the hub onto this machine. has_form: whether the sidebar has “Open a model”."""
    form = " under “Open a model” in the sidebar, or" if has_form else ""
    return with_code(f"The model {name} is not on this machine: download it{form} with", f"hf download {name}")


def no_network(name: str, reason: str) -> str:
    """Explain how to open a model of the hub on a machine that does not reach it."""
    return with_code(
        f"The hub cannot be reached for {name} ({reason}). Models in the local cache open without a network; or "
        "download it on another machine, and open the folder that this writes:",
        f"hf download {name} --local-dir {name.rpartition('/')[2]}",
    )


def _facts(path: Path) -> dict[str, Any]:
    """Return a JSON object, or {} if the file has none that can be read."""
    try:
        facts = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return facts if isinstance(facts, dict) else {}
