"""Mistakes page: wrong code, a question about it, then its effect on the text."""

from __future__ import annotations

import streamlit as st

from attnviz.compute import due
from attnviz.compute import mistakes as compute_mistakes
from attnviz.compute.view import View
from attnviz.exercises import MISTAKE
from attnviz.figures import mistakes as figures
from attnviz.figures.drawing import escaped
from attnviz.mistakes import SUBJECTS, Mistake, Symptom, all_mistakes
from attnviz.mistakes.runs import format_number
from attnviz.phrases import count, listed
from attnviz.session.openable import MODEL_NAMES
from attnviz.session.route import Item
from attnviz.ui import charts, progress, route_bar, state
from attnviz.ui.components.focus_next import focus_next
from attnviz.ui.components.in_sight import in_sight

EFFECTS = {
    "raises": "The effect: an error.", "nan": "The effect: NaN.",
    "silent": "The effect: silent. It runs without an error and without NaN, and its numbers are different.",
}  # fmt: skip
NO_EFFECT = "No effect on this text: the changed code ran, and computed the same as the right one."
ANSWERS = "answers to mistakes"  # session key, {id: last answer}; not in links, which open an unanswered question
LINES = "lines of mistakes"  # session key, {id: index of the line chosen last}; not in links either
FIRST_ANSWERS, FIRST_LINES = "first answers to mistakes", "first lines of mistakes"  # those that count
LISTED = "mistakes listed"  # session key: the route's item, with its route, at which the list was asked for
SKIPPED = -1
REPAIR = "Lines with − are the mistaken ones, which run here; lines with + are what they should be."
CHOSEN = ".st-key-mistake-list input:checked"  # of the list, where an arrow key goes on to the next mistake
LIST, QUESTION, REVEAL = "mistake-list", "mistake-question", "mistake-reveal"
VERDICT = "mistake-verdict"  # key of a container


def show() -> None:
    """Draw the page."""
    st.markdown("Read the mistaken code, predict what it does, then see it run on your text.")
    if _is_alone():
        st.button(f"All {len(all_mistakes())} mistakes", key="list-all", icon=":material/list:", on_click=_list_all)
        question()
    else:
        left, right = st.columns([2, 5], gap="medium")
        with left:
            choose()
        with right:
            question()
    reveal()


def _is_alone() -> bool:
    """Check whether only the mistake of a route's item is shown, until the person asks for the list."""
    item, s = route_bar.item(), state.current()
    if item is None or s.lesson or "mistake" not in item.link or st.session_state.get(LISTED) == (s.route, item.id):
        return False
    return item.opened.mistake == s.mistake


def _list_all() -> None:
    if item := route_bar.item():
        st.session_state[LISTED] = (state.current().route, item.id)


def prepare(view: View) -> None:
    """Compute and cache what the page shows first."""
    compute_mistakes.shown_mistake(view)


@state.part(LIST)
def choose(view: View) -> None:
    """All mistakes, grouped by subject: a list, or a select box on a phone."""
    by_subject = compute_mistakes.ids_by_subject()
    ids = [name for names in by_subject.values() for name in names]
    st.session_state["hunt"] = view.settings.hunts
    st.toggle(
        "Find the mistaken line first", key="hunt", on_change=_hunt,
        help="Hides titles and repairs, as in a code review, until you have found the line.",
    )  # fmt: skip
    with st.container(key="mistake-list"):  # at its full height, so that the selected mistake is never scrolled away
        st.caption(_score(view, len(ids)))
        for subject, names in by_subject.items():
            key = f"list-{subject}"
            st.session_state[key] = view.settings.mistake if view.settings.mistake in names else None
            labels = {name: _marked(view, name) for name in names}
            st.radio(
                f"**{SUBJECTS[subject]}**", names, format_func=labels.__getitem__, key=key, on_change=_choose,
                args=(key,),
            )  # fmt: skip
    with st.container(key="mistake-box"):
        st.session_state["box"] = view.settings.mistake
        labels = {name: _with_subject(view, name) for name in ids}
        st.selectbox("Mistake", ids, format_func=labels.__getitem__, key="box", on_change=_choose, args=("box",))


def _hunt() -> None:
    state.change(hunt="1" if st.session_state["hunt"] else "0")
    state.rerun(LIST, QUESTION, REVEAL)


