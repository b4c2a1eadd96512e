"""What a component is given, as bytes: in anything else Streamlit looks for tables, and imports pandas to do so."""

from __future__ import annotations

import json


def as_bytes(data: dict | list) -> bytes:
    """JSON, for `JSON.parse(new TextDecoder().decode(data))` in the browser."""
    return json.dumps(data, separators=(",", ":")).encode()
