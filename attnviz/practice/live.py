"""Run a learner's code on the shipped weights and recover the attention weights that it computes.

The code returns outputs, not weights. So its inputs and projections are set such that the values are rows of the
identity (channels.py): the output for query t is then the row of weights itself, head_dim keys at a time. The code gets
parameters and arguments, as from the judge, and nothing in it is replaced: it may be written in any way.
T tokens, C d_model, H query heads, K KV heads, D head_dim.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from attnviz.analysis.sparse import usual_k
from attnviz.config import ModelConfig
from attnviz.modules import Recording, Transformer
from attnviz.modules.attention import attend
from attnviz.phrases import count
from attnviz.practice.channels import Channels
from attnviz.practice.child import Refused, load_weights, lookup, outputs_of
from attnviz.practice.task import Names

# Kept beside the calls of each task, not on `Task`: the child process imports no right versions.
WITH_MAPS = (
    "attention", "self-attention", "mha", "gqa", "rope", "cache", "block", "mla", "flash", "delta", "sparse",
)  # fmt: skip
WITHOUT_ROPE = ("self-attention", "mha", "gqa", "block")  # so their maps differ from the full model's
OF_ONE_HEAD = ("self-attention", "flash")
WITH_A_STATE = ("delta",)  # its maps are effective weights
MAX_TOKENS = 32
TILE = 5  # keys


def checkpoint_for(task: str, chosen: str) -> str:
    """Return the shipped checkpoint for a task: the one with its mechanism, otherwise one that caches K and V."""
    own = {"mla": "mla", "delta": "hybrid", "sparse": "sparse"}
    if task in own:
        return own[task]
    return chosen if chosen in ("mha", "gqa-4", "gqa-2", "mqa") else "gqa-4"


def layer_for(task: str, config: ModelConfig, chosen: int) -> int:
    """Return the chosen layer, or for a task with a state the nearest layer that keeps one."""
    fit = [i for i, layer in enumerate(config.layers) if layer.mixer.attends != (task in WITH_A_STATE)]
    return min(fit, key=lambda i: (abs(i - chosen), i))


@dataclass(frozen=True)
class Call:
    """A call of the learner's code. module: the module that is called, if it is a module."""

    run: Callable[[], Any]
    module: nn.Module | None = None


