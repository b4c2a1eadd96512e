"""Export of finished runs: float16 safetensors, scores, the model card with its plot, the front page's maps."""

from __future__ import annotations

import hashlib
import json
import platform
from collections.abc import Iterable, Mapping
from pathlib import Path
from textwrap import fill

import numpy as np
import torch
from safetensors.torch import save_file

from attnviz.checkpoints import FOLDER, list_checkpoints, load_checkpoint
from attnviz.config import ModelConfig
from attnviz.cost import cache as cached_numbers
from attnviz.modules import Transformer
from attnviz.phrases import listed
from attnviz.trace import trace
from attnviz.training.evaluate import evaluate

SCORES = FOLDER / "scores.json"
OTHERS = {  # what the checkpoints have that are not of the family
    "hybrid": "gated DeltaNet in three of four layers (hybrid)",
    "sparse": "an indexer that keeps 32 keys of each query (sparse)",
    "sinks": "learned sink logits (sinks)",
    "shared": "two layers that read another layer's cache (shared)",
}
CARD = """# The shipped checkpoints

Small decoder-only language models whose architectures differ only in their attention. Five are a family: 8, 4, 2 and 1
key/value heads for 8 query heads, and multi-head latent attention. The others have what such models have had since
2025{others}. They exist to be shown in AttnViz.

![Quality against cache](quality.svg)

{table}

**bits per character**: on {n_characters:,} held-out characters, read in windows of 256 tokens that move by 64, so that
a token is predicted from at least 192 before it. **previous token**: the largest mean weight of a head on the previous
token. **induction**: on passages of 40 unseen tokens (text) or 40 uniformly random tokens (random), each repeated once,
the largest mean weight of a head on the token after the earlier occurrence. **gain**: by how many nats per token the
loss on the repetition is below that on the first copy. Only heads with attention weights are scored; a layer with a
state has none, and its state is counted beside what its model caches per token. All measured on these float16 files by
`python -m attnviz.training evaluate`. The roles on the app's Heads page are scored on other sequences, 3 of 32 distinct
random tokens, repeated once; they differ from these by a few hundredths.

- **Shape.** {shape}
  Byte-level BPE of {vocab_size:,} entries (`tokenizer.json`).
- **Data.** 95% of the paragraphs of seventeen children's books in the public domain, Project Gutenberg's numbers 11,
  12, 54, 55, 113, 236, 271, 289, 486, 500, 503, 778, 1448, 1597, 1874, 2591 and 7439; the last 5% of each book are the
  text of the scores. Only English of 1812 to 1911.
- **Tokens.** {tokens:,} for every variant of the family, counted over all rows: a primer of uniformly random segments,
  each repeated once, with the loss only on the repetition, then rows of text with one row in ten of repeats, half of
  them real passages (in the first 1,300 steps after the shared primer two rows in ten). MHA, GQA-4, GQA-2 and MQA share
  one run up to {shared:,} tokens; then the KV heads of that MHA model are averaged into groups (arXiv 2305.13245) and
  each variant is trained further on its own. MLA had one run of its own, of the same length. MQA had {again:,} tokens
  of the primer again, since with the averaging and {decay:,} steps of the mixture alone none of its heads had learnt
  induction (induction 0.03, gain 0.07), and {fewer:,} steps less of the second cosine, so that its total equals that of
  the others.
- **Recipe.** AdamW (0.9, 0.95), weight decay 0.1, bf16 autocast, clip 1; warm-up, a hold at {peak_lr}, a cosine to zero
  over {decay:,} steps of {rows} rows of 256 tokens; then, because MHA now had 1.12 bits per character on its training
  text and 1.56 on unseen text, a second cosine from {peak_lr} over {second:,} steps with a dropout of {dropout} on the
  embeddings and on what each part adds to the residual stream (it began from the first one's weights in float16). The
  weights of the family are the mean of those at the ends of the two cosines (arXiv 1803.05407), which is better on
  unseen text than either. Seed {seed}.
{recipes}- **Machine.** {machine}
- **Not good for** anything except being shown: they are too small to know facts, to follow an instruction or to write
  well, and they imitate their books, with the prejudices of their time. The vocabulary has no character outside ASCII:
  each one, such as “é” or a curly quotation mark, is split into its UTF-8 bytes, one token each; words that are rare in
  these books are split into short pieces.

{hashes}
"""


@torch.no_grad()
def mean_of(a: Transformer, b: Transformer) -> Transformer:
    """Return a model with the mean of two models' weights, in evaluation mode (Izmailov et al., arXiv 1803.05407)."""
    mean = Transformer.random(a.config, 0)
    for p, one, other in zip(mean.parameters(), a.parameters(), b.parameters(), strict=True):
        p.copy_((one + other) / 2)
    return mean


def save_checkpoint(model: Transformer, path: Path) -> None:
    """Save the weights in float16 with the configuration as metadata."""
    tensors = {name: p.detach().to("cpu", torch.float16).contiguous() for name, p in model.named_parameters()}
    save_file(tensors, path, {"config": json.dumps(model.config.to_dict())})
    path.chmod(0o644)


def save_front_door(model: Transformer, ids: list[int], path: Path) -> None:
    """Save the maps that the front page shows without torch: weights (L, H, T, T) in float16, and the ids."""
    np.savez_compressed(path, weights=trace(model, ids).weights.astype(np.float16), ids=np.asarray(ids))


