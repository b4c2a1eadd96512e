"""Values are rotated like queries and keys."""

from attnviz.config import ModelConfig
from attnviz.mistakes.mistake import CannotOccur, Mistake, Source, Symptom, Words
from attnviz.mistakes.runs import format_number, largest, loss_metric, maps, run
from attnviz.mistakes.versions import Change, Version
from attnviz.modules import Transformer


def compare(right: Version, wrong: Version, model: Transformer, ids: list[int]) -> Symptom:
    a = run(right.like(model), ids)
    try:
        b = run(wrong.like(model), ids)
    except ValueError as error:  # in MLA a value can have fewer dimensions than RoPE rotates
        raise CannotOccur(f"A value cannot be rotated here: {error}.") from None
    metric = loss_metric(a.logits, b.logits, ids)
    same = largest(b.weights[0] - a.weights[0])
    sentence = (
        f"The weights of layer 0 differ by {format_number(same)}, because its q and k are the same. {metric.sentence}"
    )
    if len(ids) == 1:
        sentence = "At position 0 nothing is rotated: both versions compute the same."
    return Symptom(
        **maps(a, b), measure=metric.measure, expected=metric.expected, number=metric.number, sentence=sentence
    )


def why_not(config: ModelConfig) -> str:
    return "" if config.rotary_dim else "This model has no RoPE: nothing is rotated."


MISTAKE = Mistake(
    title="RoPE applied to values",
    subject="rope",
    kind="silent",
    changes=(
        Change(
            "modules/attention.py",
            right="q, k = rope(q, past), rope(k, past)  # v carries no position",
            wrong="q, k, v = rope(q, past), rope(k, past), rope(v, past)",
        ),
    ),
    latent=(
        Change(
            "modules/latent.py",
            right="k_nope, v = self._expand(latent)  # (B, H, S, N), (B, H, S, V)",
            wrong="""
                k_nope, v = self._expand(latent)  # (B, H, S, N), (B, H, S, V)
                v = rotate(v, 0)
            """,
        ),
    ),
    question="The same text is run at positions 0, 1, … and at positions 5, 6, …. What differs between the two runs?",
    answers=(
        "Nothing: the rotations cancel, as in q·k",
        "The output of the layer, but not its weights",
        "The weights of the layer, and so its output",
        "Only the weights, by one common factor",
    ),
    answer=1,
    what="In q·k only the difference of the two rotations remains, so a score depends only on the distance. A value "
    "has no second rotation to cancel it: the output is a sum of values rotated by their absolute positions, and "
    "changes when the text is shifted. That is why RoPE is applied to q and k, but not to v.",
    sources=(Source("Su et al., RoFormer, section 3.2.1: q and k", "https://arxiv.org/abs/2104.09864"),),
    noticed="Training from scratch works, and the loss need not show it, but the output of each head now depends on "
    "absolute positions. With weights trained without it, the first layer's maps are right and those of later "
    "layers are not.",
    interview="“Why are values not rotated?” Ask what cancels the rotation: for q·k the other vector, for v nothing.",
    test="""
import torch
from attnviz.modules import GroupedQueryAttention, Rope, rope_frequencies

def test_a_moved_text_gives_the_same_output():
    layer, x, rope = GroupedQueryAttention(12, 2, 1), torch.randn(1, 7, 12), Rope(rope_frequencies(6))
    moved = layer(x, rope=lambda t, start: rope(t, start + 5))
    torch.testing.assert_close(moved, layer(x, rope=rope))
""",
    latent_words=Words(
        test="""
import torch
from attnviz.modules import MultiHeadLatentAttention, Rope, rope_frequencies

class Moved(Rope):
    def __call__(self, x, start=0):
        return super().__call__(x, start + 5)

def test_a_moved_text_gives_the_same_output():
    layer = MultiHeadLatentAttention(12, 3, kv_lora_rank=5, qk_nope_head_dim=4, qk_rope_head_dim=2, v_head_dim=2)
    x, rope = torch.randn(1, 7, 12), Rope(rope_frequencies(2))
    torch.testing.assert_close(layer(x, rope=Moved(rope.frequencies)), layer(x, rope=rope))
""",
    ),
    compare=compare,
    why_not=why_not,
)
