"""One training run: AdamW with warm-up, hold and cosine decay to zero; resumable, with a progress bar and a log."""

from __future__ import annotations

import json
import math
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

from attnviz.config import ModelConfig
from attnviz.modules import Transformer
from attnviz.training.data import Batches

RATES = ("A_log", "dt_bias")  # parameters of gated DeltaNet


@dataclass(frozen=True)
class Recipe:
    """Hyperparameters of one run. Tokens are counted over all rows, of text and of repeats."""

    primer_steps: int = 0  # short rows with only repeats, which form the induction heads
    hold_steps: int = 0  # at the peak learning rate
    decay_steps: int = 0  # cosine to zero
    warmup_steps: int = 100
    primer_lr: float = 1e-3
    peak_lr: float = 2e-3
    weight_decay: float = 0.1
    dropout: float = 0.0  # on the embeddings and on what each part adds to the residual stream
    text_rows: int = 9
    repeat_rows: int = 1
    length: int = 256
    primer_rows: int = 64
    primer_length: int = 64
    seed: int = 1

    @property
    def steps(self) -> int:
        return self.primer_steps + self.hold_steps + self.decay_steps

    @property
    def tokens(self) -> int:
        primer = self.primer_steps * self.primer_rows * self.primer_length
        rows = (self.hold_steps + self.decay_steps) * (self.text_rows + self.repeat_rows)
        return primer + rows * self.length

    def lr(self, step: int) -> float:
        """Return the learning rate: warm-up to the primer's rate, then to the peak, at last a cosine to zero."""
        if step < self.primer_steps:
            return self.primer_lr * min(1.0, (step + 1) / self.warmup_steps)
        floor = self.primer_lr if self.primer_steps else 0.0
        up = min(1.0, (step - self.primer_steps + 1) / self.warmup_steps)
        into_decay = max(0, step - (self.steps - self.decay_steps)) / max(1, self.decay_steps)
        return (floor + (self.peak_lr - floor) * up) * 0.5 * (1 + math.cos(math.pi * into_decay))


def initial(config: ModelConfig, seed: int) -> Transformer:
    """Initialise weights with standard deviation 0.02: with a larger one the induction heads do not appear in time."""
    model, generator = Transformer.random(config, seed), torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for module in model.modules():
            if isinstance(module, nn.Linear | nn.Embedding):  # norms stay 1, convolutions and decays as they are drawn
                module.weight.normal_(0.0, 0.02, generator=generator)
    return model


def text_loss(model: Callable[..., Tensor], ids: Tensor, counts: Tensor) -> Tensor:
    """Return the mean loss in nats of predicting ids (B, T + 1), over the positions of the loss mask, bool (B, T)."""
    logits = model(ids[:, :-1])  # (B, T, vocab_size)
    return F.cross_entropy(logits[counts].float(), ids[:, 1:][counts])


def train(
    model: Transformer, batches: Batches, recipe: Recipe, folder: Path, *, compile_model: bool = False,
    loss_of: Callable[..., Tensor] = text_loss,
) -> None:  # fmt: skip
    """Train in place, saving every 200 steps to folder; a second call with the same folder resumes.

    Only parameters that require gradients are trained. loss_of: of the model, ids and loss mask.
    """
    folder.mkdir(parents=True, exist_ok=True)
    device = "cuda" if torch.cuda.is_available() else "cpu"
    model.to(device).train()
    optimizer = torch.optim.AdamW(_groups(model, recipe), lr=recipe.peak_lr, betas=(0.9, 0.95), fused=True)
    start = _restore(model, optimizer, folder)
    add_dropout(model, recipe.dropout)
    forward = torch.compile(model) if compile_model else model
    began, losses = time.perf_counter(), []
    for step in range(start, recipe.steps):
        ids, counts = _draw(batches, recipe, step)
        loss = partial(loss_of, forward, ids.to(device), counts.to(device))
        losses.append(_step(loss, optimizer, recipe.lr(step), device))
        if (step + 1) % 50 == 0 or step + 1 == recipe.steps:
            _log(folder, recipe, step + 1, sum(losses) / len(losses), began, start)
            losses = []
        if (step + 1) % 200 == 0 or step + 1 == recipe.steps:
            _save(model, optimizer, step + 1, recipe, folder)


