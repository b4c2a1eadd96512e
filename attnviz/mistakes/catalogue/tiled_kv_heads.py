"""KV heads are repeated 0 1 0 1 where query heads expect 0 0 1 1."""

from attnviz.config import ModelConfig
from attnviz.mistakes.mistake import Mistake, Source, Symptom
from attnviz.mistakes.runs import loss_told, maps, run
from attnviz.mistakes.versions import Change, Version
from attnviz.modules import Transformer


def compare(right: Version, wrong: Version, model: Transformer, ids: list[int]) -> Symptom:
    a, b, c = run(right.like(model), ids), run(wrong.like(model), ids), model.config
    told = loss_told(a.logits, b.logits, ids)
    moved = sum(h % c.n_kv_heads != h // c.group_size for h in range(c.n_heads))
    said = f"{moved} of {c.n_heads} query heads read another KV head than in training. {told.sentence}"
    return Symptom(**maps(a, b), measure=told.measure, expected=told.expected, number=told.number, sentence=said)


def cannot_occur(config: ModelConfig) -> str:
    return {
        "gqa": "",
        "mha": "In MHA each query head has a KV head of its own: nothing is repeated, so no order can be wrong.",
        "mqa": "MQA has one KV head, and however often it is repeated, the order is 0 0 0 ….",
        "mla": "In MLA each head's keys and values come out of the latent for that head: nothing is repeated.",
    }[config.attention]


MISTAKE = Mistake(
    title="Tiled instead of interleaved KV heads",
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
        "Head 0 and the last one, and of those between them not all",
        "Those of the first KV head",
    ),
    answer=2,
    what="In GQA query head h reads KV head h // group_size: 0 0 1 1 2 2. That is the order of `repeat_interleave`. "
    "`repeat`, or `unsqueeze` and `expand` on the wrong side of the heads' axis, gives 0 1 2 0 1 2. Each shape is "
    "right, and most query heads read keys and values that were trained for others.",
    sources=(
        Source("Ainslie et al., GQA, section 2.2", "https://arxiv.org/abs/2305.13245"),
        Source(
            "torch.repeat_interleave: how it differs from repeat",
            "https://docs.pytorch.org/docs/stable/generated/torch.repeat_interleave.html",
        ),
    ),
    noticed="A model trained from the start like this learns just as well: the order is a convention. It shows when "
    "weights of another implementation are loaded, or when kernels with `enable_gqa` take the place of the copies.",
    interview="“Write the line that brings K KV heads to H query heads.” They wait for repeat; say the order aloud: "
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
    cannot_occur=cannot_occur,
)
