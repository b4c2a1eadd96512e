"""The chunked form does not carry the state from one chunk to the next."""

from dataclasses import replace

import numpy as np

from attnviz.mistakes import states
from attnviz.mistakes.mistake import Mistake, Source, Symptom
from attnviz.mistakes.versions import Change, Version
from attnviz.modules import AttentionRecord, Transformer
from attnviz.phrases import count

CHUNK = 16  # at most; chunks of 64 tokens, the usual size, would hold most texts


def compare(right: Version, wrong: Version, model: Transformer, ids: list[int]) -> Symptom:
    """Run both in chunks of 16 tokens, or of half of a shorter text."""
    chunk = min(CHUNK, -(-len(ids) // 2))

    def alone(right: AttentionRecord, wrong: AttentionRecord, head: int) -> str:
        n = max(0, len(ids) - chunk)
        if not n:
            return "a single token is one chunk: there is no state to carry."
        read = "its own chunk only" if n == 1 else "their own chunk only"
        return f"in chunks of {chunk}, {count(n, 'token')} of {len(ids)} come after the first chunk and read {read}."

    found = states.symptom(right, wrong, model, ids, alone, {"chunk": chunk})
    assert found.wrong is not None
    measure = f"Share of this head's effective weights on earlier chunks of {chunk}"
    before, after = (_on_earlier_chunks(each, chunk) for each in (found.right, found.wrong))
    return replace(found, measure=measure, expected=before, number=after)


def _on_earlier_chunks(weights: np.ndarray, chunk: int) -> float:
    """Return the share of the sizes of effective weights (T, T) that is on keys of earlier chunks."""
    at, sizes = np.arange(len(weights)) // chunk, np.abs(weights)
    return float(sizes[at[:, None] > at].sum() / sizes.sum())


MISTAKE = Mistake(
    title="State not carried between chunks",
    subject="linear",
    kind="silent",
    walked=False,
    changes=(
        Change(
            "modules/delta.py",
            right="output, S = _one_chunk(q[:, :, part], k[:, :, part], v[:, :, part], logs[:, :, part], "
            "beta[:, :, part], S)",
            wrong="output, last = _one_chunk(q[:, :, part], k[:, :, part], v[:, :, part], logs[:, :, part], "
            "beta[:, :, part], S)",
        ),
        Change(
            "modules/delta.py",
            right="return torch.cat(outputs, 2), S",
            wrong="return torch.cat(outputs, 2), last",
        ),
    ),
    question="Chunks have 64 tokens. On which tokens does this layer's output at token 130, counted from 0, depend, "
    "convolution aside?",
    answers=("On 0 to 130", "On 67 to 130", "On 130 alone", "On 128 to 130"),
    answer=3,
    what="Within a chunk the rule is computed at once, with matrix products; the state is passed on from one chunk to "
    "the next. Here each chunk begins with the state from before the text, so token 130 reads the three tokens of the "
    "third chunk and nothing of the first two: the map consists of blocks on the diagonal. The state that is returned "
    "for decoding is that of the last chunk alone.",
    sources=(
        Source(
            "Yang et al., Gated delta networks, section 3.3: the chunkwise form", "https://arxiv.org/abs/2412.06464"
        ),
        Source(
            "sparkinfer pull request 1071: each later pass of a prefill began with an empty state",
            "https://github.com/gittensor-ai-lab/sparkinfer/pull/1071",
        ),
    ),
    noticed="Not with texts that fit in one chunk, so not in tests with 16 tokens. With longer ones the layer forgets "
    "everything at each multiple of the chunk size; full attention layers of a hybrid hide part of it. Decoding, token "
    "by token, is right until the state comes from a prefill.",
    interview="“How do you test a chunked kernel?” Against the token-by-token form, with a length that is no multiple "
    "of the chunk size, an initial state that is not zero, and the last state compared as well as the outputs.",
    test="""
import torch
from attnviz.modules.delta import chunked_gated_delta_rule

def test_the_size_of_chunks_does_not_matter():
    q, k, v = torch.nn.functional.normalize(torch.randn(3, 1, 2, 11, 5), dim=-1)
    decay, beta = torch.rand(2, 1, 2, 11)
    few, one = (chunked_gated_delta_rule(q, k, v, decay, beta, chunk=chunk) for chunk in (3, 11))
    torch.testing.assert_close(few, one)
""",
    compare=compare,
    why_not=states.why_not,
)
