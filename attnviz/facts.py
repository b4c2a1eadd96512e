"""Parser of published facts about a model into the fields of a `ModelConfig`. Standard library only.

Facts come in free form: a sliding window as size, pattern and counts, norms on q and k as a sentence, sources and notes
beside the numbers. Descriptive entries are dropped; the others are translated and validated.
"""

from __future__ import annotations

import json
import re
from difflib import get_close_matches
from functools import cache
from pathlib import Path
from typing import Any

from attnviz.checks import ConfigError, shown, whole

DESCRIPTIONS = ("source", "notes", "assumption", "counted", "tokenizer_vocab_size")
DESCRIPTION_PREFIXES = ("total_params_published", "formula_", "kv_bytes_per_token")
LATENT_FIELDS = ("q_lora_rank", "kv_lora_rank", "qk_rope_head_dim", "qk_nope_head_dim", "v_head_dim")
WINDOW_FIELDS = ("size", "pattern", "n_sliding_layers", "n_full_layers", "note")
WINDOW_PATTERNS = ("all layers", "alternating, sliding first", "N sliding : M full")


@cache
def published_facts() -> dict[str, dict]:
    """Load the facts of published models in presets.json, each with its sources: {id: entry}."""
    entries = json.loads(Path(__file__).with_name("presets.json").read_text(encoding="utf-8"))
    return by_id(entries)


def by_id(entries: list[dict]) -> dict[str, dict]:
    """Return the entries by their id. ConfigError for an entry without an id or with the id of another one."""
    found: dict[str, dict] = {}
    for i, entry in enumerate(entries):
        id = entry.get("id")
        if not isinstance(id, str) or id in found:
            raise ConfigError(f"id of entry {i} in presets.json must be a text, unlike all other ids, not {shown(id)}")
        found[id] = entry
    return found


def facts_of(preset: str) -> str:
    """Return a published model's configuration as editable JSON, without sources and notes. KeyError if unknown."""
    facts = {name: value for name, value in published_facts()[preset].items() if name not in ("source", "notes", "id")}
    return json.dumps(facts, indent=1)


def config_fields(facts: dict, known: tuple[str, ...]) -> dict[str, Any]:
    """Return the arguments of a `ModelConfig` (fields `known`) from one entry. ConfigError for an unknown field."""
    if not isinstance(facts, dict):
        raise ConfigError(f"a model's configuration must be a JSON object of names and values, not {shown(facts)}")
    given = {name: value for name, value in facts.items() if not _is_description(name)}
    refuse_unknown(given, known)
    if "d_ff" in given and given["d_ff"] is None:
        raise ConfigError("d_ff must be given: without the width of the feed-forward nothing can be counted")
    given["qk_norm"] = _qk_norm(given.get("qk_norm"))
    if isinstance(given.get("sliding_window"), dict):
        given |= _window_fields(given["sliding_window"], given.get("n_layers"))
    if given.get("full_layers") is not None:
        given["full_layers"] = _tuple("full_layers", given["full_layers"])
    if given.get("rope_scaling") is not None:
        given["rope_scaling"] = _pairs("rope_scaling", given["rope_scaling"])
    if given.get("attention") == "mla" and given.get("kv_lora_rank") is None:
        given["kv_lora_rank"] = _latent_rank(facts)
    return given


def refuse_unknown(given: dict, known: tuple[str, ...], prefix: str = "") -> None:
    """Raise ConfigError for an unknown field, with the closest known name: misspelt fields must not be ignored."""
    for name in given:
        if name not in known:
            meant = get_close_matches(str(name), known, n=1)
            hint = f"; did you mean {prefix}{meant[0]}?" if meant else ""
            raise ConfigError(f"{prefix}{name} is not a field of a model{hint}")


def _is_description(name: object) -> bool:
    return name in DESCRIPTIONS or str(name).startswith(DESCRIPTION_PREFIXES)