def score(names: Iterable[str], text: str) -> dict[str, dict]:
    """Score these shipped files, with the sizes of their caches, and return the scores of all in scores.json."""
    scores = stored_scores()
    for name in names:
        model, tokenizer = load_checkpoint(name)
        made = {"made": scores[name]["made"]} if "made" in scores.get(name, {}) else {}
        scores[name] = (
            made
            | _state(model.config)
            | evaluate(model, tokenizer, text)
            | {
                "cache_numbers_per_token": _grows(model.config),
                "parameters": sum(p.numel() for p in model.parameters()),
                "characters": len(text),
            }
        )
    return {name: scores[name] for name in list_checkpoints() if name in scores}


def _grows(config: ModelConfig) -> int:
    """Return the numbers that a token adds to the caches; a state does not grow."""
    return int((cached_numbers(config, 2) - cached_numbers(config, 1)).value)


def _state(config: ModelConfig) -> dict[str, int]:
    """Return the numbers of the states, of a model that has some."""
    numbers = int(cached_numbers(config, 1).value) - _grows(config)
    return {"state_numbers": numbers} if any(layer.mixer.state() for layer in config.layers) else {}


def stored_scores() -> dict[str, dict]:
    """Read scores.json."""
    return json.loads(SCORES.read_text(encoding="utf-8")) if SCORES.exists() else {}


def write_scores(scores: dict[str, dict]) -> dict[str, dict]:
    """Write scores.json, and return it."""
    SCORES.write_text(json.dumps(scores, indent=1) + "\n", encoding="utf-8")
    return scores


def made_here(duration: str) -> str:
    """Describe this machine, and how long a training took: a sentence for the card, kept with the scores."""
    return f"two cores, {_processor()}, no accelerator, torch {torch.__version__}; {duration}"


def write_card(scores: dict[str, dict], facts: dict, recipes: Mapping[str, str]) -> None:
    """Write the model card, README.md beside the weights, and its plot. recipes: of the others than the family."""
    card = CARD.format(
        table=_table(scores),
        hashes=_hashes(list(scores)),
        n_characters=next(iter(scores.values()))["characters"],
        machine=_machines(scores),
        others=f": {listed(OTHERS[name] for name in scores if name in OTHERS)}" if scores.keys() & OTHERS else "",
        recipes="".join(_item(f"**{name}.** {text}") for name, text in recipes.items() if name in scores),
        **facts,
    )
    (FOLDER / "README.md").write_text(card, encoding="utf-8")
    (FOLDER / "quality.svg").write_text(quality_svg(scores), encoding="utf-8")


def _item(text: str) -> str:
    """Return an item of a list, wrapped like the rest of the card."""
    return fill(f"- {text}", 120, subsequent_indent="  ", break_long_words=False, break_on_hyphens=False) + "\n"


def _machines(scores: dict[str, dict]) -> str:
    """Say where the checkpoints were trained; those of one training together."""
    by_made: dict[str, list[str]] = {}
    for name, each in scores.items():
        by_made.setdefault(each.get("made", "not noted"), []).append(name)
    return "\n  ".join(f"{', '.join(names)}: {made}" for made, names in by_made.items())


def _processor() -> str:
    info = Path("/proc/cpuinfo")
    lines = info.read_text(encoding="utf-8").splitlines() if info.exists() else []
    return next((line.split(": ")[1] for line in lines if line.startswith("model name")), platform.machine())


def _table(scores: dict[str, dict]) -> str:
    head = "| | parameters | cache, numbers per token | bits per character | previous token | induction, text "
    rows = [head + "| gain, text | induction, random | gain, random |", "| --- " + "| ---: " * 8 + "|"]
    for name, s in scores.items():
        text, random = s["repeated_text"], s["repeated_random"]
        rows.append(
            f"| {name} | {s['parameters']:,} | {_cache(s)} | {s['bits_per_character']:.3f} "
            f"| {s['previous_token']['previous_token']:.2f} | {text['induction']:.2f} | {text['gain']:.2f} "
            f"| {random['induction']:.2f} | {random['gain']:.2f} |"
        )
    return "\n".join(rows)


def _cache(scores: Mapping[str, int]) -> str:
    state = scores.get("state_numbers", 0)
    return f"{scores['cache_numbers_per_token']:,}" + (f", and a state of {state:,}" if state else "")


def _hashes(names: list[str]) -> str:
    rows = ["| file | bytes | sha256 |", "| --- | ---: | --- |"]
    for name in names:
        data = (FOLDER / f"{name}.safetensors").read_bytes()
        rows.append(f"| {name}.safetensors | {len(data):,} | `{hashlib.sha256(data).hexdigest()}` |")
    return "\n".join(rows)


def quality_svg(scores: dict[str, dict]) -> str:
    """Plot bits per character against cached numbers, as hand-written SVG without a plotting library."""
    caches = [s["cache_numbers_per_token"] for s in scores.values()]
    bits = [s["bits_per_character"] for s in scores.values()]
    low, high = min(bits) - 0.01, max(bits) + 0.01
    marks = []
    for name, cache, bit in zip(scores, caches, bits, strict=True):
        x, y = 70 + 480 * cache / max(caches), 20 + 220 * (high - bit) / (high - low)
        marks.append(f'<circle cx="{x:.1f}" cy="{y:.1f}" r="6"/>')
        marks.append(f'<text x="{x - 10:.1f}" y="{y - 11:.1f}">{name} {bit:.3f}</text>')
    return (
        '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 640 300" font-family="sans-serif" font-size="14">'
        '<rect width="640" height="300" fill="#fbfbfa"/><path d="M70 20V250H600" fill="none" stroke="#888"/>'
        '<text x="180" y="285">cached numbers per token, all layers</text>'
        '<text transform="translate(25 210) rotate(-90)">bits per character (lower is better)</text>'
        f"{''.join(marks)}</svg>\n"
    )