def _groups(model: Transformer, recipe: Recipe) -> list[dict[str, Any]]:
    """Return the optimiser's groups: the rates of a decaying state are themselves not decayed towards 0."""
    rates = [p for name, p in _trained(model).items() if name.endswith(RATES)]
    others = [p for name, p in _trained(model).items() if not name.endswith(RATES)]
    decayed = {"params": others, "weight_decay": recipe.weight_decay}
    return [decayed, *([{"params": rates, "weight_decay": 0.0}] if rates else [])]


def add_dropout(model: Transformer, share: float) -> None:
    """Add dropout by forward hooks, so that the shipped modules need no code for training."""
    parts = [model.embed, *(part for block in model.blocks for part in (block.attn, block.ffn))]
    for part in parts if share else []:
        part.register_forward_hook(lambda module, _, output: F.dropout(output, share, module.training))


def _draw(batches: Batches, r: Recipe, step: int) -> tuple[Tensor, Tensor]:
    if step < r.primer_steps:
        return batches.primer(step, r.primer_rows, r.primer_length)
    return batches.mixture(step, r.text_rows, r.repeat_rows, r.length)


def _trained(model: nn.Module) -> dict[str, nn.Parameter]:
    """Return the parameters that are trained."""
    return {name: p for name, p in model.named_parameters() if p.requires_grad}


def _step(loss_of: Callable[[], Tensor], optimizer: torch.optim.Optimizer, lr: float, device: str) -> float:
    """Do one optimiser step; return the loss."""
    for group in optimizer.param_groups:
        group["lr"] = lr
    with torch.autocast(device, torch.bfloat16):
        loss = loss_of()
    loss.backward()
    torch.nn.utils.clip_grad_norm_((p for g in optimizer.param_groups for p in g["params"]), 1.0)
    optimizer.step()
    optimizer.zero_grad(set_to_none=True)
    return loss.item()


def _save(model: Transformer, optimizer: torch.optim.Optimizer, step: int, recipe: Recipe, folder: Path) -> None:
    """Save weights and both of Adam's moments in one safetensors file, replaced atomically."""
    tensors = {f"model.{name}": p.detach().cpu().contiguous() for name, p in model.named_parameters()}
    for name, p in _trained(model).items():
        for moment in ("exp_avg", "exp_avg_sq"):
            tensors[f"{moment}.{name}"] = optimizer.state[p][moment].cpu().contiguous()
    partial = folder / "state.partial"
    save_file(tensors, partial, {"step": str(step), "recipe": json.dumps(asdict(recipe))})
    partial.replace(folder / "state.safetensors")
    (folder / "step").write_text(str(step), encoding="utf-8")


def _restore(model: Transformer, optimizer: torch.optim.Optimizer, folder: Path) -> int:
    """Restore the saved state and return its step; 0 if there is none."""
    if not (folder / "state.safetensors").exists():
        return 0
    tensors, step = load_file(folder / "state.safetensors"), int((folder / "step").read_text(encoding="utf-8"))
    with torch.no_grad():
        for name, p in model.named_parameters():
            p.copy_(tensors[f"model.{name}"])
            if not p.requires_grad:
                continue
            optimizer.state[p] = {
                "step": torch.tensor(float(step)),
                **{m: tensors[f"{m}.{name}"].to(p.device) for m in ("exp_avg", "exp_avg_sq")},
            }
    return step


def load_weights(model: Transformer, folder: Path) -> Transformer:
    """Load the weights of a finished run into the model."""
    tensors = load_file(folder / "state.safetensors")
    model.load_state_dict({n.removeprefix("model."): t for n, t in tensors.items() if n.startswith("model.")})
    return model.eval()


def _log(folder: Path, recipe: Recipe, step: int, loss: float, began: float, start: int) -> None:
    """Append a line to the log and redraw the progress bar."""
    seconds = time.perf_counter() - began
    left = seconds / (step - start) * (recipe.steps - step)
    line = {"step": step, "loss": round(loss, 4), "lr": recipe.lr(step - 1), "seconds": round(seconds, 1)}
    with (folder / "log.jsonl").open("a", encoding="utf-8") as log:
        log.write(json.dumps(line) + "\n")
    done = 30 * step // recipe.steps
    bar = "█" * done + "·" * (30 - done)
    print(f"\r{folder.name} {bar} {step}/{recipe.steps}  loss {loss:.3f}  {left / 60:.1f} min left", end="", flush=True)
    if step == recipe.steps:
        print()
