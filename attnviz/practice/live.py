"""Run a learner's code on the shipped weights and recover the attention weights that it computes.

The code returns outputs, not weights. So its values are replaced by rows of the identity: the output for query t is
then the row of weights itself, head_dim keys at a time, however the code is written, loops and fused kernels included.
T tokens, C d_model, H query heads, K KV heads, D head_dim.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from attnviz.modules import Recording, Transformer
from attnviz.modules.attention import attend
from attnviz.practice.child import Refused, load_weights, lookup
from attnviz.practice.task import Names

# Kept beside the calls of each task, not on `Task`: the child process imports no right versions.
WITH_MAPS = ("attention", "self-attention", "mha", "gqa", "rope", "cache", "block", "mla", "flash")
WITHOUT_ROPE = ("self-attention", "mha", "gqa", "block")  # so their maps differ from the full model's
OF_ONE_HEAD = ("self-attention", "flash")
MAX_TOKENS = 32
TILE = 5  # keys


def checkpoint_for(task: str, chosen: str) -> str:
    """Return the shipped checkpoint for a task: the MLA checkpoint for MLA, otherwise one that caches K and V."""
    if task == "mla":
        return "mla"
    return chosen if chosen in ("mha", "gqa-4", "gqa-2", "mqa") else "gqa-4"


@dataclass(frozen=True)
class Call:
    """A call of the learner's code. module: the module that is called, if it is a module."""

    run: Callable[[], Any]
    module: nn.Module | None = None


