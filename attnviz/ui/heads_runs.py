"""What the heads page computes besides the trace, once for all who look at the same model."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass, replace

import numpy as np
import streamlit as st

from attnviz.analysis import heads as analysis
from attnviz.analysis.groups import next_token_losses
from attnviz.config import ModelConfig
from attnviz.experiments.ablation import losses_without_each
from attnviz.trace import Trace, cross_weights, weights_of
from attnviz.ui import runs, state
from attnviz.ui.byte_cache import ByteCache
from attnviz.ui.frame import View
from attnviz.ui.settings import Settings

PERIOD, N_PROBES = 32, 3
MAX_COMPARED = 128  # tokens, where several runs are set side by side
MAX_ABLATED = 256  # tokens, where the model runs once for every head
MAX_EFFECT_BYTES = 1_000_000


@dataclass(frozen=True)
class HeadsView(View):
    """What the heads page draws from: as everywhere, but the first tokens may be padding."""

    @property
    def n_padding(self) -> int:
        """Tokens at the front that are padding; at least one token is text."""
        return min(self.settings.padding, len(self.ids) - 1)

    @property
    def trace(self) -> Trace:
        """Everything the model computed on the text."""
        return runs.trace_of(self.settings, self.ids, self.n_padding)


def roles_of(settings: Settings) -> list[list[analysis.Role]]:
    """The role of every head, [layer][head], from random tokens said twice, whatever the text on the page."""
    return analysis.roles(scores_of(settings))


def scores_of(settings: Settings) -> dict[str, np.ndarray]:
    """Every role's score for every head, (L, H)."""
    if settings.window >= 2 * PERIOD:
        settings = replace(settings, window=0)  # as wide as the probes are long: the same as none
    return _scores(runs.weights_key(settings), runs.config_of(settings), settings)


@st.cache_resource(max_entries=512, show_spinner=False, hash_funcs=runs.AS_WRITTEN)
def _scores(weights_key: tuple, config: ModelConfig, _settings: Settings) -> dict[str, np.ndarray]:
    model = runs.model_of(_settings)
    probes = analysis.probes(config.vocab_size, PERIOD, N_PROBES)
    scored = [analysis.role_scores(weights, PERIOD) for weights in weights_of(model, probes)]
    return {role: np.mean([s[role] for s in scored], axis=0) for role in analysis.ROLES}


@dataclass(frozen=True)
class Mask:
    """One way to run the model, as the settings say it."""

    name: str
    causal: bool = True
    window: int = 0
    n_sinks: int = 0
    padding: int = 0

    def in_force(self, settings: Settings) -> bool:
        """Whether the page runs so just now."""
        return all(getattr(settings, name) == value for name, value in self.fields().items())

    def fields(self) -> dict[str, object]:
        return {name: value for name, value in asdict(self).items() if name != "name"}


def masks_of(settings: Settings) -> list[Mask]:
    """The masks that are set side by side, with the numbers chosen for them."""
    window, kept, padding = settings.mask_window, settings.mask_sinks, settings.mask_padding
    return [
        Mask("Causal"),
        Mask(f"Window of {window}", window=window),
        Mask(f"Window of {window}, first {kept} kept", window=window, n_sinks=kept),
        Mask(f"First {padding} are padding", padding=padding),
        Mask("No mask", causal=False),
    ]


@dataclass(frozen=True, eq=False)
class Masked:
    """One layer under every mask: weights (masks, H, T, T), allowed (masks, T, T), nats a token on this text."""

    weights: np.ndarray
    allowed: np.ndarray
    losses: list[float]


def masked_of(settings: Settings, ids: tuple[int, ...], layer: int) -> Masked:
    """The same layer under every mask, on the first MAX_COMPARED tokens; losses over what is padding in no mask."""
    ids = ids[:MAX_COMPARED]
    traces = [runs.trace_of(replace(settings, **m.fields()), ids, m.padding) for m in masks_of(settings)]
    first = min(settings.mask_padding, max(len(ids) - 2, 0))
    return Masked(
        np.stack([t.weights[layer] for t in traces]),
        np.stack([t.allowed[layer] for t in traces]),
        [float(next_token_losses(t.logits, t.tokens)[first:].mean()) for t in traces] if len(ids) > 1 else [],
    )


_effects = ByteCache(MAX_EFFECT_BYTES)


def effects_of(
    settings: Settings, ids: tuple[int, ...], progress: Callable[[float], object]
) -> tuple[float, np.ndarray]:
    """Nats a token on the first MAX_ABLATED tokens with all heads, and (L, H) without each, in the way chosen.

    progress is told the share that is done, unless everything is known already.
    """
    config, ids, way = runs.config_of(settings), ids[:MAX_ABLATED], settings.off_way
    L, H = config.n_layers, config.n_heads

    def measure() -> np.ndarray:
        give_way = state.TURNS.steps()

        def one_more(done: float) -> None:
            give_way()
            progress(done)

        return losses_without_each(runs.model_of(settings), ids, way, one_more)

    key = runs.weights_key(settings), config, ids, way
    found = runs.kept(key, measure, _effects)  # (1 + L·H,)
    return float(found[0]), found[1:].reshape(L, H)


@st.cache_resource
def vocabulary() -> list[str]:
    """The printable label of every token there is, by its id."""
    tokenizer = runs.tokenizer()
    return [tokenizer.labels([token])[0] for token in range(tokenizer.vocab_size)]  # singly: no neighbours to join


def crossed_of(settings: Settings, ids: tuple[int, ...], context: tuple[int, ...]) -> np.ndarray:
    """Weights (L, H, T, S) of the text's queries on another text's keys."""
    key = "crossed", runs.weights_key(settings), runs.config_of(settings), ids, context
    return runs.kept(key, lambda: cross_weights(runs.model_of(settings), ids, context))
