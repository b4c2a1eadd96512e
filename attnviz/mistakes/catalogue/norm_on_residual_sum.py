"""The norm is applied to the residual sum, where the weights were trained with it before each part."""

from attnviz.mistakes.mistake import Mistake, Source, Symptom
from attnviz.mistakes.runs import loss_told, maps, run
from attnviz.mistakes.versions import Change, Version
from attnviz.modules import Transformer


def compare(right: Version, wrong: Version, model: Transformer, ids: list[int]) -> Symptom:
    a, b = run(right.like(model), ids), run(wrong.like(model), ids)
    return Symptom(**maps(a, b), **loss_told(a.logits, b.logits, ids)._asdict())


MISTAKE = Mistake(
    title="The norm on the residual sum",
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
        "NaN after a few layers, since nothing is normed before attention",
        "Maps and logits of the right shape, and a loss that is far too high",
        "The same logits: a norm before or after gives the same direction",
    ),
    answer=2,
    what="Both blocks have the same parameters by the same names, so that weights of one load into the other. Pre-norm "
    "computes x + f(norm(x)): the residual stream itself is never normed, and each part may add to it as it likes. "
    "Post-norm, as in the first Transformer, computes norm(x + f(x)): the stream is rescaled twice per layer, and each "
    "part reads it as it is. Post-norm needs a warm-up of the learning rate to train at all; pre-norm does not.",
    sources=(
        Source(
            "Xiong et al., On Layer Normalization in the Transformer Architecture", "https://arxiv.org/abs/2002.04745"
        ),
        Source("Vaswani et al., section 3.1: post-norm", "https://arxiv.org/abs/1706.03762"),
    ),
    noticed="Loading published weights: at once, by the loss. Training from the start: it works with warm-up "
    "when there "
    "are few layers, and diverges or stalls when there are many.",
    interview="“Pre-norm or post-norm, and why?” Draw the residual stream: in pre-norm an identity path goes from the "
    "embedding to the last norm.",
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
)
