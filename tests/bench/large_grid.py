"""Time to redraw the grid of an opened model: 30 layers of 9 heads, SmolLM2-135M's, at T = 128."""

import tempfile
from pathlib import Path
from statistics import median
from time import perf_counter
from urllib.parse import urlencode

import torch

from attnviz.checkpoints import open_model
from attnviz.modules import Recording
from tests.bench import opened, pages
from tests.bench.tab import Chromium, browsing
from tests.browser.server import serve

TEXT = "qQzZ" * (opened.N_TOKENS // 4)  # letters that the small tokenizer does not merge


def ratios() -> dict[str, float]:
    """Return the time from a key press to the last layer's paint, divided by the floor's plus the model's own."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        opened.save_random(folder)
        compute = milliseconds(folder)
        with (
            serve(env={"ATTNVIZ_MODEL": name}) as app, serve(pages.HERE / "floor.py") as floor,
            browsing(pages.WATCH) as alone,
        ):  # fmt: skip
            painted, least = shown_anew(alone, app.url, floor.url, name)
    return {
        "opened: 30 x 9 heads painted, ms": painted,
        "opened: painted / floor + compute": painted / (least + compute),
    }


def milliseconds(folder: Path) -> float:
    """Return the milliseconds of a run of the model that stores all weights."""
    model, tokenizer = open_model(folder)
    ids = tokenizer.encode(TEXT)
    assert len(ids) == opened.N_TOKENS
    seconds = []
    with torch.inference_mode():
        for _ in range(opened.ROUNDS):
            began = perf_counter()
            model(torch.tensor([ids]), record=Recording())
            seconds.append(perf_counter() - began)
    return 1000 * median(seconds)


def shown_anew(alone: Chromium, url: str, floor_url: str, model: str) -> tuple[float, float]:
    """Return milliseconds from a change of the window to the last paint of the grid, and of the floor's slider."""
    link = urlencode({"model": model, "text": TEXT, "window": opened.N_TOKENS - 1})
    tab, floor = alone.open(f"{url}/heads?{link}"), alone.open(floor_url)
    tab.wait_until("deep('.hg .head').length === 270 && window.painted")
    [narrower] = pages.window_of(tab)
    found = []
    for _ in range(pages.PRESSES // 2 + 1):
        least = pages.press(floor, lambda: floor.press("input[type=range]", "ArrowLeft"))[1]
        found.append((pages.press(tab, narrower)[0], least))
    painted, least = (median(times) for times in zip(*found[1:], strict=True))
    return painted, least


if __name__ == "__main__":
    torch.set_num_threads(1)
    print(ratios())
