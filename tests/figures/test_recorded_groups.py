"""How similar the keys and values of a saved run's heads are."""

import numpy as np

from attnviz.figures import recorded_groups


def test_the_most_similar_heads_have_the_largest_cosine_and_not_the_largest_in_size():
    cosine = np.array(
        [[1, 0.05, -0.1, -0.23], [0.05, 1, 0.21, 0.02], [-0.1, 0.21, 1, 0.11], [-0.23, 0.02, 0.11, 1]], np.float32
    )
    drawing = recorded_groups.similarity(cosine, "keys", 2, "KV head")
    assert drawing.title == "The keys of KV heads 1 and 2 are most similar: cosine 0.21"
    assert "the largest between two of them is 0.21, of 1 and 2" in drawing.alt
