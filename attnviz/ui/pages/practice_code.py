"""Coding tasks of the page Practice, and the user's own code: a file, or pasted. It runs only on the user's machine."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import streamlit as st

from attnviz.compute import own_code
from attnviz.compute import practice as compute
from attnviz.compute.view import View
from attnviz.figures.drawing import escaped
from attnviz.phrases import count, day
from attnviz.session.pages.mistakes import MISTAKES
from attnviz.session.progress import MAX_DRAFT, TaskState, fits
from attnviz.started import INSTALLED, PRACTICE, with_code
from attnviz.ui import controls, local_session, progress, state
from attnviz.ui.components.answer_maps import answer_maps
from attnviz.ui.components.source_walk import packed_walk
from attnviz.ui.walking import take_entry, take_step

STAMP, PASTED = "practice file", "practice pasted"
NOT_YET = TaskState()


def own_file() -> tuple[Path | None, str]:
    """Return the file of `make run CODE=…` if it may be run here; otherwise None and the reason, "" without CODE."""
    file = own_code.own_file()
    if file is None:
        return None, ""
    reason = local_session.refusal()
    return (None, reason) if reason else (file, "")


@st.fragment(run_every=0.7)
def watch(file: Path) -> None:
    """Rerun the page when the file is saved."""
    before = st.session_state.get(STAMP)
    st.session_state[STAMP] = own_code.stamp_of(file)
    if before not in (None, st.session_state[STAMP]):
        st.rerun()


def show(view: View) -> None:
    """Tasks and how to check them locally; with `make run CODE=…`, the user's own file with its verdict and maps."""
    file, reason = own_file()
    if file:
        _own(view, file)
        return
    st.markdown(
        f"**{len(compute.TASKS)} tasks** to write in your own editor. A judge on your machine runs your file in a "
        f"separate process ({own_code.LIMITS}), compares its outputs with those of AttnViz's modules on "
        "new random inputs, and names the mistake if it is a known one."
    )
    if reason:
        st.warning(f"Your file is shown only on the machine it is stored on. {reason}", icon=":material/lock:")
    _choose_task()
    task = compute.TASKS[view.settings.task]
    left, right = st.columns([3, 2], gap="large")
    with left:
        st.markdown("## The skeleton")
        st.code(task.source(), language="python", wrap_lines=True)
    with right:
        _local_commands(task)
    if local_session.is_local_session():
        _paste(view, task)


def _choose_task() -> None:
    kept = progress.get().tasks
    chosen = state.current().task
    controls.control(
        st.selectbox, "Task", "task", options=list(compute.TASKS), width=420,
        format_func=lambda name: f"{compute.TASKS[name].title} ({name}){' ✓' * bool(kept.get(name, NOT_YET).passed)}",
    )  # fmt: skip
    if before := _before(kept.get(chosen, NOT_YET)):
        st.caption(before)


def _before(kept: TaskState) -> str:
    """Say how the person's files for this task did before."""
    said = [f"Your file passed on {day(kept.passed)}."] if kept.passed else []
    if kept.last in MISTAKES:
        said.append(f"Your last attempt that failed had this mistake: {escaped(own_code.title_of(kept.last))}.")
    return " ".join(said)


def _local_commands(task: compute.Task) -> None:
    """Commands that judge a file, in a terminal and in the app."""
    st.markdown(f"## On your own machine, {'with AttnViz installed' if INSTALLED else 'in a checkout of AttnViz'}")
    file = f"practice/{task.file}"
    for text, command in (
        (f"Write the skeleton to `{file}`:", f"{PRACTICE} new {task.name}"),
        (
            "Judge it: prints expected and actual outputs and the mistake. The exit code is 0 only if all checks pass; "
            "`--watch` repeats it at every save:",
            f"{compute.CHECK} {file}",
        ),
        (
            "Or on this page: the verdict at every save, your maps with the shipped weights beside the correct ones, "
            "and your source line by line:",
            with_code(file),
        ),
    ):
        st.markdown(text)
        st.code(command, language="bash", wrap_lines=True)
    st.markdown("Any correct implementation passes: loops, einsum, fused kernels.")
    st.download_button("Download the skeleton", task.source(), task.file, "text/x-python")
    st.caption("The limits protect against accidents, not against an attacker: judge only code you trust.")


