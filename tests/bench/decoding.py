"""Cost of a decode step, against transformers with the same weights and cache length."""

from collections.abc import Callable
from dataclasses import replace
from statistics import median
from time import perf_counter

import torch
from transformers import DynamicCache

from attnviz.decode import read
from attnviz.modules import Transformer
from tests.bench.tracing import SETTINGS, llama_like

N_TOKENS, ROUNDS, WARM_UP = 256, 400, 20
GQA_4 = replace(SETTINGS, n_kv_heads=4, attention=None)  # the shipped GQA-4 checkpoint's


def ratios() -> dict[str, float]:
    """Return seconds of our decode step divided by transformers', with its default and its eager attention.

    Medians over alternating rounds. Each step is undone, so that the next has the same number of tokens.
    """
    model = Transformer.random(GQA_4, seed=0)
    ids, one = torch.randint(0, GQA_4.vocab_size, (1, N_TOKENS)), torch.tensor([[7]])
    ours = model.new_cache()

    def step_of_ours() -> torch.Tensor:
        logits = read(model, [7], ours)[-1]
        for layer in ours:
            layer.cut(N_TOKENS)
        return logits

    def step_of_theirs(attention: str) -> Callable[[], torch.Tensor]:
        llama = llama_like(model)
        llama.set_attn_implementation(attention)
        cache = DynamicCache(config=llama.config)
        llama(ids, past_key_values=cache, use_cache=True)

        def step() -> torch.Tensor:
            logits = llama(one, past_key_values=cache, use_cache=True).logits[0, -1]
            cache.crop(-1)
            return logits

        return step

    with torch.inference_mode():
        read(model, ids[0].tolist(), ours)
        runs = {"ours": step_of_ours, "sdpa": step_of_theirs("sdpa"), "eager": step_of_theirs("eager")}
        expected = step_of_ours()
        for name, run in runs.items():
            assert torch.allclose(run(), expected, atol=1e-4), f"{name} computes something else"
        seconds: dict[str, list[float]] = {name: [] for name in runs}
        for _ in range(WARM_UP + ROUNDS):
            for name, run in runs.items():
                began = perf_counter()
                run()
                seconds[name].append(perf_counter() - began)
    middle = {name: median(times[WARM_UP:]) for name, times in seconds.items()}
    return {
        "decode_step_ms": 1000 * middle["ours"],
        "decode step / transformers": middle["ours"] / middle["sdpa"],
        "decode step / transformers, eager": middle["ours"] / middle["eager"],
    }


if __name__ == "__main__":
    torch.set_num_threads(1)
    print(ratios())
