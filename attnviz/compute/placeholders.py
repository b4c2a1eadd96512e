"""The placeholders in the texts of lessons and spoken questions, computed for the settings of each step or card.

`PLACEHOLDERS` is the one table of them; `python -m attnviz.compute.placeholders` prints it for docs/lessons.md. What
needs torch is imported late, or the Lessons page would wait for it.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from attnviz.compute.published_numbers import MISSING, PUBLISHED, Placeholder
from attnviz.compute.view import View, drawable
from attnviz.cost import attention_name, count_parameters, expanded_cache_bytes, kv_cache_bytes
from attnviz.figures.drawing import quoted
from attnviz.figures.numbers import printed
from attnviz.figures.rope import three_digits
from attnviz.phrases import count, written
from attnviz.session.lesson import placeholder, replaced
from attnviz.session.settings import Settings

if TYPE_CHECKING:
    from attnviz.analysis.roles import Role
    from attnviz.decode.comparisons import Speculated

FLOAT32 = 32  # bits: the small models run in float32, and their pages count its bytes
OF_ROTATION = {  # placeholders that a layer without queries and keys to rotate does not have
    "n_pairs", "shortest_wavelength", "longest_wavelength", "n_turning", "pair", "degrees", "early_loss", "late_loss",
    "late_loss_scaled", "best_scaling",
}  # fmt: skip


def filled(text: str, view: View) -> str:
    """Fill in each placeholder's value for this view; a dash if the model cannot run on this text."""
    return replaced(text, lambda written: value(written, view))


def value(written: str, view: View) -> str:
    """Return the value of a placeholder for this view, with the settings that follow its name: `context?batch=2`."""
    name, link = placeholder(written)
    if link:
        chosen = Settings.from_link(link)[0]
        view = view.but(**{field: getattr(chosen, field) for field in link})
    wanted = PLACEHOLDERS[name]
    if wanted.of_text and not (drawable(view) and (name not in OF_ROTATION or view.mixer.rotary_dim > 0)):
        return MISSING
    return wanted.value(view)


def table() -> str:
    """Return the table of docs/lessons.md."""
    rows = (f"| `{{{name}}}` | {each.meaning} |" for name, each in PLACEHOLDERS.items())
    return "\n".join(("| placeholder | what it is |", "| --- | --- |", *rows))


def _percent(share: float) -> str:
    """Format a share as a percentage with three significant digits: "93.1%"."""
    return f"{100 * share:.3g}%"


# ---- the selected head, query and key


def _head_text(view: View) -> str:
    layer, head = view.layer_and_head
    return f"layer {layer}, head {head}"


def _weights(view: View) -> np.ndarray:
    """Return the selected query's weights, (S,)."""
    return view.traced.weights[view.layer_and_head[1], view.query]


def _scores(view: View) -> np.ndarray:
    """Return the selected query's scaled scores, before mask and softmax, (S,)."""
    return view.traced.scores_of(view.layer_and_head[1])[view.query]


def _allowed(view: View) -> np.ndarray:
    """Return which keys the selected query may attend to, (S,) bool."""
    return view.traced.allowed[view.query]


def _exponentials(view: View) -> np.ndarray:
    return np.exp(_scores(view), dtype=np.float64)


def _next_score(view: View) -> str:
    others = _allowed(view).copy()
    others[view.key] = False
    return printed(float(_scores(view)[others].max(initial=-np.inf)))


def _first_token(view: View) -> str:
    return _percent(float(view.traced.weights[view.layer_and_head[1], 1:, 0].mean()))


def _role(view: View) -> Role:
    """Return the selected head's role on the probes."""
    from attnviz.compute import heads

    layer, head = view.layer_and_head
    return heads.roles_of(view.settings)[layer][head]


def _role_share(view: View) -> str:
    score = _role(view).score
    return "no share" if score is None else f"{score:.2f}"


