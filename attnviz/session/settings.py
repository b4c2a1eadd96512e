"""All settings of the app, as one frozen dataclass that can be written to a link and read from one.

No streamlit here. `from_link` never fails: an invalid value is replaced by the nearest valid one, with a notice.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from functools import cache
from typing import Any
from urllib.parse import quote_plus

from attnviz.config import SHIPPED, ModelConfig, divisors
from attnviz.cost import PRECISIONS, load_accelerators
from attnviz.facts import published_facts
from attnviz.session import opening
from attnviz.session.elements import ELEMENTS
from attnviz.session.mistakes import CODES, MISTAKES, with_id
from attnviz.session.opening import MAX_HEADS, MAX_LAYERS
from attnviz.session.pages import TABS, TABS_BEFORE, Page

MAX_CHARACTERS = 20_000
MAX_WIDTH = 384  # d_model of an untrained model: with 8 layers its weights take 60 MB
SELECTION = ("layer", "head", "query", "key", "pair")  # their ranges depend on the model and the text
NOT_CHOSEN = -1  # of a layer, head, query or key
NOBODY_CHOSE = {"selection": "auto", **dict.fromkeys(("layer", "head", "query", "key"), NOT_CHOSEN)}
NEW_TEXT = ("text", "model")  # a change of these makes positions and heads others
HOW_IT_RUNS = ("rope", "theta", "causal", "window", "n_sinks", "padding")
FIRST_HEAD = 1, 3  # layer and head where nothing else decides: an induction head of most checkpoints
MAX_QUOTED_CHARS = 40  # of a link's value in a notice
MAX_ADDRESS = 7_000  # bytes; servers refuse addresses over 8 kB, and 512 tokens take about 2
MODEL_NAMES = {**SHIPPED, "own": "My own settings"}
MODELS = tuple(MODEL_NAMES)
DEFAULT_TEXT = (
    "The little girl found a red ball in the garden. The old man laughed. "
    "The little girl found a red ball in the garden."
)

SECOND_TEXT = "A girl saw a big red ball. The man was happy and laughed."


@dataclass(frozen=True)
class Number:
    """A number between low and high, both included."""

    low: float
    high: float
    whole: bool = True

    def read(self, written: str) -> object:
        value = float(written)
        if math.isnan(value):
            raise ValueError
        value = min(max(value, self.low), self.high)
        return round(value) if self.whole else value

    def range(self) -> str:
        return f"a {'whole ' if self.whole else ''}number from {self.low:,} to {self.high:,}"


@dataclass(frozen=True)
class Choice:
    """One of a few words."""

    options: tuple[str, ...]

    def read(self, written: str) -> object:
        if written not in self.options:
            raise ValueError
        return written

    def range(self) -> str:
        named = [option for option in self.options if option]
        return f"one of {', '.join(named) if len(named) <= 10 else f'{len(named)} known ids'}"


@dataclass(frozen=True)
class ModelName:
    """A shipped checkpoint, "own", or a folder or hub id that may be opened here."""

    def read(self, written: str) -> object:
        if written not in MODELS and not opening.may_open(written):
            raise ValueError
        return written

    def range(self) -> str:
        return f"one of {', '.join(MODELS)}, or a model that may be opened here"


@dataclass(frozen=True)
class Flag:
    """On or off."""

    def read(self, written: str) -> object:
        return {"1": True, "0": False}[written]

    def range(self) -> str:
        return "1 or 0"


@dataclass(frozen=True)
class Text:
    """Free text, cut at `most` characters."""

    most: int = MAX_CHARACTERS

    def read(self, written: str) -> object:
        return written[: self.most]

    def range(self) -> str:
        return f"a text of at most {self.most:,} characters"


@dataclass(frozen=True)
class Several:
    """Several of many words, in the order chosen."""

    options: tuple[str, ...]
    most: int

    def read(self, written: str) -> object:
        chosen = tuple(word for word in dict.fromkeys(written.split(",")) if word in self.options)[: self.most]
        if written and not chosen:
            raise ValueError
        return chosen

    def range(self) -> str:
        return f"at most {self.most} of {len(self.options)} known ids, separated by commas"


@dataclass(frozen=True)
class Ids:
    """Token ids, separated by dots. Ids beyond the vocabulary are not checked here."""

    most: int

    def read(self, written: str) -> object:
        ids = tuple(int(word) for word in written.split(".")[: self.most] if word)
        if any(not 0 <= i < 2**20 for i in ids):
            raise ValueError
        return ids

    def range(self) -> str:
        return f"at most {self.most} token ids, separated by dots"


SUBJECTS = ("shapes", "heads", "masks", "rope", "cost", "decoding")
TASKS = (  # as in practice/tasks, which imports torch
    "attention", "self-attention", "mha", "gqa", "rope", "rms-norm", "swiglu", "cache", "block", "top-p", "mla",
    "flash",
)  # fmt: skip
OWN_THETA = 0.0  # no base: the model's own, which is 10,000 for the checkpoints
PRESETS = tuple(published_facts())
MAX_PINNED = 8
HEADS = tuple(f"{layer}.{head}" for layer in range(MAX_LAYERS) for head in range(MAX_HEADS))
LONG = ("text", "second_text", "facts")  # of any length, in the order in which they share a link's room
EVEN = ("head_dim", "qk_rope_head_dim")  # settings that must be even, since RoPE rotates pairs
STEP_OF = {"step": "decode_step", "write": "own_step"}  # tab -> its own line; in old links all tabs had `step`


def _setting(default: object, kind: Number | Choice | ModelName | Several | Flag | Text | Ids) -> Any:
    return field(default=default, metadata={"kind": kind})


@dataclass(frozen=True)
class Settings:
    """All settings. The defaults are what an address without a query shows."""

    text: str = _setting(DEFAULT_TEXT, Text())
    model: str = _setting("gqa-4", ModelName())
    # the user's own, untrained model
    d_model: int = _setting(192, Number(6, MAX_WIDTH))
    n_heads: int = _setting(8, Number(1, MAX_HEADS))
    n_layers: int = _setting(4, Number(1, MAX_LAYERS))
    attention: str = _setting("gqa", Choice(("gqa", "mla")))  # "gqa": MHA, GQA or MQA, by the number of KV heads
    n_kv_heads: int = _setting(4, Number(1, MAX_HEADS))
    head_dim: int = _setting(0, Number(0, 128))  # 0: d_model / n_heads; of MLA, the part without RoPE
    kv_lora_rank: int = _setting(64, Number(1, 512))  # numbers of MLA's latent
    qk_rope_head_dim: int = _setting(16, Number(2, 128))  # of MLA's RoPE key
    qkv_bias: bool = _setting(False, Flag())
    seed: int = _setting(0, Number(0, 2**31 - 1))
    # how any model is run
    rope: bool = _setting(True, Flag())
    theta: float = _setting(OWN_THETA, Number(100, 10_000_000, whole=False))
    causal: bool = _setting(True, Flag())
    window: int = _setting(0, Number(0, 512))  # 0: no window
    n_sinks: int = _setting(0, Number(0, 16))  # attention-sink tokens, visible outside the window
    # the selection
    tab: str = _setting("", Choice(("", *TABS)))  # the open tab of a page; "": its first
    # What decides where nobody chose. "auto": what stands out on the text; "kept": this was selected before the mask or
    # the position settings changed, and stays until the text does; "", as in links made before the others: FIRST_HEAD
    # and the query at three quarters of the text.
    selection: str = _setting("", Choice(("", "auto", "kept")))
    layer: int = _setting(NOT_CHOSEN, Number(0, MAX_LAYERS - 1))
    head: int = _setting(NOT_CHOSEN, Number(0, MAX_HEADS - 1))
    query: int = _setting(NOT_CHOSEN, Number(-1, 511))  # a position in the text
    key: int = _setting(NOT_CHOSEN, Number(-1, 511))  # a position in the text; -1: the query's strongest key
    pair: int = _setting(-1, Number(-1, 511))  # of dimensions that RoPE rotates; -1: one that adds much to the score
    fraction: float = _setting(0.5, Number(0, 1, whole=False))  # of the dimensions that partial RoPE rotates
    factor: float = _setting(2.0, Number(1, 32, whole=False))  # extended context ÷ training context
    colour: str = _setting("root", Choice(("root", "linear", "log")))
    sink_aside: bool = _setting(False, Flag())  # exclude the first token from the colour scale
    merged: bool = _setting(False, Flag())  # one row and column per character in the maps of the Heads page
    tiled: bool = _setting(False, Flag())  # wrong order of KV heads: repeat() instead of repeat_interleave()
    alike: str = _setting("keys", Choice(("keys", "values")))
    # step by step
    step: int = _setting(0, Number(0, 9_999))  # the line of the walk
    decode_step: int = _setting(0, Number(0, 9_999))  # the line of the walk through one decode step
    column: int = _setting(-1, Number(-1, 2**20))  # of the tensors' last axis; -1: a row's entry of largest magnitude
    absorbed: bool = _setting(False, Flag())  # absorbed form of MLA
    block: int = _setting(16, Number(1, 512))  # keys per tile
    lens: int = _setting(-1, Number(-1, 47))  # logit lens: the layer whose prediction is read; -1: the last
    candidate: int = _setting(0, Number(0, 9))  # rank of the selected next token
    # decode
    written: tuple[int, ...] = _setting((), Ids(512))  # the tokens that continue the text
    shown: int = _setting(-1, Number(-1, 512))  # how many of them are shown by the player; -1: all
    temperature: float = _setting(0.8, Number(0, 5, whole=False))  # 0: greedy
    top_k: int = _setting(0, Number(0, 1000))  # 0: off
    top_p: float = _setting(0.95, Number(0, 1, whole=False))  # 1: off
    min_p: float = _setting(0.0, Number(0, 1, whole=False))  # 0: off
    penalty: float = _setting(1.0, Number(0.1, 5, whole=False))  # repetition penalty; 1: none
    draw_seed: int = _setting(0, Number(0, 2**31 - 1))
    bound: int = _setting(48, Number(8, 128))  # tokens that a cache of limited size holds
    kept_first: int = _setting(4, Number(1, 7))  # attention-sink tokens among them
    n_texts: int = _setting(3, Number(2, 8))  # continuations that share the text's cache blocks
    block_size: int = _setting(8, Number(1, 64))  # tokens per block
    drafter: str = _setting("mqa", Choice((*SHIPPED, "n-grams")))
    proposed: int = _setting(4, Number(1, 8))  # tokens that the drafter proposes at a time
    # mistakes
    mistake: str = _setting("mask_after_softmax", Choice(MISTAKES))
    hunt: str = _setting("auto", Choice(("auto", "1", "0")))  # find the mistaken line before title and repair are shown
    version: str = _setting("", Choice(("", "right", "mistaken")))  # walked on Step by step; "": no mistake is offered
    # cost
    context: int = _setting(32_768, Number(1, 2**20))  # tokens of one sequence
    batch: int = _setting(1, Number(1, 1024))  # sequences
    precision: str = _setting("bf16", Choice(tuple(PRECISIONS)))  # of the cache
    compare: tuple[str, ...] = _setting(
        ("llama-2-7b", "llama-3-8b", "gemma-3-27b", "deepseek-v3"), Several(PRESETS, most=6)
    )
    preset: str = _setting("llama-3-8b", Choice(PRESETS))
    facts: str = _setting("", Text())  # configuration of another model, as JSON
    machine: str = _setting("h100-sxm", Choice(tuple(load_accelerators())))
    n_machines: int = _setting(1, Number(1, 64))
    weights: str = _setting("bf16", Choice(tuple(PRECISIONS)))  # precision of a published model's weights
    reserve: int = _setting(10, Number(0, 90))  # per cent of GPU memory that is not used
    # practice
    subject: str = _setting("", Choice(("", *SUBJECTS)))  # of the questions; "": all
    level: int = _setting(2, Number(1, 3))  # highest difficulty of the questions
    questions: int = _setting(10, Number(1, 50))  # in a set
    minutes: int = _setting(0, Number(0, 120))  # for a set; 0: no limit
    question_set: int = _setting(1, Number(0, 999_999))  # seed of the set, equal for everyone with the link
    task: str = _setting("gqa", Choice(TASKS))  # to write yourself
    own_step: int = _setting(0, Number(0, 9_999))  # the line of the walk through the user's own file
    # the heads page
    pinned: tuple[str, ...] = _setting((), Several(HEADS, most=MAX_PINNED))  # heads shown beside the selected one
    padding: int = _setting(0, Number(0, 511))  # tokens at the front that are padding
    other_head: str = _setting("", Choice(("", *HEADS)))  # compared with the selected one; "": the next in its layer
    other_model: str = _setting("mha", ModelName())  # compared with the model
    difference_of: str = _setting("heads", Choice(("heads", "texts")))
    average: str = _setting("layer", Choice(("layer", "all")))
    mask_window: int = _setting(8, Number(1, 128))  # of the masks shown side by side
    mask_sinks: int = _setting(1, Number(1, 16))
    second_text: str = _setting(SECOND_TEXT, Text())  # its tokens are keys and values in cross-attention
    off: tuple[str, ...] = _setting((), Several(HEADS, most=32))  # ablated heads; empty: the selected one
    off_way: str = _setting("zero", Choice(("zero", "mean")))
    mask_padding: int = _setting(3, Number(1, 127))
    # lessons, embedding, presentation mode
    lesson: str = _setting("", Text(100))  # name of the current lesson
    lesson_step: int = _setting(1, Number(1, 99))
    only: str = _setting("", Choice(("", *ELEMENTS)))  # the only element shown
    present: bool = _setting(False, Flag())

    def normalised(self) -> Settings:
        """Return the nearest valid settings: n_kv_heads divides n_heads, head_dim is even."""
        n_kv_heads = nearest(self.n_kv_heads, divisors(self.n_heads))
        d_model = nearest(self.d_model, widths(self.n_heads))
        # Widgets give lists.
        lists: dict[str, Any] = {name: tuple(getattr(self, name)) for name in ("compare", "pinned", "off", "written")}
        even = {name: getattr(self, name) // 2 * 2 for name in EVEN}
        return replace(self, n_kv_heads=n_kv_heads, d_model=d_model, **lists, **even)

    def own_config(self) -> ModelConfig:
        """Return the configuration of the user's own model, with RoPE and masks from the settings."""
        return self.run_of(self.own_weights())

    def own_weights(self) -> ModelConfig:
        """Return the part of the user's configuration that, with the seed, determines the weights."""
        head_dim = self.head_dim or self.d_model // self.n_heads
        if self.attention == "mla":
            return ModelConfig(
                self.n_layers, self.d_model, self.n_heads, attention="mla", kv_lora_rank=self.kv_lora_rank,
                qk_nope_head_dim=head_dim, qk_rope_head_dim=self.qk_rope_head_dim, v_head_dim=head_dim,
            )  # fmt: skip
        return ModelConfig(self.n_layers, self.d_model, self.n_heads, self.n_kv_heads, head_dim, qkv_bias=self.qkv_bias)

    @property
    def nobody_chose(self) -> bool:
        """Check whether layer, head and query are all what stands out on the text."""
        return all(getattr(self, name) == NOBODY_CHOSE[name] for name in ("selection", "layer", "head", "query"))

    def as_before(self) -> Settings:
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
    def hunts(self) -> bool:
        """True if the mistaken line is to be found first."""
        return self.hunt != "0"

    @property
    def opened(self) -> bool:
        """True if the model is neither a shipped checkpoint nor built from the user's own settings."""
        return self.model not in MODELS

    @property
    def tokenizer(self) -> str:
        """Name of the model whose tokenizer is used: an opened model has its own, the others share one."""
        return self.model if self.opened else "own"

    @property
    def model_name(self) -> str:
        """Display name of the model."""
        return MODEL_NAMES.get(self.model) or opening.short_name(self.model)

    def run_opened(self, config: ModelConfig) -> ModelConfig:
        """Return an opened model's configuration with these settings; by default with its own theta and windows."""
        chosen: dict[str, Any] = {"causal": self.causal}
        if config.position == "rope":
            chosen["position"] = "rope" if self.rope else "none"
            chosen |= self._chosen_theta(config)
        if self.window:
            other_theta = config.rope_theta_windowed is not None  # then only these layers keep a window
            full = config.full_layers if other_theta else ()
            chosen |= {"sliding_window": self.window, "n_sinks": self.n_sinks, "full_layers": full}
        return replace(config, **chosen)

    def run_of(self, config: ModelConfig) -> ModelConfig:
        """Return a configuration with RoPE, mask and window from these settings; weights stay valid."""
        return replace(
            config,
            position="rope" if self.rope else "none",
            causal=self.causal,
            sliding_window=self.window or None,
            n_sinks=self.n_sinks if self.window else 0,
            **self._chosen_theta(config),
        )

    def _chosen_theta(self, config: ModelConfig) -> dict[str, Any]:
        """Return the chosen theta for all layers, also for those with a window; nothing if it is the model's own."""
        if self.theta == OWN_THETA:
            return {}
        windowed = {} if config.rope_theta_windowed is None else {"rope_theta_windowed": self.theta}
        return {"rope_theta": self.theta} | windowed

    def to_link(self) -> dict[str, str]:
        """Return the settings that differ from the defaults, for a link.

        To fit an address, long texts are cut, and a pasted configuration, useless without its end, is left out.
        """
        link = {f.name: _written(getattr(self, f.name)) for f in fields(self) if getattr(self, f.name) != f.default}
        if self.step and self.tab in STEP_OF:  # without it the link would be read as an old one
            link[STEP_OF[self.tab]] = _written(getattr(self, STEP_OF[self.tab]))
        if "mistake" in link:
            link["mistake"] = CODES[self.mistake]
        room = MAX_ADDRESS
        for name in (name for name in LONG if name in link):
            cut = _for_address(link[name], room)
            room -= _size(cut)
            if cut != link[name] and (name == "facts" or not cut):
                del link[name]
            else:
                link[name] = cut
        return link

    @classmethod
    def from_link(cls, link: Mapping[str, str], page: Page | None = None) -> tuple[Settings, list[str]]:
        """Parse the settings of a link; also return a notice for each value that had to be changed.

        page: the link's page, for old links, which had a separate setting per page for the open tab, and one line for
        the walks of all tabs.
        """
        values: dict[str, Any] = {}
        notices, unread = [], set()
        link = with_id(_with_step(_with_tab(link, page), page))
        for name, written in link.items():
            if name not in _KINDS:
                notices.append(f"The link's “{name[:40]}” is not a setting of this app; it was ignored.")
                continue
            try:
                values[name] = kind_of(name).read(written)
            except (ValueError, KeyError, OverflowError):
                unread.add(name)
        settings = cls(**values).normalised()
        for name, written in link.items():
            if name in unread or (
                name in values.keys() - set(SELECTION) and not _same(getattr(settings, name), written)
            ):
                notices.append(_replacement_notice(name, written, values, settings))
        return settings, notices