def _score(view: View, n: int) -> str:
    """Count the first tries that were right."""
    mistakes, answers, lines = all_mistakes(), _stored(FIRST_ANSWERS), _stored(FIRST_LINES)
    right = sum(mistakes[name].answer == answer for name, answer in answers.items())
    found = sum(line in compute_mistakes.excerpt(view.but(mistake=name)).mistaken for name, line in lines.items())
    parts = [f"{found} of {count(len(lines), 'line')} found"] if lines else []
    parts += [f"{right} of {len(answers)} answered right"] if answers else []
    first_tries = f"{', '.join(parts)} at the first try. " if parts else ""
    kept = len(progress.get().mistakes.keys() & mistakes.keys())
    return f"{first_tries}{count(n, 'mistake')}.{f' {kept} found so far.' if kept else ''}"


def _title(view: View, name: str) -> str:
    """Return a mistake's title, or its number in its subject while its line is to be found."""
    mistake = all_mistakes()[name].words_in(view.config)
    if not _hidden(view, name):
        return mistake.title
    return f"Mistake {compute_mistakes.ids_by_subject()[mistake.subject].index(name) + 1}"


def _marked(view: View, name: str) -> str:
    mark = {True: " :material/check:", False: " :material/close:", None: ""}[_is_right(name)]
    return _title(view, name) + mark


def _is_right(name: str) -> bool | None:
    """Check whether the answer was right, or the mistake was found in an earlier session; None without an answer."""
    answer = _stored(ANSWERS).get(name, SKIPPED)
    if answer == SKIPPED:
        answer = _stored(FIRST_ANSWERS).get(name, SKIPPED)
    if answer == SKIPPED:
        return True if name in progress.get().mistakes else None
    return answer == all_mistakes()[name].answer


def _with_subject(view: View, name: str) -> str:
    tick = {True: " ✓", False: " ✗", None: ""}[_is_right(name)]
    return f"{SUBJECTS[all_mistakes()[name].subject]} · {_title(view, name)}{tick}"


def _choose(key: str) -> None:
    chosen = st.session_state[key]
    if chosen in all_mistakes():  # not the label that a mistake had before, see `controls.control`
        state.change(mistake=chosen)
    state.rerun(LIST, QUESTION, REVEAL)


def _stored(key: str) -> dict[str, int]:
    return st.session_state.setdefault(key, {})


def _hidden(view: View, name: str) -> bool:
    """Check whether this mistake's line is still to be found."""
    if not view.settings.hunts or name in _stored(ANSWERS):
        return False
    line = _stored(LINES).get(name)
    return line is None or not (line == SKIPPED or _is_mistaken(view, name, line))


def _is_mistaken(view: View, name: str, line: int) -> bool:
    return line in compute_mistakes.excerpt(view.but(mistake=name)).mistaken


def still_to_do(item: Item) -> str | None:
    """Say what is still to be done in an item of a route; None once the question is answered."""
    name = item.opened.mistake
    if _is_answered(name):
        return None
    is_open = name not in _stored(LINES) or _hidden(View(state.current()), name)
    found = "shown" if _stored(LINES).get(name) == SKIPPED else "found"
    return "" if is_open else f"The line is {found}. Now answer the question below it: what does the mistake do?"


def _is_answered(name: str) -> bool:
    """Check whether the question was answered right, or its answer shown."""
    return _stored(ANSWERS).get(name) in (SKIPPED, all_mistakes()[name].answer)


@state.part(QUESTION)
def question(view: View) -> None:
    """The mistaken lines with their repair, and the question about their effect; or first, which line is mistaken."""
    mistake = compute_mistakes.shown_mistake(view)
    with st.container(key="mistake-code"):
        if _hidden(view, mistake.id):
            _find(mistake, compute_mistakes.excerpt(view))
            return
        st.markdown(f"## {mistake.title}")
        if view.settings.hunts and _stored(LINES).get(mistake.id, SKIPPED) != SKIPPED:
            st.success("Found. Now predict what it does.", icon=":material/check:")
        for file, diff in compute_mistakes.diffs(view).items():
            st.caption(f"{REPAIR} attnviz/{file}")
            st.code(diff, language="diff", wrap_lines=True)
    with st.container(key="mistake-answers"):
        _ask(mistake)
        if _is_answered(mistake.id) and (found := compute_mistakes.outcome_of(view).symptom):
            st.markdown(NO_EFFECT if found.is_same else EFFECTS[found.effect])


