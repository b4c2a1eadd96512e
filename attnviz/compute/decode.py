"""Computations of the Decode page: generated text, and the same text decoded in other ways.

All results are cached and shared between sessions.
"""

from __future__ import annotations

import inspect
import math
import sys
from collections.abc import Callable, Hashable, Sequence
from dataclasses import replace
from functools import lru_cache
from threading import Lock
from typing import Any

from cachetools import LRUCache, TLRUCache, cached

from attnviz import decode
from attnviz.characters import Span, growing, readable
from attnviz.compute import models, queue
from attnviz.compute.byte_cache import ByteCache
from attnviz.compute.models import Run
from attnviz.compute.view import View
from attnviz.config import FAMILY
from attnviz.decode import comparisons, speculate
from attnviz.decode.comparisons import Bounded, Compared, Member, Quantised, Shared, Speculated, Spread
from attnviz.decode.roofline import Roofline, peak_seconds, place
from attnviz.decode.writing import Written, write
from attnviz.session.settings import Settings

AHEAD = 24  # tokens generated beyond those in the link
AT_ONCE = 1  # of these, how many are generated before a click is answered
MORE = 40  # tokens generated beyond those the browser has, during playback
CHUNK = 8  # tokens generated between two checks for a requested rerun
MAX_RUN_BYTES = 24_000_000
N_READ = 192  # tokens of the text whose loss is plotted
N_SHARED = 12  # tokens in each continuation
N_SPECULATED = 24
MOMENT = 10  # seconds that an unsteady measurement is kept

_runs = ByteCache(MAX_RUN_BYTES)
_last: LRUCache = LRUCache(64)  # text and generation settings -> cache key of the last run
_lock = Lock()


def causal(view: View) -> View:
    """Return the view with a causal mask: a KV cache requires that earlier tokens never attend to later ones."""
    return view if view.config.causal else view.but(causal=True)


def sampling_of(s: Settings) -> decode.Sampling:
    """Return the sampling parameters of these settings."""
    return decode.Sampling(
        s.temperature, s.top_k or None, s.top_p if s.top_p < 1 else None, s.min_p or None, s.penalty, s.draw_seed
    )


def usable(view: View) -> tuple[int, ...]:
    """Return the link's token ids up to the first one outside the vocabulary, cut to the tokens that fit."""
    most = view.config.vocab_size
    known = [i < most for i in view.settings.written]
    end = known.index(False) if False in known else len(known)
    return view.settings.written[: max(0, min(end, room(view)))]


def room(view: View) -> int:
    """Return how many tokens can be generated after the text."""
    return max(0, view.max_tokens - len(view.ids))


def continued(view: View) -> tuple[Hashable, ...]:
    """Return what determines the tokens that the model generates, apart from those in the link."""
    return view.run, view.ids, sampling_of(view.settings)


def ends_of(view: View) -> frozenset[int]:
    """Return the tokens that end a text of this model; the checkpoints and untrained models have none."""
    return models.tokenizer_of(view.settings.tokenizer).ends


def written_of(view: View, ahead: int = AHEAD) -> Written:
    """Generate the link's tokens and then `ahead` more; fewer if the session requests a rerun meanwhile.

    Continues from the last run on the same text.
    """
    view = causal(view)
    s, fixed, layer = view.settings, usable(view), view.layer_and_head[0]
    text = "written", *continued(view), layer
    most = min(len(fixed) + ahead, room(view))

    def first(n: int) -> Written:
        """Return the first n tokens."""
        key = *text, fixed, n
        with _lock:
            before, _last[text] = _last.get(text), key

        def run() -> Written:
            written = before and _runs.find(before)
            return write(view.model, view.ids, fixed, n, sampling_of(s), layer, written, ends_of(view))

        return models.computed_once(key, run, _runs)

    n = min(len(fixed) + AT_ONCE, most)
    written = first(n)
    while n < most and not written.ended and not queue.rerun_requested():
        n = min(n + CHUNK, most)
        written = first(n)
    return written


def written_characters(view: View, written: Written) -> list[Span]:
    """Return for each generated token the character that it ends, or the byte that it adds to one, in the text so far.

    Its tokens are counted from the first generated one.
    """
    ids = [step.id for step in written.steps]
    return growing(models.tokenizer_of(view.settings.tokenizer).token_bytes(ids))


