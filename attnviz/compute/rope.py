"""Computations of the RoPE page besides the trace, cached and shared between sessions."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache, partial

import numpy as np

from attnviz.analysis import rope as analysis
from attnviz.analysis.rope import DecayBound, RotatedPair, as_pairs
from attnviz.checks import ConfigError, shown
from attnviz.compute import models
from attnviz.compute.byte_cache import ByteCache
from attnviz.compute.view import View, drawable
from attnviz.config import ModelConfig
from attnviz.experiments import rope_equalities
from attnviz.modules.rope import rope_frequencies
from attnviz.modules.rope_scaling import FIELDS_OF, RopeScaling, scaled_rope_frequencies
from attnviz.phrases import count
from attnviz.session.shared import OWN_THETA
from attnviz.trace import layer_weights

PASTED = "pasted"
HOLDERS = ("rope_scaling", "rope_parameters")  # fields of a config.json that hold a scaling
LAYER_KINDS = ("full_attention", "sliding_attention")  # Gemma 3's rope_parameters hold one for each
UNTRAINED_CONTEXT = 256
WATCHABLE = np.radians((5, 30))  # per token: fast enough to see and slow enough to follow
MIN_FARTHEST = 255  # largest distance at which a score is computed, at least
ALMOST_ALL = 0.995  # share of the weights below full colour
MAX_CURVE_BYTES = 2_000_000  # of losses by position: about 500 methods on 512 tokens

_curves = ByteCache(MAX_CURVE_BYTES)


@dataclass(frozen=True)
class Rotation:
    """The rotation of one layer, also where RoPE is switched off in this run. rotary_dim: 0 in a layer without."""

    rotary_dim: int
    rope_theta: float
    head_dim: int
    layout: str


def rotated(view: View) -> Rotation:
    """Return the selected layer's rotation."""
    return _rotation(view, view.config)


def own_theta(view: View) -> float:
    """Return the selected layer's theta where none is chosen."""
    return _rotation(view, view.but(theta=OWN_THETA).config).rope_theta


def _rotation(view: View, c: ModelConfig) -> Rotation:
    """Return the selected layer's rotation in this configuration: Gemma 3's layers with a window have another base."""
    layer = replace(c, position="rope").layers[view.layer_and_head[0]]
    return Rotation(layer.rotary_dim, layer.rope_theta or 0.0, layer.mixer.head_dim, c.rope_layout)


def scaled_by(view: View) -> str:
    """Return the name of an opened model's RoPE scaling method, or ""."""
    scaling = RopeScaling.of(view.config.rope_scaling, view.config.max_context)
    return "" if scaling is None else scaling.rope_type


def rotates(view: View) -> bool:
    """Check whether the page can be drawn: a model that runs, and a layer whose queries and keys are rotated."""
    return drawable(view) and view.config.position != "learned" and rotated(view).rotary_dim > 0


def frequencies(view: View) -> np.ndarray:
    """Return the RoPE frequencies in radians per token, float64 (n_pairs,), even if RoPE is switched off."""
    config = rotated(view)
    return _frequencies(config.rotary_dim, config.rope_theta)


@lru_cache(maxsize=64)  # called several times per run; the array is shared and must not be written to
def _frequencies(rotary_dim: int, theta: float) -> np.ndarray:
    return rope_frequencies(rotary_dim, theta).numpy()


def pre_rope(view: View, layer: int, head: int) -> tuple[np.ndarray, np.ndarray]:
    """Return this head's q (T, D) and the k (T, D) it reads, before RoPE, rotated dimensions first."""
    one = view.trace.layers[layer]
    q, k = one.q_pre_rope[head], one.k_pre_rope[one.mixer.kv_head_of[head]]
    first = one.mixer.rotary_start
    return np.roll(q, -first, axis=-1), np.roll(k, -first, axis=-1)


def pair_of(view: View) -> int:
    """Return the selected pair; by default the one that adds most to q·k among those of WATCHABLE speed."""
    values = frequencies(view)
    if view.settings.pair >= 0:
        return min(view.settings.pair, len(values) - 1)
    watchable = np.flatnonzero((values >= WATCHABLE[0]) & (values <= WATCHABLE[1])).tolist() or [0]
    vectors = selected_pairs(view)
    return max(watchable, key=lambda pair: _rotated_pair(view, pair, *vectors).product)


def rotated_pair(view: View, pair: int) -> RotatedPair:
    """Return this pair of the selected query and key, rotated to their positions."""
    return _rotated_pair(view, pair, *selected_pairs(view))


def _rotated_pair(view: View, pair: int, q: np.ndarray, k: np.ndarray) -> RotatedPair:
    return RotatedPair(pair, float(frequencies(view)[pair]), view.query, view.key, complex(q[pair]), complex(k[pair]))


def selected_pairs(view: View) -> tuple[np.ndarray, np.ndarray]:
    """Return the selected query's and key's pairs before RoPE, complex (n_pairs,) each."""
    q, k = selected_vectors(view)
    n_pairs, layout = len(frequencies(view)), view.config.rope_layout
    return as_pairs(q.astype(np.float64), n_pairs, layout), as_pairs(k.astype(np.float64), n_pairs, layout)