def _n_roles(view: View) -> str:
    from attnviz.analysis.roles import NO_ROLE
    from attnviz.compute import heads

    return str(sum(role.name != NO_ROLE for layer in heads.roles_of(view.settings) for role in layer))


# ---- cache and loss of the model


def _bytes_per_token(view: View) -> int:
    return kv_cache_bytes(view.config, 1, bits=FLOAT32)


def _mha_bytes_per_token(view: View) -> int:
    from attnviz.compute import models, query_groups

    return kv_cache_bytes(models.config_of(query_groups.base_of(view.settings)), 1, bits=FLOAT32)


def _expanded_bytes(view: View) -> int:
    return expanded_cache_bytes(view.config, 1, bits=FLOAT32) or _bytes_per_token(view)


def _text_loss(view: View) -> str:
    from attnviz.analysis.groups import next_token_losses

    if len(view.ids) < 2:
        return MISSING
    return f"{float(next_token_losses(view.trace.logits, view.trace.tokens).mean()):.2f}"


# ---- RoPE and its scaling


def _frequencies(view: View) -> np.ndarray:
    from attnviz.compute import rope

    return rope.frequencies(view)


def _theta(view: View) -> str:
    from attnviz.compute import rope

    return f"{rope.rotated(view).rope_theta:,.0f}"


def _wavelength(frequency: float) -> str:
    return three_digits(2 * math.pi / float(frequency))


def _n_turning(view: View) -> str:
    turns = (len(view.ids) - 1) * _frequencies(view) / (2 * math.pi)
    return str(int((turns >= 1).sum()))


def _pair(view: View) -> int:
    from attnviz.compute import rope

    return rope.pair_of(view)


def _trained_tokens(view: View) -> int:
    from attnviz.compute import rope

    return rope.trained_on(view)


def _long_losses(view: View, late: bool = True) -> dict[str | None, float]:
    """Return the loss within or beyond the training context of a long text by scaling method; None: without scaling."""
    from attnviz.compute import rope

    trained = rope.trained_on(view)
    ids, _ = rope.long_ids(view, trained)
    methods, _ = rope.scalings(view, view.settings.factor, "")
    part = slice(trained, None) if late else slice(trained)
    losses = rope.losses(view, ids, methods)
    return {name if methods[name] else None: float(np.mean(each[part])) for name, each in losses.items()}


def _best_scaling(view: View) -> tuple[float, str]:
    """Return the lowest loss of a scaling method, and its name."""
    return min((loss, name) for name, loss in _long_losses(view).items() if name)


# ---- the next token, speculative decoding, mistakes


def _odds(view: View, at: int | None = None) -> np.ndarray:
    """Return the probabilities of the next token after this many layers, by default all."""
    from attnviz.compute import steps

    return steps.odds_of(view, view.config.n_layers if at is None else at, view.query)


def _likeliest(view: View, at: int | None = None) -> str:
    from attnviz.compute.vocabulary import vocabulary

    tokens = vocabulary(view.settings).after(view.ids[: view.query + 1])
    return quoted(tokens[int(_odds(view, at).argmax())])


def _first_layer(view: View) -> str:
    from attnviz.compute import steps

    best = np.asarray(steps.lens_of(view).best)[:, view.query]  # (1 + L,)
    agrees = int(np.flatnonzero(best == best[-1])[0])
    return "the embedding" if agrees == 0 else f"layer {agrees - 1}"


def _tile_difference(view: View) -> str:
    from attnviz.compute import steps

    return MISSING if view.mixer.cannot("tiles") else written(steps.tiled_of(view).largest_difference, ".1e")


def _speculated(view: View) -> Speculated:
    from attnviz.compute import decode

    return decode.speculated(view)


def _mistake(view: View) -> str:
    from attnviz.compute import mistakes

    return mistakes.mistake_of(view.settings).title


