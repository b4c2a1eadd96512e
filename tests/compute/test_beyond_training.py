"""Sentences on how a run differs from the checkpoint's training are true, and appear only where it differs."""

import re
from dataclasses import fields, replace

import pytest

from attnviz.checkpoints import list_checkpoints, load_checkpoint, shipped_config
from attnviz.compute import models
from attnviz.compute.beyond_training import beyond_training, model_card, split_characters, trained_on
from attnviz.compute.view import View
from attnviz.session.examples import EXAMPLES
from attnviz.session.openable import MODELS
from attnviz.session.settings import Settings
from tests.pages import TRACED, opened, sentences

TRAINED = shipped_config("gqa-4")
TEXT = "The old man laughed and went home."


def said(text: str = TEXT, n_tokens: int = 11, **changes: object) -> list[str]:
    return beyond_training(TRAINED, replace(TRAINED, **changes), text, n_tokens)


def numbers(sentence: str) -> list[int]:
    return [int(n.replace(",", "")) for n in re.findall(r"\d[\d,]*", sentence)]


@pytest.mark.parametrize("model", [m for m in MODELS if m != "own"])
def test_as_trained_there_is_nothing_to_say(model):
    settings = Settings(model=model)
    trained = models.trained_config(settings)
    assert beyond_training(trained, models.config_of(settings), settings.text, trained.max_context) == []


@pytest.mark.parametrize(
    "how, expected",
    [
        ({"n_tokens": 257}, [257, 256]),
        ({"causal": False}, []),
        ({"sliding_window": 7}, [7]),
        ({"sliding_window": 7, "n_sinks": 3}, [7, 3]),
        ({"position": "none"}, []),
        ({"rope_theta": 17_000_000.0}, [17_000_000, 10_000]),
        ({"text": "小女孩在花园里。ab"}, [78]),
        ({"text": "👩🐈 a"}, [67]),
        ({"text": EXAMPLES["code"]}, [3, 3]),
        ({"text": "int main() {\n  puts(x);\n}\nThe end"}, [3, 4]),
    ],
)
def test_each_difference_is_one_sentence_with_its_numbers(how, expected):
    (sentence,) = said(**how)
    assert numbers(sentence) == expected


WINDOWED = replace(TRAINED, sliding_window=6)  # as Mistral
ALTERNATING = replace(WINDOWED, full_layers=(1, 3))  # as Gemma 2


@pytest.mark.parametrize(
    "trained, n_tokens, changes, expected",
    [
        (WINDOWED, 11, {"sliding_window": 3}, "a window of 3 tokens; training had a window of 6 tokens."),
        (WINDOWED, 11, {"sliding_window": None}, "no window; training had a window of 6 tokens."),
        (WINDOWED, 11, {"sliding_window": 512}, "a window of 512 tokens; training had a window of 6 tokens."),
        (WINDOWED, 11, {"n_sinks": 2},
         "a window of 6 tokens and 2 attention-sink tokens; training had a window of 6 tokens."),
        (WINDOWED, 6, {"sliding_window": 512}, None),  # neither masks a key of this text
        (ALTERNATING, 11, {"full_layers": ()},
         "a window of 6 tokens in 4 of 4 layers; training had a window of 6 tokens in 2 of 4 layers."),
        (ALTERNATING, 6, {"full_layers": ()}, None),
    ],
)  # fmt: skip
def test_another_window_than_in_training_is_named(trained, n_tokens, changes, expected):
    found = beyond_training(trained, replace(trained, **changes), None, n_tokens)
    assert found == ([] if expected is None else [f"Attention has {expected}"])


def test_a_chosen_base_is_told_from_both_of_gemma_3():
    trained = replace(WINDOWED, rope_theta=1e6, rope_theta_windowed=1e4)
    (sentence,) = beyond_training(trained, Settings(model="a/b", theta=1e6).run_of(trained), None, 6)
    assert sentence == "RoPE's base is 1,000,000; training used 1,000,000 (10,000 in layers with a window)."


def test_a_bidirectional_mask_leaks_the_next_token_where_it_reads_one():
    assert "do not measure prediction" in said(causal=False)[0]
    assert "do not measure prediction" in said(causal=False, sliding_window=2)[0]
    assert "do not measure prediction" in said(causal=False, sliding_window=1, full_layers=(0,))[0]
    assert "prediction" not in said(causal=False, sliding_window=1)[0] + said(causal=False, n_tokens=1)[0]


def test_several_differences_are_all_said():
    found = said(n_tokens=300, causal=False, sliding_window=16, position="none", text="Привет = мир")
    assert len(found) == 6


@pytest.mark.parametrize(
    "how",
    [
        {"sliding_window": 11},  # as wide as the text: nothing is masked
        {"position": "rope", "n_tokens": 256},
        {"text": "„Ein Mädchen“, sagte er – „fand 12 rote Bälle …“"},
        {"text": EXAMPLES["brackets"]},
        {"text": EXAMPLES["a list"]},
        {"text": "He said: x = y.\nShe did not know.\nNor did I."},
        {"text": "?!"},
    ],
)
def test_where_nothing_differs_nothing_is_said(how):
    assert said(**how) == []


@pytest.mark.parametrize("model", list_checkpoints())
def test_the_checkpoint_is_as_its_card_has_it(model):
    card, sentence = model_card(), trained_on(shipped_config(model))
    total = sum(p.numel() for p in load_checkpoint(model)[0].parameters())
    assert f"{total:,}" in card and f"{total / 1e6:.1f} M" in sentence
    years = [n for n in numbers(sentence) if n > 1800]
    assert f"of {years[0]} to {years[1]}" in card and "children's books" in card
    assert f"context {shipped_config(model).max_context}" in card
    assert "](quality.svg)" not in card


LINKS = ({"window": "5", "causal": "0"}, {"rope": "0"}, {"text": EXAMPLES["中文"]})


@pytest.mark.parametrize(("page", "link"), [*zip(TRACED, LINKS, strict=True)])
def test_it_stands_above_the_maps_with_the_card(page: str, link: dict[str, str]) -> None:
    app = opened(page, **link)
    assert len(app.warning) == 1 and "1812" in app.warning[0].value
    assert any("Not good for" in element.value for element in app.markdown)


def test_nothing_is_said_of_untrained_models() -> None:
    assert "1812" not in sentences(opened(TRACED[0], model="own", window="5", causal="0", rope="0"))


def test_every_way_of_running_that_a_setting_changes_is_looked_at() -> None:
    """A new setting that changes how a checkpoint runs needs its own sentence."""
    other = Settings(rope=False, theta=500.0, causal=False, window=3, n_sinks=2)
    run = other.run_of(TRAINED)
    changed = {f.name for f in fields(run) if getattr(run, f.name) != getattr(TRAINED, f.name)}
    assert changed == {"position", "rope_theta", "causal", "sliding_window", "n_sinks"}


@pytest.mark.parametrize(
    "text, said",
    [
        ("床前明月光，疑是地上霜。", "12 of 12 characters are several tokens each"),
        ("床", "1 of 1 character is several tokens"), ("👩‍👩‍👧‍👦", "1 of 1 character"),
        ("床前 and", ""), ("naïve café", ""), ("The girl 床", ""), ("", ""), ("...", ""),
    ],
)  # fmt: skip
def test_a_text_whose_characters_are_several_tokens_is_told_a_way_out(text: str, said: str) -> None:
    notice = split_characters(View(Settings(text=text)).spans)
    assert notice.startswith(said) and bool(notice) == bool(said)
    assert not notice or ("Heads page can merge the rows and columns" in notice and "open a model" in notice)
