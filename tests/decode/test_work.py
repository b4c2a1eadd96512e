"""Compare a step's work by formula with torch's counter, and its bytes with the live tensors."""

import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode

from attnviz.checkpoints import load_checkpoint
from attnviz.checkpoints.stored import stored
from attnviz.checks import ConfigError
from attnviz.config import FAMILY, ModelConfig
from attnviz.cost.decode import decode_step
from attnviz.decode import read, step_with_cache, step_without_cache
from attnviz.decode.work import weight_dtype
from attnviz.mechanisms import Dense, IndexedGrouped, Layer
from attnviz.modules import Transformer
from tests.decode.models import GROUPED, LATENT, PROMPT, small

MODELS = pytest.mark.parametrize(
    "settings",
    [
        GROUPED,
        dict(n_kv_heads=1, head_dim=4),
        LATENT,
        dict(q_lora_rank=11, **LATENT),
        dict(tie_embeddings=False, **GROUPED),
        dict(ffn="gelu", **GROUPED),
        dict(ffn="geglu", **GROUPED),
    ],
)


def flops(model, ids: list[int], cache: list) -> int:
    with FlopCounterMode(display=False) as counter:
        read(model, ids, cache)
    return counter.get_total_flops()


@MODELS
def test_multiplications_are_half_the_flops_that_torch_counts(settings):
    model = small(**settings)
    for n_tokens in (2, 11) if settings in (GROUPED, LATENT) else (11,):
        cache = model.new_cache()
        read(model, PROMPT[: n_tokens - 1], cache)
        last = flops(model, PROMPT[n_tokens - 1 : n_tokens], cache)
        assert 2 * step_with_cache(model, n_tokens).multiplications == last
        uncached = flops(model, PROMPT[:n_tokens], model.new_cache())
        assert 2 * step_without_cache(model, n_tokens).multiplications == uncached


@MODELS
def test_bytes_read_are_those_of_the_tensors(settings):
    model = small(**settings)
    cache = model.new_cache()
    read(model, PROMPT, cache)
    with_cache, without = step_with_cache(model, 11), step_without_cache(model, 11)
    assert with_cache.cache_bytes == sum(t.numel() * 4 for layer in cache for t in layer.tensors)
    tensors = dict(model.named_parameters())
    untied = "lm_head.weight" in tensors
    embedding = tensors.pop("embed.weight")
    rest = sum(p.numel() * 4 for p in tensors.values())
    assert with_cache.weight_bytes == rest + (4 * 13 if untied else 4 * embedding.numel())
    assert without.weight_bytes == rest + (4 * 13 * 11 if untied else 4 * embedding.numel())
    assert without.cache_bytes == 0 and with_cache.bytes_read == with_cache.weight_bytes + with_cache.cache_bytes


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize("tied", [True, False])
def test_weights_stored_in_half_precision_are_read_as_stored_and_fill_a_float32_cache(tied, dtype):
    model = small(tie_embeddings=tied, **GROUPED)
    for part in model.modules():
        for name, parameter in tuple(part.named_parameters(recurse=False)):
            part._parameters[name] = stored(parameter.detach().to(dtype))
    cache = model.new_cache()
    read(model, PROMPT, cache)
    found = step_with_cache(model, 11)
    assert found.cache_bytes == sum(t.nbytes for layer in cache for t in layer.tensors)
    sizes = {name: p.numel() * (2 if p.ndim == 2 else 4) for name, p in model.named_parameters()}
    untied = 0 if tied else 2 * 13 - sizes["embed.weight"]
    assert found.weight_bytes == sum(sizes.values()) + untied
    assert weight_dtype(model) == str(dtype).split(".")[1] and weight_dtype(small()) == "float32"


@pytest.mark.parametrize("name", FAMILY)
def test_a_step_of_a_shipped_checkpoint_is_that_of_the_cost_page(name):
    model, _ = load_checkpoint(name)
    counted, known = step_with_cache(model, 251), decode_step(model.config, 251, bits=32, weight_bits=32)
    assert 2 * counted.multiplications == known.flops
    assert (counted.cache_bytes, counted.weight_bytes) == (known.cache_bytes, known.weight_bytes)


def test_a_window_is_refused():
    with pytest.raises(ConfigError, match="sliding_window"):
        step_with_cache(small(sliding_window=3, **GROUPED), 5)


def test_a_choice_of_keys_is_not_counted_as_if_the_others_were_not_scored():
    mixer = IndexedGrouped(n_heads=6, n_kv_heads=3, head_dim=8, top_k=2, n_index_heads=5, index_dim=10)
    config = ModelConfig(1, 13, 6, 3, 8, vocab_size=11, mixed_layers=(Layer((mixer, Dense(7)), rope_theta=53.0),))
    with pytest.raises(ConfigError, match="the module here scores all keys and masks the others"):
        step_with_cache(Transformer.random(config, 0), 5)


def test_the_first_token_costs_the_same_either_way():
    model = small()
    assert step_with_cache(model, 1).multiplications == step_without_cache(model, 1).multiplications
    torch.testing.assert_close(read(model, [3], model.new_cache()), model(torch.tensor([[3]]))[0].detach())
