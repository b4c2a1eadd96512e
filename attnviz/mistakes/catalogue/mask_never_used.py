"""forward() accepts a mask but does not use it."""

from torch import Tensor

from attnviz.config import ModelConfig
from attnviz.mistakes.mistake import Mistake, Source, Symptom, Words
from attnviz.mistakes.runs import leak, leak_sentence, maps, percent, run
from attnviz.mistakes.versions import Change, Version
from attnviz.modules import Transformer


def compare(right: Version, wrong: Version, model: Transformer, ids: list[int]) -> Symptom:
    a, b = run(right.like(model), ids), run(wrong.like(model), ids)
    layer, c = a.softmax_layer, model.config
    before, after = (_share_on_masked(each.weights[layer], a.records[layer].allowed) for each in (a, b))
    sentence = "A single token has no later token to attend to: both versions compute the same."
    if len(ids) > 1:
        which = "on later tokens" if c.causal and c.layers[layer].mixer.window is None else "on masked keys"
        sentence = f"{percent(after)} of the weight in layer {layer} is {which}."
        if c.causal:
            sentence += " " + leak_sentence(leak(wrong.like(model), ids, b.logits), ids)
    return Symptom(
        **maps(a, b), measure=f"Share of the weight on masked keys, layer {layer}", expected=before, number=after,
        sentence=sentence,
    )  # fmt: skip


def _share_on_masked(weights: Tensor, allowed: Tensor | None) -> float:
    return 0.0 if allowed is None else float((weights * ~allowed).sum() / weights.sum())


def why_not(config: ModelConfig) -> str:
    masked = config.causal or bool(config.windows)
    return "" if masked else "This model is not causal and has no window: without padding it has no mask to forget."


MISTAKE = Mistake(
    title="A mask that is never used",
    subject="mask",
    kind="silent",
    changes=(
        Change(
            "modules/attention.py",
            right="output, weights = (kernel or attend)(q, k, v, mask, dropout=self.dropout if self.training else 0.0,",
            wrong="output, weights = (kernel or attend)(q, k, v, dropout=self.dropout if self.training else 0.0,",
        ),
    ),
    latent=(
        Change(
            "modules/latent.py",
            right="output, weights = (kernel or attend)(q, k, v, mask, scale=scale)",
            wrong="output, weights = (kernel or attend)(q, k, v, scale=scale)",
        ),
    ),
    question="A causal model runs this version on a text of several tokens. Which check reveals the mistake?",
    answers=(
        "Change the last token: earlier logits change",
        "Sum the rows of the weights: they exceed 1",
        "Look for NaN in the logits",
        "Compare the shapes with the right ones",
    ),
    answer=0,
    what="Nothing in a forward pass fails when the mask is ignored: shapes, row sums and number ranges are right. "
    "But each token sees the tokens after it, including the one it should predict, so a change of the last token "
    "reaches the logits of all tokens before it.",
    sources=(
        Source("Vaswani et al., section 3.2.3, on masking later positions", "https://arxiv.org/abs/1706.03762"),
        Source(
            "torch scaled_dot_product_attention: attn_mask",
            "https://docs.pytorch.org/docs/stable/generated/torch.nn.functional.scaled_dot_product_attention.html",
        ),
    ),
    noticed="Training loss falls below the entropy of the text, towards 0, because the model copies the next token "
    "from its input. In decoding there is nothing to copy, and the loss is far higher.",
    interview="“How do you test that a model is causal?” Change a later token: the earlier logits must not change. "
    "Inspecting the mask does not show that it is used.",
    test="""
import torch
from attnviz.modules import GroupedQueryAttention

def test_the_mask_is_used():
    layer, x, mask = GroupedQueryAttention(12, 3, 3), torch.randn(1, 7, 12), torch.ones(7, 7, dtype=torch.bool).tril()
    before = layer(x, mask=mask)
    x[:, -1] += 1
    torch.testing.assert_close(layer(x, mask=mask)[:, :-1], before[:, :-1])
""",
    latent_words=Words(
        test="""
import torch
from attnviz.modules import MultiHeadLatentAttention

def test_the_mask_is_used():
    layer = MultiHeadLatentAttention(12, 3, kv_lora_rank=5, qk_nope_head_dim=4, qk_rope_head_dim=2, v_head_dim=7)
    x, mask = torch.randn(1, 7, 12), torch.ones(7, 7, dtype=torch.bool).tril()
    before = layer(x, mask=mask)
    x[:, -1] += 1
    torch.testing.assert_close(layer(x, mask=mask)[:, :-1], before[:, :-1])
""",
    ),
    compare=compare,
    why_not=why_not,
)
