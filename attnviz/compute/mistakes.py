"""Computations of the Mistakes page: the correct and the mistaken version of a model, run on the text."""

from __future__ import annotations

import ast
from dataclasses import dataclass
from textwrap import dedent

from attnviz.compute import models
from attnviz.compute.view import View
from attnviz.mistakes import SUBJECTS, CannotOccur, Mistake, Symptom, all_mistakes, load_mistake
from attnviz.mistakes.versions import Version
from attnviz.session.openable import MODELS
from attnviz.session.settings import Settings

MAX_TOKENS = 128  # of the text on this page: both versions are run, some several times


def ids_by_subject() -> dict[str, list[str]]:
    """Return the ids of the mistakes by subject, which, unlike their kind, does not tell their effect."""
    return {subject: [name for name, each in all_mistakes().items() if each.subject == subject] for subject in SUBJECTS}


def mistake_of(settings: Settings) -> Mistake:
    """Return the selected mistake."""
    return load_mistake(settings.mistake)


def shown_mistake(view: View) -> Mistake:
    """Return the selected mistake, with the words about the lines changed in this model."""
    return mistake_of(view.settings).words_in(view.config)


def diffs(view: View) -> dict[str, str]:
    """Return the diff of each changed file for this model, without common indentation."""
    return {file: _shown(diff) for file, diff in mistake_of(view.settings).diff(view.config).items()}


@dataclass(frozen=True)
class Excerpt:
    """Mistaken code as one would find it: without marks, and without the lines that repair it."""

    files: tuple[str, ...]
    lines: tuple[str, ...]
    mistaken: frozenset[int]  # indices of lines
    functions: str  # the whole functions that have the mistaken lines, as they run


def excerpt(view: View) -> Excerpt:
    """Return the changed lines of the mistaken version with the lines around them."""
    changed = diffs(view)
    lines = [line for diff in changed.values() for line in diff.splitlines() if line[1:].strip()]
    repaired = {_code(line): line[1:].strip() for line in lines if line[0] == "+"}
    kept = [line for line in lines if line[0] in " -"]
    removed = [i for i, line in enumerate(kept) if line[0] == "-"]
    # A line that differs in its comment alone is not mistaken, one that has moved is; so is one after what is left out.
    mistaken = [i for i in removed if repaired.get(_code(kept[i])) in (None, kept[i][1:].strip())] or removed
    version = mistake_of(view.settings).version(view.config)
    functions = [each for file in changed for each in _functions(version, file)]
    return Excerpt(tuple(changed), tuple(line[2:] for line in kept), frozenset(mistaken), "\n\n".join(functions))


def _functions(version: Version, file: str) -> list[str]:
    """Return the outermost functions of a mistaken file that have a changed line, without common indentation.

    A few lines alone can hide what they need: an assignment above them, the arguments, a branch.
    """
    source = version.source(file)
    _, mistaken = version.changed_lines(file)
    found = (node for scope in _scopes(ast.parse(source)) for node in scope.body if isinstance(node, ast.FunctionDef))
    ranges = [range(node.lineno, (node.end_lineno or node.lineno) + 1) for node in found]
    lines = source.splitlines()
    return [dedent("\n".join(lines[n - 1] for n in each)) for each in ranges if mistaken & {*each}]


def _scopes(module: ast.Module) -> list[ast.Module | ast.ClassDef]:
    return [module, *(node for node in module.body if isinstance(node, ast.ClassDef))]


def _code(line: str) -> str:
    """Return a diff's line without its mark and its comment."""
    return line[1:].partition("  #")[0].strip()


def _shown(diff: str) -> str:
    """Format a diff for display: each hunk begins with the number of its first line."""
    lines = [line for line in diff.splitlines() if not line.startswith("@@")]
    indent = min(len(line[1:]) - len(line[1:].lstrip()) for line in lines if line[1:].strip())
    return "\n".join(
        f"@@ line {line.split()[1].split(',')[0][1:]} @@"
        if line.startswith("@@")
        else line[0] + " " + line[1 + indent :]
        for line in diff.splitlines()
    )


@dataclass(frozen=True, eq=False)
class Outcome:
    """What a run of the selected mistake shows, or the reason why it shows nothing."""

    symptom: Symptom | None
    reason: str = ""

    @property
    def nbytes(self) -> int:
        """The size of the maps in bytes."""
        return 0 if self.symptom is None else self.symptom.nbytes


def outcome_of(view: View) -> Outcome:
    """Run the correct and the mistaken version on the first MAX_TOKENS tokens."""
    s, ids = view.settings, view.ids[: view.first(MAX_TOKENS)]
    key = "mistake", s.mistake, models.run_of(s), ids

    def run() -> Outcome:
        try:
            return Outcome(mistake_of(s).symptom(models.model_of(s), ids))
        except CannotOccur as reason:
            return Outcome(None, str(reason))

    return models.computed_once(key, run)


def reason(view: View) -> str:
    """Return the reason why the selected mistake does not show in this model, or "" if it does: both are run."""
    return outcome_of(view).reason


def symptom_of(view: View) -> Symptom:
    """Return what the correct and the mistaken version compute. CannotOccur if `reason` is not empty."""
    outcome = outcome_of(view)
    if outcome.symptom is None:
        raise CannotOccur(outcome.reason)
    return outcome.symptom


def labels_of(view: View, symptom: Symptom) -> list[str]:
    """Return the labels of the maps' rows and columns, padding first."""
    return ["padding"] * symptom.n_padding + view.labels[: symptom.n_tokens]


def hue_of(view: View, symptom: Symptom) -> tuple[int, int] | None:
    """Return the KV head whose hue the maps have, and their number in that layer; None for a mean of heads."""
    if symptom.head is None or symptom.layer is None:
        return None
    mixer = view.config.layers[symptom.layer].mixer
    return mixer.kv_head_of[symptom.head], mixer.n_kv_heads


def walked(view: View) -> View:
    """Return the view in which Step by step walks the mistaken lines: in the selected layer if it runs them."""
    drawn, chosen = symptom_of(view).layer, view.but(version="mistaken", tab="", step=-1)
    if drawn is None or view.config.layers[drawn].mixer.source == view.mixer.source:
        return chosen
    return chosen.but(layer=drawn)


def where_it_occurs(view: View) -> str | None:
    """Return the first checkpoint in which the selected mistake shows with these settings, or None."""
    for name in MODELS:
        other = view.but(model=name)
        if name != "own" and not other.model_problem and not reason(other):
            return name
    return None


def can_be_walked(mistake: Mistake) -> bool:
    """Check whether Step by step can walk the mistaken version: it runs, and the walk passes the mistaken lines."""
    return mistake.walked and mistake.kind != "raises" and all(c.file.startswith("modules/") for c in mistake.changes)
