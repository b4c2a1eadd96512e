"""What the RoPE page says at real addresses, recomputed from the trace behind it."""

import re
from pathlib import Path

import numpy as np
import pytest
from streamlit.testing.v1 import AppTest

from attnviz.checkpoints import load_checkpoint
from attnviz.text import tokenizer
from attnviz.trace import Trace, trace
from tests.oracles import equation_results

ROOT = Path(__file__).parents[2]
TEXT = "The old man laughed. The little girl found a red ball in the garden, and the old man laughed again at the girl."
MODELS = ["mha", "gqa-4", "mla"]


def opened(**link: str) -> AppTest:
    app = AppTest.from_file(ROOT / "app.py", default_timeout=60).switch_page("pages/3_rope.py")
    for name, value in link.items():
        app.query_params[name] = value
    app.run()
    assert not app.exception, [e.value for e in app.exception]
    return app


def said(app: AppTest) -> str:
    return "\n".join(element.value for element in (*app.main.markdown, *app.main.caption, *app.main.info))


def formulas(app: AppTest) -> list[str]:
    return [element.value.strip().strip("$").strip() for element in app.main.latex]


def traced(model: str, text: str) -> Trace:
    checkpoint, own = load_checkpoint(model)
    return trace(checkpoint, own.encode(text))


@pytest.mark.parametrize(("layer", "head", "query", "key"), [(1, 3, 21, 5), (0, 0, 7, 10), (2, 6, 10, 10)])
@pytest.mark.parametrize("model", MODELS)
def test_every_formula_of_a_score_is_the_score_that_the_model_computed(model, layer, head, query, key):
    link = {"layer": layer, "head": head, "query": query, "key": key}
    app = opened(model=model, text=TEXT, **{name: str(value) for name, value in link.items()})
    *_, shifted, apart, bound = formulas(app)
    expected = float(traced(model, TEXT).scores_of(layer, head)[query, key])
    assert equation_results(shifted) == pytest.approx([expected, expected], abs=1e-4)
    distance, _, score = equation_results(apart)
    assert (distance, score) == (query - key, pytest.approx(expected, abs=0.006))
    assert f"s_{{{query},{key}}}" in shifted and f"s_{{{query},{key}}}" in apart
    (limit,) = equation_results(bound)
    assert abs(expected) <= limit


@pytest.mark.parametrize("turning", ["distance", "values", "layouts", "longer", "without", "latent"])
def test_latent_attention_is_said_to_read_no_kv_head(turning):
    app = opened(model="mla", text=TEXT, turning=turning)
    assert "KV head" not in said(app)
    assert "KV head" in said(opened(model="gqa-4", text=TEXT, turning="distance"))


@pytest.mark.parametrize(("model", "part"), [("mla", "16 of 32"), ("gqa-4", "each score by")])
def test_yarns_factor_is_said_of_what_it_multiplies(model, part):
    app = opened(model=model, text=TEXT, turning="longer")
    sentence = next(m.value for m in app.main.markdown if "1.0693" in m.value)
    assert part in sentence and "1.1434" in sentence


def test_yarns_softmax_scale_reaches_the_page():
    app = opened(model="mla", text=TEXT, turning="longer")
    scaling = (
        '{"type": "yarn", "factor": 40, "original_max_position_embeddings": 4096, "mscale": 1, "mscale_all_dim": 1}'
    )
    app.text_input(key="pasted-scaling").set_value(scaling).run()
    assert not app.exception and not app.error
    assert f"{(0.1 * np.log(40) + 1) ** 2:.4f}" in said(app)


@pytest.mark.parametrize("words", [257, 258])
def test_a_loss_beyond_training_needs_a_prediction_beyond_training(words):
    """256 tokens and the one after them are in a training row: a text of 257 has nothing beyond."""
    text = " ".join(["a"] * words)
    assert len(tokenizer().encode(text)) == words
    app = opened(text=text, turning="longer")
    assert "nan" not in said(app)
    own = [caption.value for caption in app.main.caption if caption.value.startswith("Text:")]
    assert ["your own" in caption for caption in own] == [words > 257]


def test_keys_ahead_of_the_query_are_counted_where_they_are_allowed():
    n = len(tokenizer().encode(TEXT))
    pairs = {causal: re.search(r"The (\d+) pairs", said(opened(text=TEXT, causal=causal))) for causal in "01"}
    assert {causal: int(found[1]) for causal, found in pairs.items()} == {"0": n * n, "1": n * (n + 1) // 2}
