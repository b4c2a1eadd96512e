"""Saved runs that were opened: read from files on this machine, or uploaded, in caches of limited size."""

from __future__ import annotations

import hashlib
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from threading import Lock

import numpy as np
from cachetools import LRUCache, TTLCache

from attnviz.analysis import groups
from attnviz.characters import Span
from attnviz.checkpoints import OpenError
from attnviz.compute.byte_cache import ByteCache
from attnviz.config import ModelConfig
from attnviz.mechanisms import Recorded
from attnviz.modules import Transformer
from attnviz.phrases import listed
from attnviz.recorded import Picture, RecordedLayers, RecordedTrace, Sides
from attnviz.runs.arrays import RunError
from attnviz.runs.file import Limits, open_run
from attnviz.runs.labels import SPACES, are_spaced, label_of
from attnviz.runs.run import AttentionKind, AttentionRun
from attnviz.session import openable
from attnviz.session.openable import MAX_HEADS, MAX_LAYERS

MAX_TOKENS = 512  # per side
MAX_BYTES = 1_000_000_000  # of one run: 48 layers of 32 heads at 384 tokens
MAX_HELD_BYTES = 1_500_000_000  # of all that are held, if more than one
LONGEST_NAME, N_DIGITS = 24, 6  # characters of a file's or folder's name and of a digest, in a list
LIMITS = Limits(nbytes=MAX_BYTES, n_tokens=MAX_TOKENS, n_heads=MAX_LAYERS * MAX_HEADS * 3)


@dataclass(eq=False)
class Held:
    """A run in memory, with what was made of its kinds."""

    run: AttentionRun
    digest: str  # the first digits of the SHA-256 of the file's content
    traces: dict[str, RecordedTrace] = field(default_factory=dict)
    lock: Lock = field(default_factory=Lock)

    def trace(self, kind: AttentionKind) -> RecordedTrace:
        with self.lock:
            if kind.name not in self.traces:
                self.traces[kind.name] = RecordedTrace(self.run, kind)
            return self.traces[kind.name]

    @property
    def nbytes(self) -> int:
        """Size in bytes of the run, and of the layers that its traces keep in float32."""
        run = self.run
        kept = sum(RecordedLayers.N_KEPT * 4 * max(layer.size for layer in kind.layers) for kind in run.kinds)
        layers = [a for kind in run.kinds for a in kind.layers]
        others = [a for found in (run.q, run.k, run.v, run.gradients) for each in found.values() for a in each]
        return kept + sum(a.nbytes for a in (*layers, *others, run.logits, run.picture) if a is not None)


_held = ByteCache(MAX_HELD_BYTES)  # by digest
_digests: LRUCache = LRUCache(64)  # by (name, files)
_refused: TTLCache = TTLCache(16, ttl=10)  # seconds: each part of a page asks, and the file may be replaced
_reading = Lock()  # two at once would double the memory


def files_of(name: str) -> Hashable:
    """Return what identifies a run's file as it is now: its size and times; None for an uploaded one, named by content.

    A part of cache keys: a file that was replaced is read again.
    """
    if openable.is_upload(name):
        return None
    try:
        stat = Path(openable.run_path(name)).stat()
    except (OSError, ValueError):
        return None
    return stat.st_size, stat.st_mtime_ns, stat.st_ctime_ns, stat.st_ino


def held(name: str) -> Held:
    """Return the run with this name in the settings. OpenError, in a sentence, if it cannot be opened."""
    if openable.is_upload(name):
        if found := _held.find(openable.upload_digest(name)):
            return found
        raise OpenError(
            f"The saved run {openable.short_name(name)} was uploaded and is no longer in memory. Open its file again "
            "with “Open a run” in the sidebar."
        )
    with _reading:
        key = name, files_of(name)
        if problem := _refused.get(key):
            raise OpenError(problem)
        found = _held.find(_digests.get(key))
        if found is None:
            try:
                found = _kept(_read(openable.run_path(name)))
            except OpenError as error:
                _refused[key] = str(error)
                raise
            _digests[key] = found.digest
        return found


