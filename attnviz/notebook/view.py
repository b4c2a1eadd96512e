"""`show`: a run of attention as one page, which a notebook displays and which can be saved."""

from __future__ import annotations

import html
import os
from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

from attnviz.notebook.document import document, refuse_large
from attnviz.runs.run import AttentionRun, run_of

HEIGHT = 900  # pixels, until the page in the frame knows its own


class View:
    """A page of all heads, one head enlarged, its lines and its shaded text. A notebook displays it."""

    def __init__(self, run: AttentionRun) -> None:
        refuse_large(run)
        self.run = run

    @cached_property
    def _document(self) -> str:
        return document(self.run)

    def html(self) -> str:
        """Return the page: one HTML document, which loads nothing from anywhere."""
        return self._document

    def save(self, path: str | os.PathLike[str]) -> Path:
        """Write the page to a file, such as "run.html", and return its path."""
        path = Path(path)
        path.write_text(self.html(), encoding="utf-8")
        return path

    def _repr_html_(self) -> str:
        """Return a frame with the page: several in one notebook do not know of each other."""
        return (
            f'<iframe srcdoc="{html.escape(self.html())}" title="Attention weights" width="100%" height="{HEIGHT}" '
            'style="border: 0; color-scheme: light dark" allow="fullscreen; clipboard-write"></iframe>'
        )

    def __repr__(self) -> str:
        return f"<attnviz view: {'; '.join(kind.summary for kind in self.run.kinds)}>"


def show(
    attention: Any,
    tokens: Sequence[str] | Mapping[str, Sequence[str]] | None = None,
    *,
    key_tokens: Sequence[str] | None = None,
    n_kv_heads: int | Sequence[int | None] | Mapping[str, Any] | None = None,
    title: str = "",
) -> View:
    """Show attention weights: `show(model(**inputs, output_attentions=True).attentions, tokens)`.

    attention: an array or a tensor (L, H, T, S) or (H, T, S), a list of (H, T, S) or (1, H, T, S), a dict of these by
    kind ("encoder", "decoder", "cross"), what a model of transformers returned, or a run.
    tokens: T strings; for several kinds {"encoder": [...], "decoder": [...]}.
    key_tokens: S strings, if the keys are other tokens.
    n_kv_heads: of GQA or MQA, so that heads that read the same keys and values have the same hue.
    ValueError, in a sentence, if the sizes do not agree.
    """
    return View(run_of(attention, tokens, key_tokens=key_tokens, n_kv_heads=n_kv_heads, title=title))