def _find(mistake: Mistake, code: compute_mistakes.Excerpt) -> None:
    """Ask which line is mistaken."""
    st.markdown("## Which line is mistaken?")
    n = len(code.mistaken)
    which = "One of these lines is mistaken" if n == 1 else f"{n} of these lines are mistaken; choose one"
    st.caption(f"{which}. From {listed([f'attnviz/{file}' for file in code.files])}.")
    key, chosen = f"line-{mistake.id}", _stored(LINES).get(mistake.id)
    st.session_state[key] = chosen
    st.radio(
        "Which line is mistaken?", range(len(code.lines)), key=key, label_visibility="collapsed",
        format_func=lambda i: _as_code(code.lines[i]), on_change=_choose_line, args=(mistake.id, key),
    )  # fmt: skip
    with st.container(key=VERDICT):
        if chosen is not None:
            right = f"{_as_code(code.lines[chosen].strip())} is right."
            st.error(f"{right} Choose another line, or show the mistaken one.", icon=":material/close:")
        st.button("Show it", key="skip-line", on_click=_choose_line, args=(mistake.id, ""))
    with st.expander("The whole function", type="compact", key="whole-function", on_change="ignore"):
        st.code(code.functions, language="python", wrap_lines=True)


def _as_code(line: str) -> str:
    """Format a line as code in markdown, with its indentation."""
    return "`{}`".format(line.replace("`", "'").replace("  ", "\u00a0\u00a0"))


def _choose_line(name: str, key: str) -> None:
    _store(LINES, FIRST_LINES, name, key)


def _store(last: str, first: str, name: str, key: str) -> None:
    """Store what was chosen, also as the first try if it is; without a key, that it was shown."""
    chosen = st.session_state[key] if key else SKIPPED
    if chosen is None:
        return
    _stored(last)[name] = chosen
    if chosen != SKIPPED:
        _stored(first).setdefault(name, chosen)
    _record(View(state.current()), last, name, chosen, at_once=_stored(first).get(name) == chosen)
    state.rerun(LIST, QUESTION, REVEAL)


def _record(view: View, what: str, name: str, chosen: int, *, at_once: bool) -> None:
    """Record the mistake as found or missed: by its line or, where that is not to be found, by what it does.

    Where it is, what it does comes back if that alone was missed.
    """
    of_line, hunts = what == LINES, view.settings.hunts
    right = _is_mistaken(view, name, chosen) if of_line else chosen == all_mistakes()[name].answer
    if right and of_line == hunts:
        progress.found_mistake(name, at_once)
    if right and not of_line:
        progress.predicted_mistake(name)
    card = progress.get().cards.get(MISTAKE + name)
    counts = of_line == hunts if card is None or card.missed != due.EFFECT else not of_line
    if not right or (at_once and counts):
        missed = "" if of_line else due.EFFECT
        progress.record(cards=due.answered(progress.get(), MISTAKE + name, right, progress.today(), missed).cards)


def ask_again(name: str) -> None:
    """Forget what was chosen for a mistake in this session."""
    for key in (ANSWERS, LINES, FIRST_ANSWERS, FIRST_LINES):
        _stored(key).pop(name, None)


def _ask(mistake: Mistake) -> None:
    given, key = _stored(ANSWERS).get(mistake.id), f"answer-{mistake.id}"
    st.session_state[key] = None if given == SKIPPED else given
    st.radio(
        f"**{mistake.question}**", range(len(mistake.answers)), format_func=mistake.answers.__getitem__, key=key,
        on_change=_answer, args=(mistake.id, key), disabled=_is_answered(mistake.id),
    )  # fmt: skip
    with st.container(key=VERDICT):
        _verdict(mistake, given)
        if not _is_answered(mistake.id):
            st.button("Show the answer", key="skip-mistake", on_click=_answer, args=(mistake.id, ""))
        elif not _is_alone() and (following := _following(mistake.id)):
            st.button("Next mistake", key="next-mistake", on_click=_go_on, args=(following,))


def _following(name: str) -> str:
    """Return the next mistake in the list that is not answered, from the top after the last; "" if none is left."""
    ids = [each for names in compute_mistakes.ids_by_subject().values() for each in names]
    at = ids.index(name)
    return next((each for each in ids[at:] + ids[:at] if not _is_answered(each)), "")


def _go_on(following: str) -> None:
    state.change(mistake=following)
    state.rerun(LIST, QUESTION, REVEAL)


def _answer(name: str, key: str) -> None:
    _store(ANSWERS, FIRST_ANSWERS, name, key)


