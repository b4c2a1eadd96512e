"""Asks PyPI which of the installed packages have known vulnerabilities: .venv/bin/python .ci/audit.py

Fails where there is one. Where PyPI does not answer in time, or knows none of the packages because a mirror stands in
for it, a sentence says that nothing was audited, and the run goes on.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from importlib.metadata import distributions

SECONDS = 20


def installed() -> list[str]:
    """name==version of every package here; PyPI knows no "+cpu" at the end of a version."""
    return sorted({f"{d.metadata['Name']}=={d.version.partition('+')[0]}" for d in distributions()})


def ask(packages: list[str]) -> str:
    """What pip-audit finds, as JSON; nothing where it does not come to an end."""
    with tempfile.NamedTemporaryFile("w", suffix=".txt") as file:
        file.write("\n".join(packages))
        file.flush()
        command = [sys.executable, "-m", "pip_audit", "--format=json", "--progress-spinner=off", "--timeout=5"]
        command += ["--no-deps", "--disable-pip", f"--requirement={file.name}"]
        try:
            return subprocess.run(command, capture_output=True, text=True, timeout=SECONDS, check=False).stdout
        except subprocess.TimeoutExpired:
            return ""


def judge(found: str) -> tuple[int, str]:
    """The exit status, and what to say, for pip-audit's JSON."""
    packages = json.loads(found)["dependencies"] if found.strip() else []
    asked = [p for p in packages if "skip_reason" not in p]
    if not asked:
        return 0, "pip-audit: not audited, PyPI's list of vulnerabilities cannot be reached from here."
    bad = [f"{p['name']} {p['version']}: {v['id']}, mended in {v['fix_versions'] or 'no version yet'}"
           for p in asked for v in p["vulns"]]  # fmt: skip
    said = f"pip-audit: PyPI knows {len(asked)} of {len(packages)} packages; vulnerabilities: {len(bad)}."
    return int(bool(bad)), "\n".join([said, *bad])


if __name__ == "__main__":
    status, said = judge(ask(installed()))
    print(said)
    sys.exit(status)
