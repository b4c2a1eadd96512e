"""The delta rule writes the whole difference: β is left out."""

from attnviz.mistakes import states
from attnviz.mistakes.mistake import Mistake, Source, Symptom
from attnviz.mistakes.runs import format_number
from attnviz.mistakes.versions import Change, Version
from attnviz.modules import AttentionRecord, Transformer


def compare(right: Version, wrong: Version, model: Transformer, ids: list[int]) -> Symptom:
    return states.symptom(right, wrong, model, ids, _strength, {"recurrent": True})


def _strength(right: AttentionRecord, wrong: AttentionRecord, head: int) -> str:
    mean = format_number(float(right.own["beta"][0, head].mean()))
    return f"β, {mean} on average, is computed and not used: each token is written with strength 1."


MISTAKE = Mistake(
    title="Write strength β left out",
    subject="linear",
    kind="silent",
    changes=(
        Change(
            "modules/delta.py",
            right="write = beta[:, :, t].unsqueeze(2) * (v_t - held)  # (B, H, V)",
            wrong="write = v_t - held  # (B, H, V)",
        ),
    ),
    question="Keys have length 1, and the state is not decayed. A token's key reads the state right after its write. "
    "What does it read with this code?",
    answers=(
        "Its own value, whatever the state held",
        "The sum of what the state held and of its value",
        "(1 − β) times what the state held, plus β times its value",
        "The mean of what the state held and of its value",
    ),
    answer=0,
    what="The correction moves what the state holds under a key towards the new value, by the share β: after it the "
    "key reads (1 − β) · old + β · new. Without β each token overwrites the old value, also one with little to store, "
    "for which a model can learn a small β. Of similar keys, only the newest value is left.",
    sources=(
        Source("Yang et al., Gated delta networks, equation 10", "https://arxiv.org/abs/2412.06464"),
        Source("Schlag et al., the delta rule with a learning rate per token", "https://arxiv.org/abs/2102.11174"),
    ),
    noticed="The state stays bounded and nothing overflows, so only quality suffers: most where frequent tokens with "
    "similar keys overwrite each other. In the code, β is computed and then not used, which a linter may notice.",
    interview="“What do α and β do in gated DeltaNet?” α forgets a little of everything, whatever its key; β says how "
    "far what is held under this key moves to the new value. β = 0 writes nothing, β = 1 overwrites.",
    test="""
import torch
from attnviz.modules.delta import gated_delta_rule

def test_a_write_of_strength_0_leaves_the_state_as_it_is():
    k, v, one, S = torch.randn(1, 2, 1, 5), torch.randn(1, 2, 1, 3), torch.ones(1, 2, 1), torch.randn(1, 2, 5, 3)
    torch.testing.assert_close(gated_delta_rule(k, k, v, decay=one, beta=0 * one, state=S)[1], S)
""",
    compare=compare,
    why_not=states.why_not,
)