def _paste(view: View, task: compute.Task) -> None:
    """A box for code, on the user's own machine, and what the judge says of it."""
    st.markdown("## Or paste your code here")
    key, draft = _box(task.name), progress.get().draft
    if draft.task == task.name and not st.session_state.get(key):  # after a reload, or from another tab of this page
        st.session_state[key] = draft.code
    st.text_area(
        f"Your code for {task.title}", key=key, height=240, max_chars=own_code.MAX_PASTED, placeholder=task.skeleton,
        on_change=_keep_draft, args=(task.name,),
    )  # fmt: skip
    st.caption(_where_it_is(st.session_state[key]))
    st.button("Judge it", type="primary", key="judge-pasted", on_click=_keep_pasted, args=(task.name,))
    if (kept := st.session_state.get(PASTED)) and kept.task == task.name:
        _results(view, kept.file, own_code.task_of(kept.file, task.name))


def _box(task: str) -> str:
    return f"pasted-{task}"


def _where_it_is(code: str) -> str:
    """Say whether code that is typed here stays."""
    if not progress.stays():
        return "To load the page again loses what is typed here."
    if not fits(code):
        return f"More than {MAX_DRAFT:,} bytes are not kept: to load the page again loses this code."
    return "When you leave the box, its code is kept in this browser: loaded again, the page has it here."


def _keep_draft(task: str) -> None:
    progress.keep_draft(task, st.session_state[_box(task)])


def _keep_pasted(task: str) -> None:
    """Write the pasted code to a file that lasts as long as the session."""
    source = st.session_state.get(_box(task), "")
    if source.strip() and local_session.is_local_session():
        st.session_state[PASTED] = own_code.Pasted.of(task, source)
    state.rerun("tabs")


# ---- the user's own file


def _own(view: View, file: Path) -> None:
    name = own_code.task_of(file, view.settings.task)
    task = compute.TASKS[name]
    st.markdown(f"## {task.title}: {escaped(file.name)}")
    if own_code.stamp_of(file) == (0, 0):
        st.warning(f"There is no file {escaped(str(file))} yet. This command writes it:")
        st.code(f"{PRACTICE} new {name} --folder {shlex.quote(str(file.parent))}")
        _choose_task()
        return
    _results(view, file, name)


def _results(view: View, file: Path, name: str) -> None:
    """The verdict on a file; then its maps with the shipped weights, and its source line by line."""
    with st.spinner("Running your file …"), _waiting() as tick:
        verdict = own_code.verdict_of(file, name, tick)
    known = verdict.diagnosis.mistakes if verdict.diagnosis else ()
    progress.judged(name, None if verdict.passed else next(iter(known), ""))
    _verdict(verdict)
    if not verdict.checks:
        return
    if not view.ids:
        st.info("Type a text in the sidebar, or choose an example, to see your maps.", icon=":material/edit:")
        return
    _selected(view)
    with st.spinner("Running your file on the shipped weights …"), _waiting() as tick:
        shipped = own_code.run_on_weights(view, file, name, tick)
    if shipped.found.right is not None:
        _own_maps(shipped, name, verdict.passed)
    st.markdown("### Your source, line by line")
    if shipped.found.walk:
        packed_walk(
            shipped.found.walk, shipped.found.places, key="own-walk", on_step=partial(take_step, field="own_step"),
            on_entry=partial(take_entry, field="own_step"),
        )  # fmt: skip
    else:
        st.warning(escaped(shipped.found.walk_problem or "No line made a tensor."), icon=":material/code_off:")


@contextmanager
def _waiting() -> Iterator[Callable[[float, str], None]]:
    """Show what runs and for how long, from the first second on, until the block ends. A click elsewhere stops it."""
    place = st.empty()

    def tick(so_far: float, at: str) -> None:
        if so_far > 1:
            limit = own_code.SECONDS
            place.progress(min(1.0, so_far / limit), f"{escaped(at)}, {so_far:.0f} s of at most {limit:.0f} s")

    try:
        yield tick
    finally:
        place.empty()


