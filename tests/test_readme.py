"""pytest tests/test_readme.py: the README names every file there is and nothing that is not."""

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")
HOUSE = README.split("## How it is laid out")[1].split("## How to add")[0]


def files_of_the_house() -> set[str]:
    found = (p for top in ("attnviz", "pages") for p in (ROOT / top).rglob("*") if "__pycache__" not in p.parts)
    kept = (p for p in found if p.suffix in (".py", ".json", ".txt", ".npz", ".safetensors"))
    return {str(p.relative_to(ROOT)) for p in kept} | {"app.py"}


def files_named() -> set[str]:
    """Paths in the tree: a folder at four spaces, its files below at six."""
    folder, named = "", set()
    for line in HOUSE.splitlines():
        if match := re.match(r"    (\S+/)(\s|$)", line):
            folder = match[1]
        elif match := re.match(r"      (\S+\.\w+)\s", line):
            named.add(folder + match[1])
        elif match := re.match(r"    (\w+\.py)\s", line):
            named.add(match[1])
    return named


def test_every_file_has_its_line_and_every_line_its_file():
    assert files_of_the_house() - files_named() == set()
    here = {name for name in files_named() if name.startswith(("attnviz", "pages", "app"))}
    assert all((ROOT / name).exists() for name in here)


def test_what_the_readme_links_to_is_there():
    for target in re.findall(r"\]\(([^)]+)\)", README):
        assert target.startswith("http") or (ROOT / target).exists(), target
