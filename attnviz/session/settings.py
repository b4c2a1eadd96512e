"""Everything a person can choose, as one frozen object that fits into a link.

No streamlit here. `from_link` never fails: a value that cannot be used becomes the nearest that can, with a sentence
that says so.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from functools import cache
from typing import Any
from urllib.parse import quote_plus

from attnviz.config import ModelConfig, divisors
from attnviz.cost import PRECISIONS, load_accelerators
from attnviz.facts import published_facts
from attnviz.session import opening
from attnviz.session.elements import ELEMENTS
from attnviz.session.mistakes import MISTAKES
from attnviz.session.opening import MOST_HEADS, MOST_LAYERS
from attnviz.session.pages import TABS, TABS_BEFORE, Page

MAX_CHARACTERS = 20_000
MAX_WIDTH = 384  # d_model of an untrained model: with 8 layers its weights take 60 MB
SELECTION = ("layer", "head", "query", "key", "pair")  # what there is of these depends on the model and the text
MAX_QUOTED_CHARS = 40  # characters of a link's value that a sentence about it repeats
MAX_ADDRESS = 7_000  # bytes; servers refuse addresses over 8 kB, and 512 tokens take about 2
MODELS = ("mha", "gqa-4", "gqa-2", "mqa", "mla", "own")
MODEL_NAMES = {
    "mha": "MHA", "gqa-4": "GQA-4", "gqa-2": "GQA-2", "mqa": "MQA", "mla": "MLA", "own": "My own settings",
}  # fmt: skip
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
        few = len(self.options) <= 10
        return f"one of {', '.join(self.options) if few else f'{len(self.options)} known ids'}"


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
    """Free text, cut at MAX_CHARACTERS."""

    def read(self, written: str) -> object:
        return written[:MAX_CHARACTERS]

    def range(self) -> str:
        return f"a text of at most {MAX_CHARACTERS:,} characters"


@dataclass(frozen=True)
class Several:
    """A few out of many words, in the order chosen."""

    options: tuple[str, ...]
    most: int

    def read(self, written: str) -> object:
        chosen = tuple(word for word in dict.fromkeys(written.split(",")) if word in self.options)[: self.most]
        if written and not chosen:
            raise ValueError
        return chosen

    def range(self) -> str:
        return f"at most {self.most} of {len(self.options)} known ids with commas between them"


@dataclass(frozen=True)
class Ids:
    """Token ids, separated by dots. Ids beyond the vocabulary are for whoever runs them to refuse."""

    most: int

    def read(self, written: str) -> object:
        ids = tuple(int(word) for word in written.split(".")[: self.most] if word)
        if any(not 0 <= i < 2**20 for i in ids):
            raise ValueError
        return ids

    def range(self) -> str:
        return f"at most {self.most} token ids with dots between them"


SUBJECTS = ("shapes", "heads", "masks", "rope", "cost", "decoding")
TASKS = (
    "attention", "self-attention", "mha", "gqa", "rope", "rms-norm", "swiglu", "cache", "block", "top-p", "mla",
    "flash",
)  # fmt: skip
THETA = 10_000.0  # of the checkpoints; of a model that was opened it stands for its own
PRESETS = tuple(published_facts())
MOST_PINNED = 8
HEADS = tuple(f"{layer}.{head}" for layer in range(MOST_LAYERS) for head in range(MOST_HEADS))
EVEN = ("head_dim", "qk_rope_head_dim")  # since RoPE rotates pairs


def _setting(default: object, kind: Number | Choice | ModelName | Several | Flag | Text | Ids) -> Any:
    return field(default=default, metadata={"kind": kind})


@dataclass(frozen=True)
class Settings:
    """What is selected. The defaults are what a bare address shows."""

    text: str = _setting(DEFAULT_TEXT, Text())
    model: str = _setting("gqa-4", ModelName())
    # a model of one's own, untrained
    d_model: int = _setting(192, Number(6, MAX_WIDTH))
    n_heads: int = _setting(8, Number(1, MOST_HEADS))
    n_layers: int = _setting(4, Number(1, MOST_LAYERS))
    attention: str = _setting("gqa", Choice(("gqa", "mla")))  # "gqa": MHA, GQA or MQA, by the number of KV heads
    n_kv_heads: int = _setting(4, Number(1, MOST_HEADS))
    head_dim: int = _setting(0, Number(0, 128))  # 0: d_model / n_heads; of MLA, the part without RoPE
    kv_lora_rank: int = _setting(64, Number(1, 512))  # numbers of MLA's latent
    qk_rope_head_dim: int = _setting(16, Number(2, 128))  # of MLA's rotated key
    qkv_bias: bool = _setting(False, Flag())
    seed: int = _setting(0, Number(0, 2**31 - 1))
    # how any model is run
    rope: bool = _setting(True, Flag())
    theta: float = _setting(THETA, Number(100, 10_000_000, whole=False))
    causal: bool = _setting(True, Flag())
    window: int = _setting(0, Number(0, 512))  # 0: no window
    n_sinks: int = _setting(0, Number(0, 16))  # first tokens that stay visible behind the window
    # the selection
    tab: str = _setting("", Choice(("", *TABS)))  # the open part of a page; "": its first
    layer: int = _setting(1, Number(0, MOST_LAYERS - 1))  # an induction head of most checkpoints
    head: int = _setting(3, Number(0, MOST_HEADS - 1))
    query: int = _setting(-1, Number(-1, 511))  # a position in the text; -1: at three quarters
    key: int = _setting(-1, Number(-1, 511))  # a position in the text; -1: the one the query gives most
    pair: int = _setting(
        -1, Number(-1, 511)
    )  # of dimensions, as RoPE rotates them; -1: one that adds much to the score
    fraction: float = _setting(0.5, Number(0, 1, whole=False))  # of the dimensions, where only a part turns
    factor: float = _setting(2.0, Number(1, 32, whole=False))  # how many times longer than in training texts may be
    colour: str = _setting("linear", Choice(("linear", "log")))
    sink_aside: bool = _setting(False, Flag())  # the first token's column out of the colour scale
    tiled: bool = _setting(False, Flag())  # KV heads laid over the query heads in the order that is a mistake
    alike: str = _setting("keys", Choice(("keys", "values")))
    # step by step
    step: int = _setting(0, Number(0, 9_999))  # the line of the walk
    column: int = _setting(-1, Number(-1, 2**20))  # of the tensors' last axis; -1: where a row is farthest from 0
    absorbed: bool = _setting(False, Flag())  # latent attention without expanding keys and values
    block: int = _setting(16, Number(1, 512))  # keys in a tile
    lens: int = _setting(-1, Number(-1, 47))  # the layer whose prediction is read early; -1: after the last
    candidate: int = _setting(0, Number(0, 9))  # by rank, of the next tokens
    # decode
    written: tuple[int, ...] = _setting((), Ids(512))  # the tokens that continue the text
    shown: int = _setting(-1, Number(-1, 512))  # how many of them the player has reached; -1: all
    temperature: float = _setting(0.8, Number(0, 5, whole=False))  # 0: the most probable token
    top_k: int = _setting(0, Number(0, 1000))  # 0: no such filter
    top_p: float = _setting(0.95, Number(0, 1, whole=False))  # 1: no such filter
    min_p: float = _setting(0.0, Number(0, 1, whole=False))  # 0: no such filter
    penalty: float = _setting(1.0, Number(0.1, 5, whole=False))  # of tokens that the text has; 1: none
    draw_seed: int = _setting(0, Number(0, 2**31 - 1))
    bound: int = _setting(48, Number(8, 256))  # tokens that a cache of limited size holds
    kept_first: int = _setting(4, Number(1, 7))  # of them, the first tokens of the text
    n_texts: int = _setting(3, Number(2, 8))  # continuations that share the text's blocks
    block_size: int = _setting(8, Number(1, 64))  # tokens in a block
    drafter: str = _setting("mqa", Choice(("mqa", "gqa-2", "gqa-4", "mha", "mla", "n-grams")))
    proposed: int = _setting(4, Number(1, 8))  # tokens that the drafter proposes at a time
    # mistakes
    mistake: str = _setting("mask_after_softmax", Choice(MISTAKES))
    version: str = _setting("", Choice(("", "right", "mistaken")))  # that Step by step walks; "": no mistake is offered
    # what it costs
    context: int = _setting(32_768, Number(1, 2**20))  # tokens of one sequence
    batch: int = _setting(1, Number(1, 1024))  # sequences
    precision: str = _setting("bf16", Choice(tuple(PRECISIONS)))  # of the cache
    compare: tuple[str, ...] = _setting(
        ("llama-2-7b", "llama-3-8b", "gemma-3-27b", "deepseek-v3"), Several(PRESETS, most=6)
    )
    preset: str = _setting("llama-3-8b", Choice(PRESETS))
    facts: str = _setting("", Text())  # of any other model, as JSON
    machine: str = _setting("h100-sxm", Choice(tuple(load_accelerators())))
    n_machines: int = _setting(1, Number(1, 64))
    weights: str = _setting("bf16", Choice(tuple(PRECISIONS)))  # precision of a published model's weights
    reserve: int = _setting(10, Number(0, 90))  # per cent of the memory
    # practice
    subject: str = _setting("", Choice(("", *SUBJECTS)))  # of the questions; "": all
    level: int = _setting(2, Number(1, 3))  # the hardest of the questions
    questions: int = _setting(10, Number(1, 50))  # in a set
    minutes: int = _setting(0, Number(0, 120))  # for a set; 0: no limit
    question_set: int = _setting(1, Number(0, 999_999))  # the seed that everybody with the link gets
    task: str = _setting("gqa", Choice(TASKS))  # to write oneself
    # the heads page
    pinned: tuple[str, ...] = _setting((), Several(HEADS, most=MOST_PINNED))  # heads shown beside the selected one
    padding: int = _setting(0, Number(0, 511))  # tokens at the front that are padding
    other_head: str = _setting("", Choice(("", *HEADS)))  # compared with the selected one; "": the next in its layer
    other_model: str = _setting("mha", ModelName())  # compared with the model
    difference_of: str = _setting("heads", Choice(("heads", "texts")))
    average: str = _setting("layer", Choice(("layer", "all")))
    mask_window: int = _setting(8, Number(1, 128))  # of the masks set side by side
    mask_sinks: int = _setting(1, Number(1, 16))
    second_text: str = _setting(SECOND_TEXT, Text())  # whose tokens are keys and values
    off: tuple[str, ...] = _setting((), Several(HEADS, most=32))  # heads switched off; none: the selected one
    off_way: str = _setting("zero", Choice(("zero", "mean")))
    mask_padding: int = _setting(3, Number(1, 127))
    # a lesson, a drawing alone, presenting
    lesson: str = _setting("", Text())  # the name of the lesson that is on
    lesson_step: int = _setting(1, Number(1, 99))
    only: str = _setting("", Choice(("", *ELEMENTS)))  # the element that is shown alone
    present: bool = _setting(False, Flag())

    def normalised(self) -> Settings:
        """Return the nearest settings that a model can be built from: KV heads that divide, a head_dim that is even."""
        n_kv_heads = nearest(self.n_kv_heads, divisors(self.n_heads))
        d_model = nearest(self.d_model, widths(self.n_heads))
        lists: dict[str, Any] = {
            name: tuple(getattr(self, name)) for name in ("compare", "pinned", "off", "written")
        }  # widgets give lists
        even = {name: getattr(self, name) // 2 * 2 for name in EVEN}
        return replace(self, n_kv_heads=n_kv_heads, d_model=d_model, **lists, **even)

    def own_config(self) -> ModelConfig:
        """Return the model of one's own, RoPE and masks as chosen."""
        return self.run_of(self.own_weights())

    def own_weights(self) -> ModelConfig:
        """Return the part of one's own configuration that, with the seed, decides the weights."""
        head_dim = self.head_dim or self.d_model // self.n_heads
        if self.attention == "mla":
            return ModelConfig(
                self.n_layers, self.d_model, self.n_heads, attention="mla", kv_lora_rank=self.kv_lora_rank,
                qk_nope_head_dim=head_dim, qk_rope_head_dim=self.qk_rope_head_dim, v_head_dim=head_dim,
            )  # fmt: skip
        return ModelConfig(self.n_layers, self.d_model, self.n_heads, self.n_kv_heads, head_dim, qkv_bias=self.qkv_bias)

    @property
    def opened(self) -> bool:
        """Whether the model is neither a shipped checkpoint nor one's own settings."""
        return self.model not in MODELS

    @property
    def tokenizer(self) -> str:
        """Whose tokenizer reads the text: that of an opened model is its own, the others share one."""
        return self.model if self.opened else "own"

    @property
    def model_name(self) -> str:
        """What the model is called on a page."""
        return MODEL_NAMES.get(self.model) or opening.short_name(self.model)

    def run_opened(self, config: ModelConfig) -> ModelConfig:
        """Return an opened model's configuration as chosen; where nothing is chosen, its own theta and windows."""
        chosen: dict[str, Any] = {"causal": self.causal}
        if config.position == "rope":
            chosen["position"] = "rope" if self.rope else "none"
            chosen["rope_theta"] = config.rope_theta if self.theta == THETA else self.theta
        if self.window:
            other_theta = config.rope_theta_windowed is not None  # there the layers with a window stay those
            full = config.full_layers if other_theta else ()
            chosen |= {"sliding_window": self.window, "n_sinks": self.n_sinks, "full_layers": full}
        return replace(config, **chosen)

    def run_of(self, config: ModelConfig) -> ModelConfig:
        """Return the same weights' configuration as chosen: with or without RoPE, mask and window."""
        return replace(
            config,
            position="rope" if self.rope else "none",
            rope_theta=self.theta,
            causal=self.causal,
            sliding_window=self.window or None,
            n_sinks=self.n_sinks if self.window else 0,
        )

    def to_link(self) -> dict[str, str]:
        """Write what differs from the defaults for a link; a long text as far as an address can carry it."""
        link = {f.name: _written(getattr(self, f.name)) for f in fields(self) if getattr(self, f.name) != f.default}
        return link | {"text": _for_address(self.text)} if "text" in link else link

    @classmethod
    def from_link(cls, link: Mapping[str, str], page: Page | None = None) -> tuple[Settings, list[str]]:
        """Read the settings a link asks for, and a sentence for each value in it that could not be used as it was.

        page: the page that the link leads to, for links of before, which named the open part of each page apart.
        """
        values: dict[str, Any] = {}
        notices, unread = [], set()
        link = _with_tab(link, page)
        for name, written in link.items():
            if name not in _KINDS:
                notices.append(f"The link's “{name[:40]}” is nothing this page knows; it was left out.")
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
                notices.append(_replaced(name, written, values, settings))
        return settings, notices