def _read(path: str) -> Held:
    try:
        if not Path(path).is_file():
            raise RunError(f"There is no file {path}. A link to a saved run opens on the machine that has its file.")
        before, run = Path(path).stat(), open_run(path, LIMITS)  # first: it refuses a file that is too large
        with Path(path).open("rb") as file:
            digest = hashlib.file_digest(file, "sha256").hexdigest()
        if (after := Path(path).stat()).st_mtime_ns != before.st_mtime_ns or after.st_size != before.st_size:
            raise RunError(f"{Path(path).name} changed while it was read; open it again")
        return _drawable(run, digest)
    except (RunError, OSError, ValueError) as error:
        raise OpenError(_sentence(error)) from None


def _kept(found: Held) -> Held:
    return _held.get(found.digest, lambda: found)


def upload(name: str, content: bytes) -> str:
    """Hold an uploaded run, and return its name in the settings. OpenError if it is none."""
    try:
        found = _drawable(open_run(content, LIMITS), hashlib.sha256(content).hexdigest())
    except (RunError, ValueError) as error:
        raise OpenError(_sentence(error)) from None
    return openable.upload_name(_kept(found).digest, name)


def _sentence(error: Exception) -> str:
    """Return an error as a sentence, which may begin with a file's name."""
    said = str(error)
    first = said if "." in said.partition(" ")[0] else f"{said[:1].upper()}{said[1:]}"
    return f"{first}{'' if said.endswith(('.', ':')) else '.'}"


def _drawable(run: AttentionRun, digest: str) -> Held:
    """Check that pages can draw the run. RunError if it has too many layers or heads, or weights above 1."""
    for kind in run.kinds:
        if kind.n_layers > MAX_LAYERS or max(kind.n_heads) > MAX_HEADS:
            raise RunError(
                f"the {kind.title} of this run has {kind.n_layers} layers of up to {max(kind.n_heads)} heads; at most "
                f"{MAX_LAYERS} layers of {MAX_HEADS} heads can be drawn here; attnviz.show draws all of them"
            )
        if len(set(kind.n_heads)) > 1:
            raise RunError(
                f"the layers of the {kind.title} of this run have {listed(sorted(set(kind.n_heads)))} heads; layers "
                "with as many heads each can be drawn here, and attnviz.show draws all of them"
            )
        if (most := max(float(layer.max()) for layer in kind.layers)) > 1.001:
            raise RunError(
                f"the {kind.title} of this run has weights of up to {most:.3g}; weights of at most 1 can be drawn "
                "here, such as those after the softmax and before dropout; attnviz.show draws all of them"
            )
    return Held(run, digest[: openable.N_DIGITS])


def name_of(written: str) -> str:
    """Return the name in the settings for a path that a person typed. OpenError if there is no saved run."""
    path = written.strip().strip("\"'").strip()
    try:
        name = openable.run_name(str(Path(path).expanduser().resolve()))
    except (OSError, ValueError, RuntimeError):
        raise OpenError(f"“{path[:60]}” is no path of a file.") from None
    if not path or not openable.may_open(name):
        raise OpenError(
            "Type the path of a file." if not path else "This server opens no runs; run AttnViz on your own machine."
        )
    held(name)
    return name


def title_of(name: str) -> str:
    """Return a run's title for a list of models: its file's name and what the file calls it.

    Of several files of one name, the folder is named too; of uploaded ones, the first digits of their SHA-256.
    """
    try:
        title = held(name).run.title
    except OpenError:
        title = ""
    path = Path(openable.run_path(name))
    file = _cut(path.stem, LONGEST_NAME)
    others = (other for other in openable.offered(name, openable.MODELS) if openable.is_run(other) and other != name)
    if any(openable.short_name(other) == path.name for other in others):
        folder = path.parent.name[:N_DIGITS] if openable.is_upload(name) else _cut(path.parent.name, LONGEST_NAME)
        file = f"{folder}/{file}"
    return f"{file} · {title}" if title and title != path.stem else file


def _cut(text: str, longest: int) -> str:
    """Shorten a text in the middle, since names of files differ at either end."""
    kept = longest // 2
    return text if len(text) <= longest else f"{text[:kept]}…{text[-kept:]}"


