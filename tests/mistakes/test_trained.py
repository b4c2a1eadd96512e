"""What the records say about training: small models trained with a mistake, on text of known entropy.

The text is a Markov chain, so its next token cannot be predicted with a lower loss than its entropy. A lower training
loss shows that the future leaks, and the loss of decoding shows that it is not there to be used.
"""

from collections.abc import Callable
from functools import cache

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from attnviz.config import ModelConfig
from attnviz.mistakes import RIGHT, all_mistakes
from attnviz.modules import Transformer

V, T = 8, 16
CHANCES = torch.randn(V, V, generator=torch.Generator().manual_seed(0)).softmax(-1)  # of the next token
SHARES = torch.linalg.matrix_power(CHANCES, 200)[0]  # of each token in a long text
ENTROPY = float((SHARES[:, None] * torch.special.entr(CHANCES)).sum())  # 1.65 nats per token


def texts(n: int, generator: torch.Generator) -> Tensor:
    """Draw n texts of T tokens: (n, T)."""
    ids = [torch.multinomial(SHARES, n, True, generator=generator)]
    while len(ids) < T:
        ids.append(torch.multinomial(CHANCES[ids[-1]], 1, generator=generator)[:, 0])
    return torch.stack(ids, 1)


def loss_of(logits: Tensor, ids: Tensor, shift: int) -> Tensor:
    return F.cross_entropy(logits[:, : T - shift].flatten(0, 1), ids[:, shift:].flatten())


@cache
def batches() -> list[Tensor]:
    """Draw the texts of each step; every model is trained on the same."""
    draw = torch.Generator().manual_seed(1)
    return [texts(16, draw) for _ in range(150)]


def train(model: Transformer, steps: list[Callable[[], Tensor]], rate: float = 1e-2) -> None:
    """Lower the loss of each step with Adam, written out here: torch.optim imports torch's compiler, for 3 s."""
    parameters = [p.requires_grad_() for p in model.parameters()]
    mean, square = ([torch.zeros_like(p) for p in parameters] for _ in range(2))
    for n, loss in enumerate(steps, 1):
        gradients = torch.autograd.grad(loss(), parameters)
        with torch.no_grad():
            torch._foreach_lerp_(mean, gradients, 0.1)
            torch._foreach_lerp_(square, torch._foreach_mul(gradients, gradients), 0.001)
            root = torch._foreach_sqrt(torch._foreach_div(square, 1 - 0.999**n))
            torch._foreach_add_(root, 1e-8)
            torch._foreach_addcdiv_(parameters, mean, root, -rate / (1 - 0.9**n))


@cache
def losses(name: str, n_kv_heads: int = 4, shift: int = 1, steps: int = 100, n_layers: int = 1) -> tuple[float, float]:
    """Train a model, and return its loss on new texts in one pass, as in training, and in decoding, where no later
    token exists."""
    version = all_mistakes()[name].version() if name else RIGHT
    config = ModelConfig(n_layers, 32, 4, n_kv_heads, vocab_size=V, d_ff=64)
    model = version.like(Transformer.random(config, 0)).train()
    train(model, [(lambda ids=ids: loss_of(model(ids), ids, shift)) for ids in batches()[:steps]])
    ids = texts(64, torch.Generator().manual_seed(2))
    with torch.no_grad():
        decoded = [F.cross_entropy(model(ids[:, :t])[:, -1], ids[:, t]) for t in range(1, T)]
        return float(loss_of(model(ids), ids, shift)), float(torch.stack(decoded).mean())


@pytest.mark.slow
def test_the_right_version_learns_the_chain_and_heads_mixed_with_tokens_leak():
    """The leak lowers the loss in training below the entropy of the text, and decoding is no better."""
    in_training, decoded = losses("")
    assert in_training == pytest.approx(ENTROPY, abs=0.05) and decoded == pytest.approx(in_training, abs=1e-4)
    leaking, without_later_tokens = losses("reshape_without_transpose")
    assert leaking < ENTROPY - 0.04 and leaking < in_training - 0.04 and without_later_tokens > decoded


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "steps", "n_layers"),
    [("mask_never_used", 100, 1), ("mask_after_softmax", 150, 2), ("softmax_over_queries", 150, 2)],
)
def test_a_leak_lowers_the_loss_in_training_and_raises_it_in_decoding(name, steps, n_layers):
    in_training, decoded = losses(name, steps=steps, n_layers=n_layers)
    assert in_training < 0.25 * ENTROPY and decoded > 2 * ENTROPY


@pytest.mark.slow
def test_without_the_shift_the_loss_goes_to_0_and_decoding_repeats_its_input():
    in_training, decoded = losses("", shift=0, steps=60)
    assert in_training < 0.05 and decoded > 2 * ENTROPY


@pytest.mark.slow
@pytest.mark.parametrize(
    "name, n_kv_heads",
    [
        ("scale_by_d_model", 4), ("rope_on_values", 4), ("rope_in_the_other_layout", 4), ("sigmoid_gate", 4),
        ("norm_on_residual_sum", 4), ("tiled_kv_heads", 2),
    ],
)  # fmt: skip
def test_the_others_train_from_scratch(name, n_kv_heads):
    of, right = (losses(each, n_kv_heads, steps=70)[0] for each in (name, ""))
    assert of == pytest.approx(right, abs=0.03) and right == pytest.approx(ENTROPY, abs=0.05)
