"""Questions of a mock interview do not show each other's answers, and a mistake's line is asked in a short excerpt."""

import ast
import io
import re
import tokenize
from collections import Counter, defaultdict
from itertools import permutations
from textwrap import indent

from attnviz.compute import apart, interview, spoken, taught
from attnviz.compute.mistaken_line import of_mistake, without_comments
from attnviz.mistakes import load_mistake
from attnviz.practice.drills import KINDS, Question
from attnviz.practice.drills.answers import ChoiceAnswer
from attnviz.session.pages.mistakes import MISTAKES
from attnviz.session.settings import Settings

SIX_LINES = {"wrong_line", "lines_of_attention"}  # which show attention in six lines
MERGES = {"line_that_raises", "lines_of_attention", "heads_joined"}
NEVER_BESIDE = {  # what they show or say, and what asks for a line that repeats heads
    "rope_on_values": {"lines_of_attention", "rope-not-on-values"}, "scale_by_d_model": SIX_LINES | {"why-root-d"},
    "softmax_over_queries": SIX_LINES, "mask_after_softmax": SIX_LINES | {"masks-before-the-softmax"},
    "tiled_kv_heads": {"line_that_repeats", "tiled-kv-heads"}, "view_after_transpose": MERGES,
    "reshape_without_transpose": MERGES, "fully_masked_row": {"masks-before-the-softmax"},
    "rope_in_the_other_layout": {"rope-layouts"}, "keys_rotated_twice": {"rope-and-the-cache"},
}  # fmt: skip


def asked_of(seed: int, minutes: str) -> list[Question]:
    """Return the questions of an interview."""
    return [*interview.begin(Settings(interview=minutes, question_set=seed), 0.0).questions]


def lines_of(code: str) -> set[str]:
    return {re.sub(r"\s", "", line.partition("  #")[0]) for line in code.splitlines()} - {""}


def right_lines(question: Question) -> set[str]:
    """Return the lines that repair a mistake."""
    shown = lines_of(question.whole)
    changes = load_mistake(question.link[1]["mistake"]).changes
    return {line for each in changes for line in lines_of(each.right)} - shown


def text_of(question: Question) -> str:
    """Return what a question shows: its code, and what there is to choose from or to put in order."""
    listed = [*getattr(question.answer, "options", ()), *getattr(question.answer, "items", ())]
    return "\n".join([question.whole or question.code, *listed])


def shows(one: Question, other: Question) -> bool:
    """Check by their text whether one shows what the other asks."""
    if other.kind == "blank_in_a_line":
        assert isinstance(other.answer, ChoiceAnswer)
        before = other.code.partition("___")[0][-11:]
        return f"{before}{other.answer.options[other.answer.right]}" in text_of(one)
    if other.whole:
        name = other.link[1]["mistake"]
        return one.kind in NEVER_BESIDE.get(name, ()) or bool(right_lines(other) & lines_of(text_of(one)))
    if other.kind == "wrong_line" and one.kind == "heads_joined":
        return other.answer.shown() == "5"
    if other.kind == "lines_of_attention":
        return one.kind == "wrong_line" or "def attend" in one.whole or "self.o_proj(output" in one.whole
    return False


def test_no_question_of_an_interview_shows_the_answer_to_another_in_200() -> None:
    seen: dict[str, Counter[str]] = defaultdict(Counter)
    for seed in range(200):
        for minutes in ("15", "30", "60") if seed % 20 == 0 else ("15",):
            asked = asked_of(seed, minutes)
            assert len({each.id for each in asked}) == len(asked) == 8 * interview.ROUNDS[minutes]
            said = [(one.kind, other.kind) for one, other in permutations(asked, 2) if shows(one, other)]
            assert not said, (minutes, seed, said)
            seen[minutes].update(each.kind for each in asked if each.kind in interview.CODE_KINDS or each.whole)
    can = {name for name in MISTAKES if of_mistake(name, 0)}
    assert {kind.removeprefix("mistake_") for kind in seen["15"]} == can | {*interview.CODE_KINDS}
    assert len(can) > 20 and max(seen["15"].values()) < 60  # of 200: none is in every other one


def test_what_is_named_is_there() -> None:
    assert apart.MISTAKES.keys() <= {*MISTAKES} and apart.SHOWN.keys() <= {*KINDS, *spoken.deck()}
    whole = {asked.whole for name in MISTAKES if (asked := of_mistake(name, 0))}
    functions = {re.findall(r"^def (\w+)", each)[0] for each in whole}
    assert {each.partition(" ")[2] for each in apart.FUNCTIONS} <= functions
    assert {step for steps in apart.SHOWN.values() for step in steps if step not in MISTAKES} <= {
        step for steps in [*apart.FUNCTIONS.values(), *apart.MISTAKES.values()] for step in steps
    }  # fmt: skip


def test_where_a_route_has_taught_few_mistakes_all_are_asked() -> None:
    only = taught.Taught(frozenset({"rope-pictures"}), 2)  # four mistakes, of which three are in one function
    asked = interview.questions("mistake", 3, 5, only=only)
    assert len({each.kind for each in asked}) == 3 and len({each.whole for each in asked[:2]}) == 2


def test_a_mistake_is_asked_in_a_few_lines_at_places_that_differ_and_the_whole_function_has_them() -> None:
    places: dict[str, set[int]] = defaultdict(set)
    for name in MISTAKES:
        for seed in range(12):
            if (asked := of_mistake(name, seed)) is None:
                continue
            assert isinstance(asked.answer, ChoiceAnswer)
            lines, whole = asked.code.splitlines(), asked.whole.splitlines()
            stripped = [line.strip() for line in lines]
            assert 4 <= len(lines) <= 9 and {*asked.answer.options} <= {*stripped}
            assert not any(line.startswith(("def ", '"""')) for line in stripped)  # what can be wrong, at once
            assert "\n".join(stripped) in "\n".join(line.strip() for line in whole)
            places[name].add(stripped.index(asked.answer.options[asked.answer.right]))
    all_places = Counter(place for each in places.values() for place in each)
    assert len(all_places) >= 8 and max(all_places.values()) < 0.75 * len(places)
    assert sum(len(each) > 1 for each in places.values()) > 0.7 * len(places)


def test_no_comment_says_what_a_line_should_do() -> None:
    for name in MISTAKES:
        if asked := of_mistake(name, 1):
            ast.parse(asked.whole)
            for code in (asked.whole, f"if 1:\n{indent(asked.code, ' ')}"):
                try:
                    kinds = {token.type for token in tokenize.generate_tokens(io.StringIO(code).readline)}
                except (tokenize.TokenError, IndentationError):  # an excerpt can begin or end within a statement
                    kinds = {tokenize.COMMENT} if "#" in code else set()
                assert tokenize.COMMENT not in kinds, name
    source = 'x = "# no comment"  # one\n# another\ny = 2\n'
    assert without_comments(source) == ['x = "# no comment"', "", "y = 2"]


def test_an_interview_asks_code_and_mistakes_apart() -> None:
    attempt = interview.begin(Settings(interview="60", question_set=7), 0.0)
    of_code = [each for each, form in zip(attempt.questions, attempt.plan, strict=True) if form in ("code", "mistake")]
    assert len(of_code) == 12 and not any(shows(one, other) for one, other in permutations(of_code, 2))
