"""Positions are counted from the first padding token, and not from the text's first token."""

from dataclasses import replace

import torch
from torch import Tensor, nn

from attnviz.mistakes.mistake import Mistake, Source, Symptom
from attnviz.mistakes.runs import is_token, largest, maps, run, run_padded, said
from attnviz.mistakes.usage import padding_mask, sinusoids
from attnviz.mistakes.versions import Change, Version
from attnviz.modules import Transformer
from attnviz.modules.parts import with_own_parts

N_PADDING = 3


class WithPositions(nn.Module):
    """An embedding with sinusoids of these positions, (1, T), added."""

    def __init__(self, weight: Tensor, positions: Tensor) -> None:
        super().__init__()
        self.weight, self.positions = weight, positions

    def forward(self, ids: Tensor) -> Tensor:
        """Map ids (1, T) to (1, T, C)."""
        return self.weight[ids] + sinusoids(self.positions, self.weight.shape[1])


def compare(right: Version, wrong: Version, model: Transformer, ids: list[int]) -> Symptom:
    """The model with sinusoids in place of RoPE, alone and with padding; and as it is, with padding."""
    T, tokens = len(ids), is_token(N_PADDING, len(ids))
    plain = model.with_config(replace(model.config, n_sinks=0))  # the first tokens, which would be padding
    alone, padded = run(plain, ids), run_padded(plain, ids, N_PADDING, padding_mask(tokens))
    relative = largest(padded.logits[:, N_PADDING:] - alone.logits)
    absolute = plain.with_config(replace(plain.config, position="none"))
    expected = run(_with_positions(absolute, torch.arange(T)[None]), ids)
    a, b = (
        run_padded(
            _with_positions(absolute, each.module("mistakes.usage").token_positions(tokens)), ids, N_PADDING,
            padding_mask(tokens),
        )
        for each in (right, wrong)
    )  # fmt: skip
    before, after = (largest(each.logits[:, N_PADDING:] - expected.logits) for each in (a, b))
    kind = "With RoPE, where only distances count," if model.config.rotary_dim else "Without any positions,"
    return Symptom(
        **maps(a, b), measure="Largest change of a logit of the text by padding, absolute positions", expected=before,
        number=after, n_padding=N_PADDING,
        sentence=f"{kind} {N_PADDING} padding tokens move the text's logits by {said(relative)}, which is "
        f"rounding. With "
        f"absolute positions (sinusoids on the same embeddings, which these weights were not trained for) they move by "
        f"{said(after)}; with shifted positions by {said(before)}.",
    )  # fmt: skip


def _with_positions(model: Transformer, positions: Tensor) -> Transformer:
    other = with_own_parts(model)
    other.embed = WithPositions(model.embed.weight, positions)
    return other


MISTAKE = Mistake(
    title="Left padding without shifted positions",
    kind="silent",
    changes=(
        Change(
            "mistakes/usage.py",
            right="return (is_token.long().cumsum(-1) - 1).clamp(min=0)",
            wrong="return torch.arange(is_token.shape[-1]).expand(is_token.shape)",
        ),
    ),
    question="A text is padded on the left, and its padding is masked. In which models does counting from the padding "
    "change the text's logits?",
    answers=(
        "In all: a position is a position",
        "In none: padding is masked",
        "In those with RoPE, and not with absolute positions",
        "In those with absolute positions, and not with RoPE",
    ),
    answer=3,
    what="Batches of prompts are padded on the left, so that the last token of each is a real one. Counted from the "
    "front of the row, a text's first token is then at position 3. A model with absolute positions (learned, or the "
    "sinusoids of the first Transformer) was never trained to begin there. With RoPE each score depends on the "
    "distance of two tokens alone, and that is the same: logits differ by rounding. RoPE still needs the count where a "
    "cached text goes on: the distance to new tokens has to be that of the text.",
    sources=(
        Source("Vaswani et al., section 3.5: sinusoids", "https://arxiv.org/abs/1706.03762"),
        Source("Su et al., RoFormer: scores by distance", "https://arxiv.org/abs/2104.09864"),
        Source(
            "transformers, padding side in generation",
            "https://huggingface.co/docs/transformers/llm_tutorial#wrong-padding-side",
        ),
    ),
    noticed="In generating, not in training, which pads on the right: a prompt gives one text alone and another one in "
    "a batch, worse the more padding it got. With a RoPE model nothing is seen.",
    interview="“Why pad on the left for generation, and what has to change with it?” Mask and positions; then say why "
    "RoPE forgives the second.",
    test="""
import torch
from attnviz.mistakes.usage import token_positions

def test_a_text_begins_at_position_zero():
    is_token = torch.tensor([[False, False, True, True, True], [True, True, True, True, True]])
    assert token_positions(is_token)[is_token].tolist() == [0, 1, 2, 0, 1, 2, 3, 4]
""",
    compare=compare,
)
