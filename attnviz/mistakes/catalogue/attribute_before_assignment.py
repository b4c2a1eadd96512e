"""An assert in __init__ reads an attribute that is only assigned later."""

from attnviz.mistakes.mistake import Mistake, Source, Symptom, Words
from attnviz.mistakes.runs import head_map, raised, run
from attnviz.mistakes.versions import Change, Version
from attnviz.modules import Transformer
from attnviz.phrases import count


def compare(right: Version, wrong: Version, model: Transformer, ids: list[int]) -> Symptom:
    message, n, n_built = "", model.config.n_layers, 0
    try:
        for _ in range(n):
            wrong.module("modules.building").build_attention(model.config)
            n_built += 1
    except AttributeError as error:
        message = raised(error)
    return Symptom(
        **head_map(run(right.like(model), ids).weights[0][0, 0], 0, 0), wrong=None, measure="Layers that can be built",
        expected=n, number=n_built, error=message,
        sentence=f"{n_built} of {count(n, 'layer')} can be built: the line raises before it can check anything."
        if message
        else f"{count(n, 'layer')} can be built.",
    )  # fmt: skip


MISTAKE = Mistake(
    title="An attribute read before it is assigned",
    subject="heads",
    kind="raises",
    changes=(
        Change(
            "modules/attention.py",
            right="""
                if n_kv_heads < 1 or n_heads % n_kv_heads:
                    raise ValueError(f"n_kv_heads must divide n_heads = {n_heads}, and {n_kv_heads} does not")
            """,
            wrong="assert self.n_heads % n_kv_heads == 0",
        ),
    ),
    latent=(
        Change(
            "modules/latent.py",
            right="self.n_heads, self.rank = n_heads, kv_lora_rank",
            wrong="""
                assert self.rank <= d_model
                self.n_heads, self.rank = n_heads, kv_lora_rank
            """,
        ),
    ),
    question="For which numbers of query heads and KV heads does the assert pass?",
    answers=(
        "For those that divide evenly, as the author intended",
        "For all: assert is skipped inside `__init__`",
        "For all in the first layer, for none after it",
        "For none: the line raises an AttributeError",
    ),
    answer=3,
    what="`self.x` is looked up when the line runs, but it is assigned further down. In an nn.Module the lookup "
    "ends in `nn.Module.__getattr__`, which raises AttributeError, so no instance can be built. Whoever wrote the "
    "line has not run it since. With `python -O` asserts are removed: then the class can be built, but nothing is "
    "checked.",
    sources=(
        Source(
            "Python reference, the assert statement", "https://docs.python.org/3/reference/simple_stmts.html#assert"
        ),
        Source("torch.nn.Module", "https://docs.pytorch.org/docs/stable/generated/torch.nn.Module.html"),
    ),
    noticed="As soon as the class is instantiated. It survives only in code that nobody has run: a class that is "
    "not used yet, or a file edited before a commit and not tested.",
    interview="“Review this class.” Read `__init__` from the top, as Python does, and ask of each line whether the "
    "names that it reads have been assigned above it.",
    test="""
import torch
from attnviz.modules import GroupedQueryAttention

def test_the_class_can_be_built_and_run():
    x = torch.randn(2, 7, 12)
    assert GroupedQueryAttention(12, 6, 3)(x).shape == x.shape
""",
    latent_words=Words(
        question="For which ranks of the latent and which widths does the assert pass?",
        answers=(
            "For ranks up to d_model, as the author intended",
            "For all: assert is skipped inside `__init__`",
            "For all in the first layer, for none after it",
            "For none: the line raises an AttributeError",
        ),
        test="""
import torch
from attnviz.modules import MultiHeadLatentAttention

def test_the_class_can_be_built_and_run():
    x = torch.randn(2, 7, 12)
    layer = MultiHeadLatentAttention(12, 3, kv_lora_rank=5, qk_nope_head_dim=4, qk_rope_head_dim=2, v_head_dim=7)
    assert layer(x).shape == x.shape
""",
    ),
    compare=compare,
)
