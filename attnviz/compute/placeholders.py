"""The placeholders in the texts of lessons, computed for the settings of each step."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

from attnviz.compute.view import View, drawable
from attnviz.cost import (
    PRECISIONS,
    attention_name,
    count_parameters,
    expanded_cache_bytes,
    kv_cache_bytes,
    load_presets,
)
from attnviz.cost.units import bytes_text, context_text, count_text
from attnviz.figures.drawing import quoted
from attnviz.figures.numbers import printed
from attnviz.figures.phrases import count
from attnviz.figures.rope import three_digits
from attnviz.session.lessons import replaced

if TYPE_CHECKING:
    from attnviz.decode.comparisons import Speculated
    from attnviz.mistakes import Symptom

MISSING = "–"
FLOAT32 = 32  # bits: the small models run in float32, and their pages count its bytes

Computed = Callable[[View], str]
FUNCTIONS: dict[str, Computed] = {}  # registry: placeholder name -> function


def placeholder(function: Computed) -> Computed:
    """Register a function as the placeholder of its name."""
    FUNCTIONS[function.__name__] = function
    return function


def filled(text: str, view: View) -> str:
    """Fill in each placeholder's value for this view; a dash if the model cannot run on this text."""
    runs = drawable(view)
    return replaced(text, lambda name: FUNCTIONS[name](view) if runs else MISSING)


def _percent(share: float) -> str:
    """Format a share as a percentage with three significant digits: "93.1%"."""
    return f"{100 * share:.3g}%"


# ---- the text and the model


@placeholder
def n_tokens(view: View) -> str:
    """Tokens of the text."""
    return str(len(view.ids))


@placeholder
def model(view: View) -> str:
    """The type of attention: GQA-4."""
    return attention_name(view.config)


@placeholder
def n_layers(view: View) -> str:
    """Layers."""
    return str(view.config.n_layers)


@placeholder
def n_heads(view: View) -> str:
    """Query heads of a layer."""
    return str(view.config.n_heads)


@placeholder
def n_all_heads(view: View) -> str:
    """Query heads of all layers."""
    return str(view.config.n_layers * view.config.n_heads)


@placeholder
def n_kv_heads(view: View) -> str:
    """KV heads of a layer, counted: "4 KV heads"."""
    return count(view.config.n_kv_heads, "KV head")


