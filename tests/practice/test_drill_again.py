"""What comes back of a missed drill: the mistake that was made gives a wrong answer again, and another one is right."""

from datetime import date

import pytest

from attnviz.compute import due
from attnviz.exercises import DRILL
from attnviz.practice.drills import KINDS, Progress, Question, make
from attnviz.practice.drills.again import CANDIDATES, mistakes_that_show
from attnviz.practice.drills.ranks import rank
from attnviz.session import progress as stored

TODAY = date(2026, 11, 29)


def back(missed: Question, given: str) -> Question:
    """Miss a drill with this answer; return what comes back the next day, out of what its browser kept."""
    id = DRILL + missed.kind
    after = due.answered(stored.Progress(), id, False, TODAY, due.missed_in(missed, given))
    kept, error = stored.parsed(after.json())
    assert not error and kept == after
    return due.question(id, kept.cards[id])


def reason(asked: Question, words: str) -> tuple[str, str]:
    """Return the answer, as typed, and the reason of the known mistake with these words."""
    return next((repr(each.value), each.explanation) for each in asked.answer.wrong if words in each.explanation)


@pytest.mark.parametrize("seed", [3, 5])
@pytest.mark.parametrize("name", KINDS)
def test_a_missed_drill_comes_back_where_most_mistakes_show_and_with_another_answer(name: str, seed: int) -> None:
    missed = make(name, seed)
    id = DRILL + name
    candidates = [make(name, rank("due", id, 1, *[n] * bool(n)) % 10**6) for n in range(CANDIDATES)]
    others = [each for each in candidates if each.answer.shown() != missed.answer.shown()]
    asked = back(missed, "")
    assert asked == make(name, asked.seed) and asked.id in {each.id for each in candidates}
    assert asked.answer.shown() != missed.answer.shown() or not others
    most = max(len(mistakes_that_show(each.answer)) for each in others or candidates)
    assert len(mistakes_that_show(asked.answer)) == most


EXAMPLES = {  # what was missed: the words of the question, and of the mistake
    "cache_per_token": ("15 query heads", "only the KV heads"),  # of MHA, it would be the right answer
    "weights_in_memory": ("4 bits each", "is shared by"),  # 16 bits have no scale
    "how_many_pairs": ("Llama 3 70B", "per pair"),  # 64, as of all models with head_dim 128
}


@pytest.mark.parametrize("name", EXAMPLES)
def test_the_mistake_that_was_made_can_be_made_again(name: str) -> None:
    shown, words = EXAMPLES[name]
    missed = next(each for each in (make(name, seed) for seed in range(500)) if shown in each.text)
    given, why = reason(missed, words)
    assert missed.grade(given).explanation == why
    again = back(missed, given)
    typed, why = reason(again, words)
    assert again.grade(typed).explanation == why and again.answer.shown() != missed.answer.shown()


def test_a_drill_repeated_in_a_set_has_another_answer_and_is_built_again_from_its_seed() -> None:
    for name in ("width_of_a_head", "how_many_pairs", "cache_per_token"):
        for seed in range(5):
            missed = make(name, seed)
            progress = Progress().after(missed, False).after(missed, True)
            later = make(name, int(progress.missed[0].id.partition(":")[2]))
            assert later.answer.shown() != missed.answer.shown()


def test_what_an_older_browser_kept_comes_back_as_before() -> None:
    card_ = '{"due":"2026-11-30","ease":2.3,"interval_days":1,"seen":1}'
    old = f'{{"attnviz progress":1,"cards":{{"drill:size_of_a_group":{card_}}}}}'
    (card,) = stored.parsed(old)[0].cards.values()
    assert card.missed == "" and due.question("drill:size_of_a_group", card).kind == "size_of_a_group"
