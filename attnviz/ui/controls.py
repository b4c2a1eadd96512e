"""What the form on the left offers: one entry for each setting, with the bounds that the settings themselves have."""

from __future__ import annotations

from collections.abc import Iterable

from attnviz.config import divisors
from attnviz.session.examples import EXAMPLES
from attnviz.session.settings import MODEL_NAMES, MODELS, Number, kind_of, widths

OWN = {"model": ["own"]}  # shown for a model of one's own only
TRAINED = {"model": [m for m in MODELS if m != "own"]}
HOW = "How it runs"


def controls() -> list[dict]:
    """In the order in which they are shown; `settings_form.js` has a row for each kind."""
    return [
        {"kind": "text", "field": "text", "label": "Text", "hint": "Type anything, in any script …"},
        {
            "kind": "examples", "field": "text", "label": "Examples", "hint": "Each makes one thing visible.",
            "texts": list(map(list, EXAMPLES.items())),
        },
        {"kind": "select", "field": "model", "label": "Model", "options": [[m, _model(m)] for m in MODELS]},
        _range("n_layers", "Layers") | {"only": OWN},
        _range("n_heads", "Query heads") | {"only": OWN},
        _steps("n_kv_heads", "KV heads", divisors),
        _steps("d_model", "d_model", widths),
        _range("seed", "Seed") | {"kind": "number", "only": OWN},
        {"kind": "flag", "field": "qkv_bias", "label": "Bias on q, k and v", "only": OWN},
        {"kind": "flag", "field": "causal", "label": "Causal: no token sees a later one", "fold": HOW},
        _range("window", "Sliding window, in tokens (0: none)") | {"fold": HOW},
        _range("n_sinks", "First tokens kept behind the window")
        | {
            "fold": HOW,
            "hint": "They stay visible although the window has passed them (StreamingLLM, arXiv 2309.17453).",
        },
        {"kind": "flag", "field": "rope", "label": "RoPE", "fold": HOW},
        {
            "kind": "note", "label": "The checkpoints were trained causal, without a window, with RoPE.", "fold": HOW,
            "only": TRAINED,
        },
    ]  # fmt: skip


def fields() -> Iterable[str]:
    """The settings that the form shows."""
    return dict.fromkeys(c["field"] for c in controls() if "field" in c)


def _range(field: str, label: str) -> dict:
    kind = kind_of(field)
    return {"kind": "range", "field": field, "label": label, "low": kind.low, "high": kind.high}


def _steps(field: str, label: str, possible) -> dict:
    """A slider over the values that go with the number of query heads; no slider where that is one value."""
    heads: Number = kind_of("n_heads")
    steps = {str(n): list(possible(n)) for n in range(heads.low, heads.high + 1)}
    return {"kind": "steps", "field": field, "label": label, "steps": steps, "only": OWN}


def _model(name: str) -> str:
    return f"{MODEL_NAMES[name]} · {'untrained' if name == 'own' else 'trained'}"