def selected_vectors(view: View) -> tuple[np.ndarray, np.ndarray]:
    """Return the selected query's q (D,) and the selected key's k (D,) before RoPE, rotated dimensions first."""
    q, k = pre_rope(view, *view.layer_and_head)
    return q[view.query], k[view.key]


def unrotated_part(view: View) -> float:
    """Return the part of the selected query's and key's q·k that does not depend on their distance."""
    return analysis.unrotated_part(*selected_vectors(view), len(frequencies(view)))


def moved_apart(view: View) -> tuple[np.ndarray, np.ndarray, DecayBound]:
    """Return parts, scores and decay bound of the selected query and key at the distances 0, 1, …

    The distances are 0, -1, … for a key after the query. parts (n_pairs + 1, n_distances): of q·k, last the unrotated
    part. scores (n_distances,): their sum, divided by sqrt(D).
    """
    rotation, values, (q, k) = rotated(view), frequencies(view), selected_vectors(view)
    distances = np.arange(max(MIN_FARTHEST, len(view.ids)) + 1) * (1 if view.query >= view.key else -1)
    parts = analysis.score_parts(q, k, values, distances, rotation.layout)
    bound = analysis.decay_bound(q, k, values, distances, rotation.layout)
    return parts, parts.sum(0) / rotation.head_dim**0.5, bound


def by_distance(view: View) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray, int]:
    """Return distances and the mean, lowest and highest score of the selected head at each, and the number of pairs."""
    one = view.traced
    return *analysis.by_distance(one.scores_of(view.layer_and_head[1]), one.allowed), int(one.allowed.sum())


def shifted_scores(view: View) -> rope_equalities.ShiftedScores:
    """Return the score of the selected query and key, both shifted by the same number of positions."""
    q, k = selected_vectors(view)
    return rope_equalities.shifted_scores(q, k, view.query, view.key, frequencies(view), view.config.rope_layout)


def shifted_outputs(view: View) -> rope_equalities.ShiftedOutputs:
    """Return the selected head's output with the whole text shifted, with and without rotated values."""
    (layer, head), one = view.layer_and_head, view.traced
    q, k = pre_rope(view, layer, head)
    return rope_equalities.shifted_outputs(
        q, k, one.values_of(head), one.allowed, frequencies(view), view.query, view.config.rope_layout
    )


def compared_layouts(view: View) -> rope_equalities.LayoutsCompared:
    """Compare the scores of the selected head in the two layouts."""
    return rope_equalities.compare_layouts(*pre_rope(view, *view.layer_and_head), frequencies(view))


def compared_weights(maps: Sequence[np.ndarray], allowed: np.ndarray) -> tuple[float, list[float]]:
    """Return the weight of full colour for maps (T, T), and each map's largest difference from the first."""
    top = max(float(np.quantile(weights[allowed], ALMOST_ALL)) for weights in maps)
    return top, [float(np.abs(weights - maps[0]).max()) for weights in maps]


def latent_scores(view: View) -> tuple[list[np.ndarray], float, list[float]]:
    """Return the content part, the RoPE part and the scores (T, T) of the selected head of an MLA.

    Then the largest absolute value of all three, and the standard deviation of each, over the allowed cells.
    """
    head, one = view.layer_and_head[1], view.traced
    content, position = analysis.split_scores(one.q[head], one.keys_of(head), one.mixer.rotary_dim, one.scale)
    parts = [content, position, one.scores_of(head)]
    limit = float(max(np.abs(part[one.allowed]).max() for part in parts))
    return parts, limit, [float(part[one.allowed].std()) for part in parts]


def weights_of(view: View, variant: str, layer: int, head: int, fraction: float = 1.0) -> np.ndarray:
    """Return this head's weights (T, T) in a variant of the model.

    variant: RoPE "on", "off", on a "part" of the dimensions, in the "other layout", or in it with weights "reordered".
    """
    if variant == "on" and view.settings.rope:
        return view.trace.layers[layer].weights[head]
    key = "otherwise", view.run, view.ids, variant, fraction, layer, head
    return models.computed_once(key, lambda: _weights(view, variant, layer, head, fraction))


def _weights(view: View, variant: str, layer: int, head: int, fraction: float) -> np.ndarray:
    model = models.model_of(replace(view.settings, rope=True))
    match variant:
        case "off":
            model = model.with_config(replace(model.config, position="none"))
        case "part":
            model = model.with_config(replace(model.config, rotary_fraction=fraction))
        case "other layout":
            model = rope_equalities.in_other_layout(model)
        case "reordered":
            model = rope_equalities.moved_to_other_layout(model)
    return layer_weights(model, view.ids, layer)[head].copy()  # a view would keep all heads in memory


