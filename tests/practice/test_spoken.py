"""The questions to answer aloud: files are read or refused with a line, numbers computed, points told apart."""

import re
from collections import Counter
from itertools import combinations

import pytest

from attnviz.compute import placeholders, spoken
from attnviz.compute.published_numbers import MISSING
from attnviz.compute.view import View
from attnviz.cost import load_presets
from attnviz.exercises import SPOKEN
from attnviz.practice.spoken.card import Card, CardError, parse
from attnviz.session.lesson import placeholder
from attnviz.session.pages import ELEMENTS
from attnviz.session.settings import Settings
from tests.practice.test_spoken_numbers import FOLLOWS

DECK = spoken.deck()
CARD = """# A subject

## one-card

Level: 2
Question: Why is that so?
Link: cost?tab=speed
Look at: figure-speed

Points:
- The first point
  goes on here. [arXiv 1706.03762, arXiv 2104.09864]
- The second has {published_layers?preset=llama-3-70b} layers. [computed: layers]
- The third. [derivation]
- The fourth. [derivation]

Answer:
It is so because
it is.

It really is.

Follow-ups:
- Is it? Yes: is it not? [another-card]
- Why? Because.
"""
BROKEN = {  # what is written in place of a part of CARD: the line of the error, and a part of its sentence
    ("# A subject", "A subject"): (1, "the first line"),
    ("## one-card", "## One card"): (3, "lower-case letters"),
    ("Level: 2", "Level: 4"): (5, "1, 2 or 3, not “4”"),
    ("Level: 2\n", ""): (3, "has no “Level:”"),
    ("Link: cost?tab=speed", "Link:"): (7, "nothing follows “Link:”"),
    ("Link: cost?tab=speed", "Link: price?tab=speed"): (7, "the page must be one of"),
    ("Link: cost?tab=speed", "Link: cost?tab=speed&context=many"): (7, "link's context must be a whole number"),
    ("Look at: figure-speed", "Look at: figure-totals"): (8, "the link does not show “figure-totals”"),
    ("Look at: figure-speed", "Look at: figure-none"): (8, "the element must be one of"),
    ("Points:\n", "Points: four\n"): (10, "“Points:” stands alone"),
    ("- The third. [derivation]\n", ""): (10, "4 to 7 items, not 3"),
    ("- The third. [derivation]", "- The third."): (14, "a sentence and its source"),
    ("- The third. [derivation]", "- The third. [somebody]"): (14, "not “somebody”"),
    ("- The third. [derivation]", "- The third. [arXiv 17.3]"): (14, "a source is"),
    ("- The third. [derivation]", "- The {third}. [derivation]"): (14, "is not a placeholder"),
    ("{published_layers?preset=llama-3-70b}", "{published_layers?preset=llama-9}"): (13, "link's preset must be"),
    ("Points:\n- The first", "Points:\nThe first"): (11, "is a list"),
    ("- Why? Because.", "- Why so."): (25, "a question, with its question mark"),
    ("- Why? Because.", "- Why?"): (25, "its question mark, and its answer"),
    ("- Why? Because.\n", ""): (23, "2 to 3 items, not 1"),
    ("Answer:\n", "Answer:\nAnswer:\n"): (18, "two “Answer:”"),
    ("Question: Why", "Why"): (6, "belongs to no field"),
}  # fmt: skip


def test_a_file_is_read_as_it_is_written() -> None:
    (card,) = spoken.read("cache", CARD)
    assert (card.id, card.subject, card.level, card.question) == ("one-card", "cache", 2, "Why is that so?")
    assert (card.link, card.target) == ("cost?tab=speed", "figure-speed")
    assert card.points[0].text == "The first point goes on here."
    assert [point.source for point in card.points][:2] == ["arXiv 1706.03762, arXiv 2104.09864", "computed: layers"]
    assert card.answer == "It is so because it is. It really is."
    assert card.follow_ups == (("Is it?", "Yes: is it not?", "another-card"), ("Why?", "Because.", ""))
    assert spoken.filled(card.points[1].text, card) == "The second has 80 layers."