class Live:
    """The inputs of one layer of a shipped model on a text, for calling the learner's code on them."""

    def __init__(self, model: Transformer, ids: list[int], layer: int, head: int) -> None:
        self.model, self.config, self.head = model, model.config, head
        self.mixer = model.config.layers[layer].mixer
        self.block = model.blocks[layer]
        tokens = torch.tensor(ids[:MAX_TOKENS])[None]
        with torch.no_grad():
            x = model.embed(tokens)
            options = model.attention_options(tokens.shape[1])
            for block, option in zip(model.blocks[:layer], options, strict=False):
                x = block(x, **option)
            record = Recording()
            self.x, self.normed = x, self.block.attn_norm(x)  # (1, T, C)
            after = x + self.block.attn(self.normed, **options[layer], record=record)
            self.ffn_input = self.block.ffn_norm(after)
            self.recorded = record[0]
            self.rope = options[layer]["rope"]
            self.logits = model(tokens)[0, -1]  # (V,)
        self.T = tokens.shape[1]

    # ---- the call that is recorded line by line

    def call(self, task: str, names: Names) -> Call:
        """Return the call of the task's class or function on the shipped weights, with copies of the tensors."""
        match task:
            case "attention":
                q, k, v = self._by_head()
                return Call(lambda: names["attention"](q, k, v))
            case "flash":
                q, k, v = (each[0, self.head].clone() for each in self._by_head())
                return Call(lambda: names["flash_attention"](q, k, v, TILE))
            case "delta":
                q, k, v, decay, beta = self._written()
                return Call(lambda: names["gated_delta_rule"](q, k, v, decay, beta))
            case "sparse":
                q, k, v = _copied(self.recorded.q), _copied(self.recorded.k), _copied(self.recorded.v)
                index = self._indexed()
                return Call(lambda: names["sparse_attention"](q, k, v, *index, self.top_k))
            case "rope":
                x = _copied(self.recorded.q_pre_rope)
                return Call(lambda: names["rope"](x, torch.arange(self.T), self._theta))
            case "rms-norm":
                x, weight = _copied(self.x), _copied(self.block.attn_norm.weight)
                return Call(lambda: names["rms_norm"](x, weight))
            case "swiglu":
                x, matrices = _copied(self.ffn_input), [_copied(p) for p in self.block.ffn.parameters()]
                return Call(lambda: names["swiglu"](x, *matrices))
            case "top-p":
                logits = _copied(self.logits)
                return Call(lambda: names["top_p"](logits, 0.9))
            case "cache":
                x, weights = _copied(self.normed), self._weights("attn.")
                return Call(lambda: self._decode(names, x, weights))
        x = _copied(self.x if task == "block" else self.normed)
        module = self._module(task, names, self._weights("" if task == "block" else "attn."))
        return Call(lambda: module(x), module)

    # ---- attention maps

    @torch.no_grad()
    def maps(self, task: str, names: Names) -> Tensor | None:
        """Return the weights (n, T, T) of all heads, or of the selected one in OF_ONE_HEAD; None without attention.

        WITH_A_STATE, they are effective weights.
        """
        if task not in WITH_MAPS:
            return None
        if task in ("delta", "sparse"):  # whose values may have any width
            return self._maps_at_once(task, names)
        if task == "rope":
            return self._maps_of_rope(names)
        found = [self._weights_on(task, names, at) for at in range(0, self.T, self._width(task))]  # (n, T, width) each
        return torch.cat(found, -1)[..., : self.T].float()

    def _maps_at_once(self, task: str, names: Names) -> Tensor:
        """Return the weights (H, T, T): the output for values that are the rows of the identity."""
        values = torch.eye(self.T)[None, None]
        if task == "delta":
            q, k, v, decay, beta = self._written()
            result = names["gated_delta_rule"](q, k, values.repeat(1, v.shape[1], 1, 1), decay, beta)
            outputs = outputs_of("The call", result)
            if len(outputs) != 2:
                raise Refused(f"The call returned {count(len(outputs), 'tensor')}; the task asks for output and state.")
            result = outputs[0]
        else:
            q, k, v = _copied(self.recorded.q), _copied(self.recorded.k), self.recorded.v
            values = values.repeat(1, v.shape[1], 1, 1)
            result = names["sparse_attention"](q, k, values, *self._indexed(), self.top_k)
        return self._only(result, (1, self.mixer.n_heads, self.T, self.T))[0].float()

    def _width(self, task: str) -> int:
        return self.config.v_head_dim if task == "mla" else self.config.head_dim

    def _weights_on(self, task: str, names: Names, first: int) -> Tensor:
        """Return the weights on the keys from `first` on, one per value dimension: (n, T, width)."""
        width, H = self._width(task), self.config.n_heads
        values = torch.eye(self.T, self.T + width, dtype=self.x.dtype)[:, first : first + width]  # (T, width)
        if task == "attention":
            q, k, _ = self._by_head()
            return self._only(names["attention"](q, k, values.repeat(1, H, 1, 1)), (1, H, self.T, width))[0]
        if task == "flash":
            q, k, _ = self._by_head()
            out = names["flash_attention"](q[0, self.head].clone(), k[0, self.head].clone(), values.contiguous(), TILE)
            return self._only(out, (self.T, width))[None]
        x, weights = self._telling_apart(task, first, width)
        if task == "cache":
            return self._split(self._decode(names, x.clone(), weights))
        module = self._module(task, names, weights)
        if task == "self-attention":
            return self._only(module(x.clone()), (1, self.T, width))
        out = self._split(module(x.clone()))
        return out - self._split(x) if task == "block" else out

    def _telling_apart(self, task: str, first: int, width: int) -> tuple[Tensor, dict[str, Tensor]]:
        """Return an input (1, T, C) and the layer's weights, with the shipped scores and values that are rows of the
        identity from key `first` on; the outputs of the heads are not mixed, and the feed-forward adds nothing."""
        c, block = self.config, task == "block"
        weights, prefix = self._weights("" if block else "attn."), "attn." if block else ""
        norm = self.block.attn_norm
        channels = Channels(self.x[0], norm.weight, norm.eps) if block else Channels(self.normed[0])
        names = [f"{prefix}{name}.weight" for name in ("q_proj", "k_proj", "v_proj", "o_proj")]
        q_proj, k_proj, v_proj, o_proj = names
        weights[q_proj] = channels.ignoring(weights[q_proj])
        if task == "mla":
            self._read_latent(channels, weights, first, width)
        else:
            weights[k_proj] = channels.ignoring(weights[k_proj])
            weights[v_proj] = channels.reading(first, width).repeat(c.n_kv_heads, 1)
        weights[o_proj] = torch.eye(c.d_model, dtype=self.x.dtype)
        if block:
            weights["ffn.down_proj.weight"].zero_()
        return channels.input[None], weights

    def _read_latent(self, channels: Channels, weights: dict[str, Tensor], first: int, width: int) -> None:
        """Give each token's latent a channel too, and read it as the value: rows of kv_a_proj and kv_b_proj."""
        c, ours = self.config, self.block.attn
        to_latent, to_rope_key = weights["kv_a_proj.weight"].split((c.kv_lora_rank, c.qk_rope_head_dim))
        latent = ours.kv_a_proj(self.normed)[0, :, : c.kv_lora_rank]  # (T, R), before its norm
        inner = Channels(latent, ours.kv_a_norm.weight, ours.kv_a_norm.eps)
        added = (inner.input - latent).T @ channels.reading(0, self.T)  # (R, T) @ (T, C)
        weights["kv_a_proj.weight"] = torch.cat(
            (channels.ignoring(to_latent) + added, channels.ignoring(to_rope_key))
        )  # (R + P, C)
        heads = weights["kv_b_proj.weight"].unflatten(0, (c.n_heads, -1))  # (H, N + V, R)
        keys = inner.ignoring(heads[:, : c.qk_nope_head_dim].flatten(0, 1)).unflatten(0, (c.n_heads, -1))  # (H, N, R)
        values = inner.reading(first, width).expand(c.n_heads, -1, -1)  # (H, V, R)
        weights["kv_b_proj.weight"] = torch.cat((keys, values), 1).flatten(0, 1)

    def _only(self, result: object, shape: tuple[int, ...]) -> Tensor:
        """Return the one tensor that a call returned. Refused for anything else, and for another shape."""
        outputs = outputs_of("The call", result)
        if len(outputs) != 1:
            raise Refused(f"The call returned {len(outputs)} tensors; the task asks for the output alone.")
        if tuple(outputs[0].shape) != shape:
            raise Refused(f"The output has shape {tuple(outputs[0].shape)} instead of {shape}.")
        if not outputs[0].isfinite().all():
            raise Refused("The output contains NaN or ∞, so no weights can be read from it.")
        return outputs[0]

    def _split(self, out: object) -> Tensor:
        """(1, T, H · D) -> (H, T, D)."""
        heads = self._only(out, (1, self.T, self.config.d_model))[0].unflatten(-1, (self.config.n_heads, -1))
        return heads.transpose(0, 1)

    def _maps_of_rope(self, names: Names) -> Tensor:
        """Return the weights with the learner's rotation; scores, mask and softmax are ours."""
        before = self.recorded.q_pre_rope, self.recorded.k_pre_rope
        q, k = (
            self._only(names["rope"](_copied(x), torch.arange(self.T), self._theta), tuple(x.shape)).to(x.dtype)
            for x in before
        )
        return attend(q, k, self.recorded.v, self._causal()).weights[0]

    def _causal(self) -> Tensor:
        return torch.ones(self.T, self.T, dtype=torch.bool).tril()

    def _by_head(self) -> tuple[Tensor, Tensor, Tensor]:
        """Return copies of q, k, v (1, H, T, D) after RoPE, with keys and values repeated for each query head."""
        k, v = (t.repeat_interleave(self.config.group_size, 1) for t in (self.recorded.k, self.recorded.v))
        return _copied(self.recorded.q), k, v

    def _written(self) -> tuple[Tensor, ...]:
        """Return copies of q and k (1, H, T, D), v (1, H, T, V), decay and beta (1, H, T) of a layer with a state."""
        q, k, v, own = self.recorded.q, self.recorded.k, self.recorded.v, self.recorded.own
        k = k[:, list(self.mixer.kv_head_of)]  # (1, K, T, D) -> (1, H, T, D)
        return tuple(map(_copied, (q, k, v, own["decay"], own["beta"])))

    @torch.no_grad()
    def _indexed(self) -> tuple[Tensor, ...]:
        """Return index queries (1, I, T, E), index keys (1, T, E) and index weights (1, T, I) of a layer's indexer."""
        q, weights, k = self.block.attn.indexer(self.normed, self.normed, self.rope, 0)
        return _copied(q), _copied(k), _copied(weights)

    @property
    def top_k(self) -> int:
        """The keys that each query keeps here: fewer than the text has."""
        return usual_k(self.mixer.top_k or 1, self.T)

    # ---- the shipped weights

    @property
    def _theta(self) -> float:
        return float(self.config.rope_theta or 10_000.0)

    def _weights(self, prefix: str) -> dict[str, Tensor]:
        """Return copies of the layer's parameters with this name prefix, keyed by the rest of the name."""
        found = {name: p.detach().clone() for name, p in self.block.named_parameters()}
        return {name.removeprefix(prefix): p for name, p in found.items() if name.startswith(prefix)}

    def _module(self, task: str, names: Names, weights: dict[str, Tensor]) -> Any:
        """Build the learner's module with the layer's weights, or with as many of them as the task has."""
        c = self.config
        D, kv_head = c.head_dim, self.mixer.kv_head_of[self.head]
        many = {"d_model": c.d_model, "n_heads": c.n_heads}
        match task:
            case "self-attention":
                rows = {"q_proj.weight": self.head, "k_proj.weight": kv_head, "v_proj.weight": kv_head}
                own = {name: weights[name][D * i : D * (i + 1)] for name, i in rows.items()}
                return _build_module(names, "SelfAttention", own, d_in=c.d_model, d_out=D)
            case "mha":
                for name in ("k_proj.weight", "v_proj.weight"):
                    heads = weights[name].unflatten(0, (c.n_kv_heads, D))
                    weights[name] = heads.repeat_interleave(c.group_size, 0).flatten(0, 1)
                return _build_module(names, "MultiHeadAttention", weights, **many)
            case "gqa":
                return _build_module(names, "GroupedQueryAttention", weights, **many, n_kv_heads=c.n_kv_heads)
            case "block":
                return _build_module(names, "Block", weights, **many, n_kv_heads=c.n_kv_heads, d_ff=c.d_ff)
            case "mla":
                own_sizes = ("kv_lora_rank", "qk_nope_head_dim", "qk_rope_head_dim", "v_head_dim")
                sizes = {name: getattr(c, name) for name in own_sizes}
                return _build_module(names, "MultiHeadLatentAttention", weights, **many, **sizes)
        raise ValueError(f"Live.call and Live._module do not know the task {task!r}")

    def _decode(self, names: Names, x: Tensor, weights: Mapping[str, Tensor]) -> Any:
        sizes = {"n_heads": self.config.n_heads, "n_kv_heads": self.config.n_kv_heads, "theta": self._theta}
        own = {name: weights[f"{name}.weight"] for name in ("q_proj", "k_proj", "v_proj", "o_proj")}
        return names["decode_step"](x, names["Cache"](), **own, **sizes)


def _copied(tensor: Tensor) -> Tensor:
    """Return a contiguous copy, as the judge gives one: the code may take views of it, or change it in place."""
    return tensor.detach().clone(memory_format=torch.contiguous_format)


def _build_module(names: Names, name: str, weights: Mapping[str, Tensor], **sizes: int) -> Any:
    """Build the learner's module and set these weights. Refused if the parameters do not match."""
    module = lookup(name, names)(**sizes)
    load_weights(module, weights)
    return module
