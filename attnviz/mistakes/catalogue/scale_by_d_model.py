"""Scores are divided by √d_model instead of √head_dim."""

import torch

from attnviz.config import ModelConfig
from attnviz.mistakes.mistake import Mistake, Source, Symptom, Words
from attnviz.mistakes.runs import changes, format_number, maps, run
from attnviz.mistakes.versions import Change, Version
from attnviz.modules import Transformer


def compare(right: Version, wrong: Version, model: Transformer, ids: list[int]) -> Symptom:
    a, b = run(right.like(model), ids), run(wrong.like(model), ids)
    before, after = (float(torch.special.entr(each.weights[0]).sum(-1).mean()) for each in (a, b))
    c, scale = model.config, model.config.mixer.scale_text
    width = c.d_model if c.attention == "mla" else c.n_heads * c.head_dim
    sentence = (
        f"Divided by √{width} instead of {scale}, the scores give weights whose mean row entropy in layer 0 "
        f"{changes(before, after)} nats; uniform weights have the highest."
    )
    if len(ids) == 1:
        sentence = (
            f"A single token has one key, with weight 1 at any scale: the entropy is {format_number(after)} in both."
        )
    return Symptom(
        **maps(a, b), measure="Mean entropy of a row, layer 0, in nats", expected=before, number=after,
        sentence=sentence,
    )  # fmt: skip


def why_not(config: ModelConfig) -> str:
    if config.attention == "mla":
        same = config.d_model == config.head_dim
        return "d_model is N + P, the width of a query, so both scales are the same." if same else ""
    if config.attention_scale is not None:
        return f"This model gives a scale of its own, 1 / {config.mixer.scale_text}, so the default is not computed."
    return "With one head, H · D is head_dim: both scales are the same." if config.n_heads == 1 else ""


MISTAKE = Mistake(
    title="Scaled by √d_model",
    subject="softmax",
    kind="silent",
    changes=(
        Change(
            "modules/attention.py",
            right="q = q.unflatten(1, (K, H // K)) * (scale or D**-0.5)  # (B, H, T, D) -> (B, K, G, T, D)",
            wrong="q = q.unflatten(1, (K, H // K)) * (scale or (H * D) ** -0.5)  # (B, H, T, D) -> (B, K, G, T, D)",
        ),
    ),
    latent=(
        Change(
            "modules/latent.py",
            right="scale = (self.nope_dim + self.rope_dim) ** -0.5",
            wrong="scale = x.shape[-1] ** -0.5",
        ),
    ),
    question="The model was trained with the right scale. What do its maps look like in this version?",
    answers=(
        "Sharper: each row puts more of its weight on the strongest key",
        "Flatter: each row spreads its weight over more keys",
        "The same, because a common factor cancels in the softmax",
        "Smaller weights: the rows no longer sum to 1",
    ),
    answer=1,
    what="A score is a sum of head_dim products. For independent entries with mean 0 and variance 1, its standard "
    "deviation is √head_dim, and dividing by √head_dim brings it back to 1. Divided by √d_model, scores are √n_heads "
    "times too small, and a softmax of smaller scores is closer to uniform.",
    sources=(Source("Vaswani et al., Attention Is All You Need, section 3.2.1", "https://arxiv.org/abs/1706.03762"),),
    noticed="Hardly when training from scratch: the model can compensate with larger q and k. It shows when weights "
    "that were trained with √head_dim are loaded.",
    interview="“Why √head_dim, and what happens with √d_model instead?” State the variance of q·k, and that the error "
    "grows with the number of heads.",
    test="""
import torch
from attnviz.modules import attend

def test_scores_are_scaled_by_head_dim():
    q, k, v = torch.randn(3, 1, 2, 7, 5)  # (B, H, T, D) each
    expected = (q @ k.mT / 5**0.5).softmax(-1)
    torch.testing.assert_close(attend(q, k, v).weights, expected)
""",
    latent_words=Words(
        question="The model was trained with the right scale, and d_model is larger than N + P, the width of a query. "
        "What do its maps look like in this version?",
        what="A score is a sum of N + P products: qk_nope_head_dim without RoPE and qk_rope_head_dim with it. For "
        "independent entries with mean 0 and variance 1, its standard deviation is √(N + P), and dividing by √(N + P) "
        "brings it back to 1. Divided by √d_model, scores are √(d_model / (N + P)) times too small, and a softmax of "
        "smaller scores is closer to uniform.",
        noticed="Hardly when training from scratch: the model can compensate with larger q and k. It shows when "
        "weights that were trained with √(N + P) are loaded.",
        interview="“Why √head_dim, and what happens with √d_model instead?” State the variance of q·k. In MLA the "
        "width of q and k is N + P, and that of a value is independent of it.",
        test="""
import torch
from attnviz.modules import MultiHeadLatentAttention

def test_scores_are_scaled_by_the_width_of_a_query():
    layer = MultiHeadLatentAttention(12, 3, kv_lora_rank=5, qk_nope_head_dim=4, qk_rope_head_dim=2, v_head_dim=7)
    seen = {}
    layer(torch.randn(1, 7, 12), mask=torch.ones(7, 7, dtype=torch.bool), record=seen.update)
    expected = (seen["q"] @ seen["k"].mT / (4 + 2) ** 0.5).softmax(-1)
    torch.testing.assert_close(seen["weights"], expected)
""",
    ),
    wide_words=Words(
        title="Scaled by √(n_heads · head_dim)",
        what="A score is a sum of head_dim products. For independent entries with mean 0 and variance 1, its standard "
        "deviation is √head_dim, and dividing by √head_dim brings it back to 1. Divided by √(n_heads · head_dim), the "
        "width of all heads together, scores are √n_heads times too small, and a softmax of smaller scores is closer "
        "to uniform. In most models that width is d_model; in this one it is not.",
        interview="“Why √head_dim, and what happens with the width of all heads instead?” State the variance of q·k, "
        "and that the error grows with the number of heads.",
    ),
    compare=compare,
    why_not=why_not,
)