class Live:
    """The inputs of one layer of a shipped model on a text, for calling the learner's code on them."""

    def __init__(self, model: Transformer, ids: list[int], layer: int, head: int) -> None:
        self.model, self.config, self.head = model, model.config, head
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
            self.logits = model(tokens)[0, -1]  # (V,)
        self.T = tokens.shape[1]

    # ---- the call that is recorded line by line

    def call(self, task: str, names: Names) -> Call:
        """Return the call of the task's class or function on the shipped weights."""
        match task:
            case "attention":
                q, k, v = self._by_head()
                return Call(lambda: names["attention"](q, k, v))
            case "flash":
                q, k, v = (each[0, self.head] for each in self._by_head())
                return Call(lambda: names["flash_attention"](q, k, v, TILE))
            case "rope":
                x = self.recorded.q_pre_rope
                return Call(lambda: names["rope"](x, torch.arange(self.T), self._theta))
            case "rms-norm":
                return Call(lambda: names["rms_norm"](self.x, self.block.attn_norm.weight.detach()))
            case "swiglu":
                gate, up, down = (p.detach() for p in self.block.ffn.parameters())
                return Call(lambda: names["swiglu"](self.ffn_input, gate, up, down))
            case "top-p":
                return Call(lambda: names["top_p"](self.logits, 0.9))
            case "cache":
                return Call(lambda: self._decode(names, self._weights("attn.")))
        module, x = self._module(task, names), self.x if task == "block" else self.normed
        return Call(lambda: module(x), module)

    # ---- attention maps

    @torch.no_grad()
    def maps(self, task: str, names: Names) -> Tensor | None:
        """Return the weights (n, T, T) of all heads, or of the selected one in OF_ONE_HEAD; None without attention."""
        if task not in WITH_MAPS:
            return None
        if task == "rope":
            return self._maps_of_rope(names)
        found = [self._weights_on(task, names, at) for at in range(0, self.T, self._width(task))]  # (n, T, width) each
        return torch.cat(found, -1)[..., : self.T].float()

    def _width(self, task: str) -> int:
        return self.config.v_head_dim if task == "mla" else self.config.head_dim

    def _weights_on(self, task: str, names: Names, first: int) -> Tensor:
        """Return the weights on the keys from `first` on, one per value dimension: (n, T, width)."""
        width = self._width(task)
        values = torch.eye(self.T, self.T + width)[:, first : first + width]  # (T, width)
        H = self.config.n_heads
        if task == "attention":
            q, k, _ = self._by_head()
            return self._check_shape(names["attention"](q, k, values.expand(1, H, -1, -1)), (1, H, self.T, width))[0]
        if task == "flash":
            q, k, _ = self._by_head()
            out = names["flash_attention"](q[0, self.head], k[0, self.head], values, TILE)
            return self._check_shape(out, (self.T, width))[None]
        if task == "cache":
            weights = self._weights("attn.") | {"o_proj": torch.eye(self.config.d_model)}
            weights["v_proj"] = _solve_weight(self.normed[0], values).repeat(self.config.n_kv_heads, 1)
            return self._split(self._decode(names, weights))
        module = self._module(task, names)
        attention = module.attn if task == "block" else module
        if task == "mla":
            self._replace_latent_values(attention, values)
        else:
            attention.v_proj = _FixedValues(attention.v_proj, self.normed[0], values)
        if task == "self-attention":
            return self._check_shape(module(self.normed), (1, self.T, width))
        attention.o_proj.weight.copy_(torch.eye(self.config.d_model))
        if task == "block":
            module.ffn.down_proj.weight.zero_()
            return self._split(module(self.x) - self.x)
        return self._split(module(self.normed))

    def _check_shape(self, out: Any, shape: tuple[int, ...]) -> Tensor:
        if not isinstance(out, Tensor) or tuple(out.shape) != shape:
            raise Refused(
                f"The output is {tuple(getattr(out, 'shape', ())) or type(out).__name__} instead of a tensor of shape "
                f"{shape}."
            )
        return out

    def _split(self, out: Any) -> Tensor:
        """(1, T, H · D) -> (H, T, D)."""
        heads = self._check_shape(out, (1, self.T, self.config.d_model))[0].unflatten(-1, (self.config.n_heads, -1))
        return heads.transpose(0, 1)

    def _maps_of_rope(self, names: Names) -> Tensor:
        """Return the weights with the learner's rotation; scores, mask and softmax are ours."""
        at = torch.arange(self.T)
        q, k = (names["rope"](x, at, self._theta) for x in (self.recorded.q_pre_rope, self.recorded.k_pre_rope))
        for found, given in ((q, self.recorded.q_pre_rope), (k, self.recorded.k_pre_rope)):
            self._check_shape(found, tuple(given.shape))
        return attend(q, k, self.recorded.v, self._causal()).weights[0]

    def _causal(self) -> Tensor:
        return torch.ones(self.T, self.T, dtype=torch.bool).tril()

    def _by_head(self) -> tuple[Tensor, Tensor, Tensor]:
        """Return q, k, v (1, H, T, D) after RoPE, with keys and values repeated for each query head."""
        k, v = (t.repeat_interleave(self.config.group_size, 1) for t in (self.recorded.k, self.recorded.v))
        return self.recorded.q, k, v

    # ---- the shipped weights

    @property
    def _theta(self) -> float:
        return float(self.config.rope_theta or 10_000.0)

    def _weights(self, prefix: str) -> dict[str, Tensor]:
        """Return the layer's parameters with this name prefix, keyed by the rest of the name without ".weight"."""
        found = {name: p.detach().clone() for name, p in self.block.named_parameters() if name.startswith(prefix)}
        return {name.removeprefix(prefix).removesuffix(".weight"): p for name, p in found.items()}

    def _module(self, task: str, names: Names) -> Any:
        c, weights = self.config, self._weights("attn.")
        D, kv_head = c.head_dim, c.layer.kv_head_of[self.head]
        match task:
            case "self-attention":
                rows = {"q_proj": self.head, "k_proj": kv_head, "v_proj": kv_head}
                own = {f"{name}.weight": weights[name][D * i : D * (i + 1)] for name, i in rows.items()}
                return _build_module(names, "SelfAttention", own, d_in=c.d_model, d_out=D)
            case "mha":
                for name in ("k_proj", "v_proj"):
                    heads = weights[name].unflatten(0, (c.n_kv_heads, D))
                    weights[name] = heads.repeat_interleave(c.group_size, 0).flatten(0, 1)
                own = {f"{name}.weight": weight for name, weight in weights.items()}
                return _build_module(names, "MultiHeadAttention", own, d_model=c.d_model, n_heads=c.n_heads)
            case "gqa":
                own = {f"{name}.weight": weight for name, weight in weights.items()}
                sizes = {"d_model": c.d_model, "n_heads": c.n_heads, "n_kv_heads": c.n_kv_heads}
                return _build_module(names, "GroupedQueryAttention", own, **sizes)
            case "block":
                own = {f"{name}.weight": weight for name, weight in self._weights("").items()}
                sizes = {"d_model": c.d_model, "n_heads": c.n_heads, "n_kv_heads": c.n_kv_heads, "d_ff": c.d_ff}
                return _build_module(names, "Block", own, **sizes)
            case "mla":
                own = {f"{name}.weight": weight for name, weight in weights.items()}
                sizes = {
                    name: getattr(c, name)
                    for name in ("kv_lora_rank", "qk_nope_head_dim", "qk_rope_head_dim", "v_head_dim")
                }
                return _build_module(
                    names, "MultiHeadLatentAttention", own, d_model=c.d_model, n_heads=c.n_heads, **sizes
                )
        raise ValueError(f"Live.call and Live._module do not know the task {task!r}")

    def _decode(self, names: Names, weights: Mapping[str, Tensor]) -> Any:
        sizes = {"n_heads": self.config.n_heads, "n_kv_heads": self.config.n_kv_heads, "theta": self._theta}
        own = {name: weights[name] for name in ("q_proj", "k_proj", "v_proj", "o_proj")}
        return names["decode_step"](self.normed, names["Cache"](), **own, **sizes)

    def _replace_latent_values(self, attention: Any, values: Tensor) -> None:
        """Set each head's value rows of kv_b_proj so that the latents are mapped to `values`."""
        c, weight = self.config, attention.kv_b_proj.weight
        ours: Any = self.block.attn
        latent = ours.kv_a_norm(ours.kv_a_proj(self.normed)[..., : c.kv_lora_rank])[0]  # (T, R)
        rows = weight.view(c.n_heads, c.qk_nope_head_dim + c.v_head_dim, -1)
        rows[:, c.qk_nope_head_dim :] = _solve_weight(latent, values)


