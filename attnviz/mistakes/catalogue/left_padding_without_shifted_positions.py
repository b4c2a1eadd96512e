"""Positions are counted from the first padding token instead of the text's first token."""

from dataclasses import replace

import torch
from torch import Tensor

from attnviz.mistakes.mistake import Mistake, Source, Symptom
from attnviz.mistakes.runs import (
    N_PADDING,
    Pass,
    format_number,
    is_rounding,
    is_token,
    largest,
    maps,
    run,
    run_padded,
    with_positions,
)
from attnviz.mistakes.usage import padding_mask, sinusoids
from attnviz.mistakes.versions import Change, Version
from attnviz.modules import Transformer


def compare(right: Version, wrong: Version, model: Transformer, ids: list[int]) -> Symptom:
    """Run the text without and with padding, with absolute positions: the model's learned ones, or else sinusoids."""
    plain = model.with_config(replace(model.config, n_sinks=0))  # else the padding would become the sink tokens
    learned = model.config.position == "learned"
    absolute = plain if learned else plain.with_config(replace(plain.config, position="none"))

    def vectors(positions: Tensor) -> Tensor:
        return model.embed.positions[positions] if learned else sinusoids(positions, model.config.d_model)

    tokens = is_token(len(ids))
    alone = run(with_positions(absolute, vectors(torch.arange(len(ids))[None])), ids)
    a, b = (
        run_padded(absolute, ids, padding_mask(tokens), vectors(each.module("mistakes.usage").token_positions(tokens)))
        for each in (right, wrong)
    )
    before, after = (_moved(each, alone) for each in (a, b))
    which = "the model's learned ones" if learned else "sinusoids, for which these weights were not trained"
    sentence = (
        f"With absolute positions ({which}), {N_PADDING} padding tokens change the text's logits by up to "
        f"{format_number(after)} if positions are counted from the padding, and by up to {format_number(before)} if "
        f"they are counted from the text. {'' if learned else _relative(plain, ids)}"
    )
    return Symptom(
        **maps(a, b), measure="Largest change of a text logit by padding, absolute positions", expected=before,
        number=after, sentence=sentence.strip(),
    )  # fmt: skip


def _moved(padded: Pass, alone: Pass) -> float:
    return largest(padded.logits[:, N_PADDING:] - alone.logits)


def _relative(model: Transformer, ids: list[int]) -> str:
    """Say how much padding moves the logits of a model without absolute positions."""
    alone, padded = run(model, ids), run_padded(model, ids, padding_mask(is_token(len(ids))))
    moved, T = _moved(padded, alone), len(ids)
    kind = "RoPE" if model.config.rotary_dim else "no positions"
    sentence = f"With {kind} they change by up to {format_number(moved)}"
    if is_rounding(moved, alone.logits):
        return f"{sentence}, which is rounding."
    short, long = model.rope(0, T), model.rope(0, T + N_PADDING)
    if short and long and not torch.equal(short.frequencies, long.frequencies):
        return f"{sentence}: this model's frequencies depend on the number of tokens."
    return f"{sentence}."


MISTAKE = Mistake(
    title="Left padding without shifted positions",
    subject="rope",
    kind="silent",
    n_padding=N_PADDING,
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