def _with_tab(link: Mapping[str, str], page: Page | None) -> dict[str, str]:
    """Return the link with this page's old name of `tab` replaced, and the old names of other pages removed."""
    plain = {name: written for name, written in link.items() if name not in TABS_BEFORE}
    if page and page.tab_before in link:
        plain.setdefault("tab", link[page.tab_before])
    return plain


def _with_step(link: Mapping[str, str], page: Page | None) -> dict[str, str]:
    """Return the link with an old `step` renamed to that of the tab it opens, if the tab has one of its own."""
    tab = link.get("tab", "")
    own = STEP_OF.get(tab) if page is None or tab in page.tabs else None
    if own is None or own in link:
        return dict(link)
    return {own if name == "step" else name: written for name, written in link.items()}


def kind_of(name: str) -> Number | Choice | ModelName | Several | Flag | Text | Ids:
    """Return the kind (allowed values) of a setting. KeyError if there is none of this name."""
    return _KINDS[name]


_KINDS = {f.name: f.metadata["kind"] for f in fields(Settings)}


@cache
def widths(n_heads: int) -> tuple[int, ...]:
    """Return the values of d_model that give each of n_heads heads an even number of dimensions, as RoPE requires."""
    step = math.lcm(8, 2 * n_heads) if n_heads & (n_heads - 1) == 0 else 2 * n_heads
    return tuple(range(step, MAX_WIDTH + 1, step))


