"""A simulated user without a browser: a session over Streamlit's websocket that uses a page's widgets."""

from __future__ import annotations

import asyncio
import random
from dataclasses import dataclass, field
from time import perf_counter

from streamlit.proto.BackMsg_pb2 import BackMsg
from streamlit.proto.Element_pb2 import Element
from streamlit.proto.ForwardMsg_pb2 import ForwardMsg
from streamlit.proto.Slider_pb2 import Slider
from streamlit.proto.WidgetStates_pb2 import WidgetState
from websockets.asyncio.client import ClientConnection, connect

from attnviz.session.openable import MODELS

LEFT_ALONE = ("Examples",)  # a session is identified by its own text
OF_PARTS = ForwardMsg.FINISHED_FRAGMENT_RUN_SUCCESSFULLY
DONE = (ForwardMsg.FINISHED_SUCCESSFULLY, OF_PARTS)  # a callback's run that requests a rerun ends with another status
SECONDS_TO_ANSWER = 120.0
Path = tuple[int, ...]  # position of an element: its index in each container, from the outermost


@dataclass
class Shown:
    """An element on the page and the fragment that draws it ("" for the whole page)."""

    element: Element
    fragment: str


@dataclass
class Session:
    """One user's tab. `frames` has the messages of the last run, as bytes."""

    socket: ClientConnection
    query: str
    page: str = ""
    shown: dict[Path, Shown] = field(default_factory=dict)
    frames: list[bytes] = field(default_factory=list)
    cached: dict[str, ForwardMsg] = field(default_factory=dict)
    page_hash: str = ""

    async def open(self, page: str) -> float:
        """Open a page with the settings in the address; return the seconds until it is complete."""
        self.page, self.page_hash, self.shown = page, "", {}
        return await self._run(BackMsg())

    async def change(self, chance: random.Random) -> tuple[str, float]:
        """Use one of the page's widgets; return its label and the seconds until the run ends."""
        label, shown, state = chance.choice(self.possible(chance))
        message = BackMsg()
        message.rerun_script.fragment_id = shown.fragment
        message.rerun_script.widget_states.widgets.append(state)
        shown.element = after(shown.element, state)
        return label, await self._run(message)

    async def set(self, changes: dict[str, str]) -> float:
        """Set fields in the sidebar, one widget after the other; return the seconds until the runs end."""
        return sum([await self._run(self.asks(field, value)) for field, value in changes.items()])

    def asks(self, field: str, value: str) -> BackMsg:
        """Return the message that a browser sends when this field is set in the sidebar."""
        shown = self.control(field)
        message = BackMsg()
        client = message.rerun_script
        client.query_string, client.page_script_hash, client.fragment_id = self.query, self.page_hash, shown.fragment
        client.widget_states.widgets.append(set_to(shown.element, value))
        return message

    def control(self, field: str) -> Shown | None:
        """Return the widget of a settings field."""
        return next((s for s in self.shown.values() if widget_id(s.element).endswith(f"-control-{field}")), None)

    def possible(self, chance: random.Random) -> list[tuple[str, Shown, WidgetState]]:
        """Return the possible next changes of the page's widgets."""
        return [(label_of(s.element), s, w) for s in self.shown.values() if (w := another_value(s.element, chance))]

    def said(self, kind: str) -> list[str]:
        """Return the texts of the page's elements of one type: alerts, exceptions, headings."""
        shown = (s.element for s in self.shown.values() if s.element.WhichOneof("type") == kind)
        return [getattr(getattr(e, kind), "message" if kind == "exception" else "body") for e in shown]

    async def _run(self, message: BackMsg) -> float:
        client = message.rerun_script
        client.query_string, client.page_name, client.page_script_hash = self.query, self.page, self.page_hash
        client.cached_message_hashes.extend(self.cached)
        self.frames.clear()
        began = perf_counter()
        await self.socket.send(message.SerializeToString())
        updated: set[Path] = set()
        while True:
            frame = await asyncio.wait_for(self.socket.recv(), SECONDS_TO_ANSWER)
            self.frames.append(frame)
            answer = ForwardMsg.FromString(frame)
            if answer.WhichOneof("type") == "script_finished" and answer.script_finished in DONE:
                self._forget(updated, answer.script_finished == OF_PARTS)
                return perf_counter() - began
            self._take(answer, updated)

    def _take(self, answer: ForwardMsg, updated: set[Path]) -> None:
        """Process a message like a browser, as far as it affects later requests."""
        kind = answer.WhichOneof("type")
        if kind == "ref_hash":
            path = answer.metadata.delta_path
            answer = ForwardMsg.FromString(self.cached[answer.ref_hash].SerializeToString())
            answer.metadata.delta_path[:] = path
        elif answer.metadata.cacheable:
            self.cached[answer.hash] = answer
        if kind == "navigation":
            self.page_hash = answer.navigation.page_script_hash
        elif kind == "page_info_changed":
            self.query = answer.page_info_changed.query_string
        elif answer.WhichOneof("type") == "delta" and answer.delta.WhichOneof("type") == "new_element":
            path = tuple(answer.metadata.delta_path)
            self.shown[path] = Shown(answer.delta.new_element, answer.delta.fragment_id)
            updated.add(path)

    def _forget(self, updated: set[Path], only_fragments: bool) -> None:
        """Remove elements that this run has not redrawn, from the page or from its fragments' containers."""
        drawn: dict[str, list[Path]] = {}
        for path in updated:
            drawn.setdefault(self.shown[path].fragment, []).append(path)
        boxes = [common_start(paths) for paths in drawn.values()] if only_fragments else [()]
        for path in self.shown.keys() - updated:
            if any(path[: len(box)] == box for box in boxes):
                del self.shown[path]


