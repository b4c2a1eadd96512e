"""The norm is applied to the residual sum (post-norm), but the weights were trained with pre-norm."""

from attnviz.config import ModelConfig
from attnviz.mistakes.mistake import Mistake, Source, Symptom
from attnviz.mistakes.runs import loss_metric, maps, run
from attnviz.mistakes.versions import Change, Version
from attnviz.modules import Transformer


def compare(right: Version, wrong: Version, model: Transformer, ids: list[int]) -> Symptom:
    a, b = run(right.like(model), ids), run(wrong.like(model), ids)
    return Symptom(**maps(a, b), **loss_metric(a.logits, b.logits, ids)._asdict())


def why_not(config: ModelConfig) -> str:
    if config.norms_per_layer == 2:
        return ""
    return "This model's blocks have sandwich norms, `SandwichBlock.forward`: one before and one after each sublayer."


MISTAKE = Mistake(
    title="The norm on the residual sum",
    subject="training",
    kind="silent",
    changes=(
        Change(
            "modules/transformer.py",
            right="""
                x = x + self.attn(self.attn_norm(x), **attention)
                return x + self.ffn(self.ffn_norm(x))
            """,
            wrong="""
                x = self.attn_norm(x + self.attn(x, **attention))
                return self.ffn_norm(x + self.ffn(x))
            """,
        ),
    ),
    question="Pre-norm weights are loaded into this block. What do you see?",
    answers=(
        "An error: two norms are missing",
        "NaN after a few layers, because nothing is normalised before attention",
        "Maps and logits of the right shape, but a loss that is far too high",
        "The same logits: a norm before or after gives the same direction",
    ),
    answer=2,
    what="Both blocks have the same parameters with the same names, so weights of one load into the other. Pre-norm "
    "computes x + f(norm(x)): inside the blocks the residual stream itself is never normalised, and each sublayer "
    "adds to it. Post-norm, as in the original Transformer, computes norm(x + f(x)): the stream is rescaled twice "
    "per layer, and each sublayer reads it directly. Xiong et al. (arXiv 2002.04745) trained pre-norm Transformers "
    "without learning-rate warm-up; in their experiments post-norm needed it.",
    sources=(
        Source(
            "Xiong et al., On Layer Normalization in the Transformer Architecture", "https://arxiv.org/abs/2002.04745"
        ),
        Source("Vaswani et al., section 3.1: post-norm", "https://arxiv.org/abs/1706.03762"),
    ),
    noticed="With weights trained for pre-norm, immediately, by the loss. When training from scratch it is not a "
    "mistake but another architecture: the original Transformer trains in this form, with 6 layers and a warm-up of "
    "4,000 steps (arXiv 1706.03762).",
    interview="“Pre-norm or post-norm, and why?” Draw the residual stream: in pre-norm an identity path leads from "
    "the embedding to the last norm, so gradients reach the first layers without passing through a norm in between.",
    test="""
import torch
from attnviz.config import ModelConfig
from attnviz.modules import Transformer

def test_the_residual_stream_is_not_normed():
    model, x = Transformer.random(ModelConfig(1, 12, 3, vocab_size=17), seed=0), torch.randn(1, 7, 12)
    block = model.blocks[0]
    after = x + block.attn(block.attn_norm(x), causal=True)
    torch.testing.assert_close(block(x, causal=True), after + block.ffn(block.ffn_norm(after)))
""",
    compare=compare,
    why_not=why_not,
)
