"""Where lines cross, against a search of each context."""

from dataclasses import replace

import pytest

from attnviz.config import ModelConfig
from attnviz.cost import decode_step, kv_cache_bytes
from attnviz.cost.crossings import Crossing, bends, crossings
from attnviz.mechanisms import IndexedGrouped
from tests.mixed import HYBRID

PLAIN = ModelConfig(n_layers=3, d_model=37, n_heads=6, n_kv_heads=3, head_dim=13, d_ff=23, vocab_size=31)
WINDOWED = replace(PLAIN, sliding_window=17, full_layers=(1,))
INDEXED = replace(PLAIN, mixed_layers=tuple(
    replace(layer, parts=(IndexedGrouped(n_heads=6, n_kv_heads=3, head_dim=13, top_k=19, n_index_heads=2, index_dim=11),
                          *layer.feed_forwards))
    for layer in PLAIN.layers
))  # fmt: skip
COSTS = {"memory": kv_cache_bytes, "flops": lambda c, n: decode_step(c, n).flops}


def search(first, second, most):
    """Return the crossings by looking at each context."""
    order, found = 0, []
    for n in range(1, most + 1):
        now = (first(n) > second(n)) - (first(n) < second(n))
        if now and now != order:
            if n > 1:
                found.append(Crossing(n, now < 0))
            order = now
    return found


@pytest.mark.parametrize("cost", COSTS.values(), ids=COSTS)
@pytest.mark.parametrize(("one", "other"), [(HYBRID, PLAIN), (WINDOWED, PLAIN), (INDEXED, PLAIN), (HYBRID, WINDOWED)])
def test_crossings_are_those_that_a_search_finds(one, other, cost):
    def first(n):
        return cost(one, n)

    def second(n):
        return cost(other, n)

    found = crossings(first, second, bends(one) | bends(other), 450)
    assert found == search(first, second, 450)
    assert crossings(second, first, bends(one) | bends(other), 450) == [Crossing(c.n_tokens, not c.less) for c in found]


def test_lines_that_meet_cross_at_the_next_context():
    """7 + n against 2 n: equal at 7, so the first is less from 8 on."""
    assert crossings(lambda n: 7 + n, lambda n: 2 * n, (), 100) == [Crossing(8, True)]
    assert crossings(lambda n: n, lambda n: n + 1, (), 100) == []
