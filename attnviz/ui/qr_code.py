"""QR code of the current link, for an audience that wants to follow along."""

from __future__ import annotations

from functools import lru_cache
from urllib.parse import urlencode

import streamlit as st

from attnviz.session.settings import Settings

NOT_SHARED = {"present", "only"}


def address(url: str, settings: Settings) -> str:
    """Return the link to these settings without presentation mode. url: the page's address."""
    link = {name: written for name, written in settings.to_link().items() if name not in NOT_SHARED}
    return url.partition("?")[0] + ("?" + urlencode(link) if link else "")


def from_root(url: str, address: str) -> str:
    """Return the link to an address of the app, such as ?lesson=mla. url: that of any page with one more part."""
    return f"{url.partition('?')[0].rpartition('/')[0]}/{address}"


@lru_cache(maxsize=64)
def svg(link: str) -> str | None:
    """Return the QR code as SVG; None if the link is too long for one."""
    import segno  # imported late: only needed while presenting

    try:
        return segno.make(link, micro=False, error="l").svg_inline(scale=6, light="#fff", dark="#000", border=3)
    except segno.DataOverflowError:
        return None


def qr_code(settings: Settings) -> None:
    """Button that shows the QR code and the link below it, in a dialog: a popover would leave the screen."""
    if st.button("QR code", key="qr-code", icon=":material/qr_code_2:"):
        _dialog(address(st.context.url or "", settings))


@st.dialog("QR code of this view")
def _dialog(link: str) -> None:
    if code := svg(link):
        st.image(code, width="stretch")
        st.code(link, language=None, wrap_lines=True)
    else:
        st.info("This link is too long for a QR code. Choose a shorter text.")
