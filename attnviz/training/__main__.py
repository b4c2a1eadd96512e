"""Command line: python -m attnviz.training tokenizer, train, export or evaluate.

tokenizer and train take the training text, export and evaluate the held-out text.
"""

from __future__ import annotations

import argparse
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

from attnviz.checkpoints import FOLDER, list_checkpoints, load_checkpoint
from attnviz.config import ModelConfig
from attnviz.experiments.conversion import group_kv_heads
from attnviz.mechanisms import GatedDelta
from attnviz.modules import Transformer
from attnviz.text import TOKENIZER_FILE, Tokenizer
from attnviz.training import further
from attnviz.training.data import VOCAB_SIZE, Batches, read_text, token_stream, train_tokenizer
from attnviz.training.export import (
    made_here,
    mean_of,
    save_checkpoint,
    save_front_door,
    score,
    write_card,
    write_scores,
)
from attnviz.training.train import Recipe, initial, load_weights, train

SHAPE: dict[str, Any] = {
    "n_layers": 4,
    "d_model": 192,
    "n_heads": 8,
    "d_ff": 512,
    "vocab_size": VOCAB_SIZE,
    "max_context": 256,
}
LATENT: dict[str, Any] = {
    "attention": "mla",
    "kv_lora_rank": 64,
    "qk_nope_head_dim": 16,
    "qk_rope_head_dim": 16,
    "v_head_dim": 24,
}
KV_HEADS = {"mha": 8, "gqa-4": 4, "gqa-2": 2, "mqa": 1}
DELTA = GatedDelta(n_heads=8, n_key_heads=4, key_dim=24, head_dim=24, taps=4)
FAMILY = (*KV_HEADS, "mla", "hybrid")
OF_THEIR_OWN = ("mla", "hybrid")  # whose weights begin from no other's
EXPORTED = (*FAMILY, *further.VARIANTS)
TRAINED = ("base", *FAMILY, *(f"{v}-second" for v in FAMILY), *further.RUNS)  # in this order
FRONT = "gqa-4"
FRONT_TEXT = (  # the app's default text
    "The little girl found a red ball in the garden. The old man laughed. "
    "The little girl found a red ball in the garden."
)
PRIMER, HOLD, DECAY = 700, 5000, 1600
PRIMER_AGAIN = {
    "mqa": 400
}  # averaging eight KV heads into one destroys the induction heads, and training on text alone does not restore them
SECOND, SECOND_DROPOUT = 1800, 0.15  # steps and dropout of a second cosine, against overfitting in the first


def config_of(variant: str) -> ModelConfig:
    """Return the configuration of a variant: the same decoder with 8, 4, 2 or 1 KV heads, with MLA, or with GQA-4 in
    the last layer and the gated delta rule in the others."""
    if variant == "hybrid":
        (*first, last) = config_of("gqa-4").layers
        linear = (replace(layer, parts=(DELTA, *layer.feed_forwards), rope_theta=None) for layer in first)
        return replace(config_of("gqa-4"), mixed_layers=(*linear, last))
    if variant in further.VARIANTS:
        return further.config_of(variant, config_of(further.START))
    return ModelConfig(**SHAPE, **LATENT) if variant == "mla" else ModelConfig(**SHAPE, n_kv_heads=KV_HEADS[variant])


def hybrid_recipe(tokens: int) -> str:
    """Return what the model card says about the training of the hybrid."""
    return (
        f"From random weights, in a run of its own like MLA's, with the same recipe and {tokens:,} tokens. Layers 0 to "
        f"2 are gated DeltaNet (arXiv 2412.06464): {DELTA.n_key_heads} key heads, {DELTA.n_heads} value heads of "
        f"{DELTA.head_dim}, a convolution of {DELTA.taps} taps, an output gate; layer 3 is the attention of GQA-4. "
        "Decays begin as in Mamba-2: A between 1 and 16, Δt between 0.001 and 0.1; they have no weight decay."
    )


def start_of(variant: str, runs: Path, seed: int) -> tuple[Transformer, Recipe]:
    """Return the initial model and the recipe of a run.

    `base` is MHA before the decay; mha, gqa-4, gqa-2 and mqa continue from it, with KV heads averaged into groups
    (arXiv 2305.13245). mla and hybrid get the same number of tokens in one run each. `<variant>-second` continues each
    of them, for as many steps as give all variants the same total number of tokens.
    """
    if variant in further.RUNS:
        return further.start_of(variant, seed, lambda run: trained(run, runs))
    first = variant.removesuffix("-second")
    if first != variant:
        model = trained(first, runs)
        return model, Recipe(decay_steps=second_steps(first), dropout=SECOND_DROPOUT, seed=seed + 2)
    if variant == "base":
        return initial(config_of("mha"), seed), Recipe(PRIMER, HOLD, 0, seed=seed)
    if variant in OF_THEIR_OWN:
        return initial(config_of(variant), seed), Recipe(PRIMER, HOLD, DECAY, seed=seed)
    base = trained("base", runs)
    return group_kv_heads(base, KV_HEADS[variant]), Recipe(PRIMER_AGAIN.get(variant, 0), 0, DECAY, seed=seed + 1)


