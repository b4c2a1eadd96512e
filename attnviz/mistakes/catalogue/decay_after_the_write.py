"""The gated delta rule decays its state after the write, so that a token's own write decays as well."""

from attnviz.mistakes import states
from attnviz.mistakes.mistake import Mistake, Source, Symptom
from attnviz.mistakes.runs import format_number
from attnviz.mistakes.versions import Change, Version
from attnviz.modules import AttentionRecord, Transformer


def compare(right: Version, wrong: Version, model: Transformer, ids: list[int]) -> Symptom:
    return states.symptom(right, wrong, model, ids, _kept, {"recurrent": True})


def _kept(right: AttentionRecord, wrong: AttentionRecord, head: int) -> str:
    mean = format_number(float(wrong.own["decay"][0, head].mean()))
    return f"each effective weight of a token on itself is multiplied by its decay α, {mean} on average."


MISTAKE = Mistake(
    title="Decay after the write",
    subject="linear",
    kind="silent",
    changes=(
        Change(
            "modules/delta.py",
            right="""
                S = decay[:, :, t].unsqueeze(3) * S  # (B, H, D, V)
                held = torch.einsum("bhd,bhdv->bhv", k_t, S)  # (B, H, V)
                write = beta[:, :, t].unsqueeze(2) * (v_t - held)  # (B, H, V)
                S = S + torch.einsum("bhd,bhv->bhdv", k_t, write)  # (B, H, D, V)
            """,
            wrong="""
                held = torch.einsum("bhd,bhdv->bhv", k_t, S)  # (B, H, V)
                write = beta[:, :, t].unsqueeze(2) * (v_t - held)  # (B, H, V)
                S = S + torch.einsum("bhd,bhv->bhdv", k_t, write)  # (B, H, D, V)
                S = decay[:, :, t].unsqueeze(3) * S  # (B, H, D, V)
            """,
        ),
    ),
    question="The decay α is 0.5 at each token, and no later key is similar. With this code, which share of what a "
    "token writes is left when the query two tokens later reads the state?",
    answers=("All of it", "0.5", "0.25", "0.125"),
    answer=3,
    what="A state is decayed when a token arrives, before this token corrects it: the write is read undecayed by the "
    "token's own query, and decays from the next token on, here to 0.5² = 0.25 after two. Decayed after the write, it "
    "is multiplied by α once more, 0.5³ = 0.125, and the correction compares the value with a state that has not yet "
    "been decayed. This is the right rule with each decay one token late, and its output times α: with α near 1 the "
    "two are close.",
    sources=(
        Source("Yang et al., Gated delta networks, equation 10", "https://arxiv.org/abs/2412.06464"),
        Source(
            "flash-linear-attention issue 885: decay before or after the correction?",
            "https://github.com/fla-org/flash-linear-attention/issues/885",
        ),
    ),
    noticed="No shape and no norm looks wrong, and in a head whose α is near 1 little changes. The chunked form does "
    "not have this line, so a prefill in chunks and decoding token by token disagree: comparing the two reveals it.",
    interview="“In the gated delta rule, what comes first, decay or write?” Decay: what is left of the state is "
    "compared with the new value, and the correction itself is not decayed before it is read.",
    test="""
import torch
from attnviz.modules.delta import gated_delta_rule

def test_a_token_reads_its_own_write_without_decay():
    k, v, half, one = torch.randn(1, 2, 1, 5), torch.randn(1, 2, 1, 3), torch.full((1, 2, 1), 0.5), torch.ones(1, 2, 1)
    k = k / k.norm(dim=-1, keepdim=True)
    torch.testing.assert_close(gated_delta_rule(k, k, v, decay=half, beta=one, scale=1.0)[0], v)
""",
    compare=compare,
    why_not=states.why_not,
)
