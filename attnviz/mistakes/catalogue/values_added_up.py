"""The correction of the delta rule is left out: values are added to the state, as in plain linear attention."""

from attnviz.mistakes import states
from attnviz.mistakes.mistake import Mistake, Source, Symptom
from attnviz.mistakes.runs import format_number
from attnviz.mistakes.versions import Change, Version
from attnviz.modules import AttentionRecord, Transformer

TINY = 1e-30  # in place of the norm of a state of zeros


def compare(right: Version, wrong: Version, model: Transformer, ids: list[int]) -> Symptom:
    measured = states.Measured("Norm of this head's state after the last token", _norm)
    return states.symptom(right, wrong, model, ids, _grown, {"recurrent": True}, measured)


def _norm(record: AttentionRecord, head: int) -> float:
    return float(record.own["state"][0, head].norm())


def _grown(right: AttentionRecord, wrong: AttentionRecord, head: int) -> str:
    if right.q.shape[2] == 1:
        return "a single token meets an empty state: there is nothing to subtract."
    growth = _norm(wrong, head) / max(_norm(right, head), TINY)
    return f"the state's norm is {format_number(growth)} times that of the right version."


MISTAKE = Mistake(
    title="Values added up instead of overwritten",
    subject="linear",
    kind="silent",
    changes=(
        Change(
            "modules/delta.py",
            right="write = beta[:, :, t].unsqueeze(2) * (v_t - held)  # (B, H, V)",
            wrong="write = beta[:, :, t].unsqueeze(2) * v_t  # (B, H, V)",
        ),
    ),
    question="A key of length 1 comes twice, with the values 3 and then 5; β is 1 and nothing decays. What does this "
    "key read from the state after the second one?",
    answers=("5", "8", "4", "3"),
    answer=1,
    what="The delta rule subtracts what the state holds under the key before it writes: the second value replaces the "
    "first, and the key reads 5. Without it, k ⊗ v is added to what is there, and the key reads 3 + 5 = 8: this is "
    "linear attention with a decay. A sum under similar keys grows with each repetition, and only decay bounds it.",
    sources=(
        Source("Schlag et al., the delta rule in place of added outer products", "https://arxiv.org/abs/2102.11174"),
        Source("Yang et al., Gated delta networks, equation 10", "https://arxiv.org/abs/2412.06464"),
    ),
    noticed="A short text without repetitions is nearly right, because a key that is new reads little from the state. "
    "It becomes worse with each token that repeats; the norm of the state shows it. A test that writes the same key "
    "twice finds it.",
    interview="“Why is it called the delta rule?” Because it writes the difference between the value and what the key "
    "reads already, as a step of gradient descent on ‖Sᵀk − v‖² would. Plain linear attention writes the value itself.",
    test="""
import torch
from attnviz.modules.delta import gated_delta_rule

def test_what_is_written_twice_is_held_once():
    k, v, one = torch.randn(1, 2, 1, 5), torch.randn(1, 2, 1, 3), torch.ones(1, 2, 2)
    k, v = (k / k.norm(dim=-1, keepdim=True)).expand(1, 2, 2, 5), v.expand(1, 2, 2, 3)
    torch.testing.assert_close(gated_delta_rule(k, k, v, decay=one, beta=one, scale=1.0)[0], v)
""",
    compare=compare,
    why_not=states.why_not,
)
