"""Positions restart at 0 in each cached step."""

from attnviz.config import ModelConfig
from attnviz.mistakes.mistake import Mistake, Source, Symptom, Words
from attnviz.mistakes.runs import decode, format_number, largest, maps
from attnviz.mistakes.versions import Change, Version
from attnviz.modules import Transformer
from attnviz.phrases import count


def compare(right: Version, wrong: Version, model: Transformer, ids: list[int]) -> Symptom:
    a, b = decode(right.like(model), ids), decode(wrong.like(model), ids)
    moved, T = largest((b.logits - a.logits)[:, -1]), len(ids)
    sentence = "The first token is at position 0 in both versions."
    if T > 1:
        sentence = (
            f"The last token, with {count(T - 1, 'token')} in the cache, is rotated as if at position 0 instead of "
            f"{T - 1}; its logits change by up to {format_number(moved)}."
        )
    return Symptom(
        **maps(a, b), measure="Largest change of a logit of the last token", expected=0.0, number=moved,
        sentence=sentence,
    )  # fmt: skip


def why_not(config: ModelConfig) -> str:
    if config.position == "learned":
        return "This model has no RoPE: the learned vectors of its positions are added to the token embeddings."
    return "" if config.rotary_dim else "This model has no RoPE: positions are not used."


MISTAKE = Mistake(
    title="Positions that restart at 0",
    subject="rope",
    kind="silent",
    changes=(
        Change(
            "modules/attention.py",
            right="q, k = rope(q, past), rope(k, past)  # v carries no position",
            wrong="q, k = rope(q, 0), rope(k, 0)  # v carries no position",
        ),
    ),
    latent=(
        Change(
            "modules/latent.py",
            right="q_rope, shared_key = rotate(q_rope_before, past), rotate(key_before, past)",
            wrong="q_rope, shared_key = rotate(q_rope_before, 0), rotate(key_before, 0)",
        ),
    ),
    question="After a prefill of 20 tokens, the next token is decoded with the cache. Relative to this token, where "
    "does RoPE place the cached key of position 15?",
    answers=("5 tokens behind", "20 tokens behind", "15 tokens ahead", "At the same position"),
    answer=2,
    what="RoPE needs the position in the text. A decode step receives one token, and arange(1) is 0: the position is "
    "the number of cached tokens, and must be passed in or read from the cache. Rotated as if at position 0, the query "
    "is at the start of the text, with all cached keys ahead of it, and its own key is cached with the wrong rotation.",
    sources=(Source("Su et al., RoFormer, equation 16: the distance m − n", "https://arxiv.org/abs/2104.09864"),),
    noticed="Not in training. The first generated token is right, because it comes from the prefill; from the "
    "second on, queries and new keys are rotated as if at position 0, so their distances to the prompt are wrong.",
    interview="“Add a KV cache to this attention.” Besides the concatenation, two offsets are needed: one for RoPE and "
    "one for the mask.",
    test="""
import torch
from attnviz.config import ModelConfig
from attnviz.modules import Transformer

def test_a_cached_step_knows_its_position():
    model, ids = Transformer.random(ModelConfig(2, 12, 3, vocab_size=17), seed=0), torch.arange(7)[None]
    cache = model.new_cache()
    steps = model(ids[:, :5], cache=cache), model(ids[:, 5:], cache=cache)
    torch.testing.assert_close(torch.cat(steps, dim=1), model(ids))
""",
    latent_words=Words(
        test="""
import torch
from attnviz.config import ModelConfig
from attnviz.modules import Transformer

def test_a_cached_step_knows_its_position():
    config = ModelConfig(2, 12, 3, attention="mla", kv_lora_rank=5, qk_nope_head_dim=4, qk_rope_head_dim=2,
                         v_head_dim=7, vocab_size=17)
    model, ids = Transformer.random(config, seed=0), torch.arange(7)[None]
    cache = model.new_cache()
    steps = model(ids[:, :5], cache=cache), model(ids[:, 5:], cache=cache)
    torch.testing.assert_close(torch.cat(steps, dim=1), model(ids))
""",
    ),
    compare=compare,
    why_not=why_not,
)
