"""Print the peak memory in bytes of a process that opens a model and reads all heads; without transformers."""

import sys
from pathlib import Path

import torch

from attnviz.checkpoints import open_model
from attnviz.layerwise import LayerwiseTrace


def peak() -> int:
    """Return this process's peak memory in bytes, mapped files included."""
    line = next(each for each in Path("/proc/self/status").read_text().splitlines() if each.startswith("VmHWM"))
    return int(line.split()[1]) * 1024


if __name__ == "__main__":
    torch.set_num_threads(1)
    model, _ = open_model(sys.argv[1])
    trace = LayerwiseTrace(lambda: model, range(int(sys.argv[2])))
    for layer in trace.layers:
        assert layer.weights.shape[1:] == (len(trace.tokens), len(trace.tokens))
    assert trace.logits_at(slice(-1, None)).shape == (1, model.config.vocab_size)
    print(peak())