@pytest.mark.parametrize(("changed", "error"), BROKEN.items(), ids=[error[1] for error in BROKEN.values()])
def test_a_broken_file_names_its_line(changed: tuple[str, str], error: tuple[int, str]) -> None:
    assert CARD.count(changed[0]) == 1
    with pytest.raises(CardError) as raised:
        spoken.read("cache", CARD.replace(*changed))
    assert raised.value.line == error[0] and error[1] in str(raised.value)


def test_a_file_without_cards_and_two_cards_with_one_id_are_refused() -> None:
    with pytest.raises(CardError, match="line 1: there is no card"):
        parse("cache", "# A subject")
    with pytest.raises(CardError, match="line 26: there is another card “one-card”"):
        parse("cache", CARD + CARD.partition("\n\n")[2])


# ---- the deck


def test_there_are_at_least_sixty_cards_on_all_subjects_and_levels() -> None:
    by_subject = Counter(card.subject for card in DECK.values())
    assert len(DECK) >= 60 and by_subject.keys() == SPOKEN.keys() and min(by_subject.values()) >= 6
    assert {card.level for card in DECK.values()} == {1, 2, 3}
    begins = Counter(" ".join(card.question.split()[:4]) for card in DECK.values())
    assert begins.most_common(1)[0][1] <= 10, "at most ten from one template"


STOP = set("a an and are as at be but by can does each for from has have if in into is it its no not of on one only or "
           "so than that the their there they this to what when which while with".split())  # fmt: skip
ALIKE = 0.5  # of the words of two points, which are then one


def words(text: str) -> set[str]:
    return set(re.findall(r"[^\W\d_]{2,}", re.sub(r"\{[^{}]*\}", "", text.lower()))) - STOP


def overlap(a: set[str], b: set[str]) -> float:
    """Return the share of the shorter one's words that the other has too; one of few words counts as one of six."""
    return len(a & b) / max(min(len(a), len(b)), 6)


def test_no_two_cards_share_a_point() -> None:
    points = [(card.id, point.text, words(point.text)) for card in DECK.values() for point in card.points]
    alike = [
        (one[0], one[1], two[0], two[1])
        for one, two in combinations(points, 2)
        if one[0] != two[0] and overlap(one[2], two[2]) > ALIKE
    ]
    assert alike == []


def test_two_points_that_say_the_same_are_noticed() -> None:
    one, two = "MQA caches one key and one value per token.", "Per token, MQA caches one value and one key."
    assert overlap(words(one), words(two)) > ALIKE
    assert overlap(words(one), words("A softmax needs a maximum.")) == 0


NAMES = (  # models and formats that are said as they are written
    r"DeepSeek-V\d(?:\.\d)?|V3\.2|Llama \d(?:\.\d)?(?: \d+B)?|Gemma \dn?(?: E?\d+B)?|Qwen\d(?:\.\d)?(?: Next| \d+B)?|"
    r"GLM-4|GQA-8|M2\b|T5\b|Kimi K2|PCIe \d"
)
NO_NUMBERS = r"t\+1|b?float(?:16|32)|bf16|− q, 0|T − 1|l = 0|1 \+ 2 \+|\((?:\d, ?\d|B, [^)]*)\)|\b[01]( [01]){3,}|exp\(|min\(1|[−-]2i|2π|\b[24]·|T²|O\(n²?\)|D/2|n\(n\+1\)/2|1/√D?|\b16[ -]bits?|16-bit|int[48]|(?:per|each) 32 numbers|8/3|1 \+ 4c|1/\(1 −|1 \+ α|top-[kp1]\b"  # noqa: E501
SPELLED = re.compile(
    r"\b(?:thirteen|fourteen|fifteen|sixteen|seventeen|eighteen|nineteen|twenty|thirty|forty|fifty|sixty|seventy|eighty"
    r"|ninety)\b(?:-\w+)?"
)
NOT_OF_A_MODEL = {
    "sixteen bits", "sixteen-bit", "sixteen tokens", "sixteen lanes", "float thirty-two",
    "take thirty-two requests", "suppose fifty users", "fifty people",
}  # fmt: skip


