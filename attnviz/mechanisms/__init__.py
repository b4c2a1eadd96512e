"""The mechanisms, one file each: fields, names, parameters, cache and work, each as an expression.

grouped.py (MHA, GQA, MQA), latent.py (MLA), feedforward.py (dense, experts). layer.py puts them together, letters.py
names their sizes. Standard library only. Everything outside asks a mechanism and compares no names.
"""

from attnviz.mechanisms.feedforward import GATED, Dense, Experts
from attnviz.mechanisms.grouped import QK_NORMS, Grouped
from attnviz.mechanisms.latent import Latent
from attnviz.mechanisms.layer import Layer
from attnviz.mechanisms.letters import LETTERS, letter
from attnviz.mechanisms.mechanism import Mechanism, Mixer, Vectors, Windowed, combined

__all__ = [
    "GATED",
    "LETTERS",
    "QK_NORMS",
    "Dense",
    "Experts",
    "Grouped",
    "Latent",
    "Layer",
    "Mechanism",
    "Mixer",
    "Vectors",
    "Windowed",
    "combined",
    "letter",
]