def _verdict(verdict: own_code.Verdict) -> None:
    passed, n = sum(check.passed for check in verdict.checks), len(verdict.checks)
    if verdict.passed:
        st.success(f"All {count(n, 'check')} passed.", icon=":material/check_circle:")
    else:
        message = escaped(verdict.problem) or f"{passed} of {count(n, 'check')} passed."
        if verdict.diagnosis:
            message += f" **{escaped(verdict.diagnosis.sentence)}**"
        if verdict.pattern:
            message += f" {escaped(verdict.pattern)}"
        st.error(message, icon=":material/cancel:")
        for id in verdict.diagnosis.mistakes if verdict.diagnosis else ():
            label = f"See this mistake: {own_code.title_of(id)}"
            st.link_button(label, f"mistakes?mistake={id}", icon=":material/open_in_new:")
    if verdict.checks:
        st.dataframe(
            {
                "": ["✓" if check.passed else "✗" for check in verdict.checks],
                "Check": [check.label for check in verdict.checks],
                "Expected": [check.expected for check in verdict.checks],
                "Got": [check.got for check in verdict.checks],
            },
            hide_index=True,
        )
    if verdict.printed.strip():
        with st.expander("Output of the file"):
            st.code("\n".join(verdict.printed.strip().splitlines()[-40:]), language=None)


def _selected(view: View) -> None:
    """Controls for the layer, and for the head whose maps are large."""
    with st.container(horizontal=True, vertical_alignment="bottom"):
        sizes = ("layer", view.config.n_layers), ("head", view.config.n_heads)
        for (field, n), chosen in zip(sizes, view.settings.chosen_head, strict=True):
            shown = min(chosen, n - 1)
            controls.control(st.selectbox, field.capitalize(), field, shown=shown, options=range(n), width=110)


def _about(shipped: own_code.ShippedRun, task: str) -> str:
    """Return what has to be known to read the maps of this task."""
    if task in own_code.WITHOUT_ROPE:
        return " The task has no RoPE, so both maps are computed without it."
    if task in own_code.WITH_A_STATE:
        about = " These are effective weights: they may be negative, and rows do not sum to 1."
        if shipped.asked == shipped.layer:
            return about
        return f"{about} Layer {shipped.asked} keeps no state: this is the nearest one that does."
    if shipped.top_k is not None:
        return f" Each query keeps {count(shipped.top_k, 'key')}; the layer itself keeps {shipped.mixer.top_k}."
    return ""


def _own_maps(shipped: own_code.ShippedRun, task: str, passed: bool) -> None:
    """The user's maps beside the correct ones: the selected head large, all heads small."""
    st.markdown("### Your maps with the shipped weights, beside the correct ones")
    if shipped.found.yours is None:
        st.warning(escaped(shipped.found.maps_problem or "Your code returned no maps."), icon=":material/grid_off:")
        return
    maps, differences = shipped.maps, shipped.max_difference
    at = shipped.head if len(maps) > 1 else 0
    worst = max(differences)
    same = "They are equal" if worst < shipped.least_shown else f"They differ by up to {worst:.2g}"
    if not passed and worst < shipped.least_shown:
        call = "begins with an empty state" if task in own_code.WITH_A_STATE else "has no mask"
        same += f": the checks that failed above test something other than the weights of this call, which {call}"
    where = f"checkpoint {shipped.checkpoint}, layer {shipped.layer}"
    st.markdown(f"{where.capitalize()}, {count(len(shipped.labels), 'token')}. {same}.{_about(shipped, task)}")
    answer_maps(
        [(maps[at][0], f"Yours, head {shipped.head}"), (maps[at][1], f"Right, head {shipped.head}")],
        key="own-head", title=f"Yours and right, {where}",
        labels=shipped.labels, hues=(shipped.kv_heads[at],) * 2, n_kv_heads=shipped.mixer.n_kv_heads, width=400,
    )  # fmt: skip
    if len(maps) > 1:
        yours = [
            (m[0], f"{h}: yours{' ✗' if differences[h] > shipped.least_shown else ''}") for h, m in enumerate(maps)
        ]
        answer_maps(
            [*yours, *((m[1], f"{h}: right") for h, m in enumerate(maps))],
            key="own-heads", title=f"Yours above, right below, {where}", per_row=len(maps),
            labels=shipped.labels, hues=shipped.kv_heads * 2, n_kv_heads=shipped.mixer.n_kv_heads,
        )  # fmt: skip
