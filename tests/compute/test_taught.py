"""A route's cards come after the lessons that explain them, and its interview asks nothing else and nothing harder."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from attnviz.compute import interview, lessons, placeholders, routes, spoken, steps
from attnviz.compute.asked import asked_before
from attnviz.compute.published_numbers import MISSING
from attnviz.compute.taught import MISTAKES, taught
from attnviz.compute.view import View
from attnviz.mistakes import all_mistakes
from attnviz.practice.drills import KINDS
from attnviz.session.progress import Progress
from attnviz.session.settings import Settings

LESSONS = lessons.lessons()[0]
SHARED, CACHE, ROPE, MLA = "shared-kv-heads", "cache-cost", "rope-pictures", "mla"
FEWER, DERIVED, FITS = "Same arithmetic, fewer bytes", "The derivation, for one pair", "What fits"
LOSES, KEPT, READS = "What it loses without training", "What is cached", "Decoding reads it all"
# card: for each point the lesson and the step that explain it; None: what the card adds to them
TABLE = {
    "gqa-same-flops": [(SHARED, FEWER)] * 5,
    "rope-distance": [
        (ROPE, "A pair rotates"), (ROPE, DERIVED), (ROPE, DERIVED), (ROPE, DERIVED),
        (ROPE, "Shifts leave the score as it is"), (ROPE, DERIVED),
    ],
    "mla-what-is-cached": [(MLA, KEPT), (MLA, "From the latent to keys and values"), (MLA, KEPT), (MLA, KEPT),
                           (MLA, "In published models")],
    "mla-or-gqa": [
        (MLA, "In published models"), (MLA, "From the latent to keys and values"), (MLA, "In published models"),
        (MLA, "In published models"), (MLA, "RoPE is decoupled"),
    ],
    "attention-in-a-sentence": [
        ("one-head", "What the head writes"), ("score-to-weight", "Softmax"), ("one-head", "What the head writes"),
        None, None,
    ],
    "bytes-per-token": [
        (CACHE, "Bytes per token"), (CACHE, "A published model"), (CACHE, "A published model"), (MLA, KEPT),
        (CACHE, "Bytes per token"),
    ],
    "when-linear-pays": [
        ("state-not-cache", "When it pays"), ("state-not-cache", "What is kept instead of a cache"),
        ("state-not-cache", "When it pays"), None, ("state-not-cache", "What it still remembers"),
    ],
    "roofline-of-a-step": [
        (SHARED, FEWER), ("next-token", "Prefill, then decode"), (CACHE, READS), (CACHE, READS), (CACHE, "Fewer bits"),
    ],
    # what the mock interview of the hour may ask beside them
    "mha-gqa-mqa": [
        (SHARED, "GQA: groups share one"), (SHARED, "Query heads stay different"),
        (SHARED, "The cache shrinks with them"), (SHARED, LOSES), None,
    ],
    "tiled-kv-heads": [(SHARED, "Keep the order"), (SHARED, "Keep the order"), (SHARED, "Keep the order"), None,
                       (SHARED, "Keep the order")],
    "mha-into-gqa": [(SHARED, LOSES), (SHARED, LOSES), (SHARED, LOSES), (SHARED, "Keep the order"), None],
    "wrong-gqa-fewer-flops": [(SHARED, FEWER), (SHARED, FEWER), None, (SHARED, FEWER), None],
    "wrong-two-gigabytes": [
        (CACHE, "Context and sequences"), (CACHE, "Context and sequences"), (CACHE, "A published model"), None,
        (CACHE, READS),
    ],
    "does-it-fit": [(CACHE, FITS), (CACHE, "Context and sequences"), (CACHE, FITS), None, (CACHE, FITS)],
    "rope-not-on-values": [(ROPE, "Without RoPE"), (ROPE, "Without RoPE"), (ROPE, "Without RoPE"), None],
}  # fmt: skip
EVENING = ("interview-20", "interview-60")
ASKED = [
    (of.name, n, item.link["card"]) for of in routes.routes().values() for n, item in enumerate(of.items, 1)
    if "card" in item.link
]  # fmt: skip
MOCKS = [
    (of.name, n) for of in routes.routes().values() for n, item in enumerate(of.items, 1)
    if item.link.get("tab") == "interview"
]  # fmt: skip


def before(name: str, number: int) -> set[str]:
    return {item.link["lesson"] for item in routes.route(name).items[: number - 1] if "lesson" in item.link}


@pytest.mark.parametrize("id", TABLE)
def test_each_point_names_a_step_of_its_cards_lessons(id):
    card = spoken.deck()[id]
    assert len(TABLE[id]) == len(card.points)
    explained = [each for each in TABLE[id] if each]
    assert {lesson for lesson, _ in explained} <= {*card.lessons} and len(explained) >= len(card.points) - 2
    for lesson, title in explained:
        assert title in [step.title for step in LESSONS[lesson].steps]


@pytest.mark.parametrize("name, number, id", ASKED)
def test_a_card_of_a_route_comes_after_the_lessons_that_explain_it(name, number, id):
    assert {*spoken.deck()[id].lessons} <= before(name, number) and spoken.deck()[id].lessons
    assert TABLE[id].count(None) <= (1 if name in EVENING else 2)


@pytest.mark.parametrize("name, number", MOCKS)
def test_the_mock_interview_asks_what_the_lessons_taught_and_nothing_harder_over_fifty_seeds(name, number):
    of, read, deck = routes.route(name), before(name, number), spoken.deck()
    levels = [deck[item.link["card"]].level for item in of.items[: number - 1] if "card" in item.link]
    levels += [int(item.link["level"]) for item in of.items[: number - 1] if "level" in item.link]
    s = routes.place(of, number, Progress())[1]
    asked_cards, earlier = set(), asked_before(s)
    for seed in range(50):
        for question in interview.begin(replace(s, question_set=seed), 0.0).questions:
            if question.kind in deck:
                assert {*deck[question.kind].lessons} <= read and question.level <= max(levels)
                asked_cards.add(question.kind)
            elif question.kind in KINDS:
                assert read.intersection(KINDS[question.kind].lessons) and question.level <= max(levels)
            else:
                assert read.intersection(MISTAKES[question.kind.removeprefix("mistake_")])
            assert question.kind not in earlier
    assert len(asked_cards) > 5 and (name not in EVENING or asked_cards <= {*TABLE})


def test_the_hours_interview_is_on_its_subjects_and_asks_nothing_hard():
    (number,) = (n for name, n in MOCKS if name == "interview-60")
    known = taught(routes.place(routes.route("interview-60"), number, Progress())[1])
    assert known.level == 2 and known.lessons == {SHARED, CACHE, ROPE, MLA}
    untaught = {"tensor-parallel-kv", "speculative-exactness"}
    assert untaught.isdisjoint(card.id for card in known.cards(spoken.deck().values()))
    assert taught(Settings()) is None


def test_the_hours_interview_takes_its_lessons_in_turn_over_fifty_seeds():
    of = routes.route("interview-60")
    (number,) = (n for name, n in MOCKS if name == of.name)
    s, deck = routes.place(of, number, Progress())[1], spoken.deck()
    for seed in range(50):
        asked = [question.kind for question in interview.begin(replace(s, question_set=seed), 0.0).questions]
        aloud = [deck[kind].lessons[0] for kind in asked if kind in deck]
        computed = [{*KINDS[kind].lessons} & before(of.name, number) for kind in asked if kind in KINDS]
        assert len(aloud) == len({*aloud}) == 2 and len(computed) == 4  # three to compute and one on code
        assert len(set().union(*computed)) >= 3


def test_each_mistake_and_each_lesson_that_explains_something_is_known():
    assert MISTAKES.keys() == all_mistakes().keys()
    named = {name for names in MISTAKES.values() for name in names}
    named |= {name for card in spoken.deck().values() for name in card.lessons}
    assert named <= LESSONS.keys()


def rotation(angle: float) -> torch.Tensor:
    a = torch.tensor(angle, dtype=torch.float64)
    return torch.stack((torch.stack((a.cos(), -a.sin())), torch.stack((a.sin(), a.cos()))))


@pytest.mark.parametrize("m, n, theta", [(2, 11, 0.7), (13, 5, 0.031), (7, 7, 1.0)])
def test_each_line_of_the_derivation_of_rope_holds(m, n, theta):
    q, k = torch.randn(2, 2, dtype=torch.float64, generator=torch.Generator().manual_seed(3))
    score = (rotation(m * theta) @ q) @ (rotation(n * theta) @ k)
    complex_q, complex_k = torch.complex(*q), torch.complex(*k)
    turned = complex_q * torch.exp(torch.tensor(1j * m * theta))
    other = complex_k * torch.exp(torch.tensor(1j * n * theta))
    lines = [
        q @ rotation(m * theta).T @ rotation(n * theta) @ k,
        q @ rotation((n - m) * theta) @ k,
        (turned * other.conj()).real,
        abs(complex_q) * abs(complex_k) * torch.cos((m - n) * theta + complex_q.angle() - complex_k.angle()),
    ]
    torch.testing.assert_close(torch.stack(lines), score.expand(4), rtol=1e-6, atol=1e-6)
    assert r"q^\top R((n-m)\theta)k" in LESSONS[ROPE].steps[-1].text


def test_the_lesson_on_mla_says_what_the_latent_of_the_queries_saves():
    number = next(n for n, step in enumerate(LESSONS[MLA].steps, 1) if step.title == "In published models")
    text = placeholders.filled(LESSONS[MLA].step(number).text, View(LESSONS[MLA].settings(number)))
    layers, width, heads, of_a_head, rank = 61, 7168, 128, 128 + 64, 1536  # DeepSeek-V3's config.json
    through, direct = layers * (width * rank + rank * heads * of_a_head), layers * width * heads * of_a_head
    assert (round(through / 1e9, 2), round(direct / 1e9, 1)) == (2.97, 10.7)
    assert " of 1,536 numbers. " in text and "2.97 billion instead of 10.7 billion" in text
    other = View(Settings(preset="llama-3-8b"))  # its queries go through none
    assert [placeholders.value(name, other) for name in ("published_query_latent", "published_query_parameters")] == [
        MISSING, f"{32 * 4096**2 / 1e6:.0f} million"
    ]  # fmt: skip


@pytest.mark.parametrize("text", ["", "一只猫 sat"])
def test_the_lesson_on_mla_opens_the_source_at_the_line_that_makes_the_keys(text):
    number = next(n for n, step in enumerate(LESSONS[MLA].steps, 1) if step.title == "Line by line")
    s = LESSONS[MLA].settings(number)
    view = View(replace(s, text=text) if text else s)
    stop = steps.walk_of(view).stops[steps.stop_of(view, steps.walk_of(view))]
    assert steps.run_of(view).calls[stop.line.call].function.endswith("._absorbed")
    assert [made.name for made in stop.line.made] == ["k"]


def test_what_is_optional_in_a_lesson_is_not_asked_by_it():
    last = LESSONS[MLA].steps[-1]
    assert last.optional and not last.asks and last.link["task"] == "mla"
    assert sum(step.optional for each in LESSONS.values() for step in each.steps) == 1


@pytest.mark.parametrize("name", ["interview-20", "interview-60", "interview-week"])
def test_another_run_asks_another_card_of_the_same_lessons_and_level_where_one_fits(name):
    first, again, deck = routes.route(name), routes.route(name, 2), spoken.deck()
    pairs = [(a, b) for a, b in zip(first.items, again.items, strict=True) if "card" in a.link]
    for a, b in pairs:
        one, other = deck[a.link["card"]], deck[b.link["card"]]
        assert (one.lessons, one.level, a.id) == (other.lessons, other.level, b.id)
    changed = [a.link["card"] for a, b in pairs if a.link["card"] != b.link["card"]]
    assert "gqa-same-flops" in changed and "mla-what-is-cached" not in changed  # no other is on MLA alone at its level
    asked = [b.link["card"] for _, b in pairs]
    assert len(asked) == len({*asked})