def _qk_norm(value: object) -> object:
    """Parse "head", "width" or None from a sentence. The norms of MLA's latents are part of MLA itself."""
    if value is None or value is False:
        return None
    text = value.lower() if isinstance(value, str) else ""
    if text.startswith("mla:"):
        return None
    if text in ("head", "width"):
        return text
    if "rmsnorm" in text and ("per-head" in text or "full-width" in text):
        return "head" if "per-head" in text else "width"
    raise ConfigError(f"qk_norm must be false, a per-head RMSNorm or a full-width RMSNorm, not {shown(value)}")


def _window_fields(window: dict, n_layers: Any) -> dict[str, object]:
    """Derive `sliding_window` and `full_layers` from size, pattern and counts. ConfigError if these disagree."""
    refuse_unknown(window, WINDOW_FIELDS, "sliding_window.")
    whole("n_layers", n_layers)
    whole("sliding_window.size", window.get("size"))
    full = _full_layers(window.get("pattern"), n_layers)
    for name, n in (("n_full_layers", len(full)), ("n_sliding_layers", n_layers - len(full))):
        if window.get(name, n) != n:
            raise ConfigError(
                f"sliding_window.{name} must be {n} of {n_layers} layers by the pattern "
                f"{window['pattern']!r}, not {shown(window[name])}"
            )
    return {"sliding_window": window["size"], "full_layers": full}


def _full_layers(pattern: object, n_layers: int) -> tuple[int, ...]:
    """Return the indices of the layers without a window: "5 sliding : 1 full" gives 5, 11, 17, …"""
    text = pattern if isinstance(pattern, str) else ""
    if text.startswith("all layers"):
        return ()
    period = (1, 1) if text.startswith("alternating, sliding first") else _period(text)
    if period is None:
        raise ConfigError(f"sliding_window.pattern must be one of {', '.join(WINDOW_PATTERNS)}, not {shown(pattern)}")
    n_sliding, n_full = period
    full = tuple(i for i in range(n_layers) if i % (n_sliding + n_full) >= n_sliding)
    named = re.search(r"index ([\d, ]+)", text)
    wrong = [i for i in re.findall(r"\d+", named.group(1)) if int(i) not in full] if named else []
    if wrong:
        raise ConfigError(
            f"sliding_window.pattern names layer {wrong[0]} as full, but {n_sliding} : {n_full} gives it a window"
        )
    return full


def _period(text: str) -> tuple[int, int] | None:
    found = re.match(r"(\d{1,4}) sliding : (\d{1,4}) full\b", text)
    return (int(found[1]), int(found[2])) if found and int(found[1]) and int(found[2]) else None


def _latent_rank(facts: dict) -> int:
    """Derive MLA's missing kv_lora_rank from the entry's counted cache, else from presets.json by id.

    Per token and layer, kv_lora_rank + qk_rope_head_dim numbers of two bytes (bf16) are cached.
    """
    counted = facts.get("counted")
    if isinstance(counted, dict) and counted.get("kv_bytes_per_token_bf16"):
        for name in ("n_layers", "qk_rope_head_dim"):
            whole(name, facts.get(name))
        whole("counted.kv_bytes_per_token_bf16", counted["kv_bytes_per_token_bf16"])
        return counted["kv_bytes_per_token_bf16"] // (2 * facts["n_layers"]) - facts["qk_rope_head_dim"]
    rank = published_facts().get(str(facts.get("id")), {}).get("kv_lora_rank")
    if rank is None:
        raise ConfigError("kv_lora_rank must be given for attention 'mla': it decides the size of the cache")
    return rank


def _tuple(name: str, value: object) -> tuple:
    if not isinstance(value, list | tuple):
        raise ConfigError(f"{name} must be a list, not {shown(value)}")
    return tuple(value)


def _pairs(name: str, value: Any) -> tuple[tuple[str, object], ...]:
    """Convert a mapping, or its JSON form as a list of pairs, to hashable pairs."""
    items = value.items() if isinstance(value, dict) else value
    try:
        return tuple((key, tuple(entry) if isinstance(entry, list) else entry) for key, entry in items)
    except (TypeError, ValueError):
        raise ConfigError(f"{name} must be a mapping of names to values, not {shown(value)}") from None
