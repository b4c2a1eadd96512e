"""Small tokenizers of the two common types, trained here on a few sentences."""

from pathlib import Path

from tokenizers import AddedToken, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers

TEXTS = ["The little girl found a red ball in the garden.", "好的 naïve café 12 345", "She said: “don't!”"] * 3


def byte_level(folder: Path) -> Path:
    """Train a byte-level BPE as in GPT-2, Qwen, Llama 3 and SmolLM: bytes are mapped to printable characters."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(vocab_size=300, special_tokens=["<|endoftext|>"], initial_alphabet=alphabet)
    tokenizer.train_from_iterator(TEXTS, trainer)
    tokenizer.add_tokens(["   ", "<tool>"])
    return _saved(tokenizer, folder)


def words(folder: Path) -> Path:
    """Train a BPE as in Llama 2, Mistral and Gemma: "▁" for a space, byte fallback "<0xE5>", a BOS token."""
    tokenizer = Tokenizer(models.BPE(unk_token="<unk>", fuse_unk=True, byte_fallback=True))
    tokenizer.normalizer = normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")])
    tokenizer.decoder = decoders.Sequence(
        [decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(" ", 1, 0)]
    )
    special = ["<unk>", "<s>", "</s>", *(f"<0x{i:02X}>" for i in range(256))]
    trainer = trainers.BpeTrainer(vocab_size=320, special_tokens=special)
    tokenizer.train_from_iterator([f"▁{text.replace(' ', '▁')}" for text in TEXTS], trainer)
    parts = tokenizer.to_str()
    tokenizer = Tokenizer.from_str(_only_some_special(parts, ("<unk>", "<s>", "</s>")))
    tokenizer.post_processor = processors.TemplateProcessing(single="<s> $A", special_tokens=[("<s>", 1)])
    tokenizer.add_special_tokens([AddedToken(name, special=True) for name in ("<unk>", "<s>", "</s>")])
    return _saved(tokenizer, folder)


def _only_some_special(parts: str, names: tuple[str, ...]) -> str:
    """Keep only these tokens special. Byte pieces, if special, would match in a text."""
    import json

    facts = json.loads(parts)
    facts["added_tokens"] = [token for token in facts["added_tokens"] if token["content"] in names]
    return json.dumps(facts)


def _saved(tokenizer: Tokenizer, folder: Path) -> Path:
    path = folder / "tokenizer.json"
    tokenizer.save(str(path))
    return path
