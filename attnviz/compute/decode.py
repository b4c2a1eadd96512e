"""What the Decode page computes: a text that the model writes, and the same text decoded in other ways.

Everything is computed once for all who look at the same.
"""

from __future__ import annotations

import inspect
import sys
from functools import lru_cache
from pathlib import Path
from threading import Lock

from cachetools import LRUCache

from attnviz import decode
from attnviz.compute import models, queue
from attnviz.compute.byte_cache import ByteCache
from attnviz.compute.view import View
from attnviz.decode import comparisons, speculate
from attnviz.decode.comparisons import Bounded, Compared, Kept, Member, Roofline, Shared, Speculated, Spread
from attnviz.decode.writing import Written, write
from attnviz.session.settings import Settings

AHEAD = 24  # tokens written beyond those of the link
AT_ONCE = 1  # of them, what a click waits for
MORE = 40  # tokens written beyond those that the browser has, while it plays
PIECE = 8  # tokens between two looks at whether the session wants something else
MOST_TOKENS = 512  # of the text and what continues it
MAX_RUN_BYTES = 24_000_000
SHIPPED = ("mha", "gqa-4", "gqa-2", "mqa", "mla")
LONG_TEXT = Path(__file__).with_name("long_text.txt")  # written for this project
N_READ = 192  # tokens of the running text whose loss is plotted
N_SHARED = 12  # tokens that each continuation adds
N_SPECULATED = 24

_runs = ByteCache(MAX_RUN_BYTES)
_last: LRUCache = LRUCache(64)  # by the text and how it is continued: the key of what was written last
_lock = Lock()


def causal(view: View) -> View:
    """The same with a causal mask: a cache is of use only where earlier tokens never look ahead."""
    return view if view.config.causal else view.but(causal=True)


def sampling_of(s: Settings) -> decode.Sampling:
    """Return how the next token is chosen."""
    return decode.Sampling(
        s.temperature, s.top_k or None, s.top_p if s.top_p < 1 else None, s.min_p or None, s.penalty, s.draw_seed
    )


def usable(view: View) -> tuple[int, ...]:
    """Return the ids of the link that the model has, up to the first that it lacks and as far as there is room."""
    most = view.config.vocab_size
    known = [i < most for i in view.settings.written]
    end = known.index(False) if False in known else len(known)
    return view.settings.written[: max(0, min(end, room(view)))]


def room(view: View) -> int:
    """Count the tokens that can be written behind the text."""
    return max(0, min(MOST_TOKENS, view.max_tokens) - len(view.ids))


def written_of(view: View, ahead: int = AHEAD) -> Written:
    """Let the model write: first the tokens of the link, then as many more as are shown ahead.

    Fewer where the session asks for something else meanwhile. What was written last after the same text is the
    beginning of what is written now.
    """
    view = causal(view)
    s, fixed, layer = view.settings, usable(view), view.layer_and_head[0]
    text = "written", models.weights_key(s), view.config, view.ids, sampling_of(s), layer
    most = min(len(fixed) + ahead, room(view))

    def first(n: int) -> Written:
        """The first n tokens."""
        key = *text, fixed, n
        with _lock:
            before, _last[text] = _last.get(text), key

        def run() -> Written:
            return write(view.model, view.ids, fixed, n, sampling_of(s), layer, before and _runs.find(before))

        return models.computed_once(key, run, _runs)

    n = min(len(fixed) + AT_ONCE, most)
    found = first(n)
    while n < most and not queue.wanted_elsewhere():
        n = min(n + PIECE, most)
        found = first(n)
    return found


def text_so_far(view: View) -> tuple[int, ...]:
    """Return the ids of the text and of what is written after it, as far as the player has gone."""
    written, shown = usable(view), view.settings.shown
    return *view.ids, *(written if shown < 0 else written[:shown])


@lru_cache(maxsize=1)
def sources() -> dict[str, str]:
    """Return the source of what decodes: {file: source}."""
    shown = (
        decode.generate,
        decode.Sampling,
        decode.SlidingCache,
        decode.PagedSequence,
        decode.QuantisedCache,
        speculate,
    )
    modules = [sys.modules[each.__module__] for each in shown]
    return {module.__name__.rpartition(".")[2] + ".py": inspect.getsource(module) for module in modules}


def compared(view: View) -> Compared:
    """Compute the last token of the text and what is written, with a cache and anew. ConfigError with a window."""
    view = causal(view)
    return _compared(view.settings, _at_least_two(view))


@models.cached_by_model(maxsize=32)
def _compared(settings: Settings, ids: tuple[int, ...]) -> Compared:
    return comparisons.with_and_without(models.model_of(settings), ids, _step_seconds(settings, len(ids)))


