"""Dropout on the attention weights stays active in evaluation."""

import torch

from attnviz.config import ModelConfig
from attnviz.mistakes.mistake import Mistake, Source, Symptom
from attnviz.mistakes.runs import Pass, format_number, largest, loss, maps, run
from attnviz.mistakes.versions import Change, Version
from attnviz.modules import Transformer
from attnviz.modules.shallow import with_own_parts

RATE = 0.1


def compare(right: Version, wrong: Version, model: Transformer, ids: list[int]) -> Symptom:
    """Run each version twice in evaluation mode, with a dropout of RATE in each attention layer."""
    a, b = ([_run(each, model, ids, seed) for seed in (0, 1)] for each in (right, wrong))
    before, after = (largest(one.logits - other.logits) for one, other in (a, b))
    sentence = f"With dropout {RATE}, two runs on the same text differ by up to {format_number(after)} in a logit."
    if len(ids) > 1:
        first, second = (format_number(loss(each.logits, ids)) for each in b)
        sentence += f" The loss is {first} nats per token in one run and {second} in the other; without dropout "
        sentence += f"{format_number(loss(a[0].logits, ids))}."
    return Symptom(
        **maps(a[0], b[0]), measure="Largest change of a logit between two runs on the same text", expected=before,
        number=after, sentence=sentence,
    )  # fmt: skip


def _run(version: Version, model: Transformer, ids: list[int], seed: int) -> Pass:
    attentions = {}
    for layer, block in enumerate(model.blocks):
        attentions[layer] = with_own_parts(block.attn)
        attentions[layer].dropout = RATE
    with torch.random.fork_rng([]):
        torch.manual_seed(seed)
        return run(version.like(model.with_attentions(attentions).eval()), ids)


def why_not(config: ModelConfig) -> str:
    return "AttnViz's MLA has no dropout on its attention weights." if config.attention == "mla" else ""


MISTAKE = Mistake(
    title="Dropout active in evaluation",
    subject="training",
    kind="silent",
    changes=(
        Change(
            "modules/attention.py",
            right="output, weights = (kernel or attend)(q, k, v, mask, dropout=self.dropout if self.training else 0.0,",
            wrong="output, weights = (kernel or attend)(q, k, v, mask, dropout=self.dropout,",
        ),
    ),
    question="The model has dropout 0.1 on its attention weights, and model.eval() was called. It is run twice on the "
    "same text. What do you see?",
    answers=(
        "Equal logits: eval() switches dropout off",
        "Equal logits, all 10% too small",
        "Different logits",
        "NaN if a whole row was dropped",
    ),
    answer=2,
    what="eval() only sets self.training to False. nn.Dropout checks this flag itself; functions do not. As its "
    "documentation says, torch.nn.functional.scaled_dot_product_attention applies dropout_p in either mode, so 0.0 "
    "must be passed for evaluation. The opposite mistake is a missing model.eval().",
    sources=(
        Source(
            "torch scaled_dot_product_attention: dropout_p",
            "https://docs.pytorch.org/docs/stable/generated/torch.nn.functional.scaled_dot_product_attention.html",
        ),
        Source("Srivastava et al., Dropout", "https://jmlr.org/papers/v15/srivastava14a.html"),
    ),
    noticed="Validation loss varies between two evaluations of the same checkpoint, and greedy decoding can give a "
    "different text each time. The run above shows the loss of two runs and the loss without dropout.",
    interview="“What do train() and eval() change?” One flag, self.training, which modules such as nn.Dropout read. "
    "Then: which operations are functions and need the flag passed to them?",
    test="""
import torch
from attnviz.modules import GroupedQueryAttention

def test_evaluation_gives_the_same_twice():
    layer, x = GroupedQueryAttention(12, 3, 3, dropout=0.5).eval(), torch.randn(2, 7, 12)
    assert torch.equal(layer(x), layer(x))
""",
    compare=compare,
    why_not=why_not,
)