def typed(text: str) -> list[str]:
    """Return the numbers in a text that are neither computed nor part of a name or of a formula."""
    text = re.sub(r"\{[^{}]*\}", "", text)
    for allowed in (NAMES, NO_NUMBERS):
        text = re.sub(allowed, "", text)
    low = text.lower()
    for phrase in NOT_OF_A_MODEL:
        low = low.replace(phrase, "")
    return re.findall(r"\S*\d\S*", text) + SPELLED.findall(low)


def test_no_number_of_a_model_is_typed_by_hand() -> None:
    found = {card.id: [n for _, text in card.texts() for n in typed(text)] for card in DECK.values()}
    found["wrong-two-gigabytes"] = [n for n in found["wrong-two-gigabytes"] if n not in ("4", "32:", "2")]  # the answer
    for id, phrases in FOLLOWS.items():  # computed there from what the question gives
        given = {n for phrase, _ in phrases for n in re.findall(r"\d+(?:\.\d+)?", phrase)}
        found[id] = [n for n in found[id] if n.strip(",.?:;") not in given]
    assert {id: numbers for id, numbers in found.items() if numbers} == {}


def test_a_typed_number_is_noticed() -> None:
    assert typed("Llama 3 8B has 32 layers and thirty-two heads.") == ["32", "thirty-two"]
    assert typed("{published_layers?preset=llama-3-8b} layers in sixteen bits, 2·K·D.") == []


def test_each_answer_can_be_said_in_ninety_seconds() -> None:
    """At 160 words per minute, a calm pace: 240 words."""
    for card in DECK.values():
        answer = spoken.filled(card.answer, card)
        assert 170 <= len(answer.split()) <= 240, card.id
        odd = set(re.findall(r"[^\w\s.,;:?!’'“”\"%()-]|_", answer))
        assert odd == set(), f"{card.id}: {odd} cannot be said"


# ---- what a number assumes is said with it


PRECISION = (  # numbers that depend on it
    r"published_cache\w*|published_weights\w*|published_scores|published_vectors|step_\w+|cache_on_\w+|weights_on_one|"
    r"prompt_time|link_time|decode_bound|fitting_sequences|ridge|intensity|published_state"
)
ASSUMED = {  # placeholders: what their sentence says, or one before it: of the answer, or the last one alone
    PRECISION: (r"sixteen[- ]bit|single precision|bytes per number|two bytes", False),
    r"fitting_sequences": (r"reserve", True),
    r"step_time|step_sequence_tokens|decode_bound": (r"bandwidth", False),
    r"step_weights": (r"input embedding", True),
    r"decode_bound|step_sequence_tokens": (r"input embedding", False),
    r"published_(?:cache_(?:mha|gqa_8|mqa)|equal_kv_heads|numbers_mqa)\?preset=deepseek-v3": (
        r"heads of  dimensions|heads of that width", False
    ),
    r"prompt_time": (r"peak", False),
    r"published_attention_share": (r"masked half", True),
    r"link_time": (r"\{link\}", True),
}  # fmt: skip


def unsaid(text: str) -> list[str]:
    """Return the numbers of an answer that come without what they assume."""
    sentences = re.split(r"(?<=[.!?:;]) ", text)
    found = []
    for i, sentence in enumerate(sentences):
        for names, (said, close) in ASSUMED.items():
            before = " ".join(sentences[max(i - 1, 0) if close else 0 : i + 1])
            used = re.findall(rf"\{{((?:{names})(?:\?[^{{}}]*)?)\}}", sentence)
            found += [each for each in used if not re.search(said, re.sub(r"\{(?!link\})[^{}]*\}", "", before))]
    return found