@models.cached_by_model(maxsize=128)
def _step_seconds(settings: Settings, n_tokens: int) -> tuple[Spread, Spread]:
    """Measure once for each length: which tokens they are makes no difference to the time."""
    return comparisons.step_seconds(models.model_of(settings), _some_ids(settings, n_tokens))


def _some_ids(settings: Settings, n_tokens: int) -> list[int]:
    return [i % models.config_of(settings).vocab_size for i in range(n_tokens)]


def _at_least_two(view: View) -> tuple[int, ...]:
    """The text and what is written; a text of one token twice."""
    ids = (*view.ids, *usable(view))
    return ids if len(ids) > 1 else ids * 2


@lru_cache(maxsize=16)
def family(ids: tuple[int, ...], sampling: decode.Sampling) -> tuple[Member, ...]:
    """Let the five trained checkpoints continue the same text."""
    five = {name: models.model_of(Settings(model=name)) for name in SHIPPED}
    return comparisons.side_by_side(five, ids, AHEAD, sampling)


def running_text(view: View) -> tuple[tuple[int, ...], bool]:
    """Return the text and what is written after it; where they are shorter than N_READ, a story of the app's own.

    The flag says whether it is the person's own.
    """
    own = (*view.ids, *usable(view))
    if len(own) >= N_READ:
        return own[:N_READ], True
    return tuple(
        models.tokenizer_of(view.settings.model).encode(LONG_TEXT.read_text(encoding="utf-8"))[
            : min(N_READ, view.max_tokens)
        ]
    ), False


def bounded(view: View) -> tuple[Bounded, ...]:
    """Read a text with four caches. ValueError where the model has a window, or its RoPE does not allow it."""
    view = causal(view)
    return _bounded(view.settings, running_text(view)[0], view.settings.bound, view.settings.kept_first)


@models.cached_by_model(maxsize=16)
def _bounded(settings: Settings, ids: tuple[int, ...], limit: int, n_sinks: int) -> tuple[Bounded, ...]:
    return comparisons.bounded(models.model_of(settings), ids, limit, n_sinks)


def kept(view: View) -> tuple[Kept, ...]:
    """Read the same text with keys and values in float32, int8 and int4."""
    view = causal(view)
    return _kept(view.settings, running_text(view)[0])


@models.cached_by_model(maxsize=16)
def _kept(settings: Settings, ids: tuple[int, ...]) -> tuple[Kept, ...]:
    return comparisons.kept(models.model_of(settings), ids)


def shared(view: View) -> Shared:
    """Let several continuations share the blocks of the text."""
    view = causal(view)
    s, ids = view.settings, _at_least_two(view)[-(view.max_tokens - N_SHARED) :]
    return _shared(s, ids, s.n_texts, s.block_size, shared_sampling(s), min(MOST_TOKENS, view.max_tokens))


def shared_sampling(s: Settings) -> decode.Sampling:
    """Return how the first continuation is drawn: greedy, all would write the same."""
    return decode.Sampling(max(s.temperature, 0.8), seed=s.draw_seed)


@models.cached_by_model(maxsize=16)
def _shared(
    settings: Settings, ids: tuple[int, ...], n_texts: int, block_size: int, sampling: decode.Sampling, reserved: int
) -> Shared:
    return comparisons.shared(models.model_of(settings), ids, n_texts, N_SHARED, block_size, sampling, reserved)


def speculated(view: View) -> Speculated:
    """Let a drafter propose tokens and the model check them."""
    view = causal(view)
    s, ids = view.settings, (*view.ids, *usable(view))[: view.max_tokens - N_SPECULATED]
    return _speculated(s, ids, s.drafter, s.proposed, sampling_of(s))


@models.cached_by_model(maxsize=16)
def _speculated(
    settings: Settings, ids: tuple[int, ...], drafter: str, k: int, sampling: decode.Sampling
) -> Speculated:
    model = models.model_of(settings)

    def fresh() -> decode.ModelDrafter | decode.NGramDrafter:
        if drafter == "n-grams":
            return decode.NGramDrafter(model.config.vocab_size)
        return decode.ModelDrafter(models.model_of(Settings(model=drafter)))

    return comparisons.speculated(model, ids, N_SPECULATED, fresh, k, sampling)


def roofline(view: View) -> Roofline:
    """Measure reading the text at once, and one token after it. ConfigError with a window."""
    view = causal(view)
    return _roofline(view.settings, len(_at_least_two(view)))


@models.cached_by_model(maxsize=64)
def _roofline(settings: Settings, n_tokens: int) -> Roofline:
    return comparisons.roofline(models.model_of(settings), _some_ids(settings, n_tokens))