def _verdict(mistake: Mistake, given: int | None) -> None:
    """Say whether the answer is right, and the reason with it; after a wrong one, nothing that tells the right one."""
    if given is None:
        return
    if given == mistake.answer:
        st.success(f"**Right.** {mistake.what}", icon=":material/check:")
    elif given == SKIPPED:
        answer = f"“{mistake.answers[mistake.answer]}”"
        st.info(f"**The answer: {answer}.** {mistake.what}", icon=":material/arrow_downward:")
    else:
        wrong = f"**No, not “{mistake.answers[given]}”.**"
        st.error(f"{wrong} Choose another answer, or show it.", icon=":material/close:")


@state.part(REVEAL)
def reveal(view: View) -> None:
    """Effect of the mistake on the text, and its description; nothing before the question is answered."""
    mistake = compute_mistakes.shown_mistake(view)
    answered = _is_answered(mistake.id)
    focus_next(
        f"{mistake.id} {_hidden(view, mistake.id)} {answered}", [CHOSEN], []
    )  # the pressed button is gone, and the answers are disabled
    _bring_to_sight(view, mistake.id)
    if not answered:
        return
    if reason := compute_mistakes.reason(view):
        _not_applicable(view, reason)
    else:
        _run(view, compute_mistakes.symptom_of(view))
    _about(view, mistake)


def _bring_to_sight(view: View, name: str) -> None:
    """Bring what the last choice made appear to sight: a verdict, or the question once the line is found."""
    line, answer = _stored(LINES).get(name), _stored(ANSWERS).get(name)
    is_hidden = _hidden(view, name)
    shown = VERDICT if answer is not None or is_hidden else "mistake-answers"
    in_sight(f"{name} {is_hidden} {line} {answer}", *[shown] * (line is not None or answer is not None))


def _not_applicable(view: View, reason: str) -> None:
    """Say why the mistake does not show in this model, and offer a checkpoint where it does."""
    model = escaped(view.settings.model_name)
    st.info(f"**It does not show in {model} on this text.** {reason}", icon=":material/block:")
    if other := compute_mistakes.where_it_occurs(view):
        st.button(f"Run it with {MODEL_NAMES[other]}", key="run-elsewhere", on_click=_take_model, args=(other,))


def _take_model(model: str) -> None:
    state.change(model=model)
    state.rerun()


def _run(view: View, symptom: Symptom) -> None:
    n = symptom.n_tokens
    where = f"the first {n} of {len(view.ids)} tokens" if n < len(view.ids) else count(n, "token")
    st.markdown(f"## On your text: {where}, {escaped(view.settings.model_name)}{view.origin_after_name}")
    left, right = st.columns([2, 3], gap="medium", vertical_alignment="center")
    left.metric(
        symptom.measure, format_number(symptom.number), f"right: {format_number(symptom.expected)}",
        delta_color="off", delta_arrow="off", border=True,
    )  # fmt: skip
    with right:
        st.markdown(symptom.sentence)
        if symptom.error:
            st.code(symptom.error, language=None, wrap_lines=True)
    if symptom.columns:
        charts.show(figures.counts(symptom), "mistake-counts")
    elif symptom.wrong is not None:
        _maps(view, symptom)


def _maps(view: View, symptom: Symptom) -> None:
    labels = compute_mistakes.labels_of(view, symptom)
    hue = compute_mistakes.hue_of(view, symptom)
    ground = st.context.theme.type
    drawings = {
        "mistake-right": figures.version_map(symptom, labels, hue, figures.RIGHT, ground=ground),
        "mistake-mistaken": figures.version_map(symptom, labels, hue, figures.MISTAKEN, ground=ground),
        "mistake-difference": figures.difference_map(symptom, labels),
    }
    st.caption(figures.how_to_read(symptom))
    for column, (key, drawing) in zip(st.columns(3), drawings.items(), strict=True):
        with column:
            charts.show(drawing, key)


def _about(view: View, mistake: Mistake) -> None:
    left, right = st.columns(2, gap="large")
    with left:
        st.markdown(f"## When you would notice it\n{mistake.noticed}")
        st.markdown("\n".join(f"- [{source.title}]({source.url})" for source in mistake.sources))
    with right:
        st.markdown("## How to test for it")
        st.caption("This test passes on the right version and fails on the mistaken one.")
        st.code(mistake.test.strip(), language="python", wrap_lines=True)
        st.markdown(f"## How interviewers ask\n{mistake.interview}")
    if compute_mistakes.can_be_walked(mistake) and not compute_mistakes.reason(view):
        # not a page link: the session's own settings win over those of a link to another page
        st.button(
            "The mistaken lines in Step by step", key="walk-mistake", type="tertiary", icon=":material/arrow_forward:",
            on_click=state.go, args=("steps", compute_mistakes.walked(view).settings),
        )  # fmt: skip
