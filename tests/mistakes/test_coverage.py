"""Whether the changed code of a mistake runs, token by token, in models where it does and where it does not."""

import sys
from dataclasses import replace

import pytest
import torch

from attnviz.config import ModelConfig
from attnviz.mistakes import RIGHT, CannotOccur, Change, Version, all_mistakes, load_mistake
from attnviz.mistakes.coverage import ChangedCode, changed_functions
from attnviz.modules import Transformer

SMALL = ModelConfig(2, 10, 5, vocab_size=17)
MLA = ModelConfig(
    2, 15, 3, vocab_size=17, attention="mla", kv_lora_rank=5, qk_nope_head_dim=4, qk_rope_head_dim=2, v_head_dim=7
)
DID_NOT_RUN = {  # the configuration, the mistake, and the function of its code
    "gelu": (replace(SMALL, ffn="gelu"), "sigmoid_gate", "SwiGLU.forward"),
    "geglu": (replace(SMALL, ffn="geglu"), "sigmoid_gate", "SwiGLU.forward"),
    "sandwich": (replace(SMALL, norms_per_layer=4), "norm_on_residual_sum", "Block.forward"),
    "explicit scale": (replace(SMALL, attention_scale=0.3), "scale_by_d_model", "attend"),
    "interleaved RoPE": (replace(SMALL, rope_layout="interleaved"), "rope_in_the_other_layout", "rotate_pairs"),
    "learned positions": (
        replace(SMALL, position="learned", learned_position_rows=29), "positions_restart",
        "GroupedQueryAttention.forward",
    ),
    "no mask": (replace(SMALL, causal=False), "mask_after_softmax", "attend"),
    "MLA": (MLA, "dropout_in_evaluation", "GroupedQueryAttention.forward"),
}  # fmt: skip


@pytest.mark.parametrize("case", DID_NOT_RUN)
def test_code_that_does_not_run_is_said_not_to(case):
    config, name, place = DID_NOT_RUN[case]
    with pytest.raises(CannotOccur, match=f"^The changed code, in `{place}`, did not run. ") as reason:
        load_mistake(name).symptom(Transformer.random(config, 3), [1, 2, 3, 5, 7])
    assert load_mistake(name).why_not(config) in str(reason.value)


def test_learned_positions_are_used_without_rope():
    learned, none = replace(SMALL, position="learned", learned_position_rows=29), replace(SMALL, position="none")
    mistake = load_mistake("positions_restart")
    assert "learned vectors of its positions are added" in mistake.why_not(learned)
    assert "positions are not used" in mistake.why_not(none) and mistake.why_not(SMALL) == ""


def test_a_model_that_copies_its_input_is_not_said_to_predict_the_next_token():
    """Without what its layers add, a model with tied embeddings gives each input token the largest logit."""
    model, ids = Transformer.random(SMALL, 3), torch.tensor([[1, 2, 3, 5, 7]])
    with torch.no_grad():
        for block in model.blocks:
            block.attn.o_proj.weight.zero_()
            block.ffn.down_proj.weight.zero_()
        model.embed.weight.copy_(9 * torch.linalg.qr(torch.randn(17, 17))[0][:, :10])
        logits = model(ids)[0]
    copied, next_ = (
        float(torch.nn.functional.cross_entropy(a, b)) for a, b in ((logits, ids[0]), (logits[:-1], ids[0, 1:]))
    )
    found = load_mistake("loss_without_shift").symptom(model, ids[0].tolist())
    assert copied < next_ and (found.number, found.expected) == pytest.approx((copied, next_), rel=1e-4)
    assert found.sentence.startswith("On this text this model predicts its input token better than the next token: ")


def test_an_argument_that_is_left_out_counts_where_the_right_version_evaluates_it():
    version = Version("no mask", (Change("modules/masks.py", "return one & other", "return one"),))
    attention_mask = RIGHT.module("modules.masks")
    one = torch.ones(2, 3, dtype=torch.bool)
    for other, runs in ((one, True), (None, False)):
        with ChangedCode(version) as code:
            attention_mask.intersection(one, other)
        assert code.ran == runs


def test_a_part_of_a_line_that_is_not_evaluated_did_not_run():
    version = load_mistake("scale_by_d_model").version()
    q = torch.ones(1, 2, 3, 5)
    for scale, runs in ((None, True), (0.3, False)):
        with ChangedCode(version) as code:
            version.module("modules.attention").attend(q, q, q, scale=scale)
        assert code.ran == runs
    assert changed_functions(version) == ("attend",)


def test_the_trace_function_that_was_set_before_is_set_again():
    def mine(frame: object, event: str, argument: object) -> None:
        return None

    before = sys.gettrace()
    sys.settrace(mine)
    try:
        for name in ("sigmoid_gate", "positions_restart"):  # one that ends early, and one that runs to the end
            with ChangedCode(load_mistake(name).version()):
                RIGHT.module("modules.feedforward").SwiGLU(3, 5)(torch.ones(1, 2, 3))
            assert sys.gettrace() is mine
    finally:
        sys.settrace(before)


@pytest.mark.parametrize("name", all_mistakes())
def test_each_mistake_changes_code_of_a_function(name):
    mistake = all_mistakes()[name]
    for config in (SMALL, MLA):
        assert changed_functions(mistake.version(config))
