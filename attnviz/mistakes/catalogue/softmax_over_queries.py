"""The softmax is over the query axis, so that columns sum to 1 instead of rows."""

from attnviz.mistakes.mistake import Mistake, Source, Symptom
from attnviz.mistakes.runs import format_number, leak, leak_sentence, maps, run
from attnviz.mistakes.versions import Change, Version
from attnviz.modules import Transformer


def compare(right: Version, wrong: Version, model: Transformer, ids: list[int]) -> Symptom:
    a, b = run(right.like(model), ids), run(wrong.like(model), ids)
    before, after = (float(each.weights[a.softmax_layer].sum(-1).max()) for each in (a, b))
    sentence = "A single token has one query and one key: the softmax is 1 over either axis."
    if len(ids) > 1:
        sums = b.weights[a.softmax_layer].sum(-1)
        least, most = format_number(float(sums.min())), format_number(after)
        found = least if least == most else f"between {least} and {most}"
        sentence = f"In all heads of layer {a.softmax_layer}, rows sum to {found} instead of 1. "
        if least == most == format_number(before):  # a window of 1
            sentence = (
                f"In layer {a.softmax_layer}, each query attends to itself alone: the softmax is 1 over either axis."
            )
        elif model.config.causal:
            sentence += leak_sentence(leak(wrong.like(model), ids, b.logits), ids)
    measure = f"Largest sum of a row, all heads of layer {a.softmax_layer}"
    return Symptom(
        **maps(a, b), measure=measure, expected=before, number=after,
        sentence=sentence.strip(),
    )  # fmt: skip


MISTAKE = Mistake(
    title="Softmax over the wrong axis",
    subject="softmax",
    kind="silent",
    changes=(
        Change(
            "modules/attention.py",
            right="weights = scores.softmax(-1)",
            wrong="weights = scores.softmax(-2)",
        ),
        Change(
            "modules/attention.py",
            right="weights = scores.add_(bias).softmax(-1) * sees",
            wrong="weights = scores.add_(bias).softmax(-2) * sees",
        ),
    ),
    question="The mask is causal and the text has several tokens. What sums to 1 in this version?",
    answers=(
        "Each row: the axis of the softmax does not matter",
        "Each column: a key distributes a total of 1 over the queries that may attend to it",
        "The whole map",
        "Nothing: the masked cells are NaN",
    ),
    answer=1,
    what="Scores are (B, H, T, S). A query's weights are a row over the keys S, which is axis −1. Over axis −2, "
    "each key distributes a total of 1 over the queries that may attend to it. Under a causal mask only the last query "
    "attends to the last key, with weight 1, in addition to its share of every other key. A key's shares depend on "
    "later queries: the future leaks. In self-attention T and S are equal, so no shape reveals it.",
    sources=(
        Source("Vaswani et al., equation 1: a softmax for each query", "https://arxiv.org/abs/1706.03762"),
        Source(
            "torch.softmax: dim, along which the softmax is computed",
            "https://docs.pytorch.org/docs/stable/generated/torch.nn.functional.softmax.html",
        ),
    ),
    noticed="Training loss falls below the entropy of the text, because the future leaks. In decoding a step has "
    "one query, so every key gets weight 1, and the output is a sum of all values instead of an average.",
    interview="“What are the axes of the scores, and over which one is the softmax?” (B, H, T, S), over the keys S. "
    "Then assert in one line that rows sum to 1.",
    test="""
import torch
from attnviz.modules import attend

def test_the_weights_of_a_query_sum_to_one():
    q, k, v = torch.randn(3, 1, 2, 7, 5)
    weights = attend(q, k[:, :, :4], v[:, :, :4]).weights
    torch.testing.assert_close(weights.sum(-1), torch.ones(1, 2, 7))
""",
    compare=compare,
)
