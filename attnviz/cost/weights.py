"""The parameters of a model by part: those of its layers' mechanisms, and those around the layers."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache

from attnviz.config import ModelConfig
from attnviz.cost.sums import executed, mixers, over_layers, parts, width
from attnviz.equations import Expression, Labelled, Value, tex_text, total
from attnviz.mechanisms import Experts, letter


@dataclass(frozen=True)
class ParameterCount:
    """Parameters of a whole model by part, and those of one layer's attention by part ({} where they differ).

    `parts` adds up to `total`, `attention` to `attention_per_layer`. Tied embeddings are counted once; buffers (RoPE
    frequencies, the bias that balances the load of DeepSeek-V3's experts) are not parameters.
    """

    parts: dict[str, int]
    attention: dict[str, int]
    active: int  # all but the experts that one token is not routed to
    unread_embeddings: int  # in embedding rows that one token does not read; 0 if the matrix is the output layer too

    @property
    def total(self) -> int:
        return sum(self.parts.values())

    @property
    def used_per_token(self) -> int:
        """Parameters used for one token: only one row of an embedding that is looked up."""
        return self.active - self.unread_embeddings

    @property
    def attention_per_layer(self) -> int:
        return sum(self.attention.values())


def parameters(model: ModelConfig) -> Expression:
    """Return the parameters of a model as one expression: embeddings, layers, norms, output layer."""
    C = width(model)
    found = [(n, part.parameters(C)) for n, part in parts(model)]
    beside = (C, letter("U", model.vocab_size))
    layers = over_layers(model, [(n, _added(several.values())) for n, several in found if several], beside=beside)
    norms = [_norms(model)] if model.norm_weights else []
    return total([*embeddings(model).values(), layers, *norms, *_output_layer(model)])


def _added(several: Iterable[Expression]) -> Expression:
    """Return the sum, in which equal expressions are one term: 2 · C · H · D."""
    terms: dict[Expression, int] = {}
    for each in several:
        terms[each] = terms.get(each, 0) + 1
    return total([each if n == 1 else n * each for each, n in terms.items()])


def attention_parameters(model: ModelConfig) -> Expression:
    """Return those of the first layer's attention: its matrices, then its biases and norms."""
    C = width(model)
    matrices, others = model.mixer.matrices(C), model.mixer.added(C)
    if not others:
        return attention_matrices(model)
    names = dict.fromkeys("biases" if name in matrices else name for name in others)
    added = Labelled(total(list(others.values())), tex_text(", ".join(names)))
    return total([*_labelled(matrices), added])


def attention_matrices(model: ModelConfig) -> Expression:
    """Return those of its matrices; equal ones are added once, with their names below: 2 · C · H · D."""
    return total(_labelled(model.mixer.matrices(width(model))))


def matrix(model: ModelConfig, name: str) -> Expression:
    """Return those of one of its matrices: "q", "k", "v", "o" or MLA's."""
    return model.mixer.matrices(width(model))[name]


def _labelled(matrices: dict[str, Expression]) -> list[Expression]:
    named: dict[Expression, list[str]] = {}
    for name, weights in matrices.items():
        named.setdefault(weights, []).append(name)
    return [
        Labelled(weights if len(names) == 1 else len(names) * weights, _matrix_names(names))
        for weights, names in named.items()
    ]


def _matrix_names(parts: Sequence[str]) -> str:
    """Return the label of equal matrices, W_q, W_o for "q" and "o", or of one: its part's name."""
    return ", ".join(f"W_{part}" for part in parts) if len(parts) > 1 else tex_text(parts[0])


def count_parameters(model: ModelConfig) -> ParameterCount:
    """Count the parameters of `model` by part; parts that it does not have are left out."""
    found, attention, active, unread_embeddings = _counted(model)
    return ParameterCount(dict(found), dict(attention), active, unread_embeddings)


@lru_cache(maxsize=1024)  # a page asks for the same models many times
def _counted(model: ModelConfig) -> tuple[tuple[tuple[str, int], ...], tuple[tuple[str, int], ...], int, int]:
    C, found = width(model), {name: _int(n) for name, n in embeddings(model).items()}
    for n, part in parts(model):
        for name, numbers in part.parameters(C).items():
            found[name] = found.get(name, 0) + n * _int(numbers)
    found["norms"] = _int(_norms(model))
    found |= {"output layer": sum(map(_int, _output_layer(model)))}
    found = {name: n for name, n in found.items() if n}
    idle = sum(n * part.idle(C) for n, part in parts(model) if isinstance(part, Experts))
    alike = len({mixer.unwindowed for _, mixer in mixers(model)}) == 1
    own = model.mixer.parameters(C) if alike else {}
    attention = {name: _int(numbers) for name, numbers in own.items()}
    return tuple(found.items()), tuple(attention.items()), sum(found.values()) - idle, _unread_embeddings(model)


@lru_cache(maxsize=1024)
def multiplied_weights(model: ModelConfig) -> int:
    """Return the weights of the matrices used for one token. Embeddings are looked up and biases only added."""
    return layer_weights(model) + output_weights(model)


def layer_weights(model: ModelConfig) -> int:
    """Return those of the layers: of a mixture only the experts that a token is routed to."""
    C = width(model)
    return sum(n * _int(numbers) for n, part in executed(model) for numbers in part.multiplied(C).values())


def output_weights(model: ModelConfig) -> int:
    """Return those of the output layer, whether or not it is the embedding's matrix, or of the head in its place."""
    return (model.vocab_size if model.head_rows is None else model.head_rows) * model.d_model


def embeddings(model: ModelConfig) -> dict[str, Expression]:
    """Return the parameters of the embeddings of tokens, and of positions if they are learned."""
    C = width(model)
    tables: dict[str, Expression] = {"token embeddings": letter("U", model.vocab_size) * C}
    if model.learned_position_rows:
        tables["position embeddings"] = model.learned_position_rows * C
    return tables


def _unread_embeddings(c: ModelConfig) -> int:
    """Count the parameters of the rows of token and position embeddings that one token does not read."""
    tokens = 0 if c.tie_embeddings else c.vocab_size - 1
    positions = max((c.learned_position_rows or 0) - 1, 0)
    return (tokens + positions) * c.d_model + embeddings_beside(c)


def embeddings_beside(model: ModelConfig) -> int:
    """Return the parameters of the embeddings beside that of the tokens and positions, of which a token reads a row."""
    return sum(n * _int(found) for n, part in parts(model) if (found := part.looked_up()) is not None)


def _norms(model: ModelConfig) -> Expression:
    """Count each layer's norms, the final norm, and the norm after the embedding if there is one."""
    if not model.norm_weights:
        return Value(0)
    n_norms = sum(n * layer.n_norms for n, layer in model.layer_counts) + 1 + model.embedding_norm
    return n_norms * (2 if model.norm_bias else 1) * width(model)


def _output_layer(model: ModelConfig) -> list[Expression]:
    """Count the matrix from d_model to the vocabulary; with tied embeddings only its bias, if any.

    A head in its place has rows of its own.
    """
    if model.head_rows is not None:
        matrix = model.head_rows * width(model)
        return [matrix + model.head_rows] if model.lm_head_bias else [matrix] * bool(model.head_rows)
    U = letter("U", model.vocab_size)
    return [U * width(model)] * (not model.tie_embeddings) + [U] * model.lm_head_bias


def _int(expression: Expression) -> int:
    return int(expression.value)
