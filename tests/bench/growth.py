"""Scaling of time, bytes sent and memory with the length of the text and the number of heads.

An exponent is the slope of a straight line through the logarithms: 2 means four times as much for twice the length.
"""

from __future__ import annotations

import asyncio
import json
from dataclasses import dataclass
from statistics import median
from urllib.parse import urlencode

import numpy as np

from attnviz.config import ModelConfig
from attnviz.modules import Transformer
from attnviz.text import Tokenizer
from attnviz.trace import trace
from tests.browser.server import serve
from tests.soak.session import Session, connected

LENGTHS = (16, 32, 64, 128, 256, 512)
HEADS = ((1, 4), (2, 4), (2, 8), (4, 8), (4, 16))  # layers x heads: 4 to 64
CHANGES = 9
STORY = "Once upon a time there was a little girl who lived near the forest with her mother and a small brown dog. "


@dataclass(frozen=True)
class Costs:
    """Costs of one change on the Heads page: seconds, bytes over the websocket, and bytes of the trace."""

    seconds: float
    sent: float
    memory: float


def ratios() -> dict[str, float]:
    """Return the exponents; print the table they are fitted to."""
    with serve() as server:
        by_length = asyncio.run(measured(server.url, [(1, 8, n) for n in LENGTHS]))
        by_heads = asyncio.run(measured(server.url, [(*shape, 128) for shape in HEADS]))
    return fitted("T", LENGTHS, by_length) | fitted("heads", [layers * heads for layers, heads in HEADS], by_heads)


def fitted(name: str, sizes: list[int] | tuple[int, ...], costs: list[Costs]) -> dict[str, float]:
    """Return exponents over the whole range and over its last doubling, where constant costs matter least."""
    print(f"{name:>8}{'ms':>10}{'kB sent':>12}{'kB trace':>12}")
    for size, cost in zip(sizes, costs, strict=True):
        print(f"{size:8}{1000 * cost.seconds:10.0f}{cost.sent / 1000:12.0f}{cost.memory / 1000:12.0f}")
    results = {}
    for what in ("seconds", "sent", "memory"):
        values = [getattr(cost, what) for cost in costs]
        results[f"{what} ~ {name}^"] = exponent(sizes, values)
        results[f"{what} ~ {name}^, at the end"] = exponent(sizes[-2:], values[-2:])
    return results


def exponent(sizes: list[int] | tuple[int, ...], values: list[float]) -> float:
    """Fit the slope of log(value) over log(size)."""
    return float(np.polyfit(np.log(sizes), np.log(values), 1)[0])


async def measured(url: str, shapes: list[tuple[int, int, int]]) -> list[Costs]:
    """Measure the same change a few times for every (layers, heads, tokens), alternating between shapes."""
    sessions = [await connected(url, link(*shape)) for shape in shapes]
    taken = [[await one_change(session, 0)] for session in sessions]  # the first change fills the caches
    for i in range(1, CHANGES + 1):
        for session, costs in zip(sessions, taken, strict=True):
            costs.append(await one_change(session, i))
    for session in sessions:
        await session.socket.close()
    return [
        Costs(*(median(values) for values in zip(*costs[1:], strict=True)), memory(*shape))
        for costs, shape in zip(taken, shapes, strict=True)
    ]


async def one_change(session: Session, i: int) -> tuple[float, int]:
    """Return seconds and bytes of a change of RoPE's theta on the Heads page: a new trace and all maps."""
    session.query = session.query.partition("&theta")[0] + f"&theta={5000 + i}"
    return await session.open("heads"), sum(map(len, session.frames))


def link(n_layers: int, n_heads: int, n_tokens: int) -> str:
    tokenizer = Tokenizer()
    text = tokenizer.decode(tokenizer.encode(STORY * (n_tokens // 8 + 1))[:n_tokens])
    assert len(tokenizer.encode(text)) == n_tokens
    own = {"model": "own", "n_layers": n_layers, "n_heads": n_heads, "n_kv_heads": n_heads, "d_model": 128}
    return urlencode({"text": text, **own})


def memory(n_layers: int, n_heads: int, n_tokens: int) -> int:
    """Return the bytes of the trace's arrays."""
    return trace(Transformer.random(ModelConfig(n_layers, 128, n_heads), 0), range(n_tokens)).nbytes


if __name__ == "__main__":
    print(json.dumps({name: round(value, 2) for name, value in ratios().items()}))