def test_what_a_number_assumes_is_said_with_it() -> None:
    read = {}
    for card in DECK.values():
        asked = [f"{each.question} {each.answer}" for each in card.follow_ups]
        read[card.id] = [card.answer, " ".join((card.question, *(point.text for point in card.points))), *asked]
    found = {id: [number for text in texts for number in unsaid(text)] for id, texts in read.items()}
    assert {id: numbers for id, numbers in found.items() if numbers} == {}


def test_an_assumption_that_is_not_said_is_noticed() -> None:
    assert unsaid("On one GPU, {fitting_sequences} sequences fit in sixteen bits.") == ["fitting_sequences"]
    assert unsaid("In sixteen bits, with a tenth in reserve, {fitting_sequences} fit.") == []
    assert unsaid("A token takes {published_cache_short?preset=llama-3-8b}.") == [
        "published_cache_short?preset=llama-3-8b"
    ]
    assert unsaid("In sixteen bits a step takes {step_time}.") == ["step_time"]
    assert unsaid("In sixteen bits a step reads {step_weights} of weights.") == ["step_weights"]
    mha = "In sixteen bits MHA caches {published_cache_mha?preset=deepseek-v3}"
    assert unsaid(mha) == ["published_cache_mha?preset=deepseek-v3"]
    assert unsaid(f"{mha}, with heads of {{published_value_dim?preset=deepseek-v3}} dimensions.") == []


def test_an_answer_is_what_a_candidate_says_who_has_no_screen() -> None:
    said = {card.id: re.findall(r"(?:this|the) page\b|on (?:this|the) text|\bhere (?:you|we) see", text.lower())
            for card in DECK.values() for _, text in card.texts()}  # fmt: skip
    assert {id: found for id, found in said.items() if found} == {}


# ---- numbers


def test_numbers_of_a_text_are_those_of_the_view_that_the_address_opens() -> None:
    """A page's own text is that of its bare address alone."""
    card = DECK["speculative-exactness"]
    assert spoken.settings_of(card) == Settings(tab="speculate")


def test_each_number_has_a_value() -> None:
    for card in DECK.values():
        view = View(spoken.settings_of(card))
        written = {name for _, text in card.texts() for name in re.findall(r"\{([^{}]*)\}", text)}
        missing = [name for name in written if placeholders.value(name, view) in (MISSING, "0", "0 B", "")]
        assert missing == [], card.id
        for name in written:
            assert placeholder(name)[0] in placeholders.PLACEHOLDERS


BY_HAND = {  # counted by hand from the published sizes: two bytes per number
    "wrong-two-gigabytes": ["524,288 B", "2 GiB", "64 GiB"],  # 2·32·32·128·2; ·4096; ·32
    "wrong-mla-below-mqa": ["576", "256", "68.6 KiB", "30.5 KiB"],  # 512 + 64; 2·128; ·61·2
    "bytes-per-token": ["131,072 B", "327,680 B", "70,272 B"],  # 2·32·8·128·2; 2·80·8·128·2; 576·61·2
    "does-it-fit": ["15.0 GiB", "32 GiB"],  # 8.03e9·2; 131,072·8,192·32
    "mha-gqa-mqa": ["128 KiB", "512 KiB", "16 KiB", "1.07 billion", "268 million"],  # 2·32·4096·4096; ·8/32
    "tensor-parallel-kv": ["40 KiB", "320 KiB", "640 KiB"],  # one KV head of 80 layers: 2·80·128·2
    "gqa-same-flops": ["4 FLOPs per byte"],  # 4·H·D FLOPs per 2·K·D·2 bytes
    "wrong-gqa-fewer-flops": ["4.29 billion"],  # 4·32·128·8192·32
    "sparse-indexer": ["2,048", "704"],  # 576 + 128
    "wrong-linear-generation": ["537 million"],  # 32,768·32,769/2
    "rope-base": ["54,400", "500,000"],  # 2π·10,000^(126/128)
    "shared-caches": ["15 of 35"],
}  # fmt: skip


