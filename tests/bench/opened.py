"""Time and memory of an opened model, with random weights in the shapes of SmolLM2-135M."""

import subprocess
import sys
import tempfile
from pathlib import Path
from statistics import median
from time import perf_counter

import torch
from transformers import LlamaConfig, LlamaForCausalLM

from attnviz.checkpoints import open_model
from attnviz.modules import Recording
from tests.checkpoints.tokenizers import byte_level

N_TOKENS, ROUNDS = 128, 11
SMOL = dict(
    vocab_size=49152, hidden_size=576, intermediate_size=1536, num_hidden_layers=30, num_attention_heads=9,
    num_key_value_heads=3, max_position_embeddings=8192, tie_word_embeddings=True,
)  # fmt: skip
IDS = torch.randint(0, SMOL["vocab_size"], (1, N_TOKENS), generator=torch.Generator().manual_seed(0))


def ratios() -> dict[str, float]:
    """Return the time for all heads' weights against transformers' eager attention, and the peak memory."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        save_random(folder)
        child = [sys.executable, "-m", "tests.bench.opened_memory", name, str(N_TOKENS)]
        peak = int(subprocess.run(child, capture_output=True, text=True, check=True).stdout)
        ours, theirs = seconds_of_both(folder)
        weights = (folder / "model.safetensors").stat().st_size
    return {
        "opened: 30 x 9 heads, T=128, ms": 1000 * median(ours),
        "opened: weights of all heads / transformers": median(a / b for a, b in zip(ours, theirs, strict=True)),
        "opened: peak memory beyond its weights, MB": (peak - weights) / 1e6,
    }


def save_random(folder: Path) -> None:
    """Save a model of these shapes with random weights in bf16, the published precision."""
    LlamaForCausalLM(LlamaConfig(**SMOL)).bfloat16().save_pretrained(folder)
    byte_level(folder)


def seconds_of_both(folder: Path) -> tuple[list[float], list[float]]:
    """Return the seconds of alternating rounds; assert that logits and weights of both are equal."""
    model, _ = open_model(folder)
    llama = LlamaForCausalLM.from_pretrained(folder, dtype=torch.float32, attn_implementation="eager").eval()
    seconds: tuple[list[float], list[float]] = [], []
    with torch.inference_mode():
        record = Recording()
        ours, theirs = model(IDS, record=record), llama(IDS, output_attentions=True, use_cache=False)
        assert torch.allclose(ours, theirs.logits, atol=1e-4)
        assert all(torch.allclose(r.weights, w, atol=1e-5) for r, w in zip(record, theirs.attentions, strict=True))
        del record, ours, theirs
        for _ in range(ROUNDS):
            for run, times in zip(
                (lambda: model(IDS, record=Recording()), lambda: llama(IDS, output_attentions=True, use_cache=False)),
                seconds, strict=True,
            ):  # fmt: skip
                began = perf_counter()
                run()
                times.append(perf_counter() - began)
    return seconds
