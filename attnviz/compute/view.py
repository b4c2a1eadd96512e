"""The current settings and everything derived from them for this model and text: what fragments draw from."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from types import ModuleType
from typing import TYPE_CHECKING, Any

from attnviz.characters import Span, graphemes, whole
from attnviz.config import ConfigError, ModelConfig
from attnviz.phrases import count
from attnviz.session.settings import MAX_QUOTED_CHARS, Settings
from attnviz.session.shared import NOT_CHOSEN

if TYPE_CHECKING:
    from attnviz.analysis.merging import Merged
    from attnviz.analysis.search import Found
    from attnviz.compute.models import Read, Run
    from attnviz.compute.recorded import RecordedRun
    from attnviz.mechanisms import Mixer
    from attnviz.modules import Transformer
    from attnviz.recorded import Sides
    from attnviz.session.page import Page
    from attnviz.trace import LayerTrace, Trace

DEFAULTS = Settings()
N_TAIL = 40  # characters quoted from the end of a text that was cut


@dataclass(frozen=True)
class View:
    """Settings with lazy access to model and trace, which a session must not hold a reference to.

    padded: the first `settings.padding` tokens are padding, as on the Heads page.
    """

    settings: Settings
    padded: bool = False

    def but(self, **fields: Any) -> View:
        """Return a copy with some settings changed."""
        return replace(self, settings=replace(self.settings, **fields))

    @cached_property
    def config(self) -> ModelConfig:
        """The configuration that runs."""
        return _models().config_of(self.settings)

    @cached_property
    def run(self) -> Run | RecordedRun:
        """The model as it runs, or a saved run: what, with the tokens, all numbers depend on."""
        return _models().run_of(self.settings)

    @property
    def model(self) -> Transformer:
        """The live model; its weights are shared by all sessions and never modified. OpenError for a saved run."""
        return self.run.model

    @cached_property
    def ids(self) -> tuple[int, ...]:
        """Token ids of the text, cut to max_tokens at a whole character."""
        return self._read.ids[: self.first(self.max_tokens)]

    @cached_property
    def labels(self) -> list[str]:
        """One printable label per token."""
        return list(self._read.labels[: self.first(self.max_tokens)])

    @cached_property
    def saved(self) -> RecordedRun | None:
        """The saved run that is selected as a model is; None for a model."""
        run: Any = self.run if self.settings.recorded else None
        return run

    @property
    def two_texts(self) -> bool:
        """Whether the keys are the tokens of another text than the queries, as in a saved run's cross-attention."""
        return self.saved is not None and self.saved.of.cross

    @property
    def layer_names(self) -> list[str]:
        """What a saved run calls its layers; empty where it does not name them."""
        return list(self.saved.saved.names or ()) if self.saved else []

    @property
    def sides(self) -> Sides | None:
        """What the rows and the columns of a saved run's maps are; None where both are the tokens of the text."""
        return self.saved.sides if self.saved else None

    @property
    def key_labels(self) -> list[str]:
        """One printable label per key: those of the tokens, unless the keys are another text's."""
        return self.saved.key_labels if self.saved and self.two_texts else self.labels

    @cached_property
    def spans(self) -> list[Span]:
        """Which tokens of the text together are one character: (start, stop, text), in order; each token is in one."""
        complete = [span for span in self._read.spans if span.stop <= len(self.ids)]
        n = complete[-1].stop if complete else 0
        return complete + [Span(i, i + 1, self.labels[i]) for i in range(n, len(self.ids))]  # one too long to be whole

    @property
    def key_spans(self) -> list[Span]:
        """The same of the keys, which are another text's in a saved run's cross-attention."""
        return self.saved.key_spans if self.saved and self.two_texts else self.spans

    @cached_property
    def n_split(self) -> int:
        """Number of the text's characters that are several tokens."""
        return sum(span.stop - span.start > 1 for span in self.spans)

    @property
    def merged(self) -> Merged | None:
        """The trace's maps with one row and column per character; None without such characters, or if not chosen."""
        from attnviz.analysis.merging import Merged

        return Merged.of(self.trace, self.labels, self.spans) if self.settings.merged and self.n_split else None

    def first(self, most: int) -> int:
        """Return the number of tokens, at most `most`, with which the text is cut at a whole character."""
        return whole(self._read.spans, most)

    @property
    def n_padding(self) -> int:
        """Number of padding tokens at the front; at least one token is text."""
        return min(self.settings.padding, len(self.ids) - 1) if self.padded and not self.settings.recorded else 0

    @property
    def trace(self) -> Trace:
        """The trace of the model on the text."""
        return self.run.trace(self.ids, self.n_padding)

    @cached_property
    def max_tokens(self) -> int:
        """Maximum number of tokens that can be traced with this configuration; of a saved run, its own."""
        if self.saved:
            return self._read.n_tokens
        return _models().max_tokens(self.config)

    @cached_property
    def cut_notice(self) -> str | None:
        """A sentence on where a text that is too long was cut, or None."""
        read, n = self._read, len(self.ids)
        if read.n_tokens == n:
            return None
        shown = len(graphemes(self.shown_text))
        tail = "".join(graphemes(self.shown_text)[-N_TAIL:]).strip()
        cut = (
            f"The text has {read.n_tokens:,} tokens; the first {n} are shown, which are {shown:,} of its "
            f"{count(read.n_characters, 'character')}, up to “…{tail}”."
        )
        if self.max_tokens == _models().MAX_TOKENS:
            return cut
        c, most = self.config, _models().MAX_TRACE_BYTES
        if c.learned_position_rows == self.max_tokens:
            return f"{cut} The model has {c.learned_position_rows} learned positions."
        return f"{cut} With more tokens, one layer of {c.n_heads} heads would take over {most / 1e6:.0f} MB."

    @cached_property
    def config_problem(self) -> str | None:
        """The reason why there is no configuration, or None."""
        return _models().problem_of(self.settings)

    @cached_property
    def model_problem(self) -> str | None:
        """The reason why this model cannot run (settings, a damaged checkpoint), or None."""
        from attnviz.checkpoints import CheckpointError

        try:
            self.run.ready()
        except (CheckpointError, ConfigError) as error:
            return str(error)
        if len({layer.mixer.n_heads for _, layer in self.config.layer_counts}) > 1:
            return (
                "The layers of this model differ in their number of query heads; models with as many in each are drawn."
            )
        return None

    @cached_property
    def text_problem(self) -> str | None:
        """The reason why this model, which runs, cannot read this text, or None. ConfigError if it does not run."""
        beyond = _models().beyond_embeddings(self.ids, self.labels, self.config.vocab_size)
        if not beyond:
            return None
        return f"{beyond[0].upper()}{beyond[1:]}; leave it out of the text, or choose another model."

    @property
    def problem(self) -> str | None:
        """The reason why this model cannot run on this text, or None."""
        return self.model_problem or self.text_problem

    @property
    def shown_text(self) -> str:
        """The part of the text that is traced."""
        return self.run.tokenizer.decode(list(self.ids))

    @property
    def trained_config(self) -> ModelConfig | None:
        """The configuration the checkpoint was trained with; None for an untrained model."""
        return _models().trained_config(self.settings)

    @property
    def maps_ship(self) -> bool:
        """True if the maps of these settings ship with the app and can be shown without a model."""
        decide = ("text", "model", "rope", "theta", "causal", "window")
        return all(getattr(self.settings, name) == getattr(DEFAULTS, name) for name in decide)

    @property
    def origin(self) -> str:
        """The origin of the weights, shown on every map."""
        s = self.settings
        if s.recorded:
            return f"saved run {s.model_name}"
        if s.opened:
            return s.model_name
        return f"untrained, seed {s.seed}" if s.model == "own" else "trained checkpoint"

    @property
    def origin_after_name(self) -> str:
        """The origin of the weights, to add after the model's name: nothing if the name says it."""
        return "" if self.settings.opened else f", {self.origin}"

    # ---- the selection, within this model and text

    @property
    def layer_and_head(self) -> tuple[int, int]:
        """The selected layer and head."""
        s, (layer, head) = self.settings, self.settings.chosen_head
        if NOT_CHOSEN in (s.layer, s.head) and (found := self._standing_out):
            layer, head = (found.layer if s.layer < 0 else layer), (found.head if s.head < 0 else head)
        layer = min(layer, self.config.n_layers - 1)
        return layer, min(head, self.config.layers[layer].mixer.n_heads - 1)

    @property
    def mixer(self) -> Mixer:
        """The selected layer's attention."""
        layers = self.config.layers
        return (layers[0] if len(self.config.layer_counts) == 1 else layers[self.layer_and_head[0]]).mixer

    def refusal(self, what: str) -> str:
        """Return why something that takes all layers cannot be shown, as the first layer that cannot says; or ""."""
        return next(filter(None, (layer.mixer.cannot(what) for _, layer in self.config.layer_counts)), "")

    def page_refusal(self, page: Page) -> str:
        """Return why this model, or a saved run, cannot show a page, as a sentence; "" where it can."""
        if not page.asks or not self.settings.recorded or self.config_problem:
            return ""
        return self.refusal(page.asks)

    @property
    def traced(self) -> LayerTrace:
        """What the selected layer computed on the text."""
        return self.trace.layers[self.layer_and_head[0]]

    @property
    def query(self) -> int:
        """The selected query; by default that which stands out, else the last.

        In links made before this was computed, one at three quarters of the text, with many keys allowed.
        """
        query, n = self.settings.query, len(self.ids)
        if 0 <= query < n:
            return self._recorded_row(query)
        if self.settings.selection != "auto" or not drawable(self):
            return self._recorded_row(3 * n // 4)
        found = self._standing_out
        return self._recorded_row(found.query if found else _look_here().words_of(self).last)

    def _recorded_row(self, query: int) -> int:
        """Return the query, or the nearest one with a row: a run that continued a prompt has none for the prompt."""
        return min(max(query, self.rows.start), self.rows.stop - 1)

    @property
    def rows(self) -> range:
        """The queries that have a row in the maps: all tokens, unless a saved run has those of some."""
        if not self.saved or self.two_texts:
            return range(len(self.ids))
        of = self.saved.of
        return range(of.first_row, of.first_row + len(of.tokens))

    @property
    def key(self) -> int:
        """The selected key; by default the query's strongest, or that which an example is about."""
        key, (layer, head) = self.settings.key, self.layer_and_head
        if 0 <= key < len(self.key_labels):
            return key
        found, query = self._standing_out, self.query
        if found and self.settings.query < 0 and (layer, head, query) == (found.layer, found.head, found.query):
            return found.key
        return self.strongest_key

    @property
    def strongest_key(self) -> int:
        """The selected query's strongest key in the selected head."""
        return int(abs(self.traced.weights[self.layer_and_head[1], self.query]).argmax())

    @property
    def _standing_out(self) -> Found | None:
        """The cell that stands out, where it decides what nobody chose."""
        if self.settings.selection != "auto" or not drawable(self):
            return None
        found = _look_here().found_in(self)
        return found if found and found.share.stands_out else None

    def link_notices(self, asked: Mapping[str, str]) -> list[str]:
        """Return one sentence per layer, head, query, key or pair of a link that is out of range for model and text.

        asked: {name: value as written in the link}.
        """
        if not asked:
            return []  # without a search for what stands out
        (layer, head), n_tokens = self.layer_and_head, len(self.ids)
        own = self.config.layers[layer]
        n_pairs = own.rotary_dim // 2
        pair = "the pair that adds most among those whose rotation can be seen is selected"
        if self.settings.pair >= 0:
            pair = f"pair {min(self.settings.pair, n_pairs - 1)} is selected"
        ranges = {
            "layer": (self.config.n_layers, "this model has layers", f"layer {layer} is selected"),
            "head": (own.mixer.n_heads, "this model has heads", f"head {head} is selected"),
            "query": (n_tokens, "the text shown has tokens", f"token {self.query} is selected"),
            "key": (len(self.key_labels), "the text shown has tokens", "the strongest key is selected"),
            "pair": (n_pairs, "this model has pairs of dimensions", pair),
        }
        notices = []
        for name, written in asked.items():
            n, has, shown = ranges[name]
            if not _is_in_range(name, written, n):
                notices.append(f"The link's {name} is {written[:MAX_QUOTED_CHARS]}, but {has} 0 to {n - 1}; {shown}.")
        return notices

    @cached_property
    def heads(self) -> dict[str, tuple[int, int]]:
        """All heads by their name in links: "1.5" is head 5 of layer 1."""
        c = self.config
        heads = ((i, head) for i, layer in enumerate(c.layers) for head in range(layer.mixer.n_heads))
        return {f"{layer}.{head}": (layer, head) for layer, head in heads}

    @property
    def pinned(self) -> list[tuple[int, int]]:
        """The pinned heads."""
        return [self.heads[name] for name in self.settings.pinned if name in self.heads]

    @property
    def _read(self) -> Read:
        return _models().read_of(self.settings)


def _is_in_range(name: str, written: str, n: int) -> bool:
    """Check whether a link's value is below n or asks for the default; one that is no number has its notice already."""
    try:
        asked = float(written)
    except ValueError:
        return True
    by_default = name in ("query", "key", "pair") and asked == -1
    return math.isnan(asked) or by_default or (0 <= asked < n and asked == int(asked))


def drawable(view: View) -> bool:
    """Check whether there is a model that runs and a text."""
    return view.problem is None and bool(view.ids)


def countable(view: View) -> bool:
    """Check whether the configuration is known, which is enough to count parameters and cache."""
    return view.config_problem is None


def always(view: View) -> bool:
    """Return True: for fragments that need only the settings."""
    return True


def head_name(name: str) -> str:
    """Format the head "1.5" of a link as shown on a page: "L1 H5"."""
    return "L{} H{}".format(*name.split("."))


def _look_here() -> ModuleType:
    """Import attnviz.compute.look_here when it is needed, as it imports this module."""
    from attnviz.compute import look_here

    return look_here


def _models() -> ModuleType:
    """Import attnviz.compute.models when a page first needs a model: the overview opens without torch."""
    from attnviz.compute import models

    return models
