"""Record a run of a model line by line, from the source that ran.

`record` runs the model once and records the lines in the order they ran, the tensors that each line made, and the torch
operations behind them. Nothing in this package is specific to attention.
"""

from attnviz.steps.arithmetic import Arithmetic, arithmetic
from attnviz.steps.forms import with_absorbed, with_recurrent
from attnviz.steps.recorder import record, record_decode, record_file
from attnviz.steps.run import Call, Line, Made, Operation, Run, Value
from attnviz.steps.walk import Picture, Selection, Shown, Source, Stop, Walk

__all__ = [
    "Arithmetic", "Call", "Line", "Made", "Operation", "Picture", "Run", "Selection", "Shown", "Source", "Stop",
    "Value", "Walk", "arithmetic", "record", "record_decode", "record_file", "with_absorbed", "with_recurrent",
]  # fmt: skip
