"""Characters of several tokens on the Decode page are written when their last byte is."""

import json

import pytest

from attnviz.characters import readable
from attnviz.compute import decode as compute
from attnviz.compute import queue
from attnviz.compute.view import View
from attnviz.compute.vocabulary import vocabulary
from attnviz.session.settings import Settings
from attnviz.ui.components.decode_player import Place, Text, pack

TEXT = "The old man found a red ball. The old man"


def view(**changes: object) -> View:
    return View(Settings(**{"text": TEXT, **changes}))


CHINESE = "床前明月光"


def test_a_character_is_written_when_its_last_byte_is() -> None:
    ids = view(text="床🇩🇪!").ids  # 3, 8 and 1 tokens
    v = view(text=CHINESE, written=ids)
    added = compute.written_characters(v, compute.written_of(v, 1))[: len(ids)]
    assert [(s.start, s.stop) for s in added] == [
        (0, 1), (1, 2), (0, 3), (3, 4), (4, 5), (5, 6), (3, 7), (7, 8), (8, 9), (9, 10), (3, 11), (11, 12)
    ]  # fmt: skip
    assert [s.text for s in added if s.stop in (3, 7, 11, 12)] == ["床", "🇩", "🇩🇪", "!"]
    assert compute.text_of(v, ids) == "床🇩🇪!" and compute.text_of(v, ids[:2]) == "<0xE5><0xBA>"


def test_candidates_are_named_by_the_character_that_they_complete() -> None:
    e5, ba, x8a = view(text="床").ids
    words = vocabulary(view().settings)
    assert [words[e5], words[ba], words[x8a]] == ["<0xE5> 儿…", "<0xBA>", "<0x8A>"]
    after = words.after([*view(text=CHINESE).ids, e5, ba])
    assert after[x8a] == "床 3/3" and after.described(x8a) == "" and after[e5] == "<0xE5> 儿…"
    assert words.after([e5]).described(ba) == "continues 序, 庇, 床, … (U+5E80–U+5EBF)"


def test_the_player_gets_the_text_as_it_is_read() -> None:
    family = "👩‍👩‍👧‍👦"
    v = view(text=f"{family} 床", written=view(text="床").ids[:2])
    written = compute.written_of(v, 1)
    text = Text(v.ids, v.labels, readable(v.shown_text), compute.written_characters(v, written))
    sent = pack(written, v.config, text, vocabulary(v.settings), Place(2, 0, 0, 9, 0))
    header = json.loads(sent[4 : 4 + int.from_bytes(sent[:4], "little")])
    assert header["shown"] == f"{family} 床"
    assert [step["added"] for step in header["steps"][:2]] == [[0, "<0xE5>"], [1, "<0xBA>"]]
    third = header["steps"][2]
    x8a = str(view(text="床").ids[2])
    assert third["names"].get(x8a, "床 3/3") == "床 3/3"
    assert all(begins.startswith(("begins", "continues")) for begins in third["begins"].values())


def test_an_id_that_the_tokenizer_does_not_know_is_written_by_its_number() -> None:
    """The embeddings of many published models have more rows than their tokenizer has tokens."""
    unknown = view().config.vocab_size + 5
    assert compute.text_of(view(), [unknown]) == f"token {unknown}"
    assert vocabulary(view().settings).after([unknown])[unknown] == f"token {unknown}"


@pytest.mark.parametrize("limit", [16, 96])
def test_reading_with_limited_caches_reports_the_share_done_and_ends_for_a_change(monkeypatch, limit) -> None:
    monkeypatch.setattr(compute, "N_READ", 41)
    done: list[float] = []
    compute._bounded.cache_clear()
    compute._quantised.cache_clear()
    token = queue.ON_PROGRESS.set(done.append)
    for run, n in ((compute.bounded, 3 * 40 + min(limit, 40)), (compute.quantised, 3 * 40)):
        done.clear()
        monkeypatch.setattr(queue, "rerun_requested", lambda: len(done) == 7)
        with pytest.raises(queue.Interrupted):
            run(view(bound=limit))
        assert len(done) == 7
        done.clear()
        monkeypatch.setattr(queue, "rerun_requested", lambda: False)
        run(view(bound=limit))  # what was ended is not cached
        assert done == pytest.approx([i / n for i in range(1, n + 1)])
    queue.ON_PROGRESS.reset(token)
