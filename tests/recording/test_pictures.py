"""Pictures in patches, and sound in frames."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from attnviz.recording.of_transformers import run
from tests.recording import models, readers
from tests.recording.compare import TARGET, differences, returned


@pytest.mark.parametrize("name", models.PICTURES)
def test_a_picture_is_read_in_patches(name):
    make, before = models.PICTURES[name]
    model = make()
    processor = readers.image_processor(40 if name == "SigLIP" else 56, 40)
    picture = np.random.default_rng(3).integers(0, 256, (61, 97, 3), dtype=np.uint8)
    recorded = run(model, processor, picture)
    pixels = processor(images=picture, return_tensors="pt")["pixel_values"]
    assert max(differences(recorded.kinds[0], returned(model, pixel_values=pixels).attentions)) < 1e-6
    rows = 5 if name == "SigLIP" else 7
    assert recorded.patches == (rows, 5) and recorded.n_before == len(before)
    assert list(recorded.kinds[0].tokens[: len(before) + 6]) == [*before, "1,1", "1,2", "1,3", "1,4", "1,5", "2,1"]
    resized = processor(images=picture, return_tensors="np", do_normalize=False, do_rescale=False)["pixel_values"][0]
    assert np.abs(recorded.picture.transpose(2, 0, 1).astype(int) - resized).max() <= 1


def test_a_patch_is_named_by_its_place_in_the_picture():
    """Change the pixels of one patch: of the first layer's keys, that patch's alone changes."""
    model, processor = models.PICTURES["DINOv2, registers"][0](), readers.image_processor()
    picture = np.random.default_rng(3).integers(0, 256, (56, 40, 3), dtype=np.uint8)
    other = picture.copy()
    other[24:32, 8:16] = 255 - other[24:32, 8:16]  # row 4, column 2 of 8 × 8 pixels
    first, second = (run(model, processor, each, qkv=True) for each in (picture, other))
    changed = np.abs(first.k["self"][0] - second.k["self"][0]).max(axis=(0, 2)) > 1e-6  # (S,)
    assert [first.kinds[0].tokens[i] for i in changed.nonzero()[0]] == ["4,2"]


def test_tokens_after_the_patches_are_not_taken_for_tokens_before_them():
    model = models.random("YolosModel", "YolosConfig", **models.PICTURE, image_size=[56, 40], num_detection_tokens=1)
    recorded = run(model, readers.image_processor(), np.zeros((56, 40, 3), np.uint8))
    assert recorded.patches is None and len(recorded.kinds[0].tokens) == 37
    assert recorded.notes == ("The 37 tokens are not the picture's patches, so the picture is left out.",)


def test_a_picture_is_described_in_words():
    from transformers import VisionEncoderDecoderConfig, VisionEncoderDecoderModel

    vision = models.PICTURES["ViT"][0]().config
    sizes = dict(vocab_size=models.VOCAB, n_embd=35, n_head=5, n_layer=2, n_positions=61)
    text = models.random("GPT2LMHeadModel", "GPT2Config", **sizes, **models.IDS, add_cross_attention=True).config
    both = VisionEncoderDecoderConfig.from_encoder_decoder_configs(
        vision, text, decoder_start_token_id=1, pad_token_id=0
    )
    model = VisionEncoderDecoderModel(both)
    processor = SimpleProcessor(image_processor=readers.image_processor(), tokenizer=readers.byte_level())
    picture = np.random.default_rng(3).integers(0, 256, (61, 97, 3), dtype=np.uint8)
    recorded = run(model, processor, picture, target=TARGET)
    assert [(kind.name, kind.layers[0].shape) for kind in recorded.kinds] == [
        ("encoder", (5, 36, 36)), ("decoder", (5, 5, 5)), ("cross", (5, 5, 36))
    ]  # fmt: skip
    assert recorded.patches == (7, 5) and recorded.n_before == 1 and recorded.picture.shape == (56, 40, 3)
    assert recorded.kind("cross").key_tokens[:2] == ("[CLS]", "1,1") and recorded.kind("cross").tokens[1] == "A"
    assert len(run(model, processor, picture, generate=3).kind("decoder").tokens) == 4


def test_a_text_with_a_picture_is_as_long_as_its_text_model_allows():
    """A picture of 25 patches in a text of 33 tokens; the picture's part of the model has 26 positions."""
    from transformers import LlavaConfig, LlavaForConditionalGeneration

    text = models.GQA | {"model_type": "llama"}
    vision = models.PICTURE | {"image_size": 40, "model_type": "clip_vision_model"}
    config = LlavaConfig(text_config=text, vision_config=vision, image_token_index=9, image_token_id=9)
    ids = torch.tensor([[5, 6, *[9] * 25, 7, 8, 10, 11, 12, 13]])
    batch = {"input_ids": ids, "pixel_values": torch.rand(1, 3, 40, 40)}
    recorded = run(model := LlavaForConditionalGeneration(config), None, batch, generate=2, title="a picture in a text")
    assert len(recorded.kinds[0].tokens) == 35 and recorded.output_from == 33 and recorded.picture is None
    written = torch.tensor([[int(token.removeprefix("id ")) for token in recorded.kinds[0].tokens]])
    expected = returned(model, **batch | {"input_ids": written})
    assert max(differences(recorded.kinds[0], expected.attentions)) < 1e-6


def test_sound_is_read_in_frames():
    from transformers import WhisperFeatureExtractor

    fields = {name: value for name, value in models.TWO.items() if name != "max_position_embeddings"} | models.IDS
    fields |= dict(num_mel_bins=11, max_source_positions=50, max_target_positions=61, decoder_start_token_id=2)
    model = models.random("WhisperForConditionalGeneration", "WhisperConfig", **fields)
    extractor = WhisperFeatureExtractor(feature_size=11, chunk_length=1)
    processor = SimpleProcessor(feature_extractor=extractor, tokenizer=readers.byte_level())
    sound = np.random.default_rng(3).normal(size=16_000).astype(np.float32)  # a second
    recorded = run(model, processor, sound, target=TARGET)
    assert (
        recorded.kind("cross").key_tokens == tuple(str(i) for i in range(1, 51))
        and len(recorded.kind("cross").tokens) == 5
    )
    ids = torch.tensor([[2, *readers.byte_level()(TARGET)["input_ids"]]])
    batch = extractor(sound, sampling_rate=16_000, return_tensors="pt")
    expected = returned(model, **batch, decoder_input_ids=ids)
    assert max(differences(recorded.kind("cross"), expected.cross_attentions)) < 1e-6


class SimpleProcessor:
    """A processor as transformers has it: one for pictures or sound, and a tokenizer."""

    def __init__(self, **parts):
        vars(self).update(parts)
        (self.reads,) = (part for name, part in parts.items() if name != "tokenizer")

    def __call__(self, *args, **kwargs):
        return self.reads(*args, **kwargs)
