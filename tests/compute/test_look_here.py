"""What stands out on a text of one's own, with the shipped checkpoints, and what a link selects."""

import math
import re
import unicodedata

import numpy as np
import pytest

from attnviz.compute import heads, look_here, models
from attnviz.compute.view import View
from attnviz.layerwise import LayerwiseTrace
from attnviz.session.settings import Settings
from attnviz.session.shared import DEFAULT_TEXT, FIRST_HEAD, NOBODY_CHOSE
from attnviz.trace import trace

TEXTS = {
    "own": "My cat chased the dog around the kitchen until the dog was tired, so my cat slept on the sofa.",
    "Chinese": "床前明月光，疑是地上霜。举头望明月，低头思故乡。",
    "emoji": "I saw 🐈, 🐕 and 🌳 in the garden, then 🐈 and 🌳 again.",
    "repeated": "red ball blue box red ball blue box red ball",
    "right to left": "הכלב ראה את החתול והחתול ראה את הכלב",
}
FEW = ["Hello", "One two", "a", "。", "，，。", " ", "🐈"]
MODELS = ("gqa-4", "mha", "mqa", "mla")


def view_of(text: str, model: str = "gqa-4", **fields) -> View:
    return View(Settings(model=model, text=text, **{**NOBODY_CHOSE, **fields}), padded=True)


def by_hand(view: View) -> list[tuple[float, float, tuple[int, int, int, int]]]:
    """Return (weight, expected, (layer, head, query, key)) of each query's strongest key, in plain loops."""
    words, all_weights = look_here.words_of(view), view.trace.weights.astype(float)
    T, cells = len(view.ids), []
    for layer, head in np.ndindex(all_weights.shape[:2]):
        w = all_weights[layer, head]
        for i in range(1, T):
            j = max(range(i + 1), key=lambda k: w[i, k])
            if (
                j == 0
                or abs(words.word[i] - words.word[j]) < 2
                or not words.ends_character[i]
                or 3 in words.kind[[i, j]]
            ):
                continue
            of_key = [w[q, j] for q in range(j + 1, T) if q != i]
            same = [w[q, q - (i - j)] for q in range(i - j, T) if q != i] if i - j < 5 else []
            expected = max(1 / (i + 1), *(sum(each) / len(each) if each else 0 for each in (of_key, same)))
            cells.append((w[i, j], expected, (layer, head, i, j)))
    return cells


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("name", TEXTS)
def test_the_cell_that_stands_out_is_that_of_a_count_by_hand(model, name):
    view = view_of(TEXTS[name], model)
    found, words = look_here.found_in(view), look_here.words_of(view)
    out = [cell for cell in by_hand(view) if cell[0] >= cell[1] + 0.3]
    kinds = [max(words.kind[at[2]], words.kind[at[3]]) for _, _, at in out]
    first = [cell for cell, kind in zip(out, kinds, strict=True) if kind == min(kinds)]

    def score(cell):
        weight, expected, (_, _, i, j) = cell
        repeats = words.same[j] == words.same[i] or words.same[j - 1] == words.same[i]
        return weight * math.log(weight / expected) * (4 / 3 if repeats else 1)

    weight, expected, at = max(first, key=score)
    assert at == (found.layer, found.head, found.query, found.key)
    assert (found.share.weight, found.share.chance) == (pytest.approx(weight), pytest.approx(expected, rel=1e-4))
    assert (*view.layer_and_head, view.query, view.key) == at


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("name", TEXTS)
def test_query_and_key_are_text_and_not_punctuation(model, name):
    view = view_of(TEXTS[name], model)
    for at in (view.query, view.key):
        start = view.labels[at].split(" ")[0].lstrip("·")
        assert any(unicodedata.category(c)[0] in "LN" or unicodedata.category(c) == "So" for c in start), view.labels[
            at
        ]
    assert not re.search(r" ([12])/3$| [123]/4$| 1/2$", view.labels[view.query])  # the character is complete


@pytest.mark.parametrize("model", (*MODELS, "own"))
@pytest.mark.parametrize("text", FEW)
def test_where_nothing_stands_out_the_page_says_so_and_selects_the_last_word(model, text):
    view = view_of(text, model)
    found = look_here.found_in(view)
    said = look_here.sentence(view, found)
    assert said.startswith("**No head stands out**") and not (found and found.share.stands_out)
    assert view.layer_and_head == FIRST_HEAD and view.query == look_here.words_of(view).last


def test_the_last_token_that_is_text_is_the_query_where_nothing_stands_out():
    view = view_of("Hello there!")
    assert view.labels[view.query] == "·there" and view.labels[-1] == "!"
    assert view_of("!!").query == len(view_of("!!").ids) - 1


def test_the_sentence_says_the_weight_of_the_selected_cell_and_why_it_is_one():
    view = view_of("The meeting moved to Tuesday. Please tell the others that the meeting moved again.", "mha")
    found = look_here.found_in(view)
    said = look_here.sentence(view, found).replace("\\", "")
    weight = view.trace.weights[found.layer, found.head, found.query, found.key]
    assert f"**Look at layer {found.layer}, head {found.head}**: of 32 heads" in said
    assert f"gives {weight:.4f} of its weight to key {found.key} “{view.labels[found.key]}”" in said
    assert view.ids[found.key - 1] == view.ids[found.query]
    assert f", which followed an earlier “{view.labels[found.query]}”; from its position, " in said
    assert f"{found.share.chance:.4f} is expected." in said