def common_start(paths: list[Path]) -> Path:
    """Return the innermost container of all elements."""
    first, last = min(paths)[:-1], max(paths)[:-1]
    same = [a == b for a, b in zip(first, last, strict=False)]
    return first[: same.index(False) if False in same else len(same)]


async def connected(url: str, query: str, resumes: str = "") -> Session:
    """Connect a new session with `query` in its address, or resume one by its id; requests no run yet."""
    address = url.replace("http", "ws", 1) + "/_stcore/stream"
    protocols = ["streamlit", "no-token", resumes] if resumes else ["streamlit"]
    return Session(await connect(address, subprotocols=protocols, max_size=None, compression=None), query)


def widget_id(element: Element) -> str:
    """Return Streamlit's widget id, which ends with the key; "" if the element is no widget."""
    return getattr(getattr(element, element.WhichOneof("type") or "", None), "id", "")


def set_to(element: Element, value: str) -> WidgetState:
    """Return the message that sets a sidebar widget to a value in a link's notation."""
    kind, state = element.WhichOneof("type"), WidgetState(id=widget_id(element))
    match kind:
        case "checkbox":
            state.bool_value = value == "1"
        case "text_area":
            state.string_value = value
        case "selectbox":
            state.string_value = element.selectbox.options[MODELS.index(value)]
        case "slider" if element.slider.type == Slider.SELECT_SLIDER:
            state.string_array_value.data.append(value)
        case "slider":
            state.double_array_value.data.append(float(value))
        case _:
            raise ValueError(f"{kind} is not set from the sidebar")
    return state


def label_of(element: Element) -> str:
    kind = element.WhichOneof("type")
    return getattr(getattr(element, kind), "label", "")


def another_value(element: Element, chance: random.Random) -> WidgetState | None:
    """Return another value of this widget: another option, or a slider moved one step, as by an arrow key.

    None if the element is no widget, has no other value, or is in LEFT_ALONE.
    """
    kind = element.WhichOneof("type")
    widget = getattr(element, kind)
    if label_of(element) in LEFT_ALONE or getattr(widget, "disabled", False):
        return None
    state = WidgetState(id=getattr(widget, "id", ""))
    match kind:
        case "checkbox":
            state.bool_value = not (widget.value if widget.set_value else widget.default)
        case "selectbox" if len(widget.options) > 1:
            state.string_value = chance.choice([o for o in widget.options if o != widget.raw_value])
        case "button_group" if len(widget.options) > 1:
            others = [o.content for o in widget.options if o.content not in widget.raw_values]
            state.string_array_value.data.append(chance.choice(others))
        case "number_input":
            state.double_value = widget.value + (1 if widget.value < widget.max else -1)
        case "slider" if widget.type == Slider.SELECT_SLIDER and len(widget.options) > 1:
            at = list(widget.options).index(widget.raw_value[0])
            state.string_array_value.data.append(widget.options[one_step(at, 0, len(widget.options) - 1, 1, chance)])
        case "slider" if widget.type == Slider.SLIDER:
            state.double_array_value.data.append(one_step(widget.value[0], widget.min, widget.max, widget.step, chance))
        case _:
            return None
    return state


def after(element: Element, state: WidgetState) -> Element:
    """Return the widget as a browser shows it after use: its fragment may not be redrawn."""
    used = Element()
    used.CopyFrom(element)  # the element may belong to a cached message
    widget = getattr(used, used.WhichOneof("type"))
    name, value = state.WhichOneof("value"), getattr(state, state.WhichOneof("value"))
    match name:
        case "string_array_value" if isinstance(widget, Slider):
            widget.raw_value[:] = value.data
        case "string_array_value":
            widget.raw_values[:] = value.data
        case "double_array_value":
            widget.value[:] = value.data
        case "string_value":
            widget.raw_value = value
        case _:
            widget.value = value
    widget.set_value = True
    return used


def one_step(value: float, low: float, high: float, step: float, chance: random.Random) -> float:
    return chance.choice([v for v in (value - step, value + step) if low <= v <= high])
