"""Count the model of a config.json that no reader of attnviz.cost knows: python -m attnviz.counting < config.json

attnviz/compute/counting.py starts this file in a process of its own, on the user's own machine. The classes of the
installed `transformers` build the decoder on torch's meta device, in bfloat16: no weights, no memory, no code from the
file, no network. Its parameters are counted, and what its own cache object holds after 9, 40 and 20,011 tokens.

Prints a JSON object per line: {"stage": …} while it works, {"counted": …} after 40 tokens and again after 20,011, or
{"problem": sentence}. Standard library alone until the limits are set.
"""

from __future__ import annotations

import json
import os
import re
import socket
import sys
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

NEAR, FAR = (9, 40), 20_011  # tokens: two that show how a cache grows, and one beyond the windows in use
GIB = 2**30
LIMITS = {"RLIMIT_AS": 24 * GIB, "RLIMIT_DATA": 5 * GIB, "RLIMIT_CPU": 60, "RLIMIT_FSIZE": 2**20, "RLIMIT_CORE": 0}
MOST_FIELDS, DEEPEST = 20_000, 6  # values in the file, mappings within mappings
LARGEST = (  # of whole numbers, by their names: what a model is built from in Python, before any tensor is made
    (re.compile(r"token_id|seed|theta|position|context|length|base"), 10**12),
    (re.compile(r"vocab"), 10**8),
    (re.compile(r"layers?$|n_layer|depth|blocks?$|repeats"), 1_000),
    (re.compile(r"expert"), 4_096),
    (re.compile(r"heads?$"), 100_000),
    (re.compile(r""), 10**7),
)
LEFT_OUT = ("auto_map", "quantization_config", "dtype", "torch_dtype", "_name_or_path", "attn_implementation",
            "_attn_implementation", "transformers_version", "architectures", "model_type")  # fmt: skip


class Refused(Exception):
    """Why this file is not counted, as a sentence."""


def main() -> None:
    """Read a config.json from standard input, and print what is counted."""
    limited()
    try:
        config = bounded(json.load(sys.stdin))
        say(stage="transformers is imported")
        count(config)
    except Refused as why:
        say(problem=str(why))
    except MemoryError:
        say(problem="building it takes more memory than is allowed")
    except Exception as error:  # noqa: BLE001  # of a class that this file does not suit
        said = (str(error).splitlines() or [""])[0][:200]
        say(problem=f"transformers cannot build it: {type(error).__name__}: {said}")


def say(**message: Any) -> None:
    print(json.dumps(message), flush=True)


def limited() -> None:
    """Set the limits of this process: memory, time, no files, no network."""
    with suppress(ImportError):  # Windows has no such limits; the parent ends the process after its time
        _set_limits()
    os.environ |= {"HF_HUB_OFFLINE": "1", "TRANSFORMERS_OFFLINE": "1", "TRANSFORMERS_VERBOSITY": "error"}
    socket.socket = NoNetwork  # type: ignore[misc]


def _set_limits() -> None:
    import resource

    for name, most in LIMITS.items():
        which = getattr(resource, name)
        _, hard = resource.getrlimit(which)
        try:
            resource.setrlimit(which, (most if hard == resource.RLIM_INFINITY else min(most, hard), hard))
        except (OSError, ValueError):  # macOS refuses some of them
            if sys.platform == "linux":
                raise


class NoNetwork(socket.socket):
    """A socket that cannot be made; a class, since other modules derive theirs from it."""

    def __init__(self, *_: object, **__: object) -> None:
        raise OSError("A model is counted without a network")


def bounded(config: Any) -> dict[str, Any]:
    """Return the configuration. Refused if a number in it is so large that building would not end."""
    if not isinstance(config, dict) or not isinstance(config.get("model_type"), str):
        raise Refused("it does not name its model_type")
    for i, (name, value) in enumerate(values(config)):
        if i > MOST_FIELDS:
            raise Refused(f"it has more than {MOST_FIELDS:,} values")
        if isinstance(value, int) and not isinstance(value, bool):
            most = next(most for pattern, most in LARGEST if pattern.search(name))
            if abs(value) > most:
                raise Refused(f"{name[:60]} is {str(value)[:20]}, and a model is built with at most {most:,}")
    return config


def values(found: Any, name: str = "", depth: int = 0) -> Iterator[tuple[str, Any]]:
    """Iterate over the values of a configuration, each with the name of its field."""
    if depth > DEEPEST:
        raise Refused(f"its mappings are nested more than {DEEPEST} deep")
    if isinstance(found, dict):
        for key, value in found.items():
            yield from values(value, key, depth + 1)
    elif isinstance(found, list):
        for value in found:
            yield from values(value, name, depth + 1)
    else:
        yield name, found


