"""The numbers in the captions of roles and texts are the scores."""

import re
from dataclasses import replace

import numpy as np
import pytest

from attnviz.analysis.roles import COLUMN, KEYED, Role, largest_columns, role_of, score, stand_out
from attnviz.config import ModelConfig
from attnviz.figures.role_captions import (
    KEYS,
    Probes,
    grid_note,
    role_text,
    role_title,
    run_text,
    text_label,
    text_sentence,
    text_title,
)

CONFIG = ModelConfig(n_layers=2, d_model=40, n_heads=5, n_kv_heads=5, causal=True)
PROBES = Probes(3, 13, CONFIG, trained=True)


def invented(seed: int):
    """Generate one head on one text: its scores, its largest column, its labels. Sharp, mixed or near uniform."""
    rng = np.random.default_rng(seed)
    n = int(rng.choice([2, 3, 7, 13, 29]))
    i, j = np.arange(n)[:, None], np.arange(n)
    allowed = (j <= i) & (i - j < rng.integers(1, n + 1)) if rng.random() < 0.6 else np.ones((n, n), bool)
    scores = rng.normal(scale=rng.choice([0.1, 1, 5]), size=(n, n)) + 6 * (j == rng.integers(0, n)) * rng.integers(0, 2)
    weights = np.exp(scores) * allowed
    weights = (weights / weights.sum(-1, keepdims=True)).astype(np.float32)
    tokens = rng.integers(0, 5, n)
    found = score(weights[None, None], allowed[None], tokens).of(0, 0)
    return found, largest_columns(weights[None], allowed)[0], [f"w{t}" for t in tokens]


def shares(text: str) -> list[float]:
    """Read the shares of weight in a caption: before "on" or "of the weight", or at the end of a label."""
    return [float(n) for n in re.findall(r"\d\.\d\d(?= on | of the weight |$)", text)]


@pytest.mark.parametrize("seed", range(80))
def test_title_label_and_sentence_say_the_same_number_which_is_the_score(seed):
    scores, column, labels = invented(seed)
    found = stand_out(scores, column)
    said = text_title(scores, column), text_label(scores, column), text_sentence(scores, column, labels)
    if not found:
        assert not any(shares(text) for text in said)
        return
    expected = [pytest.approx(share.weight, abs=0.005) for _, share in found[:2]]
    assert shares(said[0]) == shares(said[1]) == expected[:1]
    assert shares(said[2]) == expected
    if found[0][0] == COLUMN:
        assert all(f"token {column.key}" in text for text in said)
        assert f"“{labels[column.key]}”" in said[2]
    for (_, share), part in zip(found[:2], said[2].split(";"), strict=True):
        some = re.search(r"mean of (\d+) of (\d+) queries", part)
        assert bool(some) == (share.n_queries < scores.n_queries)
        if some:
            assert tuple(map(int, some.groups())) == (share.n_queries, scores.n_queries)


@pytest.mark.parametrize("seed", range(80))
def test_what_is_said_of_a_role_is_its_score_and_how_the_probes_were_run(seed):
    scores, *_ = invented(seed)
    role = role_of(scores)
    title, text = role_title(role, scores, PROBES), role_text(role, scores, PROBES)
    assert PROBES.text() in text
    numbers = [float(n) for n in re.findall(r"\d\.\d\d", title)]
    assert numbers[:1] == ([] if role.score is None else [pytest.approx(role.score, abs=0.005)])
    missing = [name for name in KEYED if name not in scores.shares]
    assert ("Not scored" in text) == bool(missing) and all(name in text for name in missing)
    assert "nan" not in text + title


def test_another_role_that_stands_out_is_said_beside_the_named_one():
    n = 26
    weights = np.zeros((n, n), np.float32)
    for i in range(n):  # repeated once; in the second half, 0.6 on the token after the earlier occurrence
        weights[i, 0] += 1
        weights[i, [0, max(i - 12, 0)]] += np.float32([-0.6, 0.6]) * (i >= 13)
    scores = score(weights[None, None], np.tri(n, dtype=bool)[None], [*range(13)] * 2).of(0, 0)
    role = role_of(scores)
    assert (role.name, role.score) == ("induction", pytest.approx(0.6))
    text = role_text(role, scores, PROBES)
    first = (12 + 13 * 0.4) / 25  # of the 25 queries that may attend to another key too
    assert f"0.60 of the weight on {KEYS['induction']}" in text
    assert f"Also {first:.2f} of the weight on the first token" in text


@pytest.mark.parametrize("seed", range(20))
def test_an_untrained_head_is_given_no_role(seed):
    scores, *_ = invented(seed)
    untrained = replace(PROBES, trained=False)
    assert "no role" in role_title(role_of(scores), scores, untrained)
    assert PROBES.text() in role_text(Role("no clear role"), scores, untrained)
    assert "no role" in grid_note(untrained) and PROBES.text() in grid_note(PROBES)


def test_the_run_is_told_by_its_mask_and_position_settings():
    assert PROBES.text() == "3 sequences of 13 random tokens, repeated once"  # as the checkpoints were trained
    windowed = replace(PROBES, config=replace(CONFIG, sliding_window=4))
    assert windowed.text().endswith(f" ({run_text(windowed.config)})")
    assert "no window" in run_text(CONFIG) and "causal" in run_text(CONFIG) and "10,000" in run_text(CONFIG)
    other = run_text(replace(CONFIG, causal=False, sliding_window=4, n_sinks=2, position="none"))
    assert "bidirectional" in other and "window of 4" in other and "2 attention-sink tokens" in other
    assert "no RoPE" in other and "10,000" not in other


def test_a_run_is_described_with_its_windows_and_positions():
    windows = ModelConfig(5, 12, 3, sliding_window=4, full_layers=(1, 3), rope_theta=500.0)
    assert run_text(windows) == "causal, window of 4 tokens in 3 of 5 layers, RoPE base 500"
    learned = ModelConfig(5, 12, 3, position="learned", learned_position_rows=70)
    assert run_text(learned) == "causal, no window, learned positions"
