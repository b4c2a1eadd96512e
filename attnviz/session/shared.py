"""Settings that pages share: text, model, mask and position, selection, and how a page is shown."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cache
from typing import Any, TypeVar

from attnviz.config import ModelConfig
from attnviz.mechanisms import OWN
from attnviz.session import openable
from attnviz.session.kinds import Choice, Flag, Number, Text, setting
from attnviz.session.openable import MAX_HEADS, MAX_LAYERS, MODEL_NAMES, MODELS, ModelName
from attnviz.session.pages import ELEMENTS, TABS

MAX_WIDTH = 384  # d_model of an untrained model: with 8 layers its weights take 60 MB
SELECTION = ("layer", "head", "query", "key", "pair")  # their ranges depend on the model and the text
NOT_CHOSEN = -1  # of a layer, head, query or key
NOBODY_CHOSE = {"selection": "auto", **dict.fromkeys(("layer", "head", "query", "key"), NOT_CHOSEN)}
NEW_TEXT = ("text", "model")  # a change of these makes positions and heads others
HOW_IT_RUNS = ("rope", "theta", "causal", "window", "n_sinks", "padding")
FIRST_HEAD = 1, 3  # layer and head where nothing else decides: an induction head of most checkpoints
OWN_THETA = 0.0  # no base: the model's own, which is 10,000 for the checkpoints
DEFAULT_TEXT = (
    "The little girl found a red ball in the garden. The old man laughed. "
    "The little girl found a red ball in the garden."
)

_Self = TypeVar("_Self", bound="SharedSettings")


@dataclass(frozen=True)
class SharedSettings:
    """Settings of all pages."""

    text: str = setting(DEFAULT_TEXT, Text())
    model: str = setting("gqa-4", ModelName())
    run_kind: str = setting("", Text(most=20))  # of a saved run with several kinds of attention; "": its first
    # the user's own, untrained model
    d_model: int = setting(192, Number(6, MAX_WIDTH))
    n_heads: int = setting(8, Number(1, MAX_HEADS))
    n_layers: int = setting(4, Number(1, MAX_LAYERS))
    attention: str = setting("gqa", Choice(tuple(OWN)))
    n_kv_heads: int = setting(4, Number(1, MAX_HEADS))
    head_dim: int = setting(0, Number(0, 128, even=True))  # 0: d_model / n_heads; of MLA, the part without RoPE
    kv_lora_rank: int = setting(64, Number(1, 512))  # numbers of MLA's latent
    qk_rope_head_dim: int = setting(16, Number(2, 128, even=True))  # of MLA's RoPE key
    qkv_bias: bool = setting(False, Flag())
    seed: int = setting(0, Number(0, 2**31 - 1))
    # how any model is run
    rope: bool = setting(True, Flag())
    theta: float = setting(OWN_THETA, Number(100, 10_000_000, whole=False))
    causal: bool = setting(True, Flag())
    window: int = setting(0, Number(0, 512))  # 0: no window
    n_sinks: int = setting(0, Number(0, 16))  # attention-sink tokens, visible outside the window
    # the selection
    tab: str = setting("", Choice(("", *TABS)))  # the open tab of a page; "": its first
    # What decides where nobody chose. "auto": what stands out on the text; "kept": this was selected before the mask or
    # the position settings changed, and stays until the text does; "", as in links made before the others: FIRST_HEAD
    # and the query at three quarters of the text.
    selection: str = setting("", Choice(("", "auto", "kept")))
    layer: int = setting(NOT_CHOSEN, Number(0, MAX_LAYERS - 1))
    head: int = setting(NOT_CHOSEN, Number(0, MAX_HEADS - 1))
    query: int = setting(NOT_CHOSEN, Number(-1, 511))  # a position in the text
    key: int = setting(NOT_CHOSEN, Number(-1, 511))  # a position in the text; -1: the query's strongest key

    def own_config(self) -> ModelConfig:
        """Return the configuration of the user's own model, with RoPE and masks from the settings."""
        return self.run_of(self.own_weights())

    def own_weights(self) -> ModelConfig:
        """Return the part of the user's configuration that, with the seed, determines the weights."""
        head_dim = self.head_dim or self.d_model // self.n_heads
        mixer = OWN[self.attention]
        chosen = mixer.config_fields(head_dim, **{name: getattr(self, name) for name in mixer.chosen})
        return ModelConfig(self.n_layers, self.d_model, self.n_heads, **chosen)

    def variants(self: _Self) -> tuple[_Self, ...]:
        """Return the user's own model with each attention that it can have."""
        sizes: list[tuple[str, dict[str, Any]]] = [
            (name, chosen) for name, mixer in OWN.items() for chosen in mixer.variants(self.n_heads)
        ]
        return tuple(replace(self, attention=name, **chosen) for name, chosen in sizes)

    def multi_head(self: _Self) -> _Self:
        """Return the user's own model with one KV head for each query head."""
        name = next(name for name, mixer in OWN.items() if mixer.shares_kv_heads)
        return replace(self, attention=name, n_kv_heads=self.n_heads)

    def with_latent(self: _Self) -> _Self:
        """Return the user's own model with the attention that has an absorbed form."""
        return replace(self, attention=next(name for name, mixer in OWN.items() if mixer.absorbed))

    @property
    def nobody_chose(self) -> bool:
        """Check whether layer, head and query are all what stands out on the text."""
        return all(getattr(self, name) == NOBODY_CHOSE[name] for name in ("selection", "layer", "head", "query"))

    def as_before(self: _Self) -> _Self:
        """Return what a link made before there was a choice gives: FIRST_HEAD is not named, chosen or not."""
        if self.selection == "auto":
            return self
        layer, head = FIRST_HEAD
        return replace(
            self,
            layer=NOT_CHOSEN if self.layer == layer else self.layer,
            head=NOT_CHOSEN if self.head == head else self.head,
        )

    @property
    def chosen_head(self) -> tuple[int, int]:
        """The chosen layer and head, or those of FIRST_HEAD; the model may have fewer."""
        layer, head = FIRST_HEAD
        return (layer if self.layer < 0 else self.layer), (head if self.head < 0 else self.head)

    @property
    def opened(self) -> bool:
        """True if the model is neither a shipped checkpoint nor built from the user's own settings."""
        return self.model not in MODELS

    @property
    def recorded(self) -> bool:
        """True if the model is a saved run: what a model computed once, without the model."""
        return openable.is_run(self.model)

    @property
    def tokenizer(self) -> str:
        """Name of the model whose tokenizer is used: an opened model has its own, the others share one."""
        return self.model if self.opened else "own"

    @property
    def model_name(self) -> str:
        """Display name of the model."""
        return MODEL_NAMES.get(self.model) or openable.short_name(self.model)

    def run_of(self, config: ModelConfig) -> ModelConfig:
        """Return a configuration with RoPE, mask and window from these settings; weights stay valid.

        By default with the model's own positions, base and windows.
        """
        rotates = config.position == "rope"
        theta = None if self.theta == OWN_THETA or not rotates else self.theta
        run = config.run_as(window=self.window or None, n_sinks=self.n_sinks, theta=theta)
        return replace(run, causal=self.causal, position="none" if rotates and not self.rope else config.position)


@dataclass(frozen=True)
class ShowSettings:
    """Settings of embedding and of presentation mode."""

    only: str = setting("", Choice(("", *ELEMENTS)))  # the only element shown
    present: bool = setting(False, Flag())


@cache
def widths(n_heads: int) -> tuple[int, ...]:
    """Return the values of d_model that give each of n_heads heads an even number of dimensions, as RoPE requires."""
    step = math.lcm(8, 2 * n_heads) if n_heads & (n_heads - 1) == 0 else 2 * n_heads
    return tuple(range(step, MAX_WIDTH + 1, step))
