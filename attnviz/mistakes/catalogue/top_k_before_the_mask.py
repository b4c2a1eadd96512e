"""The indexer takes its top-k keys before the causal mask, so that later tokens take places among the k."""

import torch

from attnviz.config import ModelConfig
from attnviz.mistakes.mistake import CannotOccur, Mistake, Source, Symptom
from attnviz.mistakes.runs import Pass, loss_metric, maps, run
from attnviz.mistakes.versions import Change, Version
from attnviz.modules import Transformer

NO_INDEXER = "It needs an indexer, which keeps k keys per query; here each query attends to all keys that it may."
UNMASKED = "Nothing is masked here: this model is not causal, so its top-k keys are the same before and after a mask."


def compare(right: Version, wrong: Version, model: Transformer, ids: list[int]) -> Symptom:
    """Run both with a quarter of the text's tokens as k, or the layer's own k if that is less."""
    indexed = [i for i, layer in enumerate(model.config.layers) if layer.mixer.top_k]
    if not indexed:
        raise CannotOccur(NO_INDEXER)
    k = max(1, len(ids) // 4)
    a, b = (run(_keeping(each.like(model), k), ids) for each in (right, wrong))
    drawn = maps(a, b, layers=indexed)
    (kept, n), (left, fewer) = (_kept(each, drawn["layer"]) for each in (a, b))
    own = min(model.config.layers[i].mixer.top_k or k for i in indexed)
    without, short = int((left == 0).sum()), int((left < kept).sum())
    sentence = (
        f"With k = {min(k, own)}{_own(own, k, len(ids))}, queries of layer {drawn['layer']} that keep fewer keys "
    )
    sentence += f"than they could: {short} of {len(ids)}; without any key: {without}. "
    if len(ids) == 1:
        sentence = "A single token has one key, which is kept in both versions. "
    return Symptom(
        **drawn, measure=f"Keys that a query of layer {drawn['layer']} keeps, on average", expected=n, number=fewer,
        sentence=sentence + loss_metric(a.logits, b.logits, ids).sentence,
    )  # fmt: skip


def _keeping(model: Transformer, k: int) -> Transformer:
    """Let each indexer of a version's own modules keep at most k keys."""
    for block in model.blocks:
        if hasattr(block.attn, "top_k"):
            block.attn.top_k = min(k, block.attn.top_k)
    return model


def _kept(found: Pass, layer: int) -> tuple[torch.Tensor, float]:
    """Return the number of keys that each query keeps, (T,), and their mean."""
    allowed = found.records[layer].allowed
    assert allowed is not None
    kept = allowed[0, 0].sum(-1)
    return kept, float(kept.float().mean())


def _own(own: int, k: int, n_tokens: int) -> str:
    """Say why fewer keys are kept here than the layer keeps."""
    if k >= own:
        return ""
    return f" (the layer's is {own}{', which keeps every key of this text' * (own >= n_tokens)})"


def why_not(config: ModelConfig) -> str:
    if not any(layer.mixer.top_k for layer in config.layers):
        return NO_INDEXER
    return "" if config.causal or config.windows else UNMASKED


MISTAKE = Mistake(
    title="Top-k before the causal mask",
    subject="linear",
    kind="silent",
    changes=(
        Change(
            "modules/sparse.py",
            right="""
                if allowed is not None:  # before the ranking: otherwise masked keys would take places among the k
                    scores = scores.masked_fill(~allowed, float("-inf"))
                best = scores.argsort(dim=-1, descending=True, stable=True)[..., :k]  # (B, T, min(k, S))
            """,
            wrong="best = scores.argsort(dim=-1, descending=True, stable=True)[..., :k]  # of all S keys",
        ),
    ),
    question="k is 4. A query at position 2 has the index scores 0.1, 0.7 and 0.2 with the keys up to itself, and 0.9, "
    "0.8, 0.6, 0.5 and 0.3 with the five later ones. To how many keys does it attend?",
    answers=("None", "1", "3", "4"),
    answer=1,
    what="The four best of all eight keys are 0.9, 0.8, 0.7 and 0.6. Three of them are later tokens and are masked "
    "afterwards, so one key is left, although the query may attend to three and k is 4. Early queries have many later "
    "keys beside few of their own, and lose most; a query whose k best keys are all later ones attends to nothing. "
    "Masked first, scores of later keys are −∞, and the k best are among the keys that may be seen.",
    sources=(
        Source("DeepSeek-V3.2, section 2.1: top-k of the index scores", "https://arxiv.org/abs/2512.02556"),
        Source(
            "DeepSeek-V3.2-Exp, inference/model.py: the mask is added before topk",
            "https://huggingface.co/deepseek-ai/DeepSeek-V3.2-Exp/blob/main/inference/model.py",
        ),
    ),
    noticed="Not in decoding, where no later key exists, nor in texts of at most k tokens, in which all keys are kept. "
    "In training and in the prefill of longer texts, early queries see too little. Rows without a key become NaN where "
    "the softmax does not handle them. The choice also depends on later tokens, so changing one of them can move an "
    "earlier output.",
    interview="“Where does the mask go in sparse attention?” Before the top-k, then again in the softmax for queries "
    "with fewer than k keys. Say what happens otherwise: fewer keys for early queries, or none.",
    test="""
import torch
from attnviz.modules.sparse import top_k_mask

def test_each_query_keeps_k_keys_or_all_that_it_may_see():
    causal = torch.ones(7, 7, dtype=torch.bool).tril()
    kept = top_k_mask(torch.randn(1, 7, 7), 3, causal)
    assert kept.sum(-1).tolist() == [[[1, 2, 3, 3, 3, 3, 3]]]
""",
    compare=compare,
    why_not=why_not,
)
