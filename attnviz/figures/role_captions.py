"""Captions of a head's role: the scores behind it, and where the head's weight goes on the text shown. No plotly."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import isnan

from attnviz.analysis import roles as analysis
from attnviz.analysis.roles import Column, HeadScores, Role, Share, stand_out
from attnviz.config import ModelConfig
from attnviz.figures.head_captions import LONGEST_TOKEN, shortened
from attnviz.phrases import count, in_quotes, listed

KEYS = {
    "previous token": "the previous token",
    "induction": "the token after an earlier occurrence of the current one",
    "duplicate token": "earlier occurrences of the current token",
    "current token": "the current token itself",
    "first token": "the first token",
    "local": f"the query itself and the {analysis.LOCAL - 1} tokens before it",
}
DEFINITION = (
    "A score is the mean weight on a role's keys, over the queries that may attend to such a key and to another one; "
    f"chance is the score of uniform weights over the allowed keys. A role needs {analysis.ABOVE_CHANCE} above chance, "
    f"“broad” a normalised entropy of {analysis.UNIFORM}; a head with neither has no clear role. Of the roles "
    f"that reach it, the one furthest above chance is named, but {listed(map(in_quotes, analysis.SPECIFIC))} before "
    "“current token” and “first token”, where such a head's weight rests if it finds none of its keys; "
    f"“local” only if no other role reaches its threshold. The keys of “induction” are the "
    f"tokens after earlier occurrences of the current one, those of “duplicate token” {KEYS['duplicate token']}, those "
    f"of “local” {KEYS['local']}."
)


@dataclass(frozen=True)
class Probes:
    """The run that roles are scored on."""

    n: int
    period: int  # tokens, repeated once
    config: ModelConfig  # with the mask and position settings of the run
    trained: bool

    def text(self) -> str:
        """Describe the run: "3 sequences of 32 random tokens, repeated once", and its settings if they are unusual."""
        c = self.config
        usual = c.causal and not (c.mixed_layers or c.sliding_window) and c.position != "none"
        usual &= c.rope_theta == ModelConfig.rope_theta
        settings = "" if usual else f" ({run_text(c)})"
        return f"{self.n} sequences of {self.period} random tokens, repeated once{settings}"


def run_text(config: ModelConfig) -> str:
    """List a run's mask and position settings: "causal, window of 4 tokens, 1 attention-sink token, no RoPE"."""
    mask = "causal" if config.causal else "bidirectional"
    if config.mixed_layers:
        return f"{mask}, each layer with its own window and rotation"
    window = f"window of {count(config.sliding_window, 'token')}" if config.sliding_window else "no window"
    sinks = [count(config.n_sinks, "attention-sink token")] if config.n_sinks else []
    some = config.n_layers - len(config.full_layers)
    if config.sliding_window and config.full_layers:
        window += f" in {some} of {count(config.n_layers, 'layer')}"
    rope = f"RoPE base {config.rope_theta:,.6g}" if config.position == "rope" else "no RoPE"
    rope = "learned positions" if config.position == "learned" else rope
    return ", ".join([mask, window, *sinks, rope])


def grid_note(probes: Probes) -> str:
    """Explain how the roles in a grid were scored."""
    if not probes.trained:
        return "“Here”: the keys that take most of a head's weight on this text. Untrained heads have no role."
    return f"Roles are scored on {probes.text()}; “here”: the keys that take most of a head's weight on this text."


def role_label(role: Role) -> str:
    """Return the role and its score: "induction 0.89", or "no clear role"."""
    return role.name if role.score is None else f"{role.name} {role.score:.2f}"


def role_title(role: Role, scores: HeadScores, probes: Probes) -> str:
    """Return the title: "Induction: 0.89 on repeated random tokens, 0.02 by chance"."""
    if not probes.trained:
        return "Untrained: no role"
    if role.score is None:
        return "No clear role on repeated random tokens"
    if role.name == analysis.BROAD:
        return f"Broad: normalised entropy {role.score:.2f} on repeated random tokens"
    chance = scores.shares[role.name].chance
    return f"{role.name.capitalize()}: {role.score:.2f} on repeated random tokens, {chance:.2f} by chance"


def role_text(role: Role, scores: HeadScores, probes: Probes) -> str:
    """Describe where the head's weight goes on the probes, and how these were run."""
    text = f"On {probes.text()}: {_on_probes(role, scores)}{_not_scored(scores)}"
    return text if probes.trained else f"Roles are named for trained checkpoints only. {text}"


