"""Run a learner's file on the shipped weights, in the child process: its attention maps and its line-by-line walk.

FOLDER/ask.json holds the request (see on_shipped.py). Written to FOLDER: maps.safetensors, the attention weights that
the code computes; walk.bin and places.json, its lines with their tensors; maps.json and walk.json, error reports.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file

from attnviz.checkpoints import load_checkpoint
from attnviz.practice.child import error_report, limit, load_namespace
from attnviz.practice.live import Live
from attnviz.steps import Selection, Walk, record_file

Pack = Callable[[Walk, list[str], int, int], tuple[bytes, list]]  # walk, labels, KV heads, stop -> bytes and places


def run(folder: Path, file: Path, pack: Pack) -> None:
    """Compute the maps and the walk, and write each as soon as it is computed."""
    ask = json.loads((folder / "ask.json").read_text(encoding="utf-8"))
    torch.set_num_threads(1)
    live = Live(load_checkpoint(ask["checkpoint"])[0], ask["ids"], ask["layer"], ask["head"])
    limit()
    names: dict[str, Any] = {}

    def maps() -> None:
        maps = live.maps(ask["task"], names)
        if maps is not None:
            save_file({"maps": maps.contiguous()}, folder / "maps.safetensors")

    def walk() -> None:
        found = _walk(file, ask, live, names)
        packed, places = pack(found, ask["labels"], live.mixer.n_kv_heads, min(ask["at"], len(found.stops) - 1))
        (folder / "walk.bin").write_bytes(packed)
        (folder / "places.json").write_text(json.dumps(places), encoding="utf-8")

    for part, write in (("maps", maps), ("walk", walk)):
        try:
            names = names or load_namespace(file)
            write()
        except BaseException as error:  # noqa: BLE001, SystemExit too
            (folder / f"{part}.json").write_text(json.dumps(error_report(error, str(file))), encoding="utf-8")


def _walk(file: Path, ask: dict[str, Any], live: Live, names: dict[str, Any]) -> Walk:
    """Return the walk through the lines of the file. ValueError if no line made a tensor."""
    call, head = live.call(ask["task"], names), ask["head"]
    run = record_file(call.run, str(file), call.module, live.model, ask["ids"][: live.T], ask["layer"])
    query, key = (min(ask[name], live.T - 1) for name in ("query", "key"))
    walk = Walk(run, Selection(head, live.mixer.kv_head_of[head], query, key, ask["column"]))
    if not walk.stops:
        raise ValueError("no line made a tensor")
    return walk
