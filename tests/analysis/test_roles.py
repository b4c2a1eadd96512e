"""Roles of hand-made heads, and scores checked with loops over queries and keys."""

import json
from pathlib import Path

import numpy as np
import pytest

from attnviz.analysis.roles import (
    ABOVE_CHANCE,
    BROAD,
    COLUMN,
    ENOUGH,
    KEYED,
    LOCAL,
    NAMED,
    NO_ROLE,
    SPECIFIC,
    UNIFORM,
    largest_columns,
    probes,
    role_of,
    score,
    score_probes,
    stand_out,
)
from attnviz.checkpoints import list_checkpoints, load_checkpoint, shipped_config
from attnviz.trace import allowed_of, weights_of

FOLDER = Path(__file__).parents[2] / "attnviz" / "checkpoints"
PERIOD = 19
T = 2 * PERIOD
CAUSAL = np.tri(T, dtype=bool)
PROBE = probes(101, PERIOD, 1)[0]


def windowed(window: int) -> np.ndarray:
    return CAUSAL & ~np.tri(T, k=-window, dtype=bool)


def pattern(key_of, allowed=CAUSAL) -> np.ndarray:
    """Return (T, T): every query has all its weight on key_of(query), or on itself if it may not attend to that key."""
    weights = np.zeros((T, T), np.float32)
    for i in range(T):
        j = key_of(i)
        weights[i, j if 0 <= j < T and allowed[i, j] else i] = 1
    return weights


def uniform(allowed=CAUSAL) -> np.ndarray:
    return (allowed / allowed.sum(-1, keepdims=True)).astype(np.float32)


def softmax(spread: float, allowed=CAUSAL, seed: int = 0) -> np.ndarray:
    weights = np.exp(np.random.default_rng(seed).normal(scale=spread, size=allowed.shape)) * allowed
    return (weights / weights.sum(-1, keepdims=True).clip(1e-30)).astype(np.float32)


def scored(weights, allowed=CAUSAL, tokens=PROBE):
    return score(weights[None, None], allowed[None], tokens).of(0, 0)


def role(weights, allowed=CAUSAL) -> str:
    return role_of(scored(weights, allowed)).name


TEXTBOOK = {
    "previous token": lambda i: i - 1,
    "induction": lambda i: i - PERIOD + 1,
    "duplicate token": lambda i: i - PERIOD,
    "current token": lambda i: i,
    "first token": lambda i: 0,
}


@pytest.mark.parametrize("name", TEXTBOOK)
def test_a_head_that_only_does_this_scores_one_and_is_named_so(name):
    found = scored(pattern(TEXTBOOK[name]))
    assert found.shares[name].weight == pytest.approx(1)
    assert role_of(found).name == name


def test_uniform_weights_score_chance_and_are_broad():
    found = scored(uniform())
    assert role_of(found).name == BROAD and found.entropy == pytest.approx(1)
    for share in found.shares.values():
        assert share.weight == pytest.approx(share.chance, abs=1e-6)
    assert found.shares["induction"].chance == pytest.approx(np.mean([1 / (i + 1) for i in range(PERIOD, T)]))
    assert found.shares["local"].chance == pytest.approx(np.mean([LOCAL / (i + 1) for i in range(LOCAL, T)]))


def test_a_head_spread_over_the_neighbourhood_is_local():
    assert role(uniform(windowed(LOCAL))) == "local"


@pytest.mark.parametrize("share", [0.25, 0.5, 0.9])
@pytest.mark.parametrize("column", [2, 5, 11])
def test_one_dark_column_that_is_not_the_first_is_no_role_but_is_found_on_a_text(share, column):
    weights = uniform() * (1 - share)
    weights[:, column] += share
    weights[: column + 1] = uniform()[: column + 1]
    assert role(weights) == NO_ROLE
    assert largest_columns(weights[None], CAUSAL)[0].key == column


@pytest.mark.parametrize("window", [3, 4, 5])
def test_a_sharp_diagonal_under_a_short_window_is_neither_broad_nor_local(window):
    allowed = windowed(window)
    for back in range(window):
        weights = pattern(lambda i, back=back: i - back, allowed)
        assert role(weights, allowed) == {0: "current token", 1: "previous token"}.get(back, NO_ROLE)
        almost = 0.97 * weights + 0.03 * uniform(allowed)
        assert role(almost, allowed) == role(weights, allowed)
    assert role(uniform(allowed), allowed) == BROAD


