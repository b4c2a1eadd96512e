"""The dependency audit fails on vulnerabilities, and never reports packages as audited that it could not look up."""

import importlib.util
import json
from pathlib import Path

SCRIPT = Path(__file__).parent.parent / ".ci" / "audit.py"
spec = importlib.util.spec_from_file_location("audit", SCRIPT)
audit = importlib.util.module_from_spec(spec)
spec.loader.exec_module(audit)

FINE = {"name": "numpy", "version": "2.4.6", "vulns": []}
BAD = {"name": "torch", "version": "1.0", "vulns": [{"id": "PYSEC-1", "fix_versions": ["2.0"]}]}
UNKNOWN = {"name": "numpy", "skip_reason": "Dependency not found on PyPI"}


def judged(*packages: dict) -> tuple[int, str]:
    return audit.judge(json.dumps({"dependencies": packages}))


def test_a_vulnerability_fails_and_is_named():
    status, said = judged(FINE, BAD)
    assert status == 1 and "torch 1.0: PYSEC-1, mended in ['2.0']" in said


def test_no_finding_passes_and_says_of_how_many():
    assert judged(FINE) == (0, "pip-audit: PyPI knows 1 of 1 packages; vulnerabilities: 0.")
    assert "PyPI knows 1 of 2 packages" in judged(FINE, UNKNOWN)[1]


def test_what_was_not_asked_is_not_called_audited():
    """A PyPI mirror without vulnerability data knows no package, and pip-audit reports that as no finding."""
    for status, said in (judged(UNKNOWN, UNKNOWN), audit.judge("")):
        assert status == 0 and "not audited" in said


def test_an_index_that_does_not_answer_ends_in_time(monkeypatch):
    monkeypatch.setattr(audit, "SECONDS", 0.01)
    assert audit.ask(["numpy==2.4.6"]) == ""


def test_the_versions_are_those_that_pypi_knows():
    assert "streamlit==1.67.0" in audit.installed() and not [p for p in audit.installed() if "+" in p]