class _FixedValues(nn.Linear):
    """A value projection that returns the given rows for every head, whatever its input.

    Its weight is fitted so that it maps the text's x to the same rows, for code that reads the weight instead.
    """

    def __init__(self, like: Any, x: Tensor, values: Tensor) -> None:
        super().__init__(like.in_features, like.out_features, bias=False)
        copies = like.out_features // values.shape[1]
        self.rows = values.repeat(1, copies)  # (T, K · D)
        self.weight = nn.Parameter(torch.linalg.lstsq(x, self.rows, driver="gelsd").solution.T)

    def forward(self, x: Tensor) -> Tensor:
        return self.rows.expand(*x.shape[:-1], -1)


def _solve_weight(x: Tensor, values: Tensor) -> Tensor:
    """Return the weight (width, C) of a linear layer that maps x (T, C) to `values` (T, width)."""
    if torch.linalg.matrix_rank(x) < len(x):
        raise Refused(
            "Repeated tokens have identical inputs in layer 0, so their weights cannot be separated. Choose layer 1."
        )
    return torch.linalg.lstsq(x, values, driver="gelsd").solution.T


def _build_module(names: Names, name: str, weights: Mapping[str, Tensor], **sizes: int) -> Any:
    """Build the learner's module and set these weights. Refused if the parameters do not match."""
    module = lookup(name, names)(**sizes)
    load_weights(module, weights)
    return module
