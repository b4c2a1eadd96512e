"""Pictures of what models cost: parameters and cache of one's own settings, published models, and machines."""

from attnviz.figures.cost.here import measured
from attnviz.figures.cost.machines import filling, machines, roof, speed
from attnviz.figures.cost.own import attention_parameters, cache, model_parameters, precisions
from attnviz.figures.cost.published import alternatives, published, published_table, short_name, totals

__all__ = [
    "alternatives",
    "attention_parameters",
    "cache",
    "filling",
    "machines",
    "measured",
    "model_parameters",
    "precisions",
    "published",
    "published_table",
    "roof",
    "short_name",
    "speed",
    "totals",
]
