"""The causal mask of a decode step is aligned to the upper left corner, as if no token were cached."""

from torch import Tensor

from attnviz.mistakes.mistake import Mistake, Source, Symptom
from attnviz.mistakes.runs import Pass, decode, format_number, largest, maps
from attnviz.mistakes.versions import Change, Version
from attnviz.modules import Transformer
from attnviz.phrases import count


def compare(right: Version, wrong: Version, model: Transformer, ids: list[int]) -> Symptom:
    a, b = decode(right.like(model), ids), decode(wrong.like(model), ids)
    before, after = allowed_keys(a), allowed_keys(b)
    sentence = "With a single token the cache is empty, and both masks are the same."
    if len(ids) > 1:
        sentence = (
            f"The last token, with {count(len(ids) - 1, 'token')} in the cache, may attend to {count(after, 'key')} "
            f"instead of {before}; its logits change by up to {format_number(largest((b.logits - a.logits)[:, -1]))}."
        )
    measure = f"Keys that the last token may attend to, layer {a.softmax_layer}"
    return Symptom(
        **maps(a, b), measure=measure, expected=before, number=after,
        sentence=sentence,
    )  # fmt: skip


def allowed_keys(one: Pass) -> int:
    """Count the keys that the last query may attend to, in the first layer with a softmax."""
    allowed: Tensor | None = one.records[one.softmax_layer].allowed
    return one.weights[one.softmax_layer].shape[-1] if allowed is None else int(allowed[-1].sum())


MISTAKE = Mistake(
    title="A causal mask without the cache's offset",
    subject="cache",
    kind="silent",
    changes=(
        Change(
            "modules/masks.py",
            right="if window is None and (not causal or one_last_query):",
            wrong="if window is None and not causal:",
        ),
        Change(
            "modules/masks.py",
            right="return allowed.tril(offset) if causal else allowed  # no key after the query's position",
            wrong="return allowed.tril() if causal else allowed  # no key after the query's position",
        ),
    ),
    question="After the prefill, tokens are decoded one at a time with the cache, in a model without a sliding window. "
    "What may a decoded token attend to?",
    answers=(
        "To all tokens so far, as it should",
        "Only to itself",
        "To all keys, including those of later tokens",
        "Only to the first token",
    ),
    answer=3,
    what="A mask for T new queries and S keys must be aligned to the lower right corner: query i is at position "
    "S − T + i. tril() without an offset aligns it to the upper left, so a single query sees only key 0. PyTorch's "
    "is_causal=True also does that when T and S differ; FlashAttention changed the alignment to the lower right in "
    "version 2.1.",
    sources=(
        Source(
            "torch.nn.attention.bias.CausalVariant: upper left, lower right",
            "https://docs.pytorch.org/docs/stable/generated/torch.nn.attention.bias.CausalVariant.html",
        ),
        Source(
            "flash-attention issue 517: the corner of the causal mask",
            "https://github.com/Dao-AILab/flash-attention/issues/517",
        ),
    ),
    noticed="Not in training or in the prefill, where T = S. The first generated token is right, because it comes "
    "from the prefill; from the second on, each step attends only to the first token of the text.",
    interview="“is_causal=True and a KV cache: what goes wrong?” Draw the mask for 1 query and 5 keys: aligned to "
    "the upper left it allows key 0 alone, and the right one allows all 5.",
    test="""
import torch
from attnviz.config import ModelConfig
from attnviz.modules import Transformer

def test_decoding_sees_what_one_pass_sees():
    model, ids = Transformer.random(ModelConfig(2, 12, 3, vocab_size=17), seed=0), torch.arange(7)[None]
    cache = model.new_cache()
    steps = [model(ids[:, i : i + 1], cache=cache) for i in range(7)]
    torch.testing.assert_close(torch.cat(steps, dim=1), model(ids))
""",
    compare=compare,
)
