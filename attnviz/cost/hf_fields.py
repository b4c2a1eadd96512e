"""The fields of a Hugging Face config.json with the defaults of its architecture, and a record of those read."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from attnviz.checks import LARGEST, ConfigError, shown, switch, whole

BOUNDS = {  # field of config.json -> this project's field, whose bounds apply
    "num_hidden_layers": "n_layers", "n_layer": "n_layers", "num_layers": "n_layers",
    "hidden_size": "d_model", "n_embd": "d_model", "n_embed": "d_model",
    "num_attention_heads": "n_heads", "n_head": "n_heads", "n_heads": "n_heads",
    "num_key_value_heads": "n_kv_heads", "num_kv_heads": "n_kv_heads", "n_head_kv": "n_kv_heads",
    "multi_query_group_num": "n_kv_heads", "kv_channels": "head_dim",
    "intermediate_size": "d_ff", "n_inner": "d_ff", "ffn_dim": "d_ff", "ffn_hidden_size": "d_ff",
    "moe_intermediate_size": "d_ff", "shared_expert_intermediate_size": "d_ff", "padded_vocab_size": "vocab_size",
}  # fmt: skip


class Fields:
    """The fields of a config.json, with a record of those used and those assumed."""

    def __init__(self, config: dict, defaults: dict[str, Any], aliases: Mapping[str, str] | None = None) -> None:
        """aliases: other name -> name; as in transformers, a value under the other name wins."""
        self.config, self.defaults = config, defaults
        self.aliases: dict[str, list[str]] = {}
        for alias, name in (aliases or {}).items():
            self.aliases.setdefault(name, []).append(alias)
        self.used, self.assumed = dict[str, object](), dict[str, object]()
        self.uncounted: dict[str, str] = {}
        self.ignored: set[str] = set()  # fields that change nothing in this architecture

    def value(self, *names: str) -> Any:
        """Return the value of the first given of these names (of one field, renamed over time), else the default."""
        if (name := self._given(names)) is not None:
            self.used[name] = self.config[name]
            return self.config[name]
        if names[0] not in self.defaults:
            raise ConfigError(f"{names[0]} must be given in this config.json: its architecture has no default for it")
        self.assumed[names[0]] = self.defaults[names[0]]
        return self.defaults[names[0]]

    def optional(self, *names: str) -> Any:
        """Return the value like `value`, None if it is neither given nor a default; nothing is then assumed."""
        if self._given(names) is None and self.defaults.get(names[0]) is None:
            return None
        return self.value(*names)

    def older(self, name: str, default: Any = None) -> Any:
        """Return the value of a field that configuration classes only read from older files; `default` if not given."""
        if name not in self.config:
            return default
        self.used[name] = self.config[name]
        return self.config[name]

    def size(self, *names: str) -> int:
        """Return a whole number of at least 1."""
        n = self.value(*names)
        whole_field(self._name(names), n)
        return n

    def size_or(self, otherwise: int | None, *names: str) -> int | Any:
        """Return a whole number; `otherwise` if it is null, or neither given nor a default."""
        name = self._name(names)
        n = self.optional(*names)
        if n is not None:
            whole_field(name, n)
        elif otherwise is not None or name not in self.config:
            self.used.pop(name, None)
            self.assumed[name] = otherwise
        return otherwise if n is None else n

    def flag(self, name: str) -> bool:
        """Return true or false; null is false."""
        value = self.value(name)
        if value is not None:
            switch(name, value)
        return bool(value)

    def must_be(self, allowed: object, name: str) -> None:
        """Refuse a value that this project has no formula for."""
        spelt = self._name((name,))
        if self.config.get(spelt, allowed) not in (allowed, None):
            raise ConfigError(f"{spelt} must be {allowed} for this architecture to be counted, not "
                              f"{shown(self.config[spelt])}")  # fmt: skip

    def _name(self, names: tuple[str, ...]) -> str:
        return self._given(names) or names[0]

    def _given(self, names: tuple[str, ...]) -> str | None:
        """Return the name under which the file gives a field; None if it does not."""
        spelt = (each for name in names for each in (*self.aliases.get(name, ()), name))
        return next((name for name in spelt if name in self.config), None)


def whole_field(name: str, value: object) -> None:
    """Refuse anything but a whole number within this field's bounds."""
    whole(name, value, high=LARGEST.get(BOUNDS.get(name, name)))