def _with_tab(link: Mapping[str, str], page: Page | None) -> dict[str, str]:
    """The link with what it says of this page's open part under the name `tab`, and nothing of other pages' parts."""
    plain = {name: written for name, written in link.items() if name not in TABS_BEFORE}
    if page and page.tab_before in link:
        plain.setdefault("tab", link[page.tab_before])
    return plain


def kind_of(name: str) -> Number | Choice | ModelName | Several | Flag | Text | Ids:
    """Return what values the setting of this name may have; KeyError where there is none."""
    return _KINDS[name]


_KINDS = {f.name: f.metadata["kind"] for f in fields(Settings)}


@cache
def widths(n_heads: int) -> tuple[int, ...]:
    """The d_model that n_heads heads can share so that each has an even number of dimensions, as RoPE's pairs need."""
    step = math.lcm(8, 2 * n_heads) if n_heads & (n_heads - 1) == 0 else 2 * n_heads
    return tuple(range(step, MAX_WIDTH + 1, step))


def nearest(value: float, allowed: tuple[int, ...]) -> int:
    """Return the allowed number closest to value."""
    return min(allowed, key=lambda a: abs(a - value))


def _for_address(text: str) -> str:
    """Cut the text to what takes MAX_ADDRESS bytes in an address, where a character can take twelve."""
    if len(quote_plus(text, errors="replace")) <= MAX_ADDRESS:
        return text
    room = MAX_ADDRESS
    for i, character in enumerate(text):
        room -= len(quote_plus(character, errors="replace"))
        if room < 0:
            return text[:i]
    return text


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


def _replaced(name: str, written: str, values: Mapping[str, object], settings: Settings) -> str:
    """Say what a value of a link must be that could not be used as it was, and what is used instead."""
    used, given = (
        getattr(settings, name),
        f"not “{written[:MAX_QUOTED_CHARS]}{'…' * (len(written) > MAX_QUOTED_CHARS)}”",
    )
    if name in ("model", "other_model"):
        return f"The link's {name} is {given.removeprefix('not ')}, which cannot be opened here; {used} is shown."
    if name in SELECTION:  # what is shown instead depends on the model and the text: see ui/selection.py
        return f"The link's {name} must be a whole number, {given}; it was left out."
    if isinstance(kind_of(name), Text):
        return f"The link's {name} must be {kind_of(name).range()}; its first {len(used):,} are used."
    if name in EVEN and name in values and _same(values[name], written):
        return f"The link's {name} must be even, since RoPE rotates pairs, {given}; it is set to {used}."
    if name in values and _same(values[name], written):  # in range by itself
        return f"The link's {name}, {written}, does not fit {settings.n_heads} query heads; it is set to {used}."
    done = f"it is set to {_written(used)}" if _written(used) else "it was left out"
    return f"The link's {name} must be {kind_of(name).range()}, {given}; {done}."
