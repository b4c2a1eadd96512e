"""The Step by step page."""

from dataclasses import dataclass

from attnviz.session.kinds import Flag, Number, setting
from attnviz.session.page import Element, Page, charts

PAGE = Page(
    "steps", "pages/5_steps.py", "Step by step",
    "The source code that ran on your text, line by line, with the tensors each line computed, up to the next "
    "token.",
    tabs={
        "walk": "Line by line",
        "step": "One decode step",
        "lens": "Prediction",
        "residual": "Residual stream",
        "tiles": "Softmax in tiles",
    },
    elements=(
        Element("source-walk", "tabs", "Source, line by line", "walk"),
        Element("decode-walk", "tabs", "Decode step, line by line", "step"),
        *charts("tabs", {
            "lens": {"candidates": "Next tokens", "attribution": "What made the logit", "lens": "Logit lens"},
            "residual": {"stream": "Residual stream norm", "written": "What each part writes"},
            "tiles": {"tile-row": "Softmax in tiles", "traffic": "Memory traffic"},
        }),
    ),
    lines={"step": "decode_step"},
    asks="steps",
)  # fmt: skip


@dataclass(frozen=True)
class StepsSettings:
    """Settings of the Step by step page."""

    step: int = setting(-1, Number(-1, 9_999))  # the line of the walk; -1: where nobody has chosen one
    decode_step: int = setting(-1, Number(-1, 9_999))  # likewise, of the walk through one decode step
    column: int = setting(-1, Number(-1, 2**20))  # of the tensors' last axis; -1: a row's entry of largest magnitude
    absorbed: bool = setting(False, Flag())  # absorbed form of MLA
    block: int = setting(16, Number(1, 512))  # keys per tile
    lens: int = setting(-1, Number(-1, 47))  # logit lens: the layer whose prediction is read; -1: the last
    candidate: int = setting(0, Number(0, 9))  # rank of the selected next token