def count(config: dict[str, Any]) -> None:
    """Build the model and print its counts, first without the longest text."""
    import torch
    import transformers
    from transformers.models.auto.configuration_auto import CONFIG_MAPPING
    from transformers.models.auto.modeling_auto import MODEL_FOR_CAUSAL_LM_MAPPING

    torch.set_num_threads(1)
    kind, version = config["model_type"], transformers.__version__
    if kind not in CONFIG_MAPPING:
        raise Refused(f"transformers {version}, which is installed, does not know “{kind[:60]}” either")
    fields = {name: value for name, value in config.items() if name not in LEFT_OUT} | {"pad_token_id": None}
    configuration = transformers.AutoConfig.for_model(kind, **fields).get_text_config()
    if type(configuration) not in MODEL_FOR_CAUSAL_LM_MAPPING:
        raise Refused(f"transformers {version} has no decoder for “{kind[:60]}”")
    say(stage="the model is built without memory")
    with torch.device("meta"):
        live = transformers.AutoModelForCausalLM.from_config(
            configuration, dtype=torch.bfloat16, trust_remote_code=False
        ).eval()
    sizes = {name: getattr(configuration, name, None) for name in ("vocab_size", "hidden_size", "num_hidden_layers")}
    context = getattr(configuration, "max_position_embeddings", None)
    counted = {
        "kind": kind, "version": version, "parameters": sum(p.numel() for p in live.parameters()), "context": context,
        "sizes": {name: n if isinstance(n, int) and n > 0 else 1 for name, n in sizes.items()},
    }  # fmt: skip
    say(stage=f"its cache is counted; it has {counted['parameters']:,} parameters")
    try:
        first, second = held(live, NEAR[0]), held(live, NEAR[1])
        say(counted=counted | kinds(first, second, None))
    except Refused as why:
        raise Refused(f"it has {counted['parameters']:,} parameters, but {why}") from None
    with suppress(Exception):  # a learned position, a loop over the tokens
        say(counted=counted | kinds(first, second, held(live, FAR)))


Held = dict[str, tuple[int, int]]  # place in the cache object -> numbers and bits per number


def held(live: Any, n_tokens: int) -> Held:
    """Return the tensors that the model's own cache object holds after a prompt of n_tokens."""
    import torch

    with torch.inference_mode(), torch.device("meta"):
        output = live(input_ids=torch.zeros(1, n_tokens, dtype=torch.long), use_cache=True)
    found: Held = {}
    for name in ("past_key_values", "cache_params", "state"):
        gather(getattr(output, name, None), name, found, set())
    return found


def gather(found: Any, place: str, tensors: Held, seen: set[int]) -> None:
    """Find each tensor in a cache object once, however deep it is; single numbers count tokens."""
    if id(found) in seen or found is None:
        return
    seen.add(id(found))
    if hasattr(found, "element_size") and hasattr(found, "numel"):
        if found.numel() > 1:
            tensors[place] = found.numel(), 8 * found.element_size()
        return
    if isinstance(found, list | tuple):
        inside: dict = dict(enumerate(found))
    else:
        inside = found if isinstance(found, dict) else getattr(found, "__dict__", {})
    for name, each in inside.items():
        gather(each, f"{place}.{name}", tensors, seen)


def kinds(first: Held, second: Held, far: Held | None) -> dict[str, Any]:
    """Say how the tensors grow: with the tokens, up to a window, or not at all.

    growing: numbers per token. windows: {tokens: numbers per token}. fixed: {bits: numbers}. far: whether the growth
    was tried beyond 40 tokens. Refused if a tensor grows otherwise.
    """
    if not first or first.keys() != second.keys() or (far is not None and far.keys() != first.keys()):
        raise Refused("it gives out no cache object, or one with other tensors after 9 tokens than after more")
    growing, windows, fixed = 0, dict[int, int](), dict[int, int]()
    for place, (a, bits) in first.items():
        b, c = second[place][0], None if far is None else far[place][0]
        if a == b and c in (None, a):
            fixed[bits] = fixed.get(bits, 0) + a
            continue
        per_token, rest = divmod(a, NEAR[0])
        if rest or b != NEAR[1] * per_token:
            raise Refused(f"after {NEAR[0]} tokens its cache holds {a:,} numbers in {place}, after {NEAR[1]} {b:,}: "
                          "neither as many, nor in proportion to the tokens")  # fmt: skip
        if c is None or c == FAR * per_token:
            growing += per_token
        elif c % per_token == 0:
            windows[c // per_token] = windows.get(c // per_token, 0) + per_token
        else:
            raise Refused(
                f"after {FAR:,} tokens its cache holds {c:,} numbers in {place}, not a whole number per token"
            )
    return {"growing": growing, "windows": windows, "fixed": fixed, "far": far is not None}


if __name__ == "__main__":
    main()