def trained(variant: str, runs: Path) -> Transformer:
    """Load the model of a finished run."""
    shape = "mha" if variant == "base" else variant.removesuffix("-second").removesuffix("-indexer")
    return load_weights(Transformer.random(config_of(shape), 0), runs / variant)


def second_steps(variant: str) -> int:
    """Return SECOND minus the steps that the variant's second primer used."""
    step_tokens = Recipe(decay_steps=1).tokens
    return SECOND - Recipe(PRIMER_AGAIN.get(variant, 0)).tokens // step_tokens


def main() -> None:
    args = _arguments()
    if args.command == "tokenizer":
        train_tokenizer(read_text(args.text), TOKENIZER_FILE)
    elif args.command == "train":
        run(args)
    elif args.command == "export":
        export(args)
    else:
        print(json.dumps(write_scores(score(list_checkpoints(), read_text(args.text))), indent=1))


def run(args: argparse.Namespace) -> None:
    """Train the variants one after another, each resumed from its last saved state."""
    tokenizer = Tokenizer()
    for variant in args.variants or TRAINED:
        model, recipe = start_of(variant, args.runs, args.seed)
        batches = Batches(token_stream(args.text, tokenizer), tokenizer.vocab_size, recipe.seed)
        loss = further.loss_of(variant)
        train(model, batches, recipe, args.runs / variant, compile_model=args.compile, loss_of=loss)


def export(args: argparse.Namespace) -> None:
    """Export finished runs to the app's folder, score their files on the given text, and write the model card.

    Checkpoints that are not named stay as they are, with their scores.
    """
    exported = [name for name in (args.variants or EXPORTED) if name in EXPORTED]
    for variant in exported:
        ends = (variant, f"{variant}-second")
        models = [trained(run, args.runs) for run in ends if run in TRAINED]
        save_checkpoint(mean_of(*models) if len(models) > 1 else models[0], FOLDER / f"{variant}.safetensors")
        if variant == FRONT:
            save_front_door(load_checkpoint(variant)[0], Tokenizer().encode(FRONT_TEXT), FOLDER / "front.npz")
    scores = score(exported, read_text(args.text))
    for name in exported:
        scores[name]["made"] = made_here(args.hours)
    facts = card_facts(args.seed)
    write_card(write_scores(scores), facts, {"hybrid": hybrid_recipe(facts["tokens"]), **further.recipes()})


def card_facts(seed: int) -> dict[str, Any]:
    """Return the numbers of the family's recipe, for the model card."""
    base, own = Recipe(PRIMER, HOLD, 0), Recipe(PRIMER, HOLD, DECAY, seed=seed)
    second = Recipe(decay_steps=SECOND, dropout=SECOND_DROPOUT)
    return {
        "shape": f"{SHAPE['n_layers']} layers, d_model {SHAPE['d_model']}, 8 query heads of 24, "
        f"SwiGLU of {SHAPE['d_ff']}, RMSNorm before each part, RoPE (half-split, theta 10,000), tied embeddings, "
        "context 256.",
        "vocab_size": VOCAB_SIZE, "tokens": own.tokens + second.tokens, "shared": base.tokens, "peak_lr": own.peak_lr,
        "decay": DECAY, "rows": own.text_rows + own.repeat_rows, "seed": seed,
        "again": Recipe(PRIMER_AGAIN["mqa"]).tokens, "second": SECOND, "fewer": SECOND - second_steps("mqa"),
        "dropout": SECOND_DROPOUT,
    }  # fmt: skip


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m attnviz.training", description=__doc__)
    parser.add_argument("command", choices=("tokenizer", "train", "export", "evaluate"))
    parser.add_argument("text", type=Path, help="a plain-text file, gzipped or not, for training or scoring")
    parser.add_argument(
        "variants", nargs="*",
        help="to train: base, mha, gqa-4, gqa-2, mqa, mla, hybrid, and each of these except base with the suffix "
        "-second, then sinks, shared, sparse-indexer, sparse, which continue from the shipped gqa-4; to export: the "
        "names without a suffix. By default all",
    )  # fmt: skip
    parser.add_argument("--runs", type=Path, default=Path("runs"), help="where runs are stored (default: runs)")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--compile", action="store_true", help="torch.compile; needs a C++ compiler on a CPU")
    parser.add_argument("--hours", default="time not noted.", help="a sentence for the model card on the duration")
    return parser.parse_intermixed_args()


if __name__ == "__main__":
    main()
