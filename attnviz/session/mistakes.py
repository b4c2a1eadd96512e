"""Ids of the mistakes: the names of their files. Unlike their registry, imports no torch."""

from pathlib import Path

CATALOGUE = Path(__file__).parents[1] / "mistakes" / "catalogue"
MISTAKES = tuple(sorted(path.stem for path in CATALOGUE.glob("[a-z]*.py")))