def scalings(view: View, factor: float, pasted: str) -> tuple[dict[str, RopeScaling | None], str | None]:
    """Return the scaling methods with published defaults and the pasted one, and an error if that cannot be used."""
    trained = trained_on(view)
    known = {n: s for n, s in rope_equalities.standard_scalings(factor, trained).items() if _fits(view, s)}
    if not pasted.strip():
        return known, None
    try:
        scaling = RopeScaling.of(_for_this_model(json.loads(_whole(pasted)), trained, factor), trained)
        _run_once(view, scaling)
    except json.JSONDecodeError as error:
        return known, f"Invalid JSON: {error.msg} at character {error.pos + 1}. Only the standard methods are shown."
    except ConfigError as error:
        return known, f"{error}. Only the standard methods are shown."
    return known | {PASTED: scaling}, None


def _run_once(view: View, scaling: RopeScaling | None) -> None:
    """Raise ConfigError if the method does not fit the number of pairs: LongRoPE's lists, NTK with one pair."""
    config = rotated(view)
    scaled_rope_frequencies(config.rotary_dim, config.rope_theta, scaling, trained_on(view) + 1)


def _fits(view: View, scaling: RopeScaling | None) -> bool:
    try:
        _run_once(view, scaling)
    except ConfigError:
        return False
    return True


def _whole(pasted: str) -> str:
    """Return a JSON object, also of a single line of one: `"rope_scaling": {…},`."""
    line = pasted.strip().removesuffix(",")
    return f"{{{line}}}" if re.match(r'"\w+"\s*:', line) else line


def _for_this_model(given: object, trained: int, factor: float) -> dict | None:
    """Return a published rope_scaling, or rope_parameters, with its training context replaced by this model's.

    Left out are the base and the rotated share of the dimensions, which are settings of their own, and fields that the
    method does not have, as in transformers. Phi-3 calls LongRoPE "su" and has its factor elsewhere: it gets that of
    this page.
    """
    values = _scaling_in(given)
    if values is None:
        return None
    values = {name: value for name, value in values.items() if value is not None}
    values |= {name: "longrope" for name in ("type", "rope_type") if values.get(name) == "su"}
    kind = values.get("rope_type", values.get("type"))
    used = FIELDS_OF.get(kind, ()) if isinstance(kind, str) else ()
    if kind == "longrope":
        values = {"factor": factor} | values
    elif kind == "yarn" and "factor" not in values:  # or it would follow from the contexts: 1, no scaling
        raise ConfigError("rope_scaling.factor must be given for yarn, such as 4.0")
    values = values | {"original_max_position_embeddings": trained}
    return {name: value for name, value in values.items() if name in (*used, "type", "rope_type")}


def _scaling_in(given: object) -> dict | None:
    """Return the scaling in a pasted value: itself, one of its fields, or Gemma 3's of the layers without a window."""
    if isinstance(given, dict) and not given.keys().isdisjoint(HOLDERS):
        given = given.get("rope_scaling") or given.get("rope_parameters")
    if isinstance(given, dict) and not given.keys().isdisjoint(LAYER_KINDS):
        given = given.get("full_attention")
    if given is not None and not isinstance(given, dict):
        raise ConfigError(f"rope_scaling must be a JSON object, not {shown(given)}")
    return given


def trained_on(view: View) -> int:
    """Return the training context in tokens; for an untrained model, that of the checkpoints."""
    return view.config.max_context or UNTRAINED_CONTEXT


def learned_frequencies(view: View) -> np.ndarray:
    """Return the selected layer's frequencies in training, or in this run if it has none: float64 (n_pairs,)."""
    trained, run = view.trained_config, rotated(view)
    return _frequencies(run.rotary_dim, (trained and _rotation(view, trained).rope_theta) or run.rope_theta)


def can_be_longer(view: View) -> bool:
    """Check whether a text longer than the training context can be traced."""
    return trained_on(view) + 1 < view.max_tokens


def long_ids(view: View, trained: int) -> tuple[tuple[int, ...], str]:
    """Return a text longer than the training context and its description: the page's text, or a shipped story."""
    n = len(view.ids)
    if n > trained + 1:  # the prediction of token `trained` is in training
        return view.ids, "your own"
    which = f"a shipped story; your text has {count(n, 'token')} and would need more than {trained + 1}"
    return models.long_text(view.settings)[: view.max_tokens], which


def scaled_frequencies(view: View, methods: dict[str, RopeScaling | None], n_tokens: int) -> dict[str, np.ndarray]:
    """Return the frequencies (n_pairs,) of each method on a text of n_tokens."""
    config = rotated(view)
    return rope_equalities.scaled_frequencies(config.rotary_dim, config.rope_theta, methods, n_tokens)


def losses(view: View, ids: tuple[int, ...], methods: dict[str, RopeScaling | None]) -> dict[str, np.ndarray]:
    """Compute the loss under each method, in nats per token: (T - 1,) each."""
    text = replace(models.live_run(view.settings), config=replace(view.config, position="rope")), ids
    return {
        name: models.computed_once((*text, scaling), partial(_loss, view, ids, scaling), _curves)
        for name, scaling in methods.items()
    }


def _loss(view: View, ids: tuple[int, ...], scaling: RopeScaling | None) -> np.ndarray:
    model = view.model.with_config(replace(view.config, position="rope"))
    return rope_equalities.loss_by_position(rope_equalities.with_scaling(model, scaling), np.array(ids))
