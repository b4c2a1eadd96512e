"""An error for the user: its sentence, and on the user's own machine the lines to run that its message ends with."""

from __future__ import annotations

import streamlit as st

from attnviz.checks import split_code
from attnviz.figures.drawing import escaped
from attnviz.session.openable import may_choose


def show_problem(problem: str, then: str = "") -> None:
    """Show a problem as an error. then: what to do here, said after its sentence."""
    sentence, code = split_code(problem)
    if code and not may_choose():
        sentence, code = f"{sentence.removesuffix(':')}.", ""
    st.error(f"{escaped(sentence)}{'' if code else then}", icon=":material/error:")
    if code:
        st.code(code, language="python", wrap_lines=True)