def test_what_the_window_masks_is_not_scored():
    allowed = windowed(4)
    assert set(scored(uniform(allowed), allowed).shares) == {"previous token", "current token"}
    assert "first token" in scored(uniform(windowed(13)), windowed(13)).shares
    assert not scored(uniform(windowed(1)), windowed(1)).shares
    assert role(uniform(windowed(1)), windowed(1)) == NO_ROLE


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("window", [4, 7, T])
def test_a_random_softmax_has_no_clear_role(seed, window):
    assert role(softmax(1.0, windowed(window), seed), windowed(window)) == NO_ROLE


def test_both_ends_of_a_sharp_softmax_underflow_without_becoming_broad():
    weights = pattern(lambda i: i - 3)  # zeros everywhere else, as float32 gives where scores are far apart
    found = scored(weights)
    assert found.entropy == pytest.approx(0, abs=1e-6) and role_of(found).name != BROAD


def invented(seed: int):
    """Generate a mask, weights and tokens, few of them distinct; lengths are primes."""
    rng = np.random.default_rng(seed)
    n = int(rng.choice([2, 3, 5, 7, 13, 23]))
    i, j = np.arange(n)[:, None], np.arange(n)
    allowed = (j <= i) if rng.random() < 0.7 else np.ones((n, n), bool)
    if rng.random() < 0.5:
        allowed = allowed & ((abs(i - j) < rng.integers(1, n + 1)) | (j < rng.integers(0, 3)))
    allowed = allowed & (j >= (rng.integers(0, n) if rng.random() < 0.3 else 0))
    return softmax(float(rng.choice([0.1, 1, 4])), allowed, seed), allowed, rng.integers(0, rng.integers(1, n + 2), n)


def by_hand(weights, allowed, tokens, name):
    """Compute weight, chance and queries of one role, key by key."""
    n, found = len(tokens), []
    first = min((k for k in range(n) if allowed[:, k].any()), default=0)
    for i in range(n):
        keys = []
        for k in range(n):
            names = {
                "previous token": k == i - 1,
                "induction": k >= 1 and k - 1 < i and tokens[k - 1] == tokens[i],
                "duplicate token": k < i and tokens[k] == tokens[i],
                "current token": k == i,
                "first token": k == first and k < i,
                "local": 0 <= i - k < LOCAL,
            }
            if names[name] and allowed[i, k]:
                keys.append(k)
        n_allowed = int(allowed[i].sum())
        if 0 < len(keys) < n_allowed:
            found.append((sum(float(weights[i, k]) for k in keys), len(keys) / n_allowed))
    return found


@pytest.mark.parametrize("seed", range(60))
def test_scores_are_those_of_a_loop_over_queries_and_keys(seed):
    weights, allowed, tokens = invented(seed)
    found = scored(weights, allowed, tokens)
    n_choosing = sum(int(row.sum()) > 1 for row in allowed)
    assert found.n_queries == n_choosing
    for name in KEYED:
        each = by_hand(weights, allowed, tokens, name)
        if not each or len(each) < ENOUGH * n_choosing:
            assert name not in found.shares
            continue
        share = found.shares[name]
        assert share.n_queries == len(each)
        assert share.weight == pytest.approx(np.mean([w for w, _ in each]), abs=1e-5)
        assert share.chance == pytest.approx(np.mean([c for _, c in each]))
    entropies = [
        -sum(float(w) * np.log2(float(w)) for w in row if w > 0) / np.log2(may.sum())
        for row, may in zip(weights, allowed, strict=True)
        if may.sum() > 1
    ]
    apart = [
        sum(float(w) * abs(i - k) for k, w in enumerate(row)) for i, row in enumerate(weights) if allowed[i].sum() > 1
    ]
    if entropies:
        assert found.entropy == pytest.approx(np.mean(entropies), abs=1e-5)
        assert found.distance == pytest.approx(np.mean(apart), rel=1e-4, abs=1e-5)


@pytest.mark.parametrize("seed", range(60))
def test_a_role_claims_only_what_its_score_says(seed):
    weights, allowed, tokens = invented(seed)
    found = scored(weights, allowed, tokens)
    given = role_of(found)
    if given.name == BROAD:
        assert given.score == found.entropy >= UNIFORM
    elif given.name == NO_ROLE:
        assert given.score is None and not any(s.weight >= s.chance + ABOVE_CHANCE for s in found.shares.values())
    else:
        share = found.shares[given.name]
        assert given.score == share.weight >= share.chance + ABOVE_CHANCE
        assert given.name in NAMED or not any(found.shares[n].stands_out for n in NAMED if n in found.shares)


