"""Payload of the picture view, decoded as the browser does.

Its rendering is tested in tests/browser/test_saved_runs.py.
Run: .venv/bin/python -m pytest tests/ui/test_picture_view.py
"""

import json

import numpy as np
import pytest

from attnviz.compute import recorded
from attnviz.recorded import Picture
from attnviz.session import openable
from attnviz.ui.components.picture_view import MOST_PIXELS, pack
from tests import saved_runs
from tests.saved_runs import saved

ABOUT = {"query": 3, "name": "L0 H1", "mark": "#123456"}


def read(message):
    start = 4 + int.from_bytes(message[:4], "little")
    header = json.loads(message[4:start])
    n = header["shape"][2] * header["shape"][3]
    height, width = header["picture"]
    cells = np.frombuffer(message[start : start + 2 * n], "<u2").reshape(header["shape"][2:])
    return header, cells, np.frombuffer(message[start + 2 * n :], np.uint8).reshape(height, width, 3)


@pytest.fixture
def run(tmp_path, monkeypatch):
    monkeypatch.setattr(openable, "is_local", lambda: True)
    return recorded.run_of(saved(tmp_path, "picture"), "")


def test_cells_pixels_and_places_are_those_of_the_run(run):
    weights = run.recorded.layers[0].weights_of(1)
    header, cells, pixels = read(pack(weights, run.picture, run.sides, ABOUT))
    assert np.array_equal(cells, np.round(saved_runs.picture().kinds[0].layers[0][1] * 10_000))
    assert np.array_equal(pixels, saved_runs.picture().picture)
    assert (header["patches"], header["before"], header["asks"], header["queries"]) == ([3, 5], 2, True, None)
    assert header["labels"][:3] == ["[CLS]", "[REG]", "0,0"] and header["query"] == 3


def test_a_large_picture_is_sent_with_fewer_pixels(run):
    large = Picture(np.zeros((1999, 700, 3), np.uint8), (3, 5), 2)
    header, _, _ = read(pack(run.recorded.layers[0].weights_of(0), large, run.sides, ABOUT))
    assert header["picture"] == [500, 175] and max(header["picture"]) <= MOST_PIXELS


def test_only_keys_that_are_its_patches_have_the_picture():
    run = saved_runs.picture()
    assert Picture.of(run, run.kinds[0]).n_before == 2
    assert Picture.of(run, saved_runs.encoder().kinds[0]) is None
    assert Picture.of(saved_runs.encoder(), saved_runs.encoder().kinds[0]) is None
