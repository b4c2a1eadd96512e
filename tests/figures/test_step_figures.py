"""Figures of the Step by step page."""

import numpy as np
import pytest

from attnviz.experiments.residual import part_names
from attnviz.figures.steps import attribution
from tests.arithmetic import check


@pytest.mark.parametrize("bias", [[], ["last norm's bias"]])
def test_the_formula_of_a_logit_stays_short_with_many_layers(bias):
    names = [*part_names(48), *bias]
    added = np.random.default_rng(7).normal(size=len(names))
    drawing = attribution(added, names, "·red", float(added.sum()), "·a")
    assert check(drawing.formula) == []
    assert max(line.count("+") + line.count("-") for line in drawing.formula.split(r"\\")) <= 2 * (2 + len(bias))
    assert "A = " in drawing.legend and f"{added[1:97:2].sum():.3f}".replace("-", "−") in drawing.legend
    assert ("b = " in drawing.legend) == bool(bias)
