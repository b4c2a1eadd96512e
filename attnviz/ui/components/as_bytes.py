"""Component payloads as bytes: in any other type Streamlit searches for tables, and imports pandas to do so."""

from __future__ import annotations

import json


def as_bytes(data: dict | list) -> bytes:
    """Encode as JSON, for `JSON.parse(new TextDecoder().decode(data))` in the browser."""
    return json.dumps(data, separators=(",", ":")).encode()


def framed(header: dict, *body: bytes) -> bytes:
    """Return [u32 length of the header, little-endian][header as JSON][body], for `parts` in packed_weights.js."""
    text = json.dumps(header, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "replace")
    return b"".join((len(text).to_bytes(4, "little"), text, *body))
