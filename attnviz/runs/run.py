"""A run of attention: weights and tokens of one or several kinds of attention, with what else was recorded.

`run_of` makes one from what a person has: arrays, tensors, what a model of transformers returned. A run validates
itself: sizes that do not agree, and weights that are negative or not finite, raise RunError. Layers (H, T, S): H query
heads, T query tokens, S key tokens; K KV heads, D the width of a head.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from attnviz.phrases import count, listed
from attnviz.runs.arrays import EAGER, RunError, is_steps, layers_of
from attnviz.runs.besides import checked_layers, checked_logits, checked_picture
from attnviz.runs.kinds import KINDS, AttentionKind, Layers
from attnviz.runs.tokens import checked_tokens, texts_of

OUTPUT = "out"  # after the position of a token that the model wrote
OUTPUTS = {  # of a model of transformers
    "attentions": "self",
    "encoder_attentions": "encoder",
    "decoder_attentions": "decoder",
    "cross_attentions": "cross",
}


@dataclass(frozen=True, eq=False, repr=False)
class AttentionRun:
    """What was recorded of one run: at least one kind of attention, first the one that opens first."""

    kinds: tuple[AttentionKind, ...]
    q: Mapping[str, Layers] = field(default_factory=dict)  # per kind and layer (H, T, D)
    k: Mapping[str, Layers] = field(default_factory=dict)  # (K or H, S, D)
    v: Mapping[str, Layers] = field(default_factory=dict)  # (K or H, S, D)
    gradients: Mapping[str, Layers] = field(default_factory=dict)  # (H, T, S), of an output by the weights
    logits: np.ndarray | None = None  # (T, vocabulary)
    picture: np.ndarray | None = None  # (height, width, 3) uint8
    patches: tuple[int, int] | None = None  # rows and columns into which the picture is cut
    n_before: int = 0  # tokens before the patches: CLS, registers
    output_from: int | None = None  # from which token on the text is the model's own output
    names: tuple[str, ...] | None = None  # of the layers
    title: str = ""
    notes: tuple[str, ...] = ()  # sentences about what was left out

    def __post_init__(self) -> None:
        names = [kind.name for kind in self.kinds]
        if not names or len(set(names)) != len(names):
            raise RunError(f"a run has each kind of attention once, and at least one, not {names}")
        for what, sizes in (("q", "HT"), ("k", "KS"), ("v", "KS"), ("gradients", "HTS")):
            object.__setattr__(self, what, checked_layers(what, getattr(self, what), self.kinds, sizes))
        object.__setattr__(self, "logits", checked_logits(self.logits, self.kinds))
        object.__setattr__(self, "picture", checked_picture(self.picture, self.patches, self.n_before, self.kinds))
        self._check_names()
        self._check_output_from()

    def _check_names(self) -> None:
        for kind in self.kinds:
            if self.names is not None and len(self.names) != kind.n_layers:
                raise RunError(f"{count(len(self.names), 'layer name')} for the {count(kind.n_layers, 'layer')} "
                               f"of the {kind.title}")  # fmt: skip

    def _check_output_from(self) -> None:
        longest, first = max(max(len(kind.tokens), len(kind.key_tokens)) for kind in self.kinds), self.output_from
        if first is not None and (type(first) is not int or not 0 <= first <= longest):
            raise RunError(f"output_from must be the index of a token, from 0 to {longest}, not {first!r}")

    def __repr__(self) -> str:
        """Describe the run in a line, since a notebook prints what a cell ends with."""
        besides = [name for name in ("q", "k", "v", "gradients") if getattr(self, name)]
        besides += [name for name in ("logits", "picture") if getattr(self, name) is not None]
        parts = [*(kind.summary for kind in self.kinds), *([f"with {listed(besides)}"] if besides else [])]
        output = [] if self.output_from is None else [f"output from token {self.output_from}"]
        return f"<{self.title or 'attention'}: {'; '.join(parts + output)}>"

    def kind(self, name: str) -> AttentionKind:
        """Return the kind of attention with this name, KeyError if the run has none."""
        return {kind.name: kind for kind in self.kinds}[name]

    def positions(self, kind: AttentionKind) -> tuple[list[str], list[str]]:
        """Return the printed positions of a kind's queries and keys: "4", or "5 out" for the model's own output."""
        rows = range(len(kind.tokens)) if kind.cross else range(kind.first_row, kind.first_row + len(kind.tokens))
        output = None if kind.name == "encoder" else self.output_from
        return _positions(rows, output), _positions(range(len(kind.key_tokens)), None if kind.cross else output)

    @property
    def sentences(self) -> tuple[str, ...]:
        """What is said beside the run: what was left out, and which rows do not sum to 1."""
        return (*self.notes, *(kind.sums_note for kind in self.kinds if kind.sums_note))


def _positions(tokens: range, output: int | None) -> list[str]:
    return [f"{i} {OUTPUT}" if output is not None and i >= output else f"{i}" for i in tokens]


def run_of(
    attention: Any,
    tokens: Sequence[str] | Mapping[str, Sequence[str]] | None = None,
    *,
    key_tokens: Sequence[str] | None = None,
    n_kv_heads: int | Sequence[int | None] | Mapping[str, Any] | None = None,
    first_row: int | None = None,
    q: Any = None,
    k: Any = None,
    v: Any = None,
    gradients: Any = None,
    names: Sequence[str] | None = None,
    title: str = "",
    **besides: Any,
) -> AttentionRun:
    """Return a run of these weights and tokens; ValueError, in a sentence, for what cannot be shown.

    attention: as for `layers_of`, or a dict of such with the keys "self", "encoder", "decoder" and "cross", or what a
    model of transformers returned, or a run.
    tokens: of the queries, as text or as in a vocabulary ("Ġthe"); for several kinds a list, or {"encoder": [...],
    "decoder": [...]}.
    key_tokens: of the keys, where they are others: the text that cross-attention reads, or prompt and continuation.
    n_kv_heads: for all layers, or a list per layer, or a dict of these by kind; by default as many as k has.
    first_row: position of the first query among the keys; by default where the tokens end the key tokens.
    q, k, v, gradients: a tensor per layer as attention, or a dict by kind. besides: logits, picture, patches, n_before,
    output_from, as in `AttentionRun`.
    """
    given = (tokens, key_tokens, n_kv_heads, first_row, q, k, v, gradients, names)
    if isinstance(attention, AttentionRun):
        return _as_it_is(attention, title, any(each is not None for each in given) or bool(besides))
    by_kind = _by_kind(attention)
    taken = {name: layers_of(each, _named(name)) for name, each in by_kind.items()}
    keys = _layered(k, taken)
    kinds = []
    for name, (layers, _) in taken.items():
        queries, read, first = texts_of(name, layers[0].shape[1:], tokens, key_tokens, first_row)
        if is_steps(by_kind[name]) and len(queries) == layers[0].shape[1] + 1:
            raise RunError(_about_last(name, layers[0].shape[1]))
        kind = name or ("self" if read[first : first + len(queries)] == queries else "cross")
        n_kv = _kv_heads(n_kv_heads, kind, len(layers), keys.get(name))
        kinds.append(AttentionKind(kind, tuple(layers), queries, read, n_kv, first))
    q, k, v, gradients = (
        {name or kinds[0].name: layers for name, layers in found.items()}
        for found in (_layered(q, taken), keys, _layered(v, taken), _layered(gradients, taken))
    )
    named = _names(names, [numbers for _, numbers in taken.values()])
    return AttentionRun(tuple(kinds), q, k, v, gradients, names=named, title=title, **besides)


def _as_it_is(run: AttentionRun, title: str, with_others: bool) -> AttentionRun:
    if with_others:
        raise RunError("a run has its own tokens and tensors: give the run alone")
    return replace(run, title=title) if title else run


def _named(kind: str) -> str:
    return f"attention of the {kind}" if kind else "attention"


def _by_kind(attention: Any) -> dict[str, Any]:
    """Return the weights by kind, "" for weights alone."""
    if attention is None:
        raise RunError(f"attention is None; {EAGER}")
    if not isinstance(attention, Mapping):
        return {"": attention}
    if outputs := {kind: attention[key] for key, kind in OUTPUTS.items() if _has_layers(attention.get(key))}:
        return outputs
    if hasattr(attention, "to_tuple") or any(key in OUTPUTS for key in attention):
        raise RunError(f"what the model returned has no attention weights: {EAGER}")
    unknown = [key for key in attention if key not in KINDS]
    if unknown or not attention:
        raise RunError(f"attention is a dict of {listed(map(repr, attention)) or 'nothing'}; its keys are kinds of "
                       f"attention: {listed(KINDS)}")  # fmt: skip
    return dict(attention)


def _about_last(kind: str, n: int) -> str:
    return (
        f"the {_named(kind)} has {count(n, 'row')}, but {n + 1} tokens were given: generate() does not read the last "
        "token that it writes, so it has no row; give the tokens without it, tokens[:-1]"
    )


def _has_layers(given: Any) -> bool:
    """Check for weights: of what it did not compute, transformers returns None, () or a tuple of None."""
    return given is not None and not (isinstance(given, list | tuple) and all(layer is None for layer in given))


def _layered(given: Any, taken: Iterable[str]) -> dict[str, Layers]:
    """Return tensors besides the weights by kind, those given without a kind for the first one."""
    if given is None:
        return {}
    by_kind = given if isinstance(given, Mapping) else {next(iter(taken)): given}
    return {name: tuple(layers_of(each, "a tensor")[0]) for name, each in by_kind.items()}


def _kv_heads(given: Any, kind: str, n_layers: int, keys: Layers | None) -> tuple[int | None, ...]:
    """Return the KV heads per layer: as given, or as many as there are keys."""
    if isinstance(given, Mapping):
        given = given.get(kind)
    if given is None:
        return tuple(len(layer) for layer in keys) if keys and len(keys) == n_layers else (None,) * n_layers
    return tuple(given) if isinstance(given, list | tuple) else (given,) * n_layers


def _names(given: Sequence[str] | None, numbers: list[list[int]]) -> tuple[str, ...] | None:
    """Return the names of the layers that have weights; without names, numbers name them if some have none."""
    first = numbers[0]
    some_missing = any(each != list(range(len(each))) for each in numbers)
    if some_missing and any(each != first for each in numbers):
        raise RunError("some layers are None, and others in each kind of attention: give one kind at a time")
    if given is None:
        return tuple(f"Layer {i}" for i in first) if some_missing else None
    given = checked_tokens(given, "names")
    return tuple(given[i] for i in first) if some_missing and len(given) > first[-1] else given
