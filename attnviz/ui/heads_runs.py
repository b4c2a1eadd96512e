"""What the heads page computes besides the trace, once for all who look at the same model."""

from __future__ import annotations

import numpy as np
import streamlit as st

from attnviz.analysis import heads as analysis
from attnviz.config import ModelConfig
from attnviz.trace import trace
from attnviz.ui import runs
from attnviz.ui.settings import Settings

PERIOD, N_PROBES = 32, 4


def roles_of(settings: Settings) -> list[list[analysis.Role]]:
    """The role of every head, [layer][head], from random tokens said twice, whatever the text on the page."""
    return analysis.roles(scores_of(settings))


def scores_of(settings: Settings) -> dict[str, np.ndarray]:
    """Every role's score for every head, (L, H)."""
    return _scores(runs.weights_key(settings), runs.config_of(settings), settings)


@st.cache_resource(max_entries=32, show_spinner="Finding out what each head does …")
def _scores(weights_key: tuple, config: ModelConfig, _settings: Settings) -> dict[str, np.ndarray]:
    model = runs.model_of(_settings)
    probes = analysis.probes(config.vocab_size, PERIOD, N_PROBES)
    scored = [analysis.role_scores(trace(model, ids).weights, PERIOD) for ids in probes]
    return {role: np.mean([s[role] for s in scored], axis=0) for role in analysis.ROLES}