def _on_probes(role: Role, scores: HeadScores) -> str:
    if role.name == analysis.BROAD:
        return f"normalised entropy {role.score:.2f}; uniform weights have 1, “broad” needs {analysis.UNIFORM}."
    if role.name == analysis.NO_ROLE:
        none = "" if stand_out(scores) or not scores.shares else f"no score is {analysis.ABOVE_CHANCE} above chance; "
        return f"{none}{_highest(scores)}{_spread(scores)}."
    share = scores.shares[role.name]
    others = [_share(KEYS[name], other, scores) for name, other in stand_out(scores) if name != role.name]
    also = f" Also {listed(others)}." if others else ""
    return f"{_share(KEYS[role.name], share, scores)}, against {share.chance:.2f} with uniform weights.{also}"


def _highest(scores: HeadScores) -> str:
    """Return the highest score: "highest relative to chance: induction 0.09 (chance 0.02)"."""
    if not scores.shares:
        return "no role can be scored"
    name, share = max(scores.shares.items(), key=lambda found: found[1].weight - found[1].chance)
    return f"highest relative to chance: {name} {share.weight:.2f} (chance {share.chance:.2f})"


def _not_scored(scores: HeadScores) -> str:
    missing = [name for name in analysis.KEYED if name not in scores.shares]
    if not missing:
        return ""
    few = f"fewer than {analysis.ENOUGH:.0%} of the queries see such a key and others"
    return f" Not scored under this mask: {listed(missing)} ({few})."


def text_title(scores: HeadScores, column: Column | None) -> str:
    """Return the title: "On this text: 0.62 on the first token"."""
    standing_out = stand_out(scores, column)
    if not standing_out:
        return f"On this text: {_without_target(scores)}"
    name, share = standing_out[0]
    return f"On this text: {share.weight:.2f} on {_short(name, column)}"


def text_sentence(
    scores: HeadScores, column: Column | None, labels: Sequence[str], name: Callable[[str], str] = in_quotes
) -> str:
    """Describe the keys that take most of a head's weight on this text, with this mask and window; two at most.

    name: quotes a label and escapes it for the place where the sentence is shown.
    """
    standing_out = stand_out(scores, column)[:2]
    if not scores.n_queries:
        return "On this text: no query may attend to more than one key."
    if not standing_out:
        none = f"no score is {analysis.ABOVE_CHANCE} above chance"
        return f"On this text: {_without_target(scores)}, {none}{_spread(scores)}."
    keys = KEYS | ({analysis.COLUMN: _token(column, labels, name)} if column else {})
    return f"On this text: {'; '.join(_share(keys[role], share, scores) for role, share in standing_out)}."


def text_label(scores: HeadScores, column: Column | None) -> str:
    """Name the strongest share, briefly: "first 0.62"."""
    standing_out = stand_out(scores, column)
    if not standing_out:
        return _without_target(scores)
    name, share = standing_out[0]
    keys = f"token {column.key}:" if column and name == analysis.COLUMN else name.removesuffix(" token")
    return f"{keys} {share.weight:.2f}"


def _without_target(scores: HeadScores) -> str:
    if not scores.n_queries:
        return "one key only"
    return "near uniform" if scores.entropy >= analysis.UNIFORM else "mixed"


def _spread(scores: HeadScores) -> str:
    if not scores.n_queries:
        return ""
    distance = "" if isnan(scores.distance) else f", mean distance {scores.distance:.1f} tokens"  # none to another text
    return f"; normalised entropy {scores.entropy:.2f}{distance}"


def _token(column: Column, labels: Sequence[str], name: Callable[[str], str]) -> str:
    return f"token {column.key} {name(shortened(labels[column.key], LONGEST_TOKEN))}"


def _short(name: str, column: Column | None) -> str:
    if column and name == analysis.COLUMN:
        return f"token {column.key}"
    return {"induction": "induction targets", "current token": "the current token"}.get(name, KEYS[name])


def _share(keys: str, share: Share, scores: HeadScores) -> str:
    """Return "0.71 of the weight on the first token", with the number of queries if some have no such key."""
    text = f"{share.weight:.2f} of the weight on {keys}"
    if share.n_queries == scores.n_queries:
        return text
    return f"{text} (mean of {share.n_queries} of {scores.n_queries} queries)"
