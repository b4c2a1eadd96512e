"""Player of a generated text in the browser: tokens, candidates, caches and maps grow step by step.

The payload has the steps that the browser lacks: a header, and weights as little-endian uint16, in ten-thousandths.
Another candidate and more tokens are requested from the server.

T tokens of the text, S tokens cached, H query heads.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass

from attnviz.characters import Span, marks, readable
from attnviz.compute.vocabulary import Vocabulary
from attnviz.config import ModelConfig
from attnviz.decode.writing import Written
from attnviz.figures import decode as figures
from attnviz.figures import theme
from attnviz.figures.numbers import rounded
from attnviz.figures.numbers import steps as ten_thousandths
from attnviz.ui.components.as_bytes import framed
from attnviz.ui.components.declared import declared
from attnviz.ui.components.events import on_event, within
from attnviz.ui.components.packed_weights import STEPS

HTML = """
<div class="dp" role="group" aria-label="The text as the model writes it">
  <p class="text" dir="auto" aria-label="The text; what the model wrote is underlined"></p>
  <div class="tools">
    <button type="button" data-go="start" aria-label="To the start" title="To the start">|◀</button>
    <button type="button" data-go="back" aria-label="One token back">◀ back</button>
    <button type="button" data-go="play">▶ play</button>
    <button type="button" data-go="next" aria-label="One token on">one token ▶</button>
    <button type="button" data-go="end"
      aria-label="To the last token computed" title="To the last token computed">▶|</button>
    <span class="some"><button type="button" data-go="run">run</button>
      <input type="number" min="1" max="512" value="8" aria-label="Tokens to run"> tokens</span>
    <label>tokens per second <select aria-label="Tokens per second">
      <option>2</option><option selected>5</option><option>15</option><option>30</option></select></label>
  </div>
  <p class="at" aria-live="polite"></p>
  <div class="two">
    <section>
      <h2 class="next"></h2><div class="scroll"><table class="candidates"></table></div><p class="how"></p>
    </section>
    <section>
      <h2 class="held"></h2><canvas class="caches" role="img"></canvas><p class="sum"></p><p class="legend"></p>
    </section>
  </div>
  <h2 class="maps-title"></h2>
  <div class="maps"></div>
  <p class="rows"></p>
</div>
"""

LARGEST = 2**53  # of the integers that a JavaScript number represents exactly
_mount = declared("decode_player", HTML)


@dataclass(frozen=True)
class Place:
    """Position of the player, and limits of the payload."""

    at: int  # tokens written
    layer: int
    head: int
    most: int  # maximal number of written tokens
    placed: int  # names the text and position that the server set last; an event with another name came too late
    answer: int = 0  # number of the browser's `more` request that this answers: the player then keeps its position
    first: int = 0  # steps that the browser has already, which are not sent
    stale: bool = False  # whether the tab below is stale: the browser then sends its position once it rests
    trained: int | None = None  # tokens of a training row, if known
    ended: str = ""  # why no token follows the last one, if it ends the text


@dataclass(frozen=True)
class Text:
    """The prompt's ids, labels and running text, and what each generated token adds to it: the character it ends."""

    ids: Sequence[int]
    labels: Sequence[str]
    shown: str
    added: Sequence[Span]  # tokens counted from the first generated one


def decode_player(
    written: Written, config: ModelConfig, text: Text, vocabulary: Vocabulary, place: Place, *, key: str,
    on_at: Callable[[int], None], on_choose: Callable[[int, int], None], on_more: Callable[[int, int, int], None],
    on_head: Callable[[int], None],
) -> None:  # fmt: skip
    """Play the steps after the prompt.

    on_at(n) runs shortly after the player stopped at n written tokens; on_choose(n, id) when another token is chosen
    after the first n; on_more(n, number, n_known) at n, before its n_known steps run out; on_head(h) when a head is
    selected. on_at and on_more do not run for events that the browser sent before it received `place`.
    """
    most, n_ids = len(written.steps), len(vocabulary)

    def reached(sent: object) -> None:
        n, placed = within(sent, 0, (most, LARGEST))
        if placed == place.placed:
            on_at(n)

    def chosen(sent: object) -> None:
        on_choose(*within(sent, 0, (most, n_ids - 1)))

    def more(sent: object) -> None:
        *numbers, placed = within(sent, 0, (most, LARGEST, most, LARGEST))
        if placed == place.placed:
            on_more(*numbers)

    def head(sent: object) -> None:
        on_head(within(sent, 0, (config.n_heads - 1, LARGEST))[0])

    _mount(
        key=key, data=pack(written, config, text, vocabulary, place),
        on_at_change=on_event(key, "at", reached), on_choose_change=on_event(key, "choose", chosen),
        on_more_change=on_event(key, "more", more), on_head_change=on_event(key, "head", head),
    )  # fmt: skip


def pack(written: Written, config: ModelConfig, text: Text, vocabulary: Vocabulary, place: Place) -> bytes:
    """Return the payload for the browser."""
    n, steps = len(text.ids) + place.first, written.steps[place.first :]
    counted = [figures.cache_text(config, n + i, sum(step.layer_bytes)) for i, step in enumerate(steps)]
    ids = [*text.ids, *(step.id for step in written.steps)]
    after = [vocabulary.after(ids[: n + i]) for i in range(len(steps))]
    names = [{i: words[i] for i in (s.id, *s.candidates)} for s, words in zip(steps, after, strict=True)]
    mixer, hues = config.layers[place.layer].mixer, theme.kv_palette(config.n_kv_heads)
    read = mixer.kv_head_of
    header = {
        **asdict(place),
        "prompt": list(text.labels),
        "shown": text.shown,
        "steps": [
            {"id": s.id, "p": float(rounded(s.probability)), "candidates": s.candidates, "counted": line,
             "names": named,
             "begins": {i: words.described(i) for i in named if words.described(i)},
             "added": [added.start, readable(added.text)],
             "odds": figures.odds_text(s), "title": figures.choice_title(s, words),
             "passing": figures.passing_text(s, len(vocabulary)),
             "stages": [[name, rounded(odds).tolist()] for name, odds in s.stages]}
            for s, line, named, words, added in zip(
                steps, counted, names, after, text.added[place.first :], strict=True
            )
        ],
        "explained": marks([label for named in names for label in named.values()]),
        "legend": figures.cache_legend(config),
        "windows": [layer.mixer.window for layer in config.layers],
        "sinks": [layer.mixer.n_sinks for layer in config.layers],
        "parts": [figures.cache_parts(layer.mixer) for layer in config.layers],
        "states": figures.state_parts(config, written.steps[0].layer_bytes),
        "attends": mixer.attends,
        "reads": ["" if mixer.own_keys() else mixer.keys_read(kv) for kv in read],
        "before": written.rows.shape[1],
        "kvHeadOf": list(read),
        "hues": hues,
        "marks": [hues[kv] for kv in read],
        "ramps": theme.ramps(read, config.n_kv_heads),
        "masked": list(theme.MASKED_RGBA),
        "scale": STEPS,
    }  # fmt: skip
    cells = [*([] if place.first else [written.rows]), *(step.rows for step in steps)]
    return framed(header, *(ten_thousandths(each.numpy()).clip(0, STEPS).astype("<u2").tobytes() for each in cells))