@pytest.mark.parametrize("seed", range(60))
def test_the_largest_column_is_the_one_a_loop_finds(seed):
    weights, allowed, tokens = invented(seed)
    choosing = [i for i in range(len(tokens)) if allowed[i].sum() > 1]
    first = min((k for k in range(len(tokens)) if allowed[:, k].any()), default=0)
    sums = {}
    for k in range(len(tokens)):
        queries = [i for i in choosing if allowed[i, k]]
        if k != first and queries and len(queries) >= ENOUGH * len(choosing):
            sums[k] = sum(float(weights[i, k]) for i in queries), len(queries)
    _, found = largest_columns(np.stack([allowed / allowed.sum(-1, keepdims=True).clip(1), weights]), allowed)
    assert (found is None) == (not sums)
    if found:
        most, n = sums[found.key]
        assert most == pytest.approx(max(total for total, _ in sums.values()), abs=1e-5)
        assert (found.share.weight, found.share.n_queries) == (pytest.approx(most / n, abs=1e-5), n)


def test_what_takes_most_weight_comes_first_and_local_only_alone():
    weights = 0.6 * pattern(lambda i: 0) + 0.4 * pattern(TEXTBOOK["induction"])
    names = [name for name, _ in stand_out(scored(weights))]
    assert names[:2] == ["first token", "induction"] and "local" not in names
    assert [name for name, _ in stand_out(scored(uniform(windowed(LOCAL))))] == ["local"]
    dark = pattern(lambda i: 7)
    assert stand_out(scored(dark), largest_columns(dark[None], CAUSAL)[0])[0][0] == COLUMN


@pytest.mark.parametrize("share", [0.42, 0.53, 0.6])
@pytest.mark.parametrize("name", SPECIFIC)
def test_a_role_that_depends_on_the_query_is_named_before_the_first_token(name, share):
    """Induction of 0.53 beside 0.72 on the first token: the head rests there wherever it has nothing to copy."""
    weights = share * pattern(TEXTBOOK[name]) + (1 - share) * pattern(lambda i: 0)
    found = scored(weights)
    assert found.shares["first token"].stands_out and role_of(found).name == name
    assert role_of(found).score == found.shares[name].weight
    resting = (share - 0.35) * pattern(TEXTBOOK[name]) + (1.35 - share) * pattern(lambda i: 0)
    assert role_of(scored(resting)).name == "first token"


def test_roles_are_laid_out_layer_by_head():
    weights = np.stack([pattern(TEXTBOOK["previous token"]), pattern(TEXTBOOK["induction"])])[:, None]  # (L=2, H=1)
    found = score(weights, np.stack([CAUSAL, CAUSAL]), PROBE)
    assert [role_of(found.of(layer, 0)).name for layer in range(2)] == ["previous token", "induction"]


def test_probes_repeat_distinct_tokens_and_are_the_same_each_time():
    a = probes(101, 13, 3)
    assert a == probes(101, 13, 3)
    for p in a:
        assert p[:13] == p[13:] and len(set(p)) == 13


def shipped(name: str):
    model, period = load_checkpoint(name)[0], 32
    random = probes(model.config.vocab_size, period, 3)
    return score_probes(weights_of(model, random), allowed_of(model, 2 * period), random)


# Whose layers all attend: a layer with a state has roles by its shares, and does without these heads.
ATTENDING = [name for name in list_checkpoints() if all(layer.mixer.attends for layer in shipped_config(name).layers)]


@pytest.mark.parametrize("name", ATTENDING)
def test_the_shipped_checkpoints_known_heads_keep_their_roles(name):
    found = shipped(name)
    L, H = found.entropy.shape
    roles = [[role_of(found.of(layer, head)).name for head in range(H)] for layer in range(L)]
    assert "previous token" in roles[0] and roles[0].count("current token") >= 3
    assert roles[1][3] == "induction"
    assert "induction" not in roles[0] + roles[2] + roles[3]
    named = sum(role not in (NO_ROLE, BROAD) for row in roles for role in row)
    assert 10 <= named <= 20


@pytest.mark.parametrize("name", ATTENDING)
def test_the_model_cards_scores_are_near_those_of_the_probes(name):
    found = shipped(name)
    card = json.loads((FOLDER / "scores.json").read_text())[name]
    induction, previous = card["repeated_random"], card["previous_token"]
    best = found.of(induction["layer"], induction["head"])
    assert role_of(best).name == "induction"
    assert best.shares["induction"].weight == pytest.approx(induction["induction"], abs=0.06)
    best = found.of(previous["layer"], previous["head"])
    assert role_of(best).name == "previous token"
    assert best.shares["previous token"].weight == pytest.approx(previous["previous_token"], abs=0.06)
