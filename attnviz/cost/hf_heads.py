"""The part of a Hugging Face model after its last norm, by its class in `architectures`: output layer, labels, none."""

from __future__ import annotations

import re
from typing import Any

from attnviz.checks import ConfigError, shown
from attnviz.cost.hf_fields import Fields, whole_field

CLASS = re.compile(r"(?P<name>\w+?)(?:For(?P<task>\w+)|(?P<whole>LMHead|DoubleHeads)Model|(?P<base>Model))")
OUTPUT_LAYER = ("CausalLM", "ConditionalGeneration")
WITH_LABELS = {"SequenceClassification": False, "TokenClassification": True}  # and whether it has a bias
ANSWERS = "QuestionAnswering"  # the logits of an answer's first and last token, with a bias
ANSWERS_BY_LABELS = ("gptj",)  # whose class has num_labels of them
BASE_WITH_OUTPUT_LAYER = ("chatglm",)  # whose files name the base class


def name_in(class_name: str) -> str:
    """Return the architecture's name in a class name, in lower case: "llama" of "LlamaForCausalLM"."""
    match = CLASS.fullmatch(class_name)
    return (match["name"] if match else class_name).lower()


def read_head(name: str, f: Fields, beside: dict) -> dict[str, Any]:
    """Return the fields of `ModelConfig` that describe the head; {} for an output layer, also if no class is given.

    name: the model_type. beside: the file around the decoder's part, the decoder itself if it has no parts.
    """
    given: Any = f.config.get("architectures") or beside.get("architectures")
    match = CLASS.fullmatch(given[0]) if isinstance(given, list) and given and isinstance(given[0], str) else None
    base = match is not None and match["base"] and name not in BASE_WITH_OUTPUT_LAYER
    if match is None or match["task"] in OUTPUT_LAYER or not (match["task"] or base):
        return {}
    if base and beside is not f.config and "architectures" not in f.config:  # the class of all parts together
        return {}
    f.used["architectures"] = given[0]
    rows, bias = 0, False
    if match["task"] in WITH_LABELS:
        rows, bias = _labels(f, beside), WITH_LABELS[match["task"]]
    elif match["task"] == ANSWERS:
        rows, bias = _labels(f, beside) if name in ANSWERS_BY_LABELS else 2, True
    elif match["task"]:
        f.uncounted["architectures"] = f"the head of {given[0][:60]}, which AttnViz does not know"
    return {"tie_embeddings": False, "lm_head_bias": bias, "head_rows": rows}


def _labels(f: Fields, beside: dict) -> int:
    """Return the number of labels: as many as `id2label` has, else `num_labels`, else 2, as in transformers."""
    for config in (f.config, beside):
        names, n = config.get("id2label"), config.get("num_labels")
        if names is not None:
            if not isinstance(names, dict) or not names:
                raise ConfigError(f"id2label must be a mapping of numbers to labels, not {shown(names)}")
            f.used["id2label"] = f"({len(names):,} labels)"
            return len(names)
        if n is not None:
            whole_field("num_labels", n)
            f.used["num_labels"] = n
            return n
    f.assumed["num_labels"] = 2
    return 2
