"""Ids of the mistakes: the names of their files. No torch, which their registry imports."""

from pathlib import Path

CATALOGUE = Path(__file__).parents[1] / "mistakes" / "catalogue"
MISTAKES = tuple(sorted(path.stem for path in CATALOGUE.glob("[a-z]*.py")))
