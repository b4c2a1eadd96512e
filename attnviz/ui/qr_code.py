"""The link as a QR code, for a room that follows."""

from __future__ import annotations

from functools import lru_cache
from urllib.parse import urlencode

import streamlit as st

from attnviz.session.settings import Settings

NOT_SHARED = {"present", "only"}


def address(url: str, settings: Settings) -> str:
    """The link to these settings for everybody: the page as it is, not presented. url: that of the page."""
    link = {name: written for name, written in settings.to_link().items() if name not in NOT_SHARED}
    return url.partition("?")[0] + ("?" + urlencode(link) if link else "")


@lru_cache(maxsize=64)
def svg(link: str) -> str | None:
    """The code as SVG; None for a link that is longer than a QR code can hold."""
    import segno  # by who presents alone

    try:
        return segno.make(link, micro=False, error="l").svg_inline(scale=6, light="#fff", dark="#000", border=3)
    except segno.DataOverflowError:
        return None


def qr_code(settings: Settings) -> None:
    """A button that shows it, with the link below."""
    with st.popover("QR code", icon=":material/qr_code_2:", width="content"):
        link = address(st.context.url or "", settings)
        if code := svg(link):
            st.image(code, width=320)
            st.code(link, language=None, wrap_lines=True)
        else:
            st.info("This link is too long for a QR code: choose a shorter text.")
