"""Sums over the layers of a model: what each layer's mechanisms say, equal layers added once with their number."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import reduce
from operator import mul

from attnviz.config import ModelConfig
from attnviz.equations import Expression, Value, replaced, total
from attnviz.mechanisms import Mechanism, Mixer, letter


def width(model: ModelConfig) -> Value:
    """Return d_model under its letter."""
    return letter("C", model.d_model)


def executed(model: ModelConfig) -> Iterator[tuple[int, Mechanism]]:
    """Iterate over the mechanisms that a token passes, each with the number of layers that run it."""
    yield from ((n, part) for n, layer in model.layer_counts for part in layer.parts)
    yield from ((1, part) for part in model.other_parts)


def parts(model: ModelConfig) -> Iterator[tuple[int, Mechanism]]:
    """Iterate over the mechanisms with weights of their own, each with the number of layers that have it."""
    yield from ((n, part) for n, layer in model.layer_counts if layer.shares_weights_of is None for part in layer.parts)
    yield from ((1, part) for part in model.other_parts)


def mixers(model: ModelConfig) -> Iterator[tuple[int, Mixer]]:
    """Iterate over the mixers that a token passes, each with the number of layers that run it."""
    return ((n, mixer) for n, layer in model.layer_counts for mixer in layer.mixers)


def caching(model: ModelConfig) -> Iterator[tuple[int, Mixer]]:
    """Iterate over the mixers with a cache of their own, each with the number of layers that have it."""
    return ((n, mixer) for n, layer in model.layer_counts if layer.shares_cache_of is None for mixer in layer.mixers)


def over_layers(
    model: ModelConfig, counted: Iterable[tuple[int, Expression]], *, beside: Iterable[Value] = ()
) -> Expression:
    """Return n₁ · e₁ + n₂ · e₂ + …, and L · e where all layers agree.

    A letter with different values in two layers gets a prime in the second, so that a legend stays right.
    beside: values with a letter in the same equation, outside this sum.
    """
    merged: dict[Expression, int] = {}
    for n, expression in counted:
        merged[expression] = merged.get(expression, 0) + n
    if list(merged.values()) == [model.n_layers]:
        (expression,) = merged
        return letter("L", model.n_layers) * expression
    return total([n * each if n > 1 else each for each, n in _distinguished(merged, beside)]) if merged else Value(0)


def with_factor(model: ModelConfig, counted: Iterable[tuple[int, Expression, Expression]]) -> tuple[Expression, ...]:
    """Return the factors of Σ n · amount · factor: (sum of the amounts, factor) where all layers share the factor."""
    by_factor: dict[Expression, list[tuple[int, Expression]]] = {}
    for n, amount, factor in counted:
        by_factor.setdefault(factor, []).append((n, amount))
    if len(by_factor) == 1:
        ((factor, amounts),) = by_factor.items()
        return over_layers(model, amounts), factor
    return (over_layers(model, [(n, amount * f) for f, several in by_factor.items() for n, amount in several]),)


def product(factors: Iterable[Expression]) -> Expression:
    """Return the product of one or more factors."""
    return reduce(mul, factors)


def _distinguished(terms: dict[Expression, int], beside: Iterable[Value]) -> list[tuple[Expression, int]]:
    """Rename the letters that stand for another number in an earlier term."""
    values: dict[str, list[float]] = {value.symbol: [value.number] for value in beside}

    def rename(value: Value) -> Value:
        if not value.symbol:
            return value
        known = values.setdefault(value.symbol, [])
        if value.number not in known:
            known.append(value.number)
        return value.primed(known.index(value.number))

    return [(replaced(expression, rename), n) for expression, n in terms.items()]
