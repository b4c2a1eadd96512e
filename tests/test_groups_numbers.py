"""pytest tests/test_groups_numbers.py: what the query-grouping page prints, evaluated, over invented models and masks.

A formula's numbers are multiplied out here, without attnviz.equations, and compared with bars, tables and titles, and
with what the mask of the live model lets the last token attend to.
"""

import math
import re
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from attnviz.config import ModelConfig, divisors
from attnviz.cost import count_parameters
from attnviz.cost.decode import attention_flops
from attnviz.figures import groups
from attnviz.modules.masks import attention_mask

MLA = ModelConfig(
    n_layers=3, d_model=35, n_heads=6, attention="mla", kv_lora_rank=13, qk_rope_head_dim=2, qk_nope_head_dim=11,
    v_head_dim=7, d_ff=17, vocab_size=19,
)  # fmt: skip


def sides(tex: str) -> list[list[str]]:
    """What stands between the equals signs of each equation, in Python's writing and without units."""
    lines = re.sub(r"\\(begin|end)\{aligned\}", "", tex).split(r"\\")
    equations = []
    for line in lines:
        line = line.strip().removeprefix("&").strip()
        parts = [part for part in re.split(r"&?\s*=\s*", line) if part]
        equations[-1:] = [equations[-1] + parts] if line.startswith("=") else [*equations[-1:], parts]
    return [[_python(side) for side in equation] for equation in equations]


def _python(tex: str) -> str:
    plain = re.sub(r"\\text\{[^}]*\}", "", tex).replace("{,}", "").replace(r"\textstyle", "")
    while (found := re.sub(r"\\tfrac\{([^{}]*)\}\{([^{}]*)\}", r"((\1)/(\2))", plain)) != plain:
        plain = found
    for written, meant in ((r"\left", ""), (r"\right", ""), (r"\cdot", "*"), (r"\,", "*"), (r"\min", "min")):
        plain = plain.replace(written, meant)
    return plain.strip()


def values(tex: str) -> list[list[float]]:
    """The sides of each equation that are numbers."""
    return [
        [eval(s) for s in equation if s and not re.search(r"[A-Za-z\\]", s.replace("min", ""))]
        for equation in sides(tex)
    ]  # noqa: E501


def assert_true(tex: str) -> list[float]:
    """Each equation's numbers multiply out to what it says; gives the results."""
    results = []
    for found in values(tex):
        assert len(found) >= 1, tex
        whole = all(float(x).is_integer() for x in found)
        for x in found:
            assert x == found[-1] if whole else math.isclose(x, found[-1], rel_tol=5e-3, abs_tol=5e-4), tex
        results.append(found[-1])
    return results


@st.composite
def invented(draw) -> ModelConfig:
    """A model with primes for its sizes, with a window and full layers or without, of any kind of attention."""
    n_heads, n_layers = draw(st.sampled_from([1, 2, 3, 6, 8])), draw(st.integers(1, 5))
    how = {}
    if draw(st.booleans()):
        full = draw(st.sets(st.integers(0, n_layers - 1)))
        how = {
            "sliding_window": draw(st.integers(1, 40)),
            "n_sinks": draw(st.integers(0, 5)),
            "full_layers": tuple(full),
        }
    if draw(st.booleans()):
        return replace(MLA, n_layers=n_layers, n_heads=n_heads, n_kv_heads=n_heads, **how)
    return ModelConfig(
        n_layers=n_layers, d_model=23, n_heads=n_heads, n_kv_heads=draw(st.sampled_from(divisors(n_heads))), head_dim=14,
        d_ff=17, vocab_size=19, **how,
    )  # fmt: skip


def keys_seen(config: ModelConfig, n_tokens: int) -> list[int]:
    """Keys that the last token may attend to in each layer, counted from the mask the modules run with."""
    seen = []
    for layer in range(config.n_layers):
        window = None if layer in config.full_layers else config.sliding_window
        mask = attention_mask(n_tokens, n_tokens, causal=True, window=window, n_sinks=config.n_sinks if window else 0)
        seen.append(int(mask[-1].sum()))
    return seen


def compared(config: ModelConfig) -> list[ModelConfig]:
    mha = config
    if config.attention == "mla":
        how = {name: getattr(config, name) for name in ("sliding_window", "n_sinks", "full_layers", "n_layers")}
        mha = ModelConfig(d_model=23, n_heads=config.n_heads, head_dim=14, d_ff=17, vocab_size=19, **how)
    family = [mha.with_kv_heads(k) for k in divisors(mha.n_heads)]
    return [*family, config] if config.attention == "mla" else family


@settings(max_examples=150, deadline=None)
@given(invented(), st.integers(1, 60))
def test_the_work_printed_is_what_the_mask_allows(config, n_tokens):
    configs = compared(config)
    drawing, panel = groups.work(configs, config, n_tokens), groups.work_panel(configs, config, n_tokens)
    numbers = 2 * config.kv_lora_rank + config.qk_rope_head_dim if config.attention == "mla" else 2 * config.head_dim
    flops = 2 * config.n_heads * numbers * sum(keys_seen(config, n_tokens))
    here = configs.index(config)
    table = drawing.table
    assert assert_true(drawing.formula)[0] == flops == attention_flops(config, n_tokens)
    assert table["attention FLOPs"][here] == flops
    cached = {"mla": config.kv_lora_rank or 0, "bytes": 4}
    per_token = cached["mla"] + config.qk_rope_head_dim if config.attention == "mla" else 2 * config.n_kv_heads * 14
    assert (
        assert_true(drawing.formula)[1]
        == table["cache bytes read"][here]
        == 4 * per_token * sum(keys_seen(config, n_tokens))
    )
    assert table["parameters"][here] == count_parameters(config).total
    for rect, what in zip(panel["rects"], list(table)[1:], strict=True):
        assert rect[2] == table[what][here] / table[what][0]
    shown = [label[3] for label in panel["labels"] if label[2].startswith("after")]
    assert all(any(share == word.rstrip(",") for word in drawing.title.split()) for share in shown[:2])
    for n in set(keys_seen(config, n_tokens)):  # and says how many keys are attended to
        assert re.search(rf"\b{n}\b", drawing.note)
