"""What is said of an operation is what it did: each clause is compared with the arrays that were recorded.

With every checkpoint, with blocks as in GPT-2, Gemma and Qwen, with mask settings, in decode steps and with mistakes.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator
from dataclasses import replace

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from attnviz.checkpoints import load_checkpoint
from attnviz.compute import steps as compute
from attnviz.compute.view import View
from attnviz.config import ModelConfig
from attnviz.figures import step_captions as captions
from attnviz.figures.step_operations import is_known, operation_text, plain_name
from attnviz.mistakes import CannotOccur, all_mistakes
from attnviz.modules import Transformer
from attnviz.session.settings import Settings
from attnviz.steps import Operation, Run, Selection, Walk, record, record_file
from tests.arithmetic import check

IDS = [5, 17, 3, 17, 29, 2, 11]
TEXT = "The old man found a red ball."
LAYER, T = 0, len(IDS)
TINY = ModelConfig(2, 30, 6, 3, 10, d_ff=23, vocab_size=37)
BLOCKS = {
    "gpt2": replace(TINY, n_kv_heads=6, ffn="gelu", ffn_bias=True, position="learned", learned_position_rows=17,
                    norm="layernorm", norm_bias=True, qkv_bias=True, o_bias=True, attention="mha"),
    "gemma": replace(TINY, ffn="geglu", norms_per_layer=4, embedding_scale=30**0.5, attention_softcap=3.0,
                     logit_softcap=5.0, attention_scale=0.2, sliding_window=3),
    "qwen": replace(TINY, qk_norm="head", qkv_bias=True, tie_embeddings=False, rope_theta=900.0),
    "partial rope": replace(TINY, rotary_fraction=0.4, rope_layout="interleaved"),
    "deepseek": ModelConfig(2, 30, 3, attention="mla", vocab_size=37, kv_lora_rank=13, q_lora_rank=11,
                            qk_nope_head_dim=5, qk_rope_head_dim=6, v_head_dim=7, d_ff=23),
}  # fmt: skip
RUNS = [
    {}, {"model": "mla"}, {"model": "mla", "absorbed": True}, {"model": "mqa"}, {"window": 3, "n_sinks": 2},
    {"causal": False}, {"rope": False}, {"window": 4, "causal": False}, {"model": "own", "qkv_bias": True},
]  # fmt: skip
STEPS = [
    {"temperature": 0.0}, {"penalty": 1.3, "temperature": 0.7, "top_k": 37, "top_p": 0.9, "min_p": 0.02},
    {"model": "mla", "penalty": 0.8}, {"window": 3, "n_sinks": 1},
]  # fmt: skip


def runs() -> Iterator[tuple[str, Run]]:
    for name, config in BLOCKS.items():
        yield name, record(Transformer.random(config, 3), IDS, LAYER)
    for changes in RUNS:
        yield str(changes), compute.run_of(View(Settings(text=TEXT, **changes)))
    for changes in STEPS:
        yield f"step {changes}", compute.decode_step_of(View(Settings(text=TEXT, **changes))).walk.run
    models = [load_checkpoint(name)[0] for name in ("gqa-4", "mla")]
    for mistake in all_mistakes().values():
        for model in models:
            try:
                yield mistake.id, record(mistake.model(model), IDS, LAYER)
            except (CannotOccur, ValueError, RuntimeError):
                continue  # it is not offered with this model, or fails


@pytest.fixture(scope="module")
def recorded() -> list[tuple[str, Run]]:
    return list(runs())


# ---- one check per clause: what it says, and the arrays


def numbers(op: Operation) -> list[np.ndarray]:
    return [v.entries for v in op.inputs]


def axis_in(text: str, n: int) -> int | None:
    """The axis that a clause names; None for all entries."""
    if "each row" in text:
        return n - 1
    if "each column" in text:
        return n - 2
    found = re.search(r"axis (\d+)", text)
    return int(found[1]) if found else None


def reduced(compute: Callable) -> Callable[[Operation, str], bool]:
    def same(op: Operation, text: str) -> bool:
        (x,), made = numbers(op), op.outputs[0].entries
        return np.allclose(compute(x, axis=axis_in(text, x.ndim)).ravel(), made.ravel(), atol=1e-5)

    return same


def softmax(op: Operation, text: str) -> bool:
    made = op.outputs[0].entries
    sums = made.sum(axis_in(text, made.ndim)) if made.ndim > 1 else made.sum()
    return np.allclose(np.nan_to_num(sums, nan=1.0), 1.0, atol=1e-5)


def gelu(op: Operation, text: str) -> bool:
    (x,) = numbers(op)
    form = re.search(r"takes (.*?) of each entry", text)[1]
    if "Φ" in form:
        return np.allclose(F.gelu(torch.tensor(x.copy())), op.outputs[0].entries, atol=1e-7)
    python = form.replace("·", "*").replace("√", "sqrt").replace("³", "**3").replace("π", "pi")
    found = eval(python, {"x": x.astype(float), "tanh": np.tanh, "sqrt": np.sqrt, "pi": np.pi})
    other = F.gelu(torch.tensor(x.astype(float))).numpy()
    made = op.outputs[0].entries
    return np.abs(found - made).max() < 2e-6 and np.abs(other - made).max() > 2e-6


def triangle(op: Operation, text: str) -> bool:
    x, made = op.inputs[0].entries, op.outputs[0].entries
    row, column = np.indices(made.shape[-2:])
    if found := re.search(r"column is (greater|less) than row ([+−]) (\d+)", text):
        edge = row + int(found[3]) * (1 if found[2] == "+" else -1)
        gone = column > edge if found[1] == "greater" else column < edge
    else:
        gone = column > row if "above the diagonal" in text else column < row
    return np.array_equal(made, np.where(gone, 0, x)) and ("false" in text) == (made.dtype == bool)


def arange(op: Operation, text: str) -> bool:
    made = op.outputs[0].entries
    found = [int(n) for n in re.findall(r"\d+", text)]
    return found == ([made[0]] if len(made) == 1 else [made[0], made[-1]])


def linear(op: Operation, text: str) -> bool:
    x, weight, *bias = numbers(op)
    product = x.astype(float) @ weight.astype(float).T
    return np.allclose(product + (bias[0] if "adds the bias" in text else 0), op.outputs[0].entries, atol=1e-3)


def topk(op: Operation, text: str) -> bool:
    (x,) = numbers(op)
    k = int(re.search(r"(\d+) largest", text)[1]) if "entries" in text else 1
    return np.array_equal(np.sort(x)[::-1][:k], op.outputs[0].entries)


def sort(op: Operation, text: str) -> bool:
    (x,), made = numbers(op), op.outputs[0].entries
    ordered = x[made] if "indices" in text else made
    return bool((ordered[1:] >= ordered[:-1]).all()) == ("ascending" in text)


def filled(op: Operation, text: str) -> bool:
    word = re.search(r"filled with (\S+)", text)[1]
    value = {"true": True, "false": False, "−∞": -math.inf}.get(word)
    made = op.outputs[0].entries
    return bool((made == (float(word) if value is None else value)).all())


def parts(op: Operation, text: str) -> bool:
    n = int(re.search(r"into (\d+)", text)[1])
    return n == len(op.outputs) and ("equal" in text) == (len({v.shape for v in op.outputs}) == 1)


def compared(op: Operation, text: str) -> bool:
    word, by = re.search(r"entry is (at most|below|at least|above) (.*)", text).groups()
    x = op.inputs[0].entries
    other = op.inputs[1].entries if by in ("a number", "the other's") else float(by.replace("−", "-"))
    made = {"at most": x <= other, "below": x < other, "at least": x >= other, "above": x > other}[word]
    return np.mean(made == op.outputs[0].entries) > 0.999  # the number is printed with four digits


def einsum(op: Operation, text: str) -> bool:
    inputs, out = op.args[0].split("->")
    said = re.search(r"letters? (.*?), which", text)[1]
    return {*re.findall(r"\b\w\b", said)} == {c for c in inputs if c.isalpha()} - {*out}


CLAIMS: dict[str, Callable[[Operation, str], bool]] = {
    "mean": reduced(np.mean), "sum": reduced(np.sum), "any": reduced(np.any), "softmax": softmax, "gelu": gelu,
    "tril": triangle, "triu": triangle, "arange": arange, "linear": linear, "topk": topk, "sort": sort,
    "argsort": sort, "ones": filled, "zeros": filled, "full_like": filled, "chunk": parts, "split": parts,
    "le": compared, "lt": compared, "einsum": einsum, "cumsum": lambda op, text: np.allclose(
        np.cumsum(numbers(op)[0].astype(float), -1), op.outputs[0].entries, atol=1e-5),
}  # fmt: skip


def test_each_clause_is_what_the_operation_did(recorded):
    seen: dict[str, set[str]] = {}
    for name, run in recorded:
        for op in (op for line in run.lines for op in line.operations):
            text, plain = operation_text(op), plain_name(op.name)
            assert is_known(plain), (name, op)
            copied = all(v.array is not None for v in (*op.inputs, *op.outputs))
            if copied and plain in CLAIMS:
                assert CLAIMS[plain](op, text), (name, text)
            seen.setdefault(plain, set()).add(text)
    assert CLAIMS.keys() - seen.keys() <= {"zeros", "triu", "sum"}
    assert {"tril sets the entries above the diagonal to false"} < seen["tril"]  # and with an offset
    assert all("tanh" in text for text in seen["gelu"])
    assert any(", sums the products and adds the bias (" in text for text in seen["linear"]) and any(
        "bias" not in t for t in seen["linear"]
    )
    assert any("each column" in text for text in seen["softmax"])  # a mistake: over the queries


# ---- printed arithmetic


def walks(recorded: list[tuple[str, Run]]) -> Iterator[tuple[str, Walk]]:
    for name, run in recorded:
        kv_head = run.model.config.mixer.kv_head_of[1]
        for query, key in ((len(run.ids) - 1, 2), (0, 0)):
            yield name, Walk(run, Selection(1, kv_head, query, key))


POWERS = str.maketrans("⁻⁰¹²³⁴⁵⁶⁷⁸⁹", "-0123456789")
NAMES = {name: getattr(math, name) for name in ("exp", "cos", "sin", "tanh", "erf", "sqrt", "pi")}


def comes_to(text: str) -> float:
    """The value of printed arithmetic, of the digits as they are printed."""
    text = re.sub(r"·10([⁻⁰¹²³⁴⁵⁶⁷⁸⁹]+)", lambda m: "e" + m[1].translate(POWERS), text)
    text = re.sub(r"√(\([^()]*\)|[\d.e-]+)", r"sqrt(\1)", text.replace("−", "-").replace("³", "**3"))
    return float(eval(text.replace("·", "*").replace("π", "pi"), NAMES))


def test_each_equation_evaluates_to_what_it_says(recorded):
    exact, rounded, operations = 0, 0, set()
    for name, walk in walks(recorded):
        for shown in (shown for stop in walk.stops for shown in stop.shown):
            text = captions.entry_text(shown)
            if not re.search("[=≈]", text) or "∞" in text or "not a number" in text:
                continue
            left, sign, right = re.split(" ([=≈]) ", text.partition(";")[0])
            assert check(text.partition(";")[0], False) == [], (name, text)
            same = captions.number(comes_to(left)) == right
            assert same == (sign == "="), (name, text)
            exact, rounded = exact + same, rounded + (not same)
            operations.add(shown.arithmetic.operation)
    assert exact > 300 and rounded > 300
    assert operations >= {"linear", "einsum", "softmax", "mul", "add", "mean", "rsqrt", "silu", "gelu", "tanh"}


@pytest.mark.parametrize(
    ("line", "operation", "words"),
    [
        ("F.gelu(x)", "gelu", "takes x · Φ(x) of each entry"),
        ("x.softmax(-2)", "softmax", "each column sums to 1"),
        ("x.softmax(1)", "softmax", "axis 1 sums to 1"),
        ("x.mean(-2, keepdim=True)", "mean", "the mean of each column"),
        ("x.sum(1)", "sum", "adds up axis 1"),
        ("x.sum()", "sum", "adds up all entries"),
        ("x.cumsum(-2)", "cumsum", "adds up the entries of each column from the first"),
        ("x.tril(-2)", "tril", "column is greater than row − 2 to 0"),
        ("torch.triu(x, diagonal=1)", "triu", "column is less than row + 1 to 0"),
        ("x.masked_fill(x > 0.5, float('-inf'))", "masked_fill", "writes −∞ wherever"),
        ("torch.cat((x, x), 1)", "cat", "joins tensors along axis 1"),
        ("F.rms_norm(x, x.shape[-1:], eps=0.25)", "rms_norm", "mean square plus 0.25"),
        ("F.layer_norm(x, x.shape[-1:], eps=0.5)", "layer_norm", "variance plus 0.5"),
        ("F.scaled_dot_product_attention(x, x, x, is_causal=True, scale=0.5)", "scaled_dot_product_attention",
         "softmax(q · kᵀ · 0.5) · v with a causal mask"),
        ("F.scaled_dot_product_attention(x, x, x)", "scaled_dot_product_attention", "kᵀ · 1 / √D) · v with no mask"),
        ("torch.sort(x, descending=True)[0]", "sort", "in descending order"),
        ("torch.arange(3, 12, 2)", "arange", "counts from 3 to 11 in steps of 2"),
        ("torch.einsum('bhtd,bhsd->bh', x, x)", "einsum", "along the letters t, d and s"),
        ("x.to(torch.float64)", "to", "converts the numbers to float64"),
        ("x.clamp(min=-1, max=2)", "clamp", "at least −1 and at most 2"),
        ("torch.searchsorted(x[0, 0, 0].sort()[0], 0.5)", "searchsorted", "at or above"),
    ],
)  # fmt: skip
def test_other_arguments_in_a_file_of_ones_own(tmp_path, line, operation, words):
    file = tmp_path / "own.py"
    file.write_text(f"import torch, torch.nn.functional as F\ndef own(x):\n    y = {line}\n    return y\n")
    names: dict = {}
    exec(compile(file.read_text(), str(file), "exec"), names)
    x, model = torch.randn(1, 3, 7, 5, generator=torch.Generator().manual_seed(1)), Transformer.random(TINY, 1)
    walk = Walk(record_file(lambda: names["own"](x), str(file), None, model, IDS, 0), Selection(1, 0, 5, 2))
    (text,) = {operation_text(op) for line in walk.run.lines for op in line.operations if op.name == operation}
    assert words in text
    how = [s.arithmetic for stop in walk.stops for s in stop.shown if s.arithmetic]
    assert all(h.computed is None or h.computed == pytest.approx(h.value, rel=1e-4, abs=1e-6) for h in how)
    if operation in ("softmax", "mean", "cumsum", "gelu"):
        assert [h.computed is not None for h in how if h.operation == operation]
