"""int8 and int4 caches: the error is at most half a step, and the bytes are those of the tensors."""

import pytest
import torch

from attnviz.checkpoints import load_checkpoint
from attnviz.checks import ConfigError
from attnviz.decode import QuantisedCache, losses, quantised_cache, read
from attnviz.decode.quantised import dequantise, pack, quantise, unpack
from tests.decode.models import GROUPED, LATENT, PROMPT, small


def test_two_numbers_share_a_byte_and_come_out_again():
    numbers = torch.arange(-8, 8, dtype=torch.int8)
    for width in (1, 2, 7, 16):
        packed = pack(numbers[:width])
        assert packed.dtype == torch.uint8 and len(packed) == (width + 1) // 2
        assert torch.equal(unpack(packed, width), numbers[:width])


@pytest.mark.parametrize("bits, largest", [(8, 127), (4, 7)])
def test_numbers_and_scales_against_python(bits, largest):
    x = torch.randn(3, 5, 11)
    numbers, scale = quantise(x, bits)
    restored = dequantise(numbers, scale, 11, bits, x.dtype)
    for vector, step, back in zip(x.flatten(0, 1), scale.flatten(), restored.flatten(0, 1), strict=True):
        exact = max(abs(float(a)) for a in vector) / largest
        assert float(step) == pytest.approx(exact, rel=2**-11)  # float16 keeps 11 bits
        for a, b in zip(vector.tolist(), back.tolist(), strict=True):
            whole = max(-largest, min(largest, round(a / float(step))))
            assert b == pytest.approx(whole * float(step), rel=1e-6)
            assert abs(a - b) <= float(step) * (0.5 + largest * 2**-11)


@pytest.mark.parametrize("bits", [8, 4])
def test_zeros_stay_zeros(bits):
    numbers, scale = quantise(torch.zeros(2, 3), bits)
    assert torch.equal(dequantise(numbers, scale, 3, bits, torch.float32), torch.zeros(2, 3))


@pytest.mark.parametrize("settings, widths", [(GROUPED, [10] * 4), (LATENT, [7, 4])])  # k, v of 2 KV heads
@pytest.mark.parametrize("bits", [8, 4])
def test_bytes_are_those_of_numbers_and_scales(settings, widths, bits):
    model = small(**settings)
    cache = quantised_cache(model, bits)
    read(model, PROMPT[:7], cache)
    read(model, PROMPT[7:], cache)
    per_token = sum(-(-width * bits // 8) + 2 for width in widths)  # a float16 scale per vector
    assert [layer.nbytes for layer in cache] == [11 * per_token] * 2
    assert cache[0].nbytes == sum(t.contiguous().clone().untyped_storage().nbytes() for t in cache[0].stored.tensors)
    assert len(cache[0]) == 11


def test_what_was_stored_is_not_quantised_again():
    cache, x = QuantisedCache(4), torch.randn(1, 2, 11, 5)
    first = cache.append(x[:, :, :7])[0].clone()
    assert torch.equal(cache.append(x[:, :, 7:])[0][:, :, :7], first)
    cache.cut(3)
    assert torch.equal(cache.append(x[:, :, :0])[0], first[:, :, :3])


@pytest.mark.parametrize("name", ["gqa-4", "mla"])
def test_more_bits_lose_less(name):
    model, tokens = load_checkpoint(name)
    ids = tokens.encode("Once upon a time there was a little boy who lived in a house by the sea.")
    plain = read(model, ids, model.new_cache())
    errors = [float((read(model, ids, quantised_cache(model, bits)) - plain).abs().max()) for bits in (8, 4)]
    assert 0 < errors[0] < 0.25 * errors[1]
    exact = sum(losses(model, ids, model.new_cache()))
    changes = [sum(losses(model, ids, quantised_cache(model, bits))) - exact for bits in (8, 4)]
    assert abs(changes[0]) / len(ids) < 0.01 and abs(changes[0]) < abs(changes[1])


def test_other_bits_are_refused():
    with pytest.raises(ConfigError, match="bits must be one of 8, 4"):
        QuantisedCache(3)
