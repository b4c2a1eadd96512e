"""Saved runs of models that do not exist: the softmax of random scores by numpy alone, in sizes that are primes."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np

from attnviz.runs.file import save_run
from attnviz.runs.run import AttentionRun, run_of

BERT = ["[CLS]", "the", "cat", "##s", "sat", "on", "the", "mat", ",", "they", "[SEP]"]  # 11
PROMPT, WRITTEN = 11, 6  # tokens of a decoder's run
DECODED = [f"·{word}" for word in "a b c a d b e f a g h i a b j k l".split()]  # 17
H, K, D = 6, 2, 7


def softmax(scores: np.ndarray, allowed: np.ndarray) -> np.ndarray:
    """Return the weights of scores (…, T, S) over the allowed keys (T, S), in float32."""
    parts = np.where(allowed, np.exp(scores - scores.max(-1, keepdims=True)), 0.0)
    return (parts / parts.sum(-1, keepdims=True)).astype(np.float32)


def _weights(seed: int, n_layers: int, n_heads: int, n: int, n_keys: int, causal: bool = False) -> np.ndarray:
    scores = np.random.default_rng(seed).normal(scale=2, size=(n_layers, n_heads, n, n_keys))
    return softmax(scores, np.tri(n, n_keys, dtype=bool) if causal else np.ones((n, n_keys), bool))


def encoder(seed: int = 0) -> AttentionRun:
    """Return a run as of BERT: 3 layers of 5 heads on 11 tokens, nothing masked."""
    return run_of(_weights(seed, 3, 5, 11, 11), BERT, title="A small BERT")


def encoder_decoder() -> AttentionRun:
    """Return a run as of T5: 2 layers of 3 heads of each kind, 7 tokens read and 13 written."""
    attention = {
        "encoder": _weights(1, 2, 3, 7, 7), "decoder": _weights(2, 2, 3, 13, 13, causal=True),
        "cross": _weights(3, 2, 3, 13, 7),
    }  # fmt: skip
    tokens = {"encoder": [f"▁e{i}" for i in range(7)], "decoder": [f"▁d{i}" for i in range(13)]}
    return run_of(attention, tokens, title="A small T5", names=["block.2", "block.5"])


def decoder(**other: object) -> AttentionRun:
    """Return a run of 6 query heads on 2 KV heads, with q, k and v, on 17 tokens of which the last 6 were generated."""
    rng, T = np.random.default_rng(4), PROMPT + WRITTEN
    q, k, v = (rng.normal(size=(3, n, T, D)).astype(np.float32) for n in (H, K, K))
    read = np.repeat(np.arange(K), H // K)
    weights = softmax(q @ k[:, read].swapaxes(-1, -2) / np.sqrt(D), np.tri(T, dtype=bool))
    given: dict = {"q": q, "k": k, "v": v, "n_kv_heads": K, "output_from": PROMPT, "title": "A small GQA decoder"}
    return run_of(weights, DECODED, **given | other)


def crossed() -> AttentionRun:
    """Return cross-attention with its q and k: 5 heads of 3 dimensions, 13 queries of one text on 7 keys of another."""
    rng = np.random.default_rng(8)
    q, k = (rng.normal(size=(2, 5, n, 3)).astype(np.float32) for n in (13, 7))
    weights = softmax(q @ k.swapaxes(-1, -2) / np.sqrt(3), np.ones((13, 7), bool))
    tokens = {"encoder": [f"·e{i}" for i in range(7)], "decoder": [f"·d{i}" for i in range(13)]}
    return run_of({"cross": weights}, tokens, q={"cross": q}, k={"cross": k}, title="Cross-attention with q and k")


def continued() -> AttentionRun:
    """Return the rows of the 6 generated tokens alone, over all 17 keys."""
    weights = _weights(5, 2, 3, PROMPT + WRITTEN, PROMPT + WRITTEN, causal=True)[:, :, PROMPT:]
    return run_of(weights, DECODED, output_from=PROMPT, title="The rows of what was generated")


def picture() -> AttentionRun:
    """Return a run as of a vision transformer: 3 × 5 patches after a CLS token and a register, over a picture."""
    pixels = np.random.default_rng(6).integers(0, 256, (33, 55, 3), dtype=np.uint8)
    tokens = ["[CLS]", "[REG]", *(f"{row},{column}" for row in range(3) for column in range(5))]
    return run_of(
        _weights(7, 2, 3, 17, 17), tokens, picture=pixels, patches=(3, 5), n_before=2, title="A small ViT"
    )  # fmt: skip


RUNS: dict[str, Callable[[], AttentionRun]] = {
    "encoder": encoder, "encoder-decoder": encoder_decoder, "decoder": decoder, "continued": continued,
    "picture": picture, "crossed": crossed,
}  # fmt: skip


def saved(folder: Path, name: str) -> str:
    """Save one of RUNS, and return its name in the settings."""
    return f"run:{save_run(folder / f'{name}.safetensors', RUNS[name](), None)}"
