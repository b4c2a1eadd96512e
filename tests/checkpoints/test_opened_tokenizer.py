"""A model's own tokenizer gives the same ids as transformers, and a visible label for each."""

import json
from itertools import accumulate

import pytest
import regex
from transformers import PreTrainedTokenizerFast

from attnviz.checkpoints.opened import open_tokenizer
from attnviz.text import Tokenizer
from tests.checkpoints.tokenizers import byte_level, words
from tests.test_text import TEXTS, hides

KINDS = {"byte level": byte_level, "words": words}


@pytest.fixture(scope="module", params=KINDS)
def both(request, tmp_path_factory):
    path = KINDS[request.param](tmp_path_factory.mktemp("tokenizer"))
    facts = json.loads(path.read_text())
    facts["truncation"] = {"direction": "Right", "max_length": 3, "strategy": "LongestFirst", "stride": 0}
    path.write_text(json.dumps(facts))  # some published files have one; transformers switches it off
    return Tokenizer(path), PreTrainedTokenizerFast(tokenizer_file=str(path))


@pytest.mark.parametrize("text", TEXTS)
def test_ids_are_transformers_own(both, text):
    ours, theirs = both
    ids = ours.encode(text)
    assert ids == theirs(text)["input_ids"]
    labels = ours.labels(ids)
    assert len(labels) == len(ids) and [label for label in labels if hides(label)] == []
    assert ours.decode(ids).strip() == theirs.decode(ids, skip_special_tokens=True).strip() == text.strip() or (
        "endoftext" in text or "</s>" in text  # which is a single token
    )


@pytest.mark.parametrize(
    ("files", "ends"),
    [
        ({"config.json": {"eos_token_id": 7}}, {7}),
        ({"config.json": {"eos_token_id": 7}, "generation_config.json": {"eos_token_id": [11, 13]}}, {11, 13}),
        ({"config.json": {"eos_token_id": 7}, "generation_config.json": {"temperature": 0.5}}, {7}),
        ({"config.json": {"eos_token_id": None}, "generation_config.json": {"eos_token_id": True}}, set()),
        ({}, set()),
    ],
)
def test_the_tokens_that_end_a_text_are_those_the_folder_declares(files, ends, tmp_path):
    byte_level(tmp_path)
    for name, facts in files.items():
        (tmp_path / name).write_text(json.dumps(facts))
    assert open_tokenizer(tmp_path).ends == ends
    if "temperature" in str(files):  # no generation setting is needed to open a model
        (tmp_path / "generation_config.json").write_text("{")
        assert open_tokenizer(tmp_path).ends == ends


def test_labels_are_the_pieces_that_transformers_names(both):
    ours, theirs = both
    ids = ours.encode("The little girl found 好 <tool>")
    pieces = theirs.convert_ids_to_tokens(ids)
    plain = [p.replace("Ġ", "·").replace("▁", "·") for p in pieces]
    assert [mine for mine, piece in zip(ours.labels(ids), plain, strict=True) if piece.isascii() and mine != piece and
            not piece.startswith("<0x")] == []  # fmt: skip
    assert any("好" in label for label in ours.labels(ids))


def test_an_id_that_the_tokenizer_never_gives_has_a_name(both):
    ours, _ = both
    assert ours.name(10**6) == "token 1000000" and ours.name(ours.encode("a")[-1]) in ("a", "·a")
    assert ours.spans([10**6, *ours.encode("床")])[0].text == "token 1000000"  # a model may write it
    assert ours.unfinished([10**6]) == () and ours.described(10**6) == "" and ours.name(5, [10**6]) == ours.name(5)


def test_a_piece_written_in_other_characters_than_bytes_is_shown_as_it_is(tmp_path):
    path = byte_level(tmp_path)
    facts = json.loads(path.read_text())
    facts["model"]["vocab"] |= {"好的": 990, "Ġ好": 991}
    path.write_text(json.dumps(facts))
    ours, theirs = Tokenizer(path), PreTrainedTokenizerFast(tokenizer_file=str(path))
    assert ours.labels([990]) == ["好的"] and ours.token_bytes([991]) == ["Ġ好".encode()]
    for token in (990, 991):
        assert ours.decode([token]) == theirs.decode([token]) == theirs.convert_ids_to_tokens(token)


def test_the_tokens_of_a_character_are_found_in_both_kinds(both):
    """床 is not in either vocabulary and 好 is; the boundaries are those of another implementation, `regex`."""
    ours, theirs = both
    text = "床 好 naïve 👩‍👧🇩🇪"
    ids = ours.encode(text)
    found, pieces = ours.spans(ids), ours.token_bytes(ids)
    written = b"".join(pieces).decode()
    ends = set(accumulate(len(each.encode()) for each in regex.findall(r"\X", written)))
    token_ends = dict(enumerate(accumulate(map(len, pieces)), 1))
    assert [span.stop for span in found] == [stop for stop, end in token_ends.items() if end in ends]
    assert [span.text.encode() for span in found] == [b"".join(pieces[s.start : s.stop]) for s in found]
    sizes = {span.text.strip(): span.stop - span.start for span in found}
    assert sizes["床"] == 3 and sizes["好"] == 1 and sizes["🇩🇪"] == 8
    assert "".join(theirs.decode(ids, skip_special_tokens=True).split()) == "".join(text.split())
    first = ids[found[[span.text for span in found].index("床")].start]
    assert ours.name(first) == "<0xE5> 儿…" and ours.described(first) == "begins 儿, 入, 八, … (U+5000–U+5FFF)"
