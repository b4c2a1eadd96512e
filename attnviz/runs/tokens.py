"""The tokens of a run: which name the queries and which the keys of each kind of attention."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from attnviz.checks import shown
from attnviz.phrases import count, listed
from attnviz.runs.arrays import RunError
from attnviz.runs.labels import from_vocabulary

Tokens = tuple[str, ...]


def checked_tokens(given: Any, name: str = "tokens") -> Tokens:
    """Return tokens as a tuple; RunError unless they are a list of strings."""
    if isinstance(given, str | bytes) or not hasattr(given, "__iter__"):
        raise RunError(f"{name} must be a list of strings, one per token, not {shown(given)}")
    tokens = tuple(given)
    wrong = next((token for token in tokens if not isinstance(token, str)), None)
    if wrong is not None or None in tokens:
        raise RunError(f"{name} must be strings, not {shown(wrong)}: a tokenizer's convert_ids_to_tokens(ids) "
                       "makes them of ids")  # fmt: skip
    return tuple(str(token) for token in tokens)  # also of numpy's strings


def _labels(given: Any, name: str = "tokens") -> Tokens:
    return from_vocabulary(checked_tokens(given, name))


def texts_of(
    kind: str, shape: Sequence[int], tokens: Any, key_tokens: Any, first_row: int | None
) -> tuple[Tokens, Tokens, int]:
    """Return the labels of the queries' tokens, of the keys', and the position of the first query among the keys.

    kind: "" for weights alone. shape: (T, S). Where there are fewer queries than tokens, the queries are the last ones,
    as when a prompt is continued.
    """
    n_queries, n_keys = shape
    if tokens is None:
        raise RunError(f"tokens are missing: a list of the {count(n_queries, 'token')} that the rows are of")
    queries = _side(kind, tokens, key_tokens)
    keys = _other_side(kind, tokens, key_tokens)
    if keys is None and n_queries < n_keys == len(queries) and kind != "cross":
        queries, keys = queries[n_keys - n_queries :], queries
    if keys is None and (kind == "cross" or n_queries != n_keys) and len(queries) == n_queries:
        raise RunError(f"the attention has {n_queries} queries and {n_keys} keys: key_tokens names the keys")
    keys = queries if keys is None else keys
    return queries, keys, _first_row(kind, queries, keys) if first_row is None or kind == "cross" else first_row


def _side(kind: str, tokens: Any, key_tokens: Any) -> Tokens:
    """Return the tokens of the queries."""
    wanted = "decoder" if kind == "cross" else kind
    if isinstance(tokens, Mapping):
        return _named(wanted, tokens)
    return _labels(key_tokens if kind == "encoder" and key_tokens is not None else tokens)


def _other_side(kind: str, tokens: Any, key_tokens: Any) -> Tokens | None:
    """Return the tokens of the keys, None if they are those of the queries."""
    if kind in ("encoder", "decoder"):
        return None
    if key_tokens is not None:
        return _labels(key_tokens, "key_tokens")
    return _named("encoder", tokens) if kind == "cross" and isinstance(tokens, Mapping) else None


def _named(wanted: str, tokens: Mapping[str, Any]) -> Tokens:
    if not wanted and len(tokens) == 1:
        wanted = next(iter(tokens))
    if wanted not in tokens:
        raise RunError(f"tokens has {listed(map(repr, tokens)) or 'no text'}, but no {wanted or 'self'!r}")
    return _labels(tokens[wanted], f"tokens of the {wanted}")


def _first_row(kind: str, queries: Tokens, keys: Tokens) -> int:
    before = len(keys) - len(queries)
    return before if kind != "cross" and before > 0 and keys[before:] == queries else 0
