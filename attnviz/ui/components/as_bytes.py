"""Component payloads as bytes: in any other type Streamlit searches for tables, and imports pandas to do so."""

from __future__ import annotations

import json


def as_bytes(data: dict | list) -> bytes:
    """Encode as JSON, for `JSON.parse(new TextDecoder().decode(data))` in the browser."""
    return json.dumps(data, separators=(",", ":")).encode()
