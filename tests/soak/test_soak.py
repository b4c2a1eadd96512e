"""pytest tests/soak: how the load test recognises another user's text, uses widgets, schedules its browsers and
compares figures."""

import asyncio
import os
import random
import subprocess
import sys
from pathlib import Path

import pytest
from streamlit.proto.ButtonGroup_pb2 import ButtonGroup
from streamlit.proto.Element_pb2 import Element
from streamlit.proto.Slider_pb2 import Slider
from streamlit.proto.WidgetStates_pb2 import WidgetState

from tests.soak.__main__ import in_proportion, on_one_core
from tests.soak.people import Seen, last_in_line, link, words_for
from tests.soak.session import after, another_value
from tests.waiting import result_of

pytestmark = pytest.mark.slow

PAIRS = words_for(40)
MINE, ANOTHER = PAIRS[:2]


def test_everybody_has_two_words_that_nobody_else_has():
    words = [word for pair in PAIRS for word in pair]
    assert len(words) == len(set(words)) == 80
    assert all(word in link(MINE) for word in MINE)


@pytest.mark.parametrize(
    ("sent", "foreign"),
    [(ANOTHER, True), (ANOTHER[:1], False), ((ANOTHER[1], PAIRS[2][0]), False), (MINE + ANOTHER, True), (MINE, False)],
)
def test_a_text_is_known_by_both_its_words(sent, foreign):
    seen = Seen(PAIRS)
    seen.look_for_others(" ".join(f"·{word}" for word in sent).encode(), MINE, "heads")
    assert bool(seen.foreign) == foreign


def test_what_a_model_predicts_after_a_text_is_nobodys_text():
    said = '{"labels":["%s"],"next":[[["·%s",0.1],["·%s",0.1]]],"query":0}'
    seen = Seen(PAIRS)
    seen.look_for_others((said % (MINE[0], *ANOTHER)).encode(), MINE, "heads")
    assert not seen.foreign
    seen.look_for_others((said % (" ".join(ANOTHER), *MINE)).encode(), MINE, "heads")
    assert seen.foreign


def selectbox(widget) -> None:
    widget.options[:], widget.raw_value = ["a", "b"], "a"


def checkbox(widget) -> None:
    widget.value = True


def number_input(widget) -> None:
    widget.value = widget.max = 7


def slider(widget) -> None:
    widget.value[:], widget.max, widget.step, widget.type = [509], 509, 1, Slider.SLIDER


def select_slider(widget) -> None:
    widget.options[:], widget.raw_value[:], widget.type = ["3", "5"], ["5"], Slider.SELECT_SLIDER


def button_group(widget) -> None:
    widget.options.extend([ButtonGroup.Option(content="lines"), ButtonGroup.Option(content="number")])
    widget.raw_values[:] = ["number"]


@pytest.mark.parametrize(
    ("kind", "fill", "other", "then"),
    [
        ("selectbox", selectbox, "b", "a"), ("checkbox", checkbox, False, True), ("number_input", number_input, 6, 7),
        ("slider", slider, [508], [507, 509]), ("slider", select_slider, ["3"], ["5"]),
        ("button_group", button_group, ["lines"], ["number"]),
    ],
)  # fmt: skip
def test_a_control_is_set_to_another_value_and_from_there_on(kind, fill, other, then):
    element = Element()
    widget = getattr(element, kind)
    widget.set_value = True
    fill(widget)
    state = another_value(element, random.Random(0))
    assert sent(state) == other
    again = sent(another_value(after(element, state), random.Random(0)))
    assert again == then or again[0] in then
    assert sent(another_value(element, random.Random(0))) == other  # the element itself is not modified


def sent(state: WidgetState) -> object:
    """Return the value in a browser's message; several as a list."""
    value = getattr(state, state.WhichOneof("value"))
    return list(value.data) if hasattr(value, "data") else value


@pytest.mark.parametrize("label", ["Examples", "Text"])
def test_a_session_keeps_its_own_text(label):
    for kind in ("text_area", "button_group"):
        element = Element()
        getattr(element, kind).label = label
        assert another_value(element, random.Random(0)) is None


def test_the_server_and_the_people_have_cores_of_their_own():
    cores = os.sched_getaffinity(0)
    first, *others = sorted(cores)
    try:
        command, left = on_one_core(), sorted(os.sched_getaffinity(0))
    finally:
        os.sched_setaffinity(0, cores)
    assert (command, left) == ((("taskset", "--cpu-list", str(first)), others) if others else ((), [first]))


def test_browsers_get_what_is_left_of_one_core():
    async def scheduling() -> str:
        asks = "import os; print(os.sched_getscheduler(0), *os.sched_getaffinity(0))"
        async with last_in_line(sys.executable) as program:
            return subprocess.run([program, "-c", asks], capture_output=True, text=True, check=True).stdout

    assert result_of(scheduling()).split() == [str(os.SCHED_IDLE), str(max(os.sched_getaffinity(0)))]


def test_browsers_run_for_a_share_of_the_time_and_go_on_at_the_end():
    async def states() -> tuple[set[str], set[str]]:
        async with last_in_line(sys.executable) as program:
            process = await asyncio.create_subprocess_exec(program, "-c", "while True: pass", start_new_session=True)
            during = await seen(process.pid)
            while state(process.pid) != "T":
                await asyncio.sleep(0.001)
        after = await seen(process.pid)
        process.kill()
        await process.wait()
        return during, after

    async def seen(pid: int) -> set[str]:
        found = set()
        for _ in range(20):
            found.add(state(pid))
            await asyncio.sleep(0.03)
        return found

    during, after = result_of(states())
    assert {"R", "T"} <= during  # running, and stopped
    assert "T" not in after


def state(pid: int) -> str:
    """Return the process state: R is runnable, T is stopped."""
    return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0]


def test_each_figure_is_put_against_its_own_page():
    alone, crowd = {"": [1.0, 3.0, 2.0], "rope": [5.0], "cost": [7.0]}, {"rope": [10.0, 15.0], "": [4.0]}
    assert in_proportion(alone, crowd) == {"": [2.0], "rope": [2.0, 3.0]}
