"""Positions are counted from the first padding token instead of the text's first token."""

from dataclasses import replace

import torch
from torch import Tensor, nn

from attnviz.mistakes.mistake import Mistake, Source, Symptom
from attnviz.mistakes.runs import format_number, is_token, largest, maps, run, run_padded
from attnviz.mistakes.usage import padding_mask, sinusoids
from attnviz.mistakes.versions import Change, Version
from attnviz.modules import Transformer
from attnviz.modules.parts import with_own_parts

N_PADDING = 3


class WithPositions(nn.Module):
    """A token embedding with sinusoidal encodings of the given positions (1, T) added."""

    def __init__(self, weight: Tensor, positions: Tensor) -> None:
        super().__init__()
        self.weight, self.positions = weight, positions

    def forward(self, ids: Tensor) -> Tensor:
        """Map ids (1, T) to (1, T, C)."""
        return self.weight[ids] + sinusoids(self.positions, self.weight.shape[1])


def compare(right: Version, wrong: Version, model: Transformer, ids: list[int]) -> Symptom:
    """Run the model with sinusoids instead of RoPE, without and with padding, and the unchanged model with padding."""
    T, tokens = len(ids), is_token(N_PADDING, len(ids))
    plain = model.with_config(replace(model.config, n_sinks=0))  # else the padding would become the sink tokens
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
    kind = "With RoPE, where only distances matter," if model.config.rotary_dim else "Without positions,"
    return Symptom(
        **maps(a, b), measure="Largest change of a text logit by padding, absolute positions", expected=before,
        number=after, n_padding=N_PADDING,
        sentence=f"{kind} {N_PADDING} padding tokens change the text's logits by up to {format_number(relative)}, "
        "which is rounding. With absolute positions (sinusoids, for which these weights were not trained) they change "
        f"by up to {format_number(after)}; with shifted positions by up to {format_number(before)}.",
    )  # fmt: skip


def _with_positions(model: Transformer, positions: Tensor) -> Transformer:
    other = with_own_parts(model)
    other.embed = WithPositions(model.embed.weight, positions)
    return other


MISTAKE = Mistake(
    title="Left padding without shifted positions",
    subject="rope",
    kind="silent",
    changes=(
        Change(
            "mistakes/usage.py",
            right="return (is_token.long().cumsum(-1) - 1).clamp(min=0)",
            wrong="return torch.arange(is_token.shape[-1]).expand(is_token.shape)",
        ),
    ),
    question="A text is padded on the left, and the padding is masked. In which models do the text's logits change if "
    "positions are counted from the padding?",
    answers=(
        "In all models: positions always affect the logits",
        "In no model: padding is masked",
        "In models with RoPE, but not with absolute positions",
        "In models with absolute positions, but not with RoPE",
    ),
    answer=3,
    what="Batches of prompts are padded on the left, so that each row ends with a real token. Counted from the start "
    "of the row, a text's first token is then at position 3. A model with absolute positions (learned, or the "
    "sinusoids of the original Transformer) was not trained to start there. With RoPE each score depends only on the "
    "distance between two tokens, which is unchanged: logits differ by rounding. RoPE still needs right positions when "
    "a cached text is continued: the distance to new tokens must be their distance in the text.",
    sources=(
        Source("Vaswani et al., section 3.5: sinusoids", "https://arxiv.org/abs/1706.03762"),
        Source("Su et al., RoFormer: scores by distance", "https://arxiv.org/abs/2104.09864"),
        Source(
            "transformers, padding side in generation",
            "https://huggingface.co/docs/transformers/llm_tutorial#wrong-padding-side",
        ),
    ),
    noticed="In generation, because prompts of different length are padded there on the left: with absolute "
    "positions a prompt gives one text alone and can give another in a batch. A RoPE model shows nothing.",
    interview="“Why pad on the left for generation, and what has to change with it?” Each row then ends with a "
    "token to continue from. The mask and the positions have to change; then say why RoPE tolerates wrong positions "
    "here.",
    test="""
import torch
from attnviz.mistakes.usage import token_positions

def test_a_text_begins_at_position_zero():
    is_token = torch.tensor([[False, False, True, True, True], [True, True, True, True, True]])
    assert token_positions(is_token)[is_token].tolist() == [0, 1, 2, 0, 1, 2, 3, 4]
""",
    compare=compare,
)
