"""Figures of model costs: parameters and cache of the selected model, published models, and accelerators."""

from attnviz.figures.cost.answer import (
    accelerators_finding,
    accelerators_list,
    calculation,
    memory_note,
    models_finding,
    models_list,
    panel,
    sentence,
)
from attnviz.figures.cost.captions import counted_text, description_texts, precision_name, saving_text, short_name
from attnviz.figures.cost.compared import caches_panel, kinds_of
from attnviz.figures.cost.here import measured
from attnviz.figures.cost.holders import holders
from attnviz.figures.cost.layered import layers_text, memory_of_layers, only_costs, parts_of_layers
from attnviz.figures.cost.machines import machines, roof, speed
from attnviz.figures.cost.memory import filling
from attnviz.figures.cost.models import published, published_table
from attnviz.figures.cost.own import attention_parameters, cache, model_parameters, precisions
from attnviz.figures.cost.placing import PARALLEL
from attnviz.figures.cost.prompts import first_token
from attnviz.figures.cost.published import alternatives, growth_text, totals
from attnviz.figures.cost.two_forms import two_forms

__all__ = [
    "PARALLEL",
    "accelerators_finding",
    "accelerators_list",
    "alternatives",
    "attention_parameters",
    "cache",
    "caches_panel",
    "calculation",
    "counted_text",
    "description_texts",
    "filling",
    "first_token",
    "growth_text",
    "holders",
    "kinds_of",
    "layers_text",
    "machines",
    "measured",
    "memory_note",
    "memory_of_layers",
    "model_parameters",
    "models_finding",
    "models_list",
    "only_costs",
    "panel",
    "parts_of_layers",
    "precision_name",
    "precisions",
    "published",
    "published_table",
    "roof",
    "saving_text",
    "sentence",
    "short_name",
    "speed",
    "totals",
    "two_forms",
]
