"""KV heads are tiled (0 1 0 1), but query heads expect them interleaved (0 0 1 1)."""

from attnviz.config import ModelConfig
from attnviz.mistakes.mistake import Mistake, Source, Symptom
from attnviz.mistakes.runs import loss_metric, maps, run
from attnviz.mistakes.versions import Change, Version
from attnviz.modules import Transformer


def compare(right: Version, wrong: Version, model: Transformer, ids: list[int]) -> Symptom:
    a, b, c = run(right.like(model), ids), run(wrong.like(model), ids), model.config
    metric = loss_metric(a.logits, b.logits, ids)
    moved = sum(h % c.n_kv_heads != h // c.group_size for h in range(c.n_heads))
    text = f"{moved} of {c.n_heads} query heads read a different KV head than in training. {metric.sentence}"
    return Symptom(**maps(a, b), measure=metric.measure, expected=metric.expected, number=metric.number, sentence=text)


def why_not(config: ModelConfig) -> str:
    return {
        "gqa": "",
        "mha": "In MHA each query head has its own KV head: nothing is repeated, so no order can be wrong.",
        "mqa": "MQA has one KV head, so the order is always 0 0 0 ….",
        "mla": "In MLA each head's keys and values are computed from the latent: nothing is repeated.",
    }[config.attention]


MISTAKE = Mistake(
    title="Tiled instead of interleaved KV heads",
    subject="heads",
    kind="silent",
    changes=(
        Change(
            "modules/attention.py",
            right="q = q.unflatten(1, (K, H // K)) * (scale or D**-0.5)  # (B, H, T, D) -> (B, K, G, T, D)",
            wrong="""
                k, v, K = k.repeat(1, H // K, 1, 1), v.repeat(1, H // K, 1, 1), H  # (B, K, S, D) -> (B, H, S, D)
                q = q.unflatten(1, (K, H // K)) * (scale or D**-0.5)  # (B, H, T, D) -> (B, H, 1, T, D)
            """,
        ),
    ),
    question="All shapes are right. Which query heads still read the KV head that they were trained with?",
    answers=(
        "None of them",
        "All of them: only the memory for the copies grows",
        "The first and the last head, but not all between them",
        "Those of the first KV head",
    ),
    answer=2,
    what="In GQA, query head h reads KV head h // group_size: 0 0 1 1 2 2. That is the order of `repeat_interleave`. "
    "`repeat`, or `unsqueeze` and `expand` on the wrong side of the head axis, gives 0 1 2 0 1 2. Both begin with "
    "the first KV head and end with the last, so the first and the last query head read the right one. All shapes "
    "are right, but other query heads read keys and values that were trained for other heads; the run below counts "
    "them.",
    sources=(
        Source("Ainslie et al., GQA, section 2.2", "https://arxiv.org/abs/2305.13245"),
        Source(
            "torch.repeat_interleave: how it differs from repeat",
            "https://docs.pytorch.org/docs/stable/generated/torch.repeat_interleave.html",
        ),
    ),
    noticed="Not when training from scratch: the order is a convention, and a model can learn with either. It shows "
    "when weights of another implementation are loaded, or when a kernel with `enable_gqa`, which interleaves, "
    "replaces the copies.",
    interview="“Write the line that expands K KV heads to H query heads.” The trap is repeat; state the order: "
    "0 0 1 1, not 0 1 0 1.",
    test="""
import torch
import torch.nn.functional as F
from attnviz.modules import attend

def test_query_heads_read_kv_heads_in_order():
    q, (k, v) = torch.randn(1, 6, 7, 5), torch.randn(2, 1, 3, 7, 5)  # 6 query heads, 3 KV heads
    expected = F.scaled_dot_product_attention(q, k, v, enable_gqa=True)
    torch.testing.assert_close(attend(q, k, v).output, expected)
""",
    compare=compare,
    why_not=why_not,
)
