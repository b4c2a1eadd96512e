"""make bench: speed and memory as ratios measured in one run, printed as a table and one line of JSON."""

import json

import torch
from playwright.sync_api import sync_playwright

from attnviz.server import memory
from tests.bench import decoding, growth, large_grid, opened, pages, states, tracing
from tests.bench.bounds import row
from tests.browser.server import CHROMIUM_ARGS, chromium

AT_MOST = {
    "grid / floor, T=32": 3.5,
    "grid / floor, T=128": 3.5,
    "grid / floor, T=512": 4.5,
    "page / floor, T=32": 4.0,
    "page / floor, T=128": 4.0,
    "page / floor, T=512": 7.0,
    "grid / floor, 4 x 8, T=256": 4.5,
    "page / floor, 4 x 8, T=256": 7.0,
    "another head / floor, 4 x 8, T=256": 4.5,
    "longest task, ms, 4 x 8, T=256": 200,
    "KV heads' buttons / floor": 6.0,
    "trace / its own forward": 2.0,
    "trace / bare": 1.3,
    "trace / transformers": 1.3,
    "decode step / transformers": 1.0,
    "trace of hybrid / GQA-4, T=256": 2.0,
    "step of hybrid / GQA-4, 4,096 tokens": 1.0,
    "step known / floor": 2.5,
    "step computed / floor": 2.5,
    "ms per token while playing": 67,
    "longest frame while playing, ms": 100,
    "front page's title / empty app": 1.3,
    "deep link to heads / import torch, load": 3.0,
    "grid bytes / weight": 1.2,
    "opened: weights of all heads / transformers": 1.2,
    "opened: peak memory beyond its weights, MB": 300,
    "opened: painted / floor + compute": 2.5,
    "next step of a lesson / opening its link": 1.3,
    "embedded figure / empty app plus its data": 1.2,
    "first picture of Linear and sparse / Query grouping": 1.3,
}


def main() -> None:
    torch.set_num_threads(1)  # as in the app, also for the memory figures
    memory.start()
    results = tracing.ratios() | decoding.ratios() | states.ratios() | opened.ratios()
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium(), args=list(CHROMIUM_ARGS))
        results |= pages.ratios(browser)
        browser.close()
    results |= large_grid.ratios() | growth.ratios()
    for name, value in results.items():
        print(row(name, value, AT_MOST.get(name)))
    print(json.dumps({name: round(value, 3) for name, value in results.items()}))


if __name__ == "__main__":
    main()