def _mistake_number(view: View, expected: bool) -> str:
    from attnviz.compute import mistakes
    from attnviz.mistakes.runs import format_number

    symptom = mistakes.symptom_of(view)
    return format_number(symptom.expected if expected else symptom.number)


PLACEHOLDERS = {name: Placeholder(meaning, value) for name, meaning, value in (
    ("n_tokens", "Tokens of the text", lambda view: str(len(view.ids))),
    ("model", "The type of attention: GQA-4", lambda view: attention_name(view.config)),
    ("n_layers", "Layers", lambda view: str(view.config.n_layers)),
    ("n_heads", "Query heads of a layer", lambda view: str(view.mixer.n_heads)),
    ("n_all_heads", "Query heads of all layers", lambda view: str(len(view.heads))),
    ("n_kv_heads", 'KV heads of a layer, counted: "4 KV heads"', lambda view: count(view.mixer.n_kv_heads, "KV head")),
    ("group_size", "Query heads that read one KV head", lambda view: str(view.mixer.group_size)),
    ("d_model", "d_model", lambda view: str(view.config.d_model)),
    ("head_dim", "Dimensions of a head", lambda view: str(view.mixer.head_dim)),
    ("latent", "Numbers of MLA's latent", lambda view: str(view.mixer.axes().get("R", 0))),
    ("rope_key", "Dimensions of MLA's shared RoPE key", lambda view: str(view.mixer.axes().get("P", 0))),
    ("head", 'The selected head: "layer 1, head 3"', _head_text),
    ("kv_head", "The KV head that the selected head reads",
     lambda view: f"KV {view.mixer.kv_head_of[view.layer_and_head[1]]}"),
    ("query", "The selected query: position and token",
     lambda view: f"{view.query} {quoted(view.labels[view.query])}"),
    ("key", "The selected key, by default the strongest: position and token",
     lambda view: f"{view.key} {quoted(view.labels[view.key])}"),
    ("distance", "Tokens from the key to the query", lambda view: str(view.query - view.key)),
    ("weight", "The weight of the selected query on the selected key",
     lambda view: printed(float(_weights(view)[view.key]))),
    ("weight_percent", "The same as a percentage", lambda view: _percent(float(_weights(view)[view.key]))),
    ("score", "The scaled score of the selected query and key, before mask and softmax",
     lambda view: printed(float(_scores(view)[view.key]))),
    ("exp_score", "e to the power of this score", lambda view: f"{_exponentials(view)[view.key]:.4g}"),
    ("exp_sum",
     "The sum over the keys that are not masked of e to the power of their scores: what the softmax divides by",
     lambda view: f"{_exponentials(view)[_allowed(view)].sum():.4g}"),
    ("next_score", "The largest score among the query's other keys", _next_score),
    ("next_weight", "The largest weight among the query's other keys",
     lambda view: printed(float(np.delete(_weights(view), view.key).max(initial=0)))),
    ("n_allowed", "Keys that the selected query may attend to", lambda view: str(int(_allowed(view).sum()))),
    ("n_masked", "Keys that are masked for the selected query", lambda view: str(int((~_allowed(view)).sum()))),
    ("uniform", "The weight of each allowed key if all were the same",
     lambda view: printed(1 / int(_allowed(view).sum()))),
    ("sqrt_head_dim", "What q·k is divided by: √head_dim, or what the model has in its place",
     lambda view: f"{math.sqrt(view.mixer.score_root):.2f}"),
    ("role", "The selected head's role on the probes", lambda view: _role(view).name),
    ("role_share",
     "The share of weight on the keys that this role names, on the probes; the normalised entropy of a broad head",
     _role_share),
    ("n_roles", "Heads with a clear role on the probes", _n_roles),
    ("first_token", "The mean weight of the selected head on the first token, over the queries after it", _first_token),
    ("cache", "Bytes that the model caches per token, float32 as it runs",
     lambda view: f"{_bytes_per_token(view):,} B"),
    ("cache_mha", "Bytes that the same model as MHA caches per token, float32",
     lambda view: f"{_mha_bytes_per_token(view):,} B"),
    ("cache_share", "The model's cache, as a share of that of MHA",
     lambda view: _percent(_bytes_per_token(view) / _mha_bytes_per_token(view))),
    ("cache_expanded", "Bytes per token if MLA cached keys and values in place of the latent, float32",
     lambda view: f"{_expanded_bytes(view):,} B"),
    ("parameters", "Parameters of the model", lambda view: f"{count_parameters(view.config).total:,}"),
    ("text_loss", "The loss on the text, in nats per token", _text_loss),
    ("n_pairs", "Pairs of dimensions that RoPE rotates", lambda view: str(len(_frequencies(view)))),
    ("theta", "RoPE's base, rope_theta", _theta),
    ("shortest_wavelength", "The wavelength of the fastest pair, in tokens",
     lambda view: _wavelength(_frequencies(view).max())),
    ("longest_wavelength", "The wavelength of the slowest pair, in tokens",
     lambda view: _wavelength(_frequencies(view).min())),
    ("n_turning", "Pairs that complete a turn within the text", _n_turning),
    ("pair", "The selected pair", lambda view: str(_pair(view))),
    ("degrees", "The degrees that the selected pair rotates per token",
     lambda view: f"{three_digits(math.degrees(float(_frequencies(view)[_pair(view)])))}°"),
    ("trained_tokens", "Tokens of a training row", lambda view: str(_trained_tokens(view))),
    ("factor", "The scaling factor: extended context ÷ training context", lambda view: f"{view.settings.factor:g}"),
    ("early_loss",
     "The loss without scaling, in nats per token, of the tokens within the training context of a long text",
     lambda view: f"{_long_losses(view, late=False)[None]:.2f}"),
    ("late_loss",
     "The loss without scaling, in nats per token, of the tokens beyond the training context of a long text",
     lambda view: f"{_long_losses(view)[None]:.2f}"),
    ("late_loss_scaled", "The same with the scaling method that gets the lowest loss",
     lambda view: f"{_best_scaling(view)[0]:.2f}"),
    ("best_scaling", "The name of this method", lambda view: _best_scaling(view)[1]),
    ("prediction", "The most likely next token after the selected query", _likeliest),
    ("prediction_percent", "Its probability", lambda view: _percent(float(_odds(view).max()))),
    ("early_prediction", "The most likely next token read from the embedding alone", lambda view: _likeliest(view, 0)),
    ("first_layer", 'The first layer after which the model\'s prediction is the most likely one: "layer 2"',
     _first_layer),
    ("tile_difference",
     "The largest difference between the selected head's output by tiles and that of PyTorch's kernel",
     _tile_difference),
    ("vocab_size", "Tokens of the vocabulary", lambda view: f"{view.config.vocab_size:,}"),
    ("passes", "Passes of the model that speculative decoding needs", lambda view: str(len(_speculated(view).rounds))),
    ("drafted", "Tokens that its drafter proposes in them",
     lambda view: str(sum(len(each.proposed) for each in _speculated(view).rounds))),
    ("accepted", "Those of them that the model accepts",
     lambda view: str(sum(each.n_accepted for each in _speculated(view).rounds))),
    ("drafted_tokens", "Tokens that are written in them", lambda view: str(_speculated(view).n_tokens)),
    ("mistake", "The title of the selected mistake", _mistake),
    ("mistake_number", "The number that tells it, of the mistaken version",
     lambda view: _mistake_number(view, expected=False)),
    ("mistake_expected", "The same of the right version", lambda view: _mistake_number(view, expected=True)),
    ("n_questions", "Questions of the set chosen on the Practice page, counted",
     lambda view: count(view.settings.questions, "question")),
)} | PUBLISHED  # fmt: skip


if __name__ == "__main__":
    print(table())
