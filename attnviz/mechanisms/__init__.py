"""The mechanisms, one file each: fields, names, parameters, cache and work, each as an expression.

grouped.py (MHA, GQA, MQA), latent.py (MLA), sparse.py (an indexer's top-k keys on either), feedforward.py (dense,
experts); with costs only, and no module of ours: recurrent.py and delta.py, mamba.py, lightning.py, convolution.py,
rwkv.py (a state instead of a cache), counted.py (a whole model), others.py; recorded.py is of a saved run. layer.py
puts them together, letters.py names their sizes. Standard library only. Everything outside asks a mechanism and
compares no names.
"""

from attnviz.mechanisms.compressed import Compressed
from attnviz.mechanisms.convolution import ShortConvolution
from attnviz.mechanisms.counted import Counted
from attnviz.mechanisms.delta import GatedDelta
from attnviz.mechanisms.feedforward import ACTIVATIONS, GATED, Dense, Experts, MoEConfig
from attnviz.mechanisms.grouped import QK_NORMS, Grouped, attention_kind, check_sharing, divisors
from attnviz.mechanisms.latent import Latent
from attnviz.mechanisms.layer import Layer, changed_fields, check_theta, layers_from
from attnviz.mechanisms.letters import LETTERS, letter
from attnviz.mechanisms.lightning import Lightning
from attnviz.mechanisms.mamba import Mamba, Mamba2
from attnviz.mechanisms.mechanism import Mechanism, State, Vectors, combined
from attnviz.mechanisms.mixer import ABSORBED, Mixer
from attnviz.mechanisms.others import Again, Other, per_layer_embeddings
from attnviz.mechanisms.recorded import Recorded
from attnviz.mechanisms.recurrent import Recurrent
from attnviz.mechanisms.rwkv import ChannelMix, TimeMix
from attnviz.mechanisms.sparse import Indexed, IndexedGrouped, IndexedLatent
from attnviz.mechanisms.windowed import Windowed

OWN: dict[str, type[Mixer]] = {"gqa": Grouped, "mla": Latent}  # of a model of one's own: name in links -> mixer
MIXERS: dict[str, type[Mixer]] = {"mha": Grouped, "gqa": Grouped, "mqa": Grouped, "mla": Latent}  # by `attention`
OWN_FIELDS = tuple(dict.fromkeys(name for mixer in MIXERS.values() for name in mixer.own_fields))  # of a ModelConfig

__all__ = [
    "ABSORBED",
    "ACTIVATIONS",
    "GATED",
    "LETTERS",
    "MIXERS",
    "OWN",
    "OWN_FIELDS",
    "QK_NORMS",
    "Again",
    "ChannelMix",
    "Compressed",
    "Counted",
    "Dense",
    "Experts",
    "GatedDelta",
    "Grouped",
    "Indexed",
    "IndexedGrouped",
    "IndexedLatent",
    "Latent",
    "Layer",
    "Lightning",
    "Mamba",
    "Mamba2",
    "Mechanism",
    "Mixer",
    "MoEConfig",
    "Other",
    "Recorded",
    "Recurrent",
    "ShortConvolution",
    "State",
    "TimeMix",
    "Vectors",
    "Windowed",
    "attention_kind",
    "changed_fields",
    "check_sharing",
    "check_theta",
    "combined",
    "divisors",
    "layers_from",
    "letter",
    "per_layer_embeddings",
]
