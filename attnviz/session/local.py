"""Detection of requests from this machine's own browser: only they may run a file of code or open any folder."""

from __future__ import annotations

import ipaddress
from collections.abc import Mapping

PROXY_HEADERS = ("forwarded", "x-forwarded-for", "x-forwarded-host", "x-forwarded-proto", "x-real-ip", "via")


def refused(bound_to: str | None, headers: Mapping[str, str], asked_by: str | None) -> str:
    """Return the reason why this request may come from another machine, or "" if it cannot.

    bound_to: the server's address; headers: of the request; asked_by: the browser's address, None for this machine.
    """
    names = {name.lower(): value for name, value in headers.items()}
    if not is_loopback(bound_to or ""):
        return "The server is not bound to loopback."
    if any(name in names for name in PROXY_HEADERS):
        return "The request came through a proxy."
    if not is_loopback(_host(names.get("host", ""))):
        return "The page was not requested at this machine's own address."
    if asked_by is not None and not is_loopback(asked_by):
        return "The browser is on another machine."
    return ""


def _host(header: str) -> str:
    """Return the host name in a Host header, without the port."""
    return header[1:].partition("]")[0] if header.startswith("[") else header.rpartition(":")[0] or header


def is_loopback(name: str) -> bool:
    """Check whether a host's name or address is that of this machine."""
    if name == "localhost":
        return True
    try:
        return ipaddress.ip_address(name).is_loopback
    except ValueError:
        return False