def nearest(value: float, allowed: tuple[int, ...]) -> int:
    """Return the allowed number closest to value."""
    return min(allowed, key=lambda a: abs(a - value))


def _for_address(text: str, room: int) -> str:
    """Cut the text to this many bytes of a URL-encoded address, where one character can take twelve."""
    if _size(text) <= room:
        return text
    for i, character in enumerate(text):
        room -= _size(character)
        if room < 0:
            return text[:i]
    return text


def _size(text: str) -> int:
    return len(quote_plus(text, errors="replace"))


def _written(value: object) -> str:
    if isinstance(value, bool):
        return "1" if value else "0"
    if isinstance(value, tuple):
        return ".".join(map(str, value)) if value and isinstance(value[0], int) else ",".join(value)
    return repr(value).removesuffix(".0") if isinstance(value, float) else str(value)


def _same(value: object, written: str) -> bool:
    if isinstance(value, tuple):
        return _written(value) == written
    if isinstance(value, str) or isinstance(value, bool):
        return value == written or isinstance(value, bool)
    return float(written) == value


def _replacement_notice(name: str, written: str, values: Mapping[str, object], settings: Settings) -> str:
    """Return the notice for a changed value of a link: the values allowed, the value given, the value used."""
    used, given = (
        getattr(settings, name),
        f"not “{written[:MAX_QUOTED_CHARS]}{'…' * (len(written) > MAX_QUOTED_CHARS)}”",
    )
    if name in ("model", "other_model"):
        return f"The link's {name} is {given.removeprefix('not ')}, which cannot be opened here; {used} is shown."
    if name in SELECTION:  # the value used depends on the model and the text: see View.link_notices
        return f"The link's {name} must be a whole number, {given}; it was ignored."
    if isinstance(kind_of(name), Text):
        return f"The link's {name} must be {kind_of(name).range()}; its first {len(used):,} characters are used."
    if name in EVEN and name in values and _same(values[name], written):
        return f"The link's {name} must be even, since RoPE rotates pairs, {given}; it is set to {used}."
    if name in values and _same(values[name], written):  # in range, but not with this n_heads
        return f"The link's {name}, {written}, does not fit {settings.n_heads} query heads; it is set to {used}."
    if name == "mistake":  # whose id would name what is to be found
        return f"The link's mistake must be {kind_of(name).range()}, {given}; the first one is shown."
    ignored = not _written(used) or (name == "theta" and used == OWN_THETA)
    done = "it was ignored" if ignored else f"it is set to {_written(used)}"
    return f"The link's {name} must be {kind_of(name).range()}, {given}; {done}."
