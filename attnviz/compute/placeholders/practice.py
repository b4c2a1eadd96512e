"""Placeholders: speculative decoding, mistakes and practice."""

from __future__ import annotations

from typing import TYPE_CHECKING

from attnviz.compute.placeholders.registry import placeholder
from attnviz.compute.view import View
from attnviz.phrases import count

if TYPE_CHECKING:
    from attnviz.decode.comparisons import Speculated
    from attnviz.mistakes import Symptom


def _speculated(view: View) -> Speculated:
    from attnviz.compute import decode

    return decode.speculated(view)


@placeholder
def passes(view: View) -> str:
    """Passes of the model that speculative decoding needs."""
    return str(len(_speculated(view).rounds))


@placeholder
def drafted(view: View) -> str:
    """Tokens that its drafter proposes in them."""
    return str(sum(len(each.proposed) for each in _speculated(view).rounds))


@placeholder
def accepted(view: View) -> str:
    """Those of them that the model accepts."""
    return str(sum(each.n_accepted for each in _speculated(view).rounds))


@placeholder
def drafted_tokens(view: View) -> str:
    """Tokens that are written in them."""
    return str(_speculated(view).n_tokens)


@placeholder
def mistake(view: View) -> str:
    """The title of the selected mistake."""
    from attnviz.compute import mistakes

    return mistakes.mistake_of(view.settings).title


def _symptom(view: View) -> Symptom:
    from attnviz.compute import mistakes

    return mistakes.symptom_of(view)


@placeholder
def mistake_number(view: View) -> str:
    """The number that tells it, of the mistaken version."""
    from attnviz.mistakes.runs import format_number

    return format_number(_symptom(view).number)


@placeholder
def mistake_expected(view: View) -> str:
    """The same of the right version."""
    from attnviz.mistakes.runs import format_number

    return format_number(_symptom(view).expected)


@placeholder
def n_questions(view: View) -> str:
    """Questions of the set chosen on the Practice page, counted."""
    return count(view.settings.questions, "question")
