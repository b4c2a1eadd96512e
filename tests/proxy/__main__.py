"""Run two processes behind nginx until Ctrl-C: `python -m tests.proxy [port]`."""

import sys
from contextlib import suppress
from threading import Event

from tests.proxy.proxy import behind_proxy

with suppress(KeyboardInterrupt), behind_proxy(port=int(sys.argv[1]) if len(sys.argv) > 1 else 8500) as proxy:
    print(f"{proxy.url} with {len(proxy.processes)} processes: {', '.join(p.url for p in proxy.processes)}")
    Event().wait()
