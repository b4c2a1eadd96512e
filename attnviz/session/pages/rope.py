"""The RoPE page."""

from dataclasses import dataclass

from attnviz.session.kinds import Number, setting
from attnviz.session.page import Element, Page, charts

PAGE = Page(
    "rope", "pages/3_rope.py", "RoPE",
    "Pairs of dimensions rotate by position. See it on your own queries and keys, and what context extension "
    "changes.",
    tabs={
        "distance": "Only distance counts",
        "without": "No RoPE / partial RoPE",
        "longer": "Context extension",
        "layouts": "Two layouts",
        "latent": "Decoupled RoPE (MLA)",
        "values": "Why values aren't rotated",
        "equal": "Numerical checks",
    },
    elements=(
        Element("rope-pair", "rotation", "Rotation of one pair"),
        Element("rope-clocks", "pairs", "Pairs as clocks"),
        Element("control-theta", "pairs", "The slider of the base", drawing=False),
        Element("figure-wavelengths", "pairs", "Wavelength of each pair"),
        Element("figure-rotations", "pairs", "cos and sin"),
        Element("control-factor", "tabs", "The slider of the scaling factor", "longer", drawing=False),
        *charts("tabs", {
            "distance": {
                "apart": "One score against distance", "decay": "Decay bound", "by-distance": "Mean score by distance",
            },
            "longer": {"slowed": "Scaling of each pair", "loss": "Loss by position"},
            "equal": {"shifts": "Score under shifts"},
            "values": {"values": "Rotated values"},
            "layouts": {"layout-pairs": "Two layouts"},
            "latent": {
                "mla-content": "Scores: content part", "mla-position": "Scores: RoPE part",
                "mla-sum": "Scores: their sum",
            },
            "without": {"map-without-0": "With RoPE", "map-without-1": "Without RoPE"},
        }),
    ),
    tab_before="turning",
    asks="rope",
)  # fmt: skip


@dataclass(frozen=True)
class RopeSettings:
    """Settings of the RoPE page."""

    pair: int = setting(-1, Number(-1, 511))  # of dimensions that RoPE rotates; -1: one that adds much to the score
    fraction: float = setting(0.5, Number(0, 1, whole=False))  # of the dimensions that partial RoPE rotates
    factor: float = setting(2.0, Number(1, 32, whole=False))  # extended context ÷ training context