@dataclass(frozen=True)
class Tokens:
    """The tokens of a run in place of a tokenizer: a label per id."""

    tokens: tuple[str, ...]

    def labels(self, ids: Sequence[int]) -> list[str]:
        known = list(dict.fromkeys(self.tokens))
        return [label_of(known[i]) for i in ids]

    def spans(self, ids: Sequence[int]) -> list[Span]:
        """Return each token as a span of its own, with the space before it if it begins a word."""
        return spans_of(self.labels(ids))

    def decode(self, ids: Sequence[int]) -> str:
        return text_of(self.labels(ids))


def spans_of(labels: Sequence[str]) -> list[Span]:
    spaced = are_spaced(labels)
    return [Span(i, i + 1, _written(label, spaced)) for i, label in enumerate(labels)]


def text_of(labels: Sequence[str]) -> str:
    """Return the text that these tokens are of, as far as their labels say."""
    return "".join(span.text for span in spans_of(labels)).strip()


def _written(label: str, spaced: bool) -> str:
    if label.startswith("##"):
        return label[2:]
    return f" {label}" if spaced else f" {label[1:]}" if label.startswith(SPACES) else label


@dataclass(frozen=True)
class RecordedRun:
    """A kind of attention of a saved run, in place of a model's run: all that its numbers depend on."""

    name: str
    digest: str
    kind: str

    @property
    def _held(self) -> Held:
        """The content with this digest, also where the file was replaced since."""
        found = _held.find(self.digest) or held(self.name)
        if found.digest != self.digest:
            raise OpenError(f"The file of {openable.short_name(self.name)} changed while it was read; open it again.")
        return found

    @property
    def saved(self) -> AttentionRun:
        return self._held.run

    @property
    def of(self) -> AttentionKind:
        return self.saved.kind(self.kind)

    def has(self, kind: str) -> bool:
        """Check whether the run has this kind of attention too."""
        return any(each.name == kind for each in self.saved.kinds)

    @property
    def recorded(self) -> RecordedTrace:
        return self._held.trace(self.of)

    @property
    def config(self) -> ModelConfig:
        return self.recorded.config

    @property
    def model(self) -> Transformer:
        raise OpenError(Recorded.refusals["run"])

    @property
    def tokenizer(self) -> Tokens:
        return Tokens(tuple(self.recorded.layers.labels))

    @property
    def key_labels(self) -> list[str]:
        return [label_of(token) for token in self.of.key_tokens]

    @property
    def picture(self) -> Picture | None:
        """The picture whose patches are the keys; None without one."""
        return Picture.of(self.saved, self.of)

    @property
    def key_spans(self) -> list[Span]:
        return spans_of(self.key_labels)

    @property
    def key_text(self) -> str:
        """The text of the keys."""
        return text_of(self.key_labels)

    @property
    def sides(self) -> Sides:
        """What the rows and the columns of its maps are; a token that the model wrote is marked as output."""
        kind = self.of
        positions, key_positions = self.saved.positions(kind)
        rows = range(len(kind.tokens)) if kind.cross else range(kind.first_row, kind.first_row + len(kind.tokens))
        return Sides(
            rows, [label_of(token) for token in kind.tokens], positions, self.key_labels, key_positions, kind.cross,
            are_spaced(self.key_labels),
        )  # fmt: skip

    def ready(self) -> None:
        """Open the file. OpenError if it cannot be."""
        self._held  # noqa: B018

    def trace(self, ids: tuple[int, ...] = (), n_padding: int = 0) -> RecordedTrace:
        """Return the trace of the run's own tokens."""
        return self.recorded


def cosines_of(run: RecordedRun, layer: int, part: str) -> np.ndarray:
    """Return the cosines between the heads' "keys" or "values" of a layer, as one vector each: (n, n)."""
    one = run.recorded.layers[layer]
    return groups.cosines(groups.gram(one.k if part == "keys" else one.v))


def run_of(name: str, kind: str) -> RecordedRun:
    """Return the run with this name, its first kind of attention unless it has that called `kind`."""
    found = held(name)
    kinds = [each.name for each in found.run.kinds]
    return RecordedRun(name, found.digest, kind if kind in kinds else kinds[0])
