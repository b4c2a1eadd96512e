"""No rule of the style sheet makes each change of a page slow: what browsers do for `:has()`, and in which rules."""

import re
from collections.abc import Iterator

from attnviz.server.page_style import BASE


def rules(css: str, around: str = "") -> Iterator[str]:
    """Yield the selectors of nested rules as they are without nesting, those of a group apart."""
    for header, inside in blocks(re.sub(r"/\*.*?\*/", "", css, flags=re.DOTALL)):
        if header.startswith("@"):
            yield from rules(inside, around) if header.startswith(("@media", "@supports")) else ()
            continue
        for each in grouped(header):
            whole = each.replace("&", around) if "&" in each else f"{around} {each}".strip()
            yield whole
            yield from rules(inside, whole)


def blocks(css: str) -> Iterator[tuple[str, str]]:
    """Yield what stands before each outermost pair of braces, and between them."""
    depth = begin = 0
    header = ""
    for at, each in enumerate(css):
        if each == "{":
            depth += 1
            if depth == 1:
                header, begin = css[begin:at].rpartition(";")[2].strip(), at + 1
        elif each == "}":
            depth -= 1
            if depth == 0:
                yield header, css[begin:at]
                begin = at + 1


def grouped(selectors: str) -> list[str]:
    """Split a list of selectors at its outermost commas."""
    depth, parts = 0, [""]
    for each in selectors:
        depth += {"(": 1, ")": -1}.get(each, 0)
        parts = [*parts, ""] if each == "," and not depth else [*parts[:-1], parts[-1] + each]
    return [each.strip() for each in parts]


def subjects(selector: str) -> list[str]:
    """Return the parts of a selector that say which elements it styles, without what :has() and :not() ask of them."""
    inside = r"\((?:[^()]|\((?:[^()]|\([^()]*\))*\))*\)"
    bare = re.sub(rf":(has|not|nth-child){inside}", ":asked", selector)
    last = re.split(r"[ >+~](?![^(]*\))", bare)[-1]
    return grouped(last[4:-1]) if last.startswith(":is(") and last.endswith(")") else [last]


def is_any(subject: str) -> bool:
    """Check whether it names no tag, class, id or attribute."""
    return not re.search(r"[.#\[]|^[a-z]", subject)


def test_no_rule_looks_for_a_part_of_a_name_in_the_whole_page():
    # With such a rule each change of a class took 1.0 ms instead of 0.1, some twenty times per run.
    assert not re.findall(r":has\([^)]*\[class[*^$]=", BASE)


def test_no_rule_asks_of_every_element_what_it_holds():
    # With `X:has(…) > *` or `> :has(…)` a change of a page took 6 to 18 ms instead of 1, some seventy times per page.
    seen = [each for each in rules(BASE) if ":has(" in each]
    assert len(seen) > 15
    assert [each for each in seen if any(map(is_any, subjects(each)))] == []


def test_the_rules_of_a_nested_sheet_are_found():
    css = "/* a { } */ @media print { .a { color: red; > *, &:has(.b, .c) { x: y; .d:is(.e, .f) > p { } } } } g { }"
    found = [".a", ".a > *", ".a > * .d:is(.e, .f) > p", ".a:has(.b, .c)", ".a:has(.b, .c) .d:is(.e, .f) > p", "g"]
    assert list(rules(css)) == found
    assert [subjects(each) for each in found] == [[".a"], ["*"], ["p"], [".a:asked"], ["p"], ["g"]]
    assert subjects(".a:is(:has(> .b), .c)") == [".a:is(:asked, .c)"] and subjects("a > :is(b, *)") == ["b", "*"]
    for each in (".a > :has(> .b)", ".a:has(.b) > :nth-child(2)", ".a :is(.b, :has(c))", ".a:has(b) + *"):
        assert any(map(is_any, subjects(each))), each
