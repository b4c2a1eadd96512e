"""What a part of a page draws from: the current settings, and what follows from them for this model and this text."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from types import ModuleType
from typing import TYPE_CHECKING, Any

from attnviz.config import ConfigError, ModelConfig
from attnviz.session.settings import GIVEN, MAX_CHARACTERS, Settings

if TYPE_CHECKING:
    from attnviz.modules import Transformer
    from attnviz.text import Tokenizer
    from attnviz.trace import Trace

DEFAULTS = Settings()


@dataclass(frozen=True)
class View:
    """The model and its trace are looked up when first asked for: a session must not hold them.

    padded: whether the first `settings.padding` tokens are padding, as the heads page has it.
    """

    settings: Settings
    padded: bool = False

    def but(self, **fields: Any) -> View:
        """Return a view with other values of some settings."""
        return replace(self, settings=replace(self.settings, **fields))

    @cached_property
    def config(self) -> ModelConfig:
        """The configuration that runs."""
        return _models().config_of(self.settings)

    @property
    def model(self) -> Transformer:
        """The live model; its weights are shared with everyone and never written to."""
        return _models().model_of(self.settings)

    @cached_property
    def ids(self) -> tuple[int, ...]:
        """The tokens of the text, cut at what can be traced."""
        return self._read[1][: self.max_tokens]

    @cached_property
    def labels(self) -> list[str]:
        """One printable label per token."""
        return list(self._read[2][: self.max_tokens])

    @property
    def n_padding(self) -> int:
        """Tokens at the front that are padding; at least one token is text."""
        return min(self.settings.padding, len(self.ids) - 1) if self.padded else 0

    @property
    def trace(self) -> Trace:
        """Everything the model computed on the text."""
        return _models().trace_of(self.settings, self.ids, self.n_padding)

    @cached_property
    def max_tokens(self) -> int:
        """The longest text that can be traced with this configuration."""
        return _models().max_tokens(self.config)

    @cached_property
    def cut_notice(self) -> str | None:
        """Where a text that is too long was cut."""
        if self._read[0] <= self.max_tokens:
            return None
        tail = self._tokenizer.decode(list(self.ids[-12:]))
        said = f"The text has {self._read[0]:,} tokens; the first {self.max_tokens} are shown, up to “…{tail.strip()}”."
        if self.max_tokens == _models().MAX_TOKENS:
            return said
        c, most = self.config, _models().MAX_TRACE_BYTES
        if c.learned_position_rows == self.max_tokens:
            return f"{said} The model has learned {c.learned_position_rows} positions."
        what = f"With {c.n_heads} heads, one layer" if c.attention != "mla" else f"With {c.n_layers} layers, a trace"
        return f"{said} {what} of more takes over {most / 1e6:.0f} MB."

    @cached_property
    def config_problem(self) -> str | None:
        """Why there is no configuration, as a sentence."""
        return _models().problem_of(self.settings)

    @cached_property
    def problem(self) -> str | None:
        """Why this model cannot run, as a sentence: settings that do not go together, a checkpoint that is damaged."""
        from attnviz.checkpoints import CheckpointError

        try:
            self.model  # noqa: B018
        except (CheckpointError, ConfigError) as error:
            return str(error)
        return None

    @property
    def shown_text(self) -> str:
        """The text as far as it is traced."""
        return self._tokenizer.decode(list(self.ids))

    @property
    def trained_config(self) -> ModelConfig | None:
        """How the checkpoint was trained; None for a model of one's own, which was not."""
        return _models().trained_config(self.settings)

    @property
    def maps_ship(self) -> bool:
        """Whether the maps of these settings ship with the app, so that no model is needed to show them."""
        decide = ("text", "model", "rope", "theta", "causal", "window")
        return all(getattr(self.settings, name) == getattr(DEFAULTS, name) for name in decide)

    @property
    def origin(self) -> str:
        """Where the weights come from, said on every map."""
        s = self.settings
        if s.opened:
            return s.model_name
        return f"untrained, seed {s.seed}" if s.model == "own" else "trained checkpoint"

    # ---- the selection, within this model and text

    @property
    def layer_and_head(self) -> tuple[int, int]:
        """The selected layer and head."""
        return min(self.settings.layer, self.config.n_layers - 1), min(self.settings.head, self.config.n_heads - 1)

    @property
    def query(self) -> int:
        """The selected query; by default one at three quarters, with much to attend to and some keys masked."""
        query, n = self.settings.query, len(self.ids)
        return query if 0 <= query < n else 3 * n // 4

    @property
    def key(self) -> int:
        """The selected key; by default the strongest of the query."""
        key, (layer, head) = self.settings.key, self.layer_and_head
        return key if 0 <= key < len(self.ids) else int(self.trace.weights[layer, head, self.query].argmax())

    def link_notices(self, asked: Mapping[str, str]) -> list[str]:
        """Write a sentence for each layer, head, query, key or pair of a link that this model or text does not have.

        asked: the link's own words for them.
        """
        (layer, head), n_tokens, n_pairs = self.layer_and_head, len(self.ids), self.config.rotary_dim // 2
        pair = "a pair that adds much to the score is selected"
        if self.settings.pair >= 0:
            pair = f"pair {min(self.settings.pair, n_pairs - 1)} is selected"
        there = {
            "layer": (self.config.n_layers, "this model has layers", f"layer {layer} is selected"),
            "head": (self.config.n_heads, "this model has heads", f"head {head} is selected"),
            "query": (n_tokens, "the text shown has tokens", f"token {self.query} is selected"),
            "key": (n_tokens, "the text shown has tokens", "the strongest key is selected"),
            "pair": (n_pairs, "this model has pairs of dimensions", pair),
        }
        notices = []
        for name, written in asked.items():
            n, has, shown = there[name]
            if not _is_there(name, written, n):
                notices.append(f"The link's {name} is {written[:GIVEN]}, and {has} 0 to {n - 1}; {shown}.")
        return notices

    @cached_property
    def heads(self) -> dict[str, tuple[int, int]]:
        """Every head by its name in links: "1.5" is head 5 of layer 1."""
        c = self.config
        return {f"{layer}.{head}": (layer, head) for layer in range(c.n_layers) for head in range(c.n_heads)}

    @property
    def pinned(self) -> list[tuple[int, int]]:
        """The pinned heads."""
        return [self.heads[name] for name in self.settings.pinned if name in self.heads]

    @property
    def _read(self) -> tuple[int, tuple[int, ...], tuple[str, ...]]:
        return _models().read(self.settings.text[:MAX_CHARACTERS], self.settings.tokenizer)

    @property
    def _tokenizer(self) -> Tokenizer:
        return _models().tokenizer_of(self.settings.model)


def _is_there(name: str, written: str, n: int) -> bool:
    """Whether the link's word is one of n, or says to choose; a word that is no number has been spoken of already."""
    try:
        asked = float(written)
    except ValueError:
        return True
    by_default = name in ("query", "key", "pair") and asked == -1
    return math.isnan(asked) or by_default or (0 <= asked < n and asked == int(asked))


def drawable(view: View) -> bool:
    """Whether there is a model to run and a text to run it on."""
    return view.problem is None and bool(view.ids)


def countable(view: View) -> bool:
    """Whether the configuration is known, so that it can be counted."""
    return view.config_problem is None


def anything(view: View) -> bool:
    """For what is drawn from the settings alone."""
    return True


def head_name(name: str) -> str:
    """Write the head "1.5" of a link as on a page: "L1 H5"."""
    return "L{} H{}".format(*name.split("."))


def _models() -> ModuleType:
    """attnviz.compute.models, imported when a page first needs a model: the overview opens without torch."""
    from attnviz.compute import models

    return models
