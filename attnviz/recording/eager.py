"""A model of transformers, eager and in evaluation mode for a while, and what its attention computes meanwhile.

Fused kernels return no weights, so a model is switched to its eager attention for the run, and left as it was found:
its attention, training mode and hooks are restored, also after an error. B = 1 text, H query heads, K KV heads, T query
tokens, S key tokens, D width of a head.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import nn

from attnviz.runs.arrays import RunError

HOOKS = ("_forward_hooks", "_forward_hooks_with_kwargs", "_forward_hooks_always_called")  # of a torch module
CAPTURING = "_output_capturing_hooks_installed"  # transformers' mark on a model whose hooks it has installed
ONE_AT_A_TIME = threading.Lock()  # transformers' functions are shared by all models


class TooLarge(Exception):
    """More bytes of attention than were allowed."""


@dataclass(frozen=True)
class Vectors:
    """What one call of an attention function was given."""

    q: torch.Tensor  # (1, H, T, D), after RoPE
    k: torch.Tensor  # (1, K, S, D), after RoPE
    v: torch.Tensor  # (1, K, S, width)
    scale: float  # of q · k


@contextmanager
def left_as_it_was(model: Any) -> Iterator[None]:
    """Switch a model to eager attention and evaluation mode, and restore what it was."""
    modules = list(model.modules())
    training = [module.training for module in modules]
    hooks = [{name: set(getattr(module, name)) for name in HOOKS} for module in modules]
    captured = [CAPTURING in vars(module) for module in modules]
    attention = {id(config): (config, config._attn_implementation) for config in _configs(modules)}
    try:
        model.eval()
        model.set_attn_implementation("eager")
        _refuse_fused(model, modules)
        yield
    finally:
        for config, was in attention.values():
            config._attn_implementation_internal = was  # the property sets those in it as well
        for module, mode, before, marked in zip(modules, training, hooks, captured, strict=True):
            module.training = mode
            _remove_hooks(module, before)
            if not marked:
                vars(module).pop(CAPTURING, None)


def _refuse_fused(model: Any, modules: list[nn.Module]) -> None:
    """Raise RunError if a part of a model cannot be switched: what it returns then may lack its causal mask."""
    for module in modules:
        fused = getattr(getattr(module, "config", None), "_attn_implementation", None)
        if fused not in ("eager", None):
            raise RunError(f"{type(model).__name__} keeps the attention that it was loaded with, {fused}: load it with "
                           "attn_implementation='eager'")  # fmt: skip


def _configs(modules: list[nn.Module]) -> Iterator[Any]:
    """Return the configurations of a model and of its parts, with those that are in them."""
    waiting: list[Any] = [module.config for module in modules if hasattr(module, "config")]
    waiting = [config for config in waiting if hasattr(config, "_attn_implementation")]
    seen = set()
    while waiting:
        config = waiting.pop()
        if id(config) not in seen:
            seen.add(id(config))
            inner = (getattr(config, name, None) for name in config.sub_configs)
            waiting += [each for each in inner if each is not None]
            yield config


def _remove_hooks(module: nn.Module, before: dict[str, set[int]]) -> None:
    for name, kept in before.items():
        present = getattr(module, name)
        for key in [key for key in present if key not in kept]:
            del present[key]


class Recorder:
    """Which module returned which weights, and from which queries, keys and values; found by the weights' identity."""

    def __init__(self, max_bytes: int, qkv: bool) -> None:
        self.max_bytes = max_bytes
        self.qkv = qkv
        self.nbytes = 0
        self._thread = threading.get_ident()
        self._paths: dict[int, tuple[torch.Tensor, str]] = {}
        self._computed: dict[int, tuple[torch.Tensor, int, Vectors | None]] = {}  # the tensor too, so that its id stays

    def path(self, weights: torch.Tensor) -> str:
        """Return the path of the module that returned these weights, such as "model.layers.3.self_attn"."""
        return self._paths[id(weights)][1] if id(weights) in self._paths else ""

    def n_kv_heads(self, weights: torch.Tensor) -> int | None:
        """Return with how many KV heads the weights were computed, None if the model has attention code of its own."""
        return self._computed[id(weights)][1] if id(weights) in self._computed else None

    def vectors(self, weights: torch.Tensor) -> Vectors | None:
        """Return what these weights were computed from, None if that is not recorded."""
        return self._computed[id(weights)][2] if id(weights) in self._computed else None

    def returned(self, path: str, module: nn.Module, args: Any, output: Any) -> None:
        """Note the weights in a module's output: a forward hook. The innermost module comes first."""
        for each in output if isinstance(output, tuple) else ():
            if isinstance(each, torch.Tensor) and each.dim() == 4 and id(each) not in self._paths:
                self._paths[id(each)] = (each, path)
                self.nbytes += 4 * each.numel()
        if self.nbytes > self.max_bytes:
            raise TooLarge

    def recording(self, function: Callable) -> Callable:
        """Return an attention function that notes what it is given."""

        def attend(module: nn.Module, query: Any, key: Any, value: Any, *args: Any, **kwargs: Any) -> Any:
            output, weights = function(module, query, key, value, *args, **kwargs)
            if weights is not None and threading.get_ident() == self._thread:
                scale = kwargs.get("scaling")
                scale = query.shape[-1] ** -0.5 if scale is None else float(scale)
                vectors = Vectors(query, key, value, scale) if self.qkv else None
                self._computed[id(weights)] = weights, key.shape[1], vectors
            return output, weights

        return attend


@contextmanager
def recorded(model: Any, max_bytes: int, qkv: bool) -> Iterator[Recorder]:
    """Record the attention of a model while it runs; qkv: keep queries, keys and values.

    Models ask `ALL_ATTENTION_FUNCTIONS.get_interface` for their function; meanwhile it returns one that notes its
    arguments. A model that does not ask runs all the same, and only its weights are known.
    """
    from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS as FUNCTIONS

    with ONE_AT_A_TIME:
        yield from _recorded(model, Recorder(max_bytes, qkv), FUNCTIONS)


def _recorded(model: Any, recorder: Recorder, functions: Any) -> Iterator[Recorder]:
    handles = [m.register_forward_hook(partial(recorder.returned, path)) for path, m in model.named_modules()]
    asked = getattr(functions, "get_interface", None)
    if asked is not None:
        functions.get_interface = lambda *args, **kwargs: recorder.recording(asked(*args, **kwargs))
    try:
        yield recorder
    finally:
        vars(functions).pop("get_interface", None)
        for handle in handles:
            handle.remove()
