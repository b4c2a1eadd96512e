"""SwiGLU's gate uses a sigmoid instead of SiLU, which makes it GLU."""

from attnviz.config import ModelConfig
from attnviz.mistakes.mistake import Mistake, Source, Symptom
from attnviz.mistakes.runs import loss_metric, maps, run
from attnviz.mistakes.versions import Change, Version
from attnviz.modules import Transformer


def compare(right: Version, wrong: Version, model: Transformer, ids: list[int]) -> Symptom:
    a, b = run(right.like(model), ids), run(wrong.like(model), ids)
    return Symptom(**maps(a, b), **loss_metric(a.logits, b.logits, ids)._asdict())


def why_not(config: ModelConfig) -> str:
    return {
        "swiglu": "",
        "geglu": "This model's feed-forward networks are GeGLU: their gate is GELU, not SiLU.",
        "gelu": "This model's feed-forward networks have no gate: their activation is GELU.",
    }[config.ffn]


MISTAKE = Mistake(
    title="SwiGLU with a sigmoid gate",
    subject="training",
    kind="silent",
    changes=(
        Change(
            "modules/feedforward.py",
            right="hidden = F.silu(self.gate_proj(x)) * self.up_proj(x)  # (B, T, C) -> (B, T, F)",
            wrong="hidden = F.sigmoid(self.gate_proj(x)) * self.up_proj(x)  # (B, T, C) -> (B, T, F)",
        ),
    ),
    question="If gate_proj(x) is 4 and up_proj(x) is 1, what is the entry of hidden in the right and in this version?",
    answers=("0.98 right, 3.93 here", "3.93 in both", "3.93 right, 0.98 here", "4 right, 1 here"),
    answer=2,
    what="SiLU(z) = z · sigmoid(z): it grows with z, while a sigmoid stays between 0 and 1. For z = 4 the sigmoid is "
    "0.98 and SiLU 3.93. GLU gates with a sigmoid, SwiGLU with SiLU (Swish). Both have the same three matrices, so "
    "weights of one load into the other without an error.",
    sources=(
        Source("Shazeer, GLU Variants Improve Transformer, equations 5 and 6", "https://arxiv.org/abs/2002.05202"),
    ),
    noticed="Training from scratch works; in table 1 of the GLU paper (arXiv 2002.05202) the held-out "
    "log-perplexity is 1.663 with GLU and 1.636 with SwiGLU. With weights trained for SwiGLU the loss is wrong "
    "immediately, while the first layer's maps are right: its attention comes before the first feed-forward "
    "network.",
    interview="“Write SwiGLU.” down(silu(gate(x)) · up(x)): three matrices, and SiLU instead of a plain sigmoid.",
    test="""
import torch
from attnviz.modules import SwiGLU

def test_the_gate_is_silu():
    layer, x = SwiGLU(5, 13), torch.randn(2, 7, 5)
    gate = layer.gate_proj(x)
    expected = layer.down_proj(gate / (1 + torch.exp(-gate)) * layer.up_proj(x))
    torch.testing.assert_close(layer(x), expected)
""",
    compare=compare,
    why_not=why_not,
)
