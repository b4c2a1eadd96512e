"""What every page has around it: the text, the model, the settings, the address, the source. Imports no torch."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import streamlit as st

from attnviz.config import ConfigError, ModelConfig
from attnviz.figures.drawing import escaped
from attnviz.ui import selection, state
from attnviz.ui.beyond_training import beyond_training, model_card, trained_on
from attnviz.ui.components.copy_link import copy_link
from attnviz.ui.components.settings_form import settings_courier, settings_form
from attnviz.ui.controls import controls, fields
from attnviz.ui.settings import MAX_CHARACTERS, Settings

ACCESSIBLE = Path(__file__).with_name("accessible.css")
ICON = Path(__file__).with_name("icon.svg")  # an icon of Streamlit's would be fetched from fonts.gstatic.com
PAGES = {
    "app.py": "What there is to see",
    "pages/1_heads.py": "Heads",
    "pages/2_query_groups.py": "Query groups",
    "pages/3_rope.py": "RoPE",
    "pages/4_cost.py": "Cost",
}


@dataclass(frozen=True)
class View:
    """What a page draws from. The model and its trace are computed when first asked for.

    They are looked up each time and not kept here: a session holds the views that its fragments were given.
    """

    settings: Settings

    @cached_property
    def config(self) -> ModelConfig:
        """The configuration that runs."""
        return _runs().config_of(self.settings)

    @property
    def model(self):
        """The live model; its weights are shared with everyone and never written to."""
        return _runs().model_of(self.settings)

    @cached_property
    def ids(self) -> tuple[int, ...]:
        """The tokens of the text, cut at what can be traced."""
        return self._read[1][: self.max_tokens]

    @cached_property
    def labels(self) -> list[str]:
        """One printable label a token."""
        return list(self._read[2][: self.max_tokens])

    @property
    def trace(self):
        """Everything the model computed on the text."""
        return _runs().trace_of(self.settings, self.ids)

    @cached_property
    def max_tokens(self) -> int:
        return _runs().max_tokens(self.config)

    @cached_property
    def cut_notice(self) -> str | None:
        """Where a text that is too long was cut."""
        if self._read[0] <= self.max_tokens:
            return None
        tail = _runs().tokenizer().decode(list(self.ids[-12:]))
        return f"The text has {self._read[0]:,} tokens; the first {self.max_tokens} are shown, up to “…{tail.strip()}”."

    @property
    def origin(self) -> str:
        """Where the weights come from, said on every map."""
        s = self.settings
        return f"untrained, seed {s.seed}" if s.model == "own" else "trained checkpoint"

    @property
    def _read(self) -> tuple[int, tuple[int, ...], tuple[str, ...]]:
        return _runs().read(self.settings.text[:MAX_CHARACTERS])


def _runs():
    """attnviz.ui.runs, imported when a page first needs a model: the front page opens without torch."""
    from attnviz.ui import runs

    return runs


def page(title: str, body: Callable[[View], None], *, needs_text: bool = True) -> None:
    """A whole page: the frame, and in a part of its own what `body` draws from the view.

    What is changed on the left runs the page's part again and leaves the frame as it stands.
    """
    frame(title)
    _page(body, needs_text)


def frame(title: str) -> None:
    """What surrounds a page: navigation, text, model and mask on the left, the title on top."""
    st.set_page_config(page_title=f"{title} · AttnViz", page_icon=ICON, layout="wide")
    st.title(title)  # first: the sooner something is to be seen, the better
    st.html(ACCESSIBLE)
    state.read_link(title)
    state.expect_first_run()
    with st.sidebar:
        _navigation()
        settings_form(controls(), state.current().words(fields()), state.answered())
        _share(title)
    state.write_link()


@state.part(state.PAGE)
def _page(body: Callable[[View], None], needs_text: bool) -> None:
    first, at_courier, view = state.first_run(), state.place(), View(state.current())
    if first:
        with at_courier:
            courier()  # at once: the run may be long, and a setting may cut it short
    with state.place():
        show_notices()
        drawn = not needs_text or _can_be_drawn(view)
        if drawn and needs_text:
            _warn(selection.link_notices(view, state.take_asked()))
            _beyond_training(view)
    if drawn:
        body(view)
    if not first:
        with at_courier:
            courier()  # last: it stands there already, and what it brings keeps the browser busy while a model runs


def courier() -> None:
    """Brings this part of the page what is set on the left, and the form there what is in force: all but the text,
    which only the form changes."""
    settings_courier(
        state.current().words(name for name in fields() if name != "text"), state.answered(), state.take_wish
    )


def show_notices() -> None:
    """Say once what of the link could not be used."""
    _warn(state.take_notices())


def _warn(notices: list[str]) -> None:
    for notice in notices:
        st.warning(escaped(notice), icon=":material/link_off:")


def _beyond_training(view: View) -> None:
    """Where a trained model runs in a way that it was not trained for: what differs, and the model card."""
    trained = _runs().trained_config(view.settings)
    if trained is None:
        return
    text = _runs().tokenizer().decode(list(view.ids))
    if differs := beyond_training(trained, view.config, text, len(view.ids)):
        with st.container(horizontal=True, vertical_alignment="center"):
            st.warning(" ".join([*differs, trained_on(trained)]), icon=":material/model_training:", width="stretch")
            st.popover("Model card", width="content").markdown(model_card())


def _navigation() -> None:
    st.markdown("### AttnViz")
    link = state.link_to_other_pages()
    for path, label in PAGES.items():
        st.page_link(path, label=label, width="stretch", query_params=link)


def _share(page: str) -> None:
    copy_link()
    with st.popover("View source", icon=":material/code:", key=f"source-{page}", on_change="rerun") as popover:
        if popover.open:
            from attnviz.modules.sources import sources

            for name, source in sources(state.current().model).items():
                st.caption(f"modules/{name}, which just ran")
                st.code(source, language="python", height=400)


def _can_be_drawn(view: View) -> bool:
    """Whether there is something to draw, with a sentence where there is not, and one where a long text was cut."""
    from attnviz.checkpoints import CheckpointError

    if len(view.settings.text) > MAX_CHARACTERS:
        st.warning(f"The text has {len(view.settings.text):,} characters; the first {MAX_CHARACTERS:,} are read.")
    try:
        if not view.ids:
            st.info("There is no text yet: type one on the left, or choose an example.", icon=":material/edit:")
            return False
        view.model  # noqa: B018  loaded here, so that a damaged file is one sentence and not a traceback
    except (CheckpointError, ConfigError) as error:
        st.error(f"{escaped(str(error))} Choose another model on the left.", icon=":material/error:")
        return False
    if view.cut_notice:
        st.warning(escaped(view.cut_notice), icon=":material/content_cut:")
    return True