@placeholder
def group_size(view: View) -> str:
    """Query heads that read one KV head."""
    return str(view.config.n_heads // view.config.n_kv_heads)


@placeholder
def d_model(view: View) -> str:
    """d_model."""
    return str(view.config.d_model)


@placeholder
def head_dim(view: View) -> str:
    """Dimensions of a head."""
    return str(view.config.head_dim)


@placeholder
def latent(view: View) -> str:
    """Numbers of MLA's latent."""
    return str(view.config.kv_lora_rank or 0)


@placeholder
def rope_key(view: View) -> str:
    """Dimensions of MLA's shared RoPE key."""
    return str(view.config.qk_rope_head_dim or 0)


# ---- the selected head, query and key


@placeholder
def head(view: View) -> str:
    """The selected head: "layer 1, head 3"."""
    layer, head = view.layer_and_head
    return f"layer {layer}, head {head}"


@placeholder
def kv_head(view: View) -> str:
    """The KV head that the selected head reads."""
    return f"KV {view.config.layer.kv_head_of[view.layer_and_head[1]]}"


@placeholder
def query(view: View) -> str:
    """The selected query: position and token."""
    return f"{view.query} {quoted(view.labels[view.query])}"


@placeholder
def key(view: View) -> str:
    """The selected key, by default the strongest: position and token."""
    return f"{view.key} {quoted(view.labels[view.key])}"


@placeholder
def distance(view: View) -> str:
    """Tokens from the key to the query."""
    return str(view.query - view.key)


@placeholder
def weight(view: View) -> str:
    """The weight of the selected query on the selected key."""
    return printed(float(view.trace.weights[(*view.layer_and_head, view.query, view.key)]))


@placeholder
def weight_percent(view: View) -> str:
    """The same as a percentage."""
    return _percent(float(view.trace.weights[(*view.layer_and_head, view.query, view.key)]))


@placeholder
def score(view: View) -> str:
    """The scaled score of the selected query and key, before mask and softmax."""
    return printed(float(view.trace.scores_of(*view.layer_and_head)[view.query, view.key]))


@placeholder
def exp_score(view: View) -> str:
    """e to the power of this score."""
    score = view.trace.scores_of(*view.layer_and_head)[view.query, view.key]
    return f"{np.exp(score, dtype=np.float64):.4g}"


@placeholder
def exp_sum(view: View) -> str:
    """The sum over the keys that are not masked of e to the power of their scores: what the softmax divides by."""
    layer, head = view.layer_and_head
    scores = view.trace.scores_of(layer, head)[view.query]
    return f"{np.exp(scores[view.trace.allowed[layer, view.query]], dtype=np.float64).sum():.4g}"


@placeholder
def next_score(view: View) -> str:
    """The largest score among the query's other keys."""
    layer, head = view.layer_and_head
    others = view.trace.allowed[layer, view.query].copy()
    others[view.key] = False
    return printed(float(view.trace.scores_of(layer, head)[view.query, others].max(initial=-np.inf)))


@placeholder
def next_weight(view: View) -> str:
    """The largest weight among the query's other keys."""
    return printed(float(np.delete(view.trace.weights[(*view.layer_and_head, view.query)], view.key).max(initial=0)))


@placeholder
def n_allowed(view: View) -> str:
    """Keys that the selected query may attend to."""
    return str(int(view.trace.allowed[view.layer_and_head[0], view.query].sum()))


@placeholder
def n_masked(view: View) -> str:
    """Keys that are masked for the selected query."""
    return str(int((~view.trace.allowed[view.layer_and_head[0], view.query]).sum()))


@placeholder
def uniform(view: View) -> str:
    """The weight of each allowed key if all were the same."""
    return printed(1 / int(view.trace.allowed[view.layer_and_head[0], view.query].sum()))


@placeholder
def sqrt_head_dim(view: View) -> str:
    """The square root of head_dim, which scores are divided by."""
    return f"{math.sqrt(view.config.head_dim):.2f}"


@placeholder
def role(view: View) -> str:
    """The selected head's role on the probes."""
    from attnviz.compute import heads

    layer, head = view.layer_and_head
    return heads.roles_of(view.settings)[layer][head].name


@placeholder
def role_share(view: View) -> str:
    """The share of weight on the keys that this role names, on the probes; the normalised entropy of a broad head."""
    from attnviz.compute import heads

    layer, head = view.layer_and_head
    score = heads.roles_of(view.settings)[layer][head].score
    return "no share" if score is None else f"{score:.2f}"


@placeholder
def n_roles(view: View) -> str:
    """Heads with a clear role on the probes."""
    from attnviz.analysis.roles import NO_ROLE
    from attnviz.compute import heads

    return str(sum(role.name != NO_ROLE for layer in heads.roles_of(view.settings) for role in layer))


@placeholder
def first_token(view: View) -> str:
    """The mean weight of the selected head on the first token, over the queries after it."""
    return _percent(float(view.trace.weights[(*view.layer_and_head, slice(1, None), 0)].mean()))


# ---- the cache and the parameters


def _bytes_per_token(view: View) -> int:
    return kv_cache_bytes(view.config, 1, bits=FLOAT32)


def _mha_bytes_per_token(view: View) -> int:
    from attnviz.compute import models, query_groups

    return kv_cache_bytes(models.config_of(query_groups.base_of(view.settings)), 1, bits=FLOAT32)


@placeholder
def cache(view: View) -> str:
    """Bytes that the model caches per token, float32 as it runs."""
    return f"{_bytes_per_token(view):,} B"


@placeholder
def cache_mha(view: View) -> str:
    """Bytes that the same model as MHA caches per token, float32."""
    return f"{_mha_bytes_per_token(view):,} B"


@placeholder
def cache_share(view: View) -> str:
    """The model's cache, as a share of that of MHA."""
    return _percent(_bytes_per_token(view) / _mha_bytes_per_token(view))


@placeholder
def cache_expanded(view: View) -> str:
    """Bytes per token if MLA cached keys and values in place of the latent, float32."""
    latent = view.config.attention == "mla"
    return f"{expanded_cache_bytes(view.config, 1, bits=FLOAT32):,} B" if latent else cache(view)


@placeholder
def parameters(view: View) -> str:
    """Parameters of the model."""
    return f"{count_parameters(view.config).total:,}"


@placeholder
def text_loss(view: View) -> str:
    """The loss on the text, in nats per token."""
    from attnviz.analysis.groups import next_token_losses

    if len(view.ids) < 2:
        return MISSING
    return f"{float(next_token_losses(view.trace.logits, view.trace.tokens).mean()):.2f}"


@placeholder
def context(view: View) -> str:
    """The context chosen on the cost page: "32 K tokens"."""
    return context_text(view.settings.context)


@placeholder
def batch(view: View) -> str:
    """The sequences at once chosen on the cost page: "1 sequence"."""
    return count(view.settings.batch, "sequence")


@placeholder
def precision(view: View) -> str:
    """The precision of the cache chosen on the cost page."""
    return view.settings.precision


@placeholder
def published(view: View) -> str:
    """The published model that is chosen."""
    return load_presets()[view.settings.preset].name or view.settings.preset


@placeholder
def published_layers(view: View) -> str:
    """Its layers."""
    return str(load_presets()[view.settings.preset].n_layers)


@placeholder
def published_heads(view: View) -> str:
    """Its query heads."""
    return str(load_presets()[view.settings.preset].n_heads)


@placeholder
def published_kv_heads(view: View) -> str:
    """Its KV heads, counted."""
    return count(load_presets()[view.settings.preset].n_kv_heads, "KV head")


@placeholder
def published_head_dim(view: View) -> str:
    """Its head_dim."""
    return str(load_presets()[view.settings.preset].head_dim)


@placeholder
def published_parameters(view: View) -> str:
    """Its parameters: "8.03 B"."""
    return count_text(count_parameters(load_presets()[view.settings.preset]).total)


@placeholder
def published_cache(view: View) -> str:
    """Bytes that it caches per token, bf16."""
    return f"{kv_cache_bytes(load_presets()[view.settings.preset], 1):,} B"


@placeholder
def published_cache_at_context(view: View) -> str:
    """Its cache at the chosen context, sequences and precision."""
    s = view.settings
    bits, block = PRECISIONS[s.precision]
    return bytes_text(kv_cache_bytes(load_presets()[s.preset], s.context, s.batch, bits, block_size=block))


@placeholder
def published_weights(view: View) -> str:
    """Its weights in bf16, in powers of 1,000 like the memory of accelerators: "16.1 GB"."""
    return bytes_text(2 * count_parameters(load_presets()[view.settings.preset]).total, binary=False)


@placeholder
def fitting_sequences(view: View) -> str:
    """Sequences of the chosen context that fit beside its weights on the chosen accelerators."""
    from attnviz.compute import cost

    return f"{cost.serving(view.settings).plan().n_users:,}"


@placeholder
def accelerator(view: View) -> str:
    """The chosen accelerators."""
    from attnviz.compute import cost

    return cost.serving(view.settings).accelerator.name


@placeholder
def decode_bound(view: View) -> str:
    """Tokens per second at most, for the chosen sequences together, by the roofline."""
    from attnviz.compute import cost

    return f"{cost.serving(view.settings).tokens_per_second(view.settings.batch):,.0f}"


# ---- RoPE


def _frequencies(view: View) -> np.ndarray:
    from attnviz.compute import rope

    return rope.frequencies(view)


@placeholder
def n_pairs(view: View) -> str:
    """Pairs of dimensions that RoPE rotates."""
    return str(len(_frequencies(view)))


@placeholder
def theta(view: View) -> str:
    """RoPE's base, rope_theta."""
    from attnviz.compute import rope

    return f"{rope.rotated(view).rope_theta:,.0f}"


@placeholder
def shortest_wavelength(view: View) -> str:
    """The wavelength of the fastest pair, in tokens."""
    return three_digits(2 * math.pi / float(_frequencies(view).max()))


@placeholder
def longest_wavelength(view: View) -> str:
    """The wavelength of the slowest pair, in tokens."""
    return three_digits(2 * math.pi / float(_frequencies(view).min()))


@placeholder
def n_turning(view: View) -> str:
    """Pairs that complete a turn within the text."""
    turns = (len(view.ids) - 1) * _frequencies(view) / (2 * math.pi)
    return str(int((turns >= 1).sum()))


@placeholder
def pair(view: View) -> str:
    """The selected pair."""
    from attnviz.compute import rope

    return str(rope.pair_of(view))


@placeholder
def degrees(view: View) -> str:
    """The degrees that the selected pair rotates per token."""
    from attnviz.compute import rope

    return f"{three_digits(math.degrees(float(_frequencies(view)[rope.pair_of(view)])))}°"


@placeholder
def trained_tokens(view: View) -> str:
    """Tokens of a training row."""
    from attnviz.compute import rope

    return str(rope.trained_on(view))


@placeholder
def factor(view: View) -> str:
    """The scaling factor: extended context ÷ training context."""
    return f"{view.settings.factor:g}"


def _long_losses(view: View, late: bool = True) -> dict[str | None, float]:
    """Return the loss within or beyond the training context of a long text by scaling method; None: without scaling."""
    from attnviz.compute import rope

    trained = rope.trained_on(view)
    ids, _ = rope.long_ids(view, trained)
    methods, _ = rope.scalings(view, view.settings.factor, "")
    part = slice(trained, None) if late else slice(trained)
    losses = rope.losses(view, ids, methods)
    return {name if methods[name] else None: float(np.mean(each[part])) for name, each in losses.items()}


@placeholder
def early_loss(view: View) -> str:
    """The loss without scaling, in nats per token, of the tokens within the training context of a long text."""
    return f"{_long_losses(view, late=False)[None]:.2f}"


@placeholder
def late_loss(view: View) -> str:
    """The loss without scaling, in nats per token, of the tokens beyond the training context of a long text."""
    return f"{_long_losses(view)[None]:.2f}"


@placeholder
def late_loss_scaled(view: View) -> str:
    """The same with the scaling method that gets the lowest loss."""
    return f"{min(loss for name, loss in _long_losses(view).items() if name):.2f}"


@placeholder
def best_scaling(view: View) -> str:
    """The name of this method."""
    losses = _long_losses(view)
    return min(filter(None, losses), key=losses.__getitem__)


# ---- the prediction


def _odds(view: View, at: int = -1) -> np.ndarray:
    from attnviz.compute import steps

    return steps.odds_of(view, view.config.n_layers if at < 0 else at, view.query)


@placeholder
def prediction(view: View) -> str:
    """The most likely next token after the selected query."""
    from attnviz.compute.heads import vocabulary

    return quoted(vocabulary(view.settings)[int(_odds(view).argmax())])


@placeholder
def prediction_percent(view: View) -> str:
    """Its probability."""
    return _percent(float(_odds(view).max()))


@placeholder
def early_prediction(view: View) -> str:
    """The most likely next token read from the embedding alone."""
    from attnviz.compute.heads import vocabulary

    return quoted(vocabulary(view.settings)[int(_odds(view, 0).argmax())])


@placeholder
def tile_difference(view: View) -> str:
    """The largest difference between the selected head's output by tiles and that of PyTorch's kernel."""
    from attnviz.compute import steps

    return MISSING if view.config.attention_softcap is not None else f"{steps.tiled_of(view).largest_difference:.1e}"


@placeholder
def first_layer(view: View) -> str:
    """The first layer after which the model's prediction is the most likely one: "layer 2"."""
    from attnviz.compute import steps

    best = np.asarray(steps.lens_of(view).best)[:, view.query]  # (1 + L,)
    agrees = int(np.flatnonzero(best == best[-1])[0])
    return "the embedding" if agrees == 0 else f"layer {agrees - 1}"


@placeholder
def vocab_size(view: View) -> str:
    """Tokens of the vocabulary."""
    return f"{view.config.vocab_size:,}"


# ---- decoding, mistakes, practice


def _speculated(view: View) -> Speculated:
    from attnviz.compute import decode

    return decode.speculated(view)


@placeholder
def passes(view: View) -> str:
    """Passes of the model that speculative decoding needs."""
    return str(len(_speculated(view).rounds))


@placeholder
def drafted(view: View) -> str:
    """Tokens that its drafter proposes in them."""
    return str(sum(len(each.proposed) for each in _speculated(view).rounds))


@placeholder
def accepted(view: View) -> str:
    """Those of them that the model accepts."""
    return str(sum(each.n_accepted for each in _speculated(view).rounds))


@placeholder
def drafted_tokens(view: View) -> str:
    """Tokens that are written in them."""
    return str(_speculated(view).n_tokens)


@placeholder
def mistake(view: View) -> str:
    """The title of the selected mistake."""
    from attnviz.compute import mistakes

    return mistakes.mistake_of(view.settings).title


def _symptom(view: View) -> Symptom:
    from attnviz.compute import mistakes

    return mistakes.symptom_of(view)


@placeholder
def mistake_number(view: View) -> str:
    """The number that tells it, of the mistaken version."""
    from attnviz.mistakes.runs import format_number

    return format_number(_symptom(view).number)


@placeholder
def mistake_expected(view: View) -> str:
    """The same of the right version."""
    from attnviz.mistakes.runs import format_number

    return format_number(_symptom(view).expected)


@placeholder
def n_questions(view: View) -> str:
    """Questions of the set chosen on the Practice page, counted."""
    return count(view.settings.questions, "question")
