"""Computations of the Step by step page: what its walks show."""

import pytest

from attnviz.compute import steps as compute
from attnviz.compute.view import View
from attnviz.figures.step_operations import is_known, plain_name
from attnviz.figures.step_purposes import purpose_of
from attnviz.session.settings import Settings

TEXT = "The old man found a red ball. The old man"
FILTERS = {"penalty": 1.3, "temperature": 0.7, "top_k": 37, "top_p": 0.9, "min_p": 0.02}
SETTINGS = [
    {"model": "gqa-4", "window": 4, "n_sinks": 2},
    {"model": "mla"},
    {"model": "mla", "absorbed": True, "layer": 0},
    {"model": "own"},
    {"window": 4, "causal": False},
    {"causal": False, "rope": False},
]
DECODING = [
    {"model": "mha", "layer": 0, **FILTERS},
    {"model": "mla", **FILTERS},
    {"window": 4, "n_sinks": 2, "temperature": 0.0},
]


@pytest.mark.parametrize("changes", SETTINGS)
def test_each_line_of_a_walk_has_a_purpose_and_each_operation_a_phrase(changes):
    walk = compute.walk_of(View(Settings(text=TEXT, **changes)))
    assert without_a_phrase(walk) == without_a_purpose(walk) == set()


@pytest.mark.parametrize("changes", DECODING)
def test_each_line_of_a_decode_step_has_a_purpose_and_each_operation_a_phrase(changes):
    walk = compute.decode_step_of(View(Settings(text=TEXT, **changes))).walk
    assert without_a_phrase(walk) == without_a_purpose(walk) == set()


def without_a_phrase(walk) -> set[str]:
    names = {plain_name(name) for stop in walk.stops for name in stop.operations}
    assert len(names) > 10
    return {name for name in names if not is_known(name)}


def without_a_purpose(walk) -> set[tuple[str, int]]:
    lines = [stop.line for stop in walk.stops[1:] if not stop.line.skipped]
    assert len(lines) > 10
    return {(walk.run.calls[line.call].function, line.number) for line in lines if not purpose_of(walk.run, line)}