def test_padding_is_not_selected():
    view = view_of(TEXTS["own"], padding=13)
    found = look_here.found_in(view)
    assert found.share.stands_out and found.query > 13 and found.key > 13


@pytest.mark.parametrize("fields", [{"causal": False}, {"window": 3}, {"window": 1}, {"rope": False}])
def test_any_mask_has_a_selection_and_a_sentence(fields):
    view = view_of(TEXTS["own"], **fields)
    found = look_here.found_in(view)
    assert look_here.sentence(view, found).startswith(("**Look at layer", "**No head stands out**"))
    assert view.trace.allowed[view.layer_and_head[0], view.query, view.key]


def test_a_layerwise_trace_has_the_same_cell_as_a_whole_one(monkeypatch):
    text = "The heron stood by the pond, and the frog saw the heron. " * 2
    monkeypatch.setattr(models, "MAX_TRACE_BYTES", 400_000)
    view = view_of(text)
    assert isinstance(view.trace, LayerwiseTrace) and heads.is_layerwise(view)
    at = *view.layer_and_head, view.query, view.key
    whole = trace(view.model, view.ids)
    weights = [look_here.standing_out.strongest_of_layer(i, w, a, look_here.words_of(view))
               for i, (w, a) in enumerate(zip(whole.weights, whole.allowed, strict=True))]  # fmt: skip
    found = look_here.standing_out.strongest(weights, look_here.words_of(view))
    assert at == (found.layer, found.head, found.query, found.key) and found.share.stands_out


def test_before_the_grid_has_all_layers_only_those_computed_are_searched(monkeypatch):
    text = "The otter slept on the raft, and the duck saw the otter. " * 2
    monkeypatch.setattr(models, "MAX_TRACE_BYTES", 400_000)
    view = view_of(text)
    seen = []
    heads.on_text(view, lambda layer, *_: seen.append(view.layer_and_head[0]))
    assert len(seen) == 4 and all(best <= layer for layer, best in enumerate(seen[1:], 1))


# ---- links made before there was a choice


@pytest.mark.parametrize(
    ("link", "at"),
    [
        ({}, (1, 3, 21)),
        ({"text": TEXTS["own"]}, (1, 3, 21)),
        ({"text": TEXTS["own"], "model": "mha"}, (1, 3, 21)),
        ({"text": TEXTS["own"], "layer": "2"}, (2, 3, 21)),
        ({"text": TEXTS["own"], "head": "6", "query": "-1"}, (1, 6, 21)),
        ({"text": TEXTS["own"], "query": "11", "window": "4"}, (1, 3, 11)),
        ({"text": TEXTS["own"], "layer": "0", "head": "0", "query": "5", "key": "2"}, (0, 0, 5)),
        ({"text": TEXTS["own"], "layer": "-1", "head": "99", "query": "99"}, (0, 7, 21)),
        ({"text": "床前明月光", "tab": "rollout"}, (1, 3, 11)),
        ({"model": "own", "n_layers": "1", "n_heads": "2", "n_kv_heads": "1"}, (0, 1, 21)),
    ],
)
def test_a_link_made_before_opens_what_it_opened(link, at):
    """Layer 1, head 3 and the query at three quarters of the text, where the link says nothing else."""
    view = View(Settings.from_link(link)[0])
    assert (*view.layer_and_head, view.query) == at
    strongest = view.trace.weights[at].argmax()
    assert view.key == (int(link["key"]) if "key" in link else strongest)


def test_a_link_carries_what_was_chosen_even_where_it_is_the_default():
    first = Settings(layer=1, head=3)
    assert first.to_link() == {"layer": "1", "head": "3"} and Settings.from_link(first.to_link())[0] == first
    auto = Settings(text=TEXTS["own"], **NOBODY_CHOSE)
    assert auto.to_link() == {"text": TEXTS["own"], "selection": "auto"}
    assert Settings.from_link(auto.to_link()) == (auto, [])
    chosen = Settings.from_link({"text": TEXTS["own"], "selection": "auto", "layer": "2", "head": "5", "query": "9"})[0]
    view = View(chosen)
    assert (*view.layer_and_head, view.query) == (2, 5, 9) and view.key == view.strongest_key
    only_query = View(Settings.from_link({"text": TEXTS["own"], "selection": "auto", "query": "9"})[0])
    assert only_query.query == 9 and only_query.layer_and_head == view_of(TEXTS["own"]).layer_and_head
    assert View(Settings(text=DEFAULT_TEXT)).layer_and_head == FIRST_HEAD


def test_the_sentence_says_the_cell_of_the_merged_map_too():
    """By hand: the keys of a character summed, its queries averaged."""
    text = "注意力機制讓每個詞元查詢其他詞元。昨天下午我在咖啡館，外面下著大雨。"
    view, plain = view_of(text, merged=True), view_of(text)
    found = look_here.found_in(view)
    assert look_here.sentence(view, found).startswith(look_here.sentence(plain, found))
    spans = {k: span for span in view.spans for k in range(span.start, span.stop)}
    query, key = spans[found.query], spans[found.key]
    assert key.stop - key.start == query.stop - query.start == 3
    cell = view.trace.weights[found.layer, found.head, query.start : query.stop, key.start : key.stop]
    said = re.search(
        r" On the merged map, “(.)” gives ([\d.]+) of its weight to “(.)”\.$", look_here.sentence(view, found)
    )
    assert said.groups() == (query.text, f"{cell.sum(-1).mean():.4f}", key.text)