def text_of(view: View, ids: Sequence[int]) -> str:
    """Return these tokens as running text; a character that is not complete as the bytes it has."""
    return "".join(readable(span.text) for span in models.tokenizer_of(view.settings.tokenizer).spans(ids))


def text_so_far(view: View) -> tuple[int, ...]:
    """Return the ids of the text and of the generated tokens up to the player's position."""
    written, shown = usable(view), view.settings.shown
    return *view.ids, *(written if shown < 0 else written[:shown])


@lru_cache(maxsize=1)
def sources() -> dict[str, str]:
    """Return the source code of the decoding modules: {file: source}."""
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


# ---- measurements


def _expires(_key: Hashable, found: tuple[Spread | Member, ...], now: float) -> float:
    """Return until when a measurement is kept."""
    return math.inf if all(each.steady for each in found) else now + MOMENT


def measured(measure: Callable) -> Any:
    """Decorate a measurement with a cache that all sessions share; an unsteady one is dropped after a moment."""
    return cached(TLRUCache(128, _expires), lock=Lock())(measure)


def measure_again() -> None:
    """Discard all measurements of this page, for all sessions."""
    for each in (_step_seconds, _peak_seconds, _speculation_seconds, _drafter_seconds, _family):
        each.cache_clear()


def step_seconds(view: View) -> tuple[Spread, ...]:
    """Time the last token of text and continuation with a cache and without."""
    view = causal(view)
    return _step_seconds(view.run, len(_at_least_two(view)))


@measured
def _step_seconds(run: Run, n_tokens: int) -> tuple[Spread, ...]:
    """Measure once per length: the time does not depend on which tokens they are."""
    ids = [i % run.config.vocab_size for i in range(n_tokens)]
    return comparisons.step_seconds(run.model, ids)


@measured
def _peak_seconds() -> tuple[Spread, ...]:
    return peak_seconds()


# ---- the tabs


def compared(view: View) -> Compared:
    """Compute the last token of text and continuation with a cache and without. ConfigError with a window."""
    view = causal(view)
    return _compared(view.run, _at_least_two(view))


@lru_cache(32)
def _compared(run: Run, ids: tuple[int, ...]) -> Compared:
    return comparisons.with_and_without(run.model, ids)


def is_read_twice(view: View) -> bool:
    """Check whether the text is one token, which is repeated: a step with a cache needs an earlier one."""
    return len(view.ids) + len(usable(view)) == 1


def _at_least_two(view: View) -> tuple[int, ...]:
    """Return the ids of text and continuation; a single token is repeated."""
    ids = (*view.ids, *usable(view))
    return ids if len(ids) > 1 else ids * 2


def family(view: View) -> tuple[Member, ...]:
    """Continue the same text with each checkpoint of the family, under the same mask and position settings."""
    return _family(_as_run(view.settings), view.ids[: models.MAX_TOKENS - AHEAD], sampling_of(view.settings))


@measured
def _family(run: Settings, ids: tuple[int, ...], sampling: decode.Sampling) -> tuple[Member, ...]:
    five = {name: models.model_of(replace(run, model=name)) for name in FAMILY}
    return comparisons.side_by_side(five, ids, AHEAD, sampling)


def _as_run(s: Settings) -> Settings:
    """Return the settings of mask and position alone, to run a shipped checkpoint with."""
    return Settings(rope=s.rope, theta=s.theta, window=s.window, n_sinks=s.n_sinks)


def running_text(view: View) -> tuple[tuple[int, ...], bool]:
    """Return the ids of text and continuation, or of a shipped story if they are shorter than N_READ.

    The flag is True for the user's own text.
    """
    own = (*view.ids, *usable(view))
    if len(own) >= N_READ:
        return own[:N_READ], True
    return models.long_text(view.settings)[: min(N_READ, view.max_tokens)], False


def bounded(view: View) -> tuple[Bounded, ...]:
    """Run a text through one full cache and three of limited size. ValueError with a window or unsuitable RoPE."""
    view = causal(view)
    return _bounded(view.run, running_text(view)[0], view.settings.bound, view.settings.kept_first)


