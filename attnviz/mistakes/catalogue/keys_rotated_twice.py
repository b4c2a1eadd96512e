"""Keys are rotated before they are cached, and again each time they are read."""

from attnviz.config import ModelConfig
from attnviz.mistakes.mistake import Mistake, Source, Symptom, Words
from attnviz.mistakes.runs import decode, loss_metric, maps
from attnviz.mistakes.versions import Change, Version
from attnviz.modules import Transformer


def compare(right: Version, wrong: Version, model: Transformer, ids: list[int]) -> Symptom:
    a, b = decode(right.like(model), ids), decode(wrong.like(model), ids)
    metric = loss_metric(a.logits, b.logits, ids)
    sentence = f"With the cache, the key at position {len(ids) - 1} is rotated as if at {2 * len(ids) - 2}. "
    sentence += metric.sentence
    if len(ids) == 1:
        sentence = "At position 0 the rotation angle is 0, once or twice: both versions compute the same."
    return Symptom(
        **maps(a, b), measure=metric.measure, expected=metric.expected, number=metric.number, sentence=sentence
    )


def why_not(config: ModelConfig) -> str:
    return "" if config.rotary_dim else "This model has no RoPE: no key is rotated."


MISTAKE = Mistake(
    title="Cached keys rotated on every read",
    subject="cache",
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
    question="A query is at position m, a cached key at position n. On what does the rotation in their score depend?",
    answers=("On m − n", "On 2 · (m − n)", "On m − 2 · n", "On m alone"),
    answer=2,
    what="Keys are cached either before RoPE and rotated when they are read, or after RoPE and read unchanged. Both "
    "are right; mixed, a key at position n is rotated as if at 2 · n, and the query at m as it should be: the "
    "rotation in their score is that of m − 2 · n. A score then depends on more than the distance, so the same "
    "phrase elsewhere in the text gives a different score. Caching pre-RoPE keys makes it possible to drop or move "
    "tokens, but costs a rotation of the whole cache in each step.",
    sources=(
        Source("Su et al., RoFormer, section 3.2", "https://arxiv.org/abs/2104.09864"),
        Source("Xiao et al., StreamingLLM, section 3.2: keys cached before RoPE", "https://arxiv.org/abs/2309.17453"),
    ),
    noticed="Only with a cache: the loss of a single pass is right, but the loss of the same text with the cache is "
    "not. That comparison is the test.",
    interview="“Do you cache keys before or after RoPE, and what does the choice cost?” After RoPE a cached key is "
    "never touched again. Before RoPE all cached keys have to be rotated in each step, but positions can still be "
    "changed, as StreamingLLM does when it evicts tokens.",
    test="""
import torch
from attnviz.config import ModelConfig
from attnviz.modules import Transformer

def test_the_cache_changes_no_score():
    model, ids = Transformer.random(ModelConfig(2, 12, 3, vocab_size=17), seed=0), torch.arange(7)[None]
    torch.testing.assert_close(model(ids, cache=model.new_cache()), model(ids))
""",
    latent_words=Words(
        test="""
import torch
from attnviz.config import ModelConfig
from attnviz.modules import Transformer

def test_the_cache_changes_no_score():
    config = ModelConfig(2, 12, 3, attention="mla", kv_lora_rank=5, qk_nope_head_dim=4, qk_rope_head_dim=2,
                         v_head_dim=7, vocab_size=17)
    model, ids = Transformer.random(config, seed=0), torch.arange(7)[None]
    torch.testing.assert_close(model(ids, cache=model.new_cache()), model(ids))
""",
    ),
    compare=compare,
    why_not=why_not,
)