@pytest.mark.parametrize("id", BY_HAND)
def test_numbers_are_those_counted_by_hand(id: str) -> None:
    card = DECK[id]
    said = " ".join(spoken.filled(text, card) for _, text in card.texts())
    assert [number for number in BY_HAND[id] if number not in said] == []


def test_the_answers_that_banks_get_wrong_are_cards() -> None:
    assert [card.id for card in DECK.values() if card.subject == "wrong-answers"] == [
        "wrong-two-gigabytes", "wrong-mla-below-mqa", "wrong-symmetric", "wrong-linear-generation",
        "wrong-gqa-fewer-flops", "wrong-flash-complexity", "wrong-linear-no-cache",
    ]  # fmt: skip


def test_a_follow_up_leads_to_another_card_that_exists(monkeypatch: pytest.MonkeyPatch) -> None:
    led = [(card.id, each.card) for card in DECK.values() for each in card.follow_ups if each.card]
    assert len(led) > 40 and all(to in DECK and to != id for id, to in led)
    monkeypatch.setattr(spoken, "SPOKEN", {"cache": "Cache"})
    monkeypatch.setattr(spoken, "read", lambda subject, written: parse(subject, CARD))
    spoken.deck.cache_clear()
    try:
        with pytest.raises(CardError, match="line 23: there is no card “another-card”"):
            spoken.deck()
    finally:
        spoken.deck.cache_clear()


def test_a_card_links_to_the_element_that_shows_it() -> None:
    for card in DECK.values():
        name, address = spoken.place(card)
        page = ELEMENTS[card.target].name if card.target else ""
        assert page in name and "://" not in address and address, card.id
    assert sum(not card.target for card in DECK.values()) <= 1  # cross-attention has no element of its own
    assert spoken.place(DECK["roofline-of-a-step"]) == (
        "Cost: Roofline", "cost?tab=speed&preset=llama-3.1-8b&context=8192",
    )  # fmt: skip
    assert set(re.findall(r"preset=([\w.-]+)", " ".join(card.answer for card in DECK.values()))) <= set(load_presets())


# ---- which card comes next


def test_what_is_due_comes_first_then_what_is_new() -> None:
    from datetime import date

    from attnviz.practice.spoken.schedule import CardState

    today = date(2026, 11, 29)
    cards = [card for card in DECK.values() if card.subject == "mechanism"][:5]
    a, b, c, d, e = (card.id for card in cards)
    states = {
        a: CardState("2026-12-04", 5, 2.5, 2), c: CardState("2026-11-29", 1, 2.5, 1),
        d: CardState("2026-11-20", 3, 2.5, 2), e: CardState("2026-12-01", 2, 2.5, 1),
    }  # fmt: skip
    asked = spoken.queue(cards, states, today)
    assert [card.id for card in asked] == [d, c, b, e, a]
    assert [card.id for card in spoken.of(DECK, spoken.DUE, states, today)] == [d, c]
    assert {card.subject for card in spoken.of(DECK, "cache", states, today)} == {"cache"}
    everything = spoken.queue(list(DECK.values()), {}, today)
    assert [card.subject for card in everything[: len(SPOKEN)]] == list(SPOKEN)  # then each of them again
    assert len(spoken.of(DECK, "", states, today)) == len(DECK)
    by_id: dict[str, Card] = {card.id: card for card in cards}
    following = {id: after.id if (after := spoken.following(by_id[id], asked)) else None for id in by_id}
    assert following == {d: c, c: b, b: e, e: a, a: d}
    assert spoken.following(by_id[a], [by_id[a]]) is None
    assert spoken.following(DECK["why-keys-and-values"], asked) == by_id[d]