@lru_cache(16)
def _bounded(run: Run, ids: tuple[int, ...], limit: int, n_sinks: int) -> tuple[Bounded, ...]:
    on_read = queue.counted(comparisons.bounded_reads(len(ids), limit))
    return comparisons.bounded(run.model, ids, limit, n_sinks, on_read)


def quantised(view: View) -> tuple[Quantised, ...]:
    """Run the same text with keys and values cached in float32, int8 and int4."""
    view = causal(view)
    return _quantised(view.run, running_text(view)[0])


@lru_cache(16)
def _quantised(run: Run, ids: tuple[int, ...]) -> tuple[Quantised, ...]:
    return comparisons.quantised(run.model, ids, queue.counted(3 * (len(ids) - 1)))


def shared(view: View) -> Shared:
    """Generate several continuations that share the text's cache blocks."""
    view = causal(view)
    s, ids = view.settings, _at_least_two(view)[-(view.max_tokens - N_SHARED) :]
    return _shared(view.run, ids, s.n_texts, s.block_size, shared_sampling(s), view.max_tokens)


def shared_sampling(s: Settings) -> decode.Sampling:
    """Return sampling parameters with a temperature of at least 0.8: greedy continuations would all be equal."""
    return decode.Sampling(max(s.temperature, 0.8), seed=s.draw_seed)


@lru_cache(16)
def _shared(
    run: Run, ids: tuple[int, ...], n_texts: int, block_size: int, sampling: decode.Sampling, reserved: int
) -> Shared:
    return comparisons.shared(run.model, ids, n_texts, N_SHARED, block_size, sampling, reserved)


def speculated(view: View) -> Speculated:
    """Run speculative decoding: a drafter proposes tokens and the model verifies them."""
    return _speculated(*_speculation(view))


def speculation_seconds(view: View) -> tuple[Spread, ...]:
    """Time the same tokens written with the drafter and without."""
    return _speculation_seconds(*_speculation(view))


def drafter_seconds(view: View) -> tuple[Spread, ...]:
    """Time a step of the drafter and one of the model, in turn; () for n-grams, which take none."""
    view = causal(view)
    drafter = _drafter_of(view.settings)
    return () if drafter is None else _drafter_seconds(view.run, drafter, len(_at_least_two(view)))


@measured
def _drafter_seconds(run: Run, drafter: Run, n_tokens: int) -> tuple[Spread, ...]:
    return comparisons.decode_step_seconds([drafter.model, run.model], range(n_tokens))


def _speculation(view: View) -> tuple[Run, tuple[int, ...], Run | None, int, decode.Sampling]:
    """Return what speculative decoding depends on."""
    view, ids = causal(view), (*view.ids, *usable(view))[: view.max_tokens - N_SPECULATED]
    s = view.settings
    return models.live_run(s), ids, _drafter_of(s), s.proposed, sampling_of(s)


def _drafter_of(s: Settings) -> Run | None:
    """Return the run of the checkpoint that drafts; None if the text's own n-grams do."""
    return None if s.drafter == "n-grams" else models.live_run(replace(_as_run(s), model=s.drafter))


@lru_cache(16)
def _speculated(run: Run, ids: tuple[int, ...], drafter: Run | None, k: int, sampling: decode.Sampling) -> Speculated:
    return comparisons.speculated(run.model, ids, N_SPECULATED, lambda: _drafter(run, drafter), k, sampling)


@measured
def _speculation_seconds(
    run: Run, ids: tuple[int, ...], drafter: Run | None, k: int, sampling: decode.Sampling
) -> tuple[Spread, ...]:
    return comparisons.speculation_seconds(run.model, ids, N_SPECULATED, lambda: _drafter(run, drafter), k, sampling)


def _drafter(run: Run, drafter: Run | None) -> decode.ModelDrafter | decode.NGramDrafter:
    return decode.NGramDrafter(run.config.vocab_size) if drafter is None else decode.ModelDrafter(drafter.model)


def roofline(view: View) -> Roofline:
    """Place prefill of the text and one decode step after it on this machine's roofline. ConfigError with a window."""
    seconds, view = step_seconds(view), causal(view)
    return place(view.model, len(_at_least_two(view)), seconds, _peak_seconds())
