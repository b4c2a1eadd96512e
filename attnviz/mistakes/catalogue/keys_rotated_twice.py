"""Keys are rotated before they are cached, and again each time they are read."""

from attnviz.config import ModelConfig
from attnviz.mistakes.mistake import Mistake, Source, Symptom
from attnviz.mistakes.runs import decode, loss_told, maps
from attnviz.mistakes.versions import Change, Version
from attnviz.modules import Transformer


def compare(right: Version, wrong: Version, model: Transformer, ids: list[int]) -> Symptom:
    a, b = decode(right.like(model), ids), decode(wrong.like(model), ids)
    told = loss_told(a.logits, b.logits, ids)
    sentence = f"Read with the cache, the key at position {len(ids) - 1} is rotated by {2 * len(ids) - 2} steps. "
    sentence += told.sentence
    if len(ids) == 1:
        sentence = "At position 0 a rotation turns by nothing, once or twice: both versions compute the same."
    return Symptom(**maps(a, b), measure=told.measure, expected=told.expected, number=told.number, sentence=sentence)


def cannot_occur(config: ModelConfig) -> str:
    if not config.causal:
        return "This model is not causal, so it is not run with a cache."
    return "" if config.rotary_dim else "This model runs without RoPE: no key is rotated."


MISTAKE = Mistake(
    title="Cached keys rotated at each reading",
    kind="silent",
    changes=(
        Change(
            "modules/attention.py",
            right="k, v = cache.append(k, v)  # (B, K, T, D) -> (B, K, past + T, D)",
            wrong="""
                k, v = cache.append(k, v)  # (B, K, T, D) -> (B, K, past + T, D)
                k = k if rope is None else rope(k, 0)
            """,
        ),
    ),
    latent=(
        Change(
            "modules/latent.py",
            right="latent, shared_key = cache.append(latent, shared_key)  # (B, S, R), (B, S, P)",
            wrong="""
                latent, shared_key = cache.append(latent, shared_key)  # (B, S, R), (B, S, P)
                shared_key = rotate(shared_key, 0)
            """,
        ),
    ),
    question="A query stands at position m, a cached key at position n. On what does their score's rotation depend?",
    answers=("On m − n", "On 2 · (m − n)", "On m − 2 · n", "On m alone"),
    answer=2,
    what="Keys are cached either as projected, and rotated when they are read, or rotated, and read as they are. Both "
    "are right; mixed, a key at position n is rotated by 2 · n steps. A score then depends on more than the distance, "
    "and the same phrase further back in the text gives another one. Keys cached without rotation allow dropping or "
    "moving tokens, and cost a rotation of the whole cache at each step.",
    sources=(
        Source("Su et al., RoFormer, section 3.2", "https://arxiv.org/abs/2104.09864"),
        Source("Xiao et al., StreamingLLM, section 3.2: keys cached before RoPE", "https://arxiv.org/abs/2309.17453"),
    ),
    noticed="Only with a cache: the loss computed in one pass is right, and the same text read through the cache is "
    "not. That comparison is the test.",
    interview="“Do you cache keys before or after RoPE, and what does the choice cost?”",
    test="""
import torch
from attnviz.config import ModelConfig
from attnviz.modules import Transformer

def test_the_cache_changes_no_score():
    model, ids = Transformer.random(ModelConfig(2, 12, 3, vocab_size=17), seed=0), torch.arange(7)[None]
    torch.testing.assert_close(model(ids, cache=model.new_cache()), model(ids))
""",
    compare=compare,
    cannot_occur=cannot_occur,
)
