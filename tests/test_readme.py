"""The README is short, its counts are right, and the files that it and the documentation name exist."""

import re
from pathlib import Path

import pytest

import attnviz
from attnviz.compute.spoken import deck
from attnviz.exercises import TASKS
from attnviz.session.pages.cost import PRESETS
from attnviz.session.pages.mistakes import MISTAKES

ROOT = Path(__file__).resolve().parents[1]
MAX_LINES = 130
HIDDEN = [ROOT / ".github" / "CONTRIBUTING.md"]
PAGES = [*sorted(ROOT.glob("*.md")), *sorted((ROOT / "docs").rglob("*.md")), *HIDDEN]
OURS = re.compile(r"`((?:attnviz|tests|docs|pages|\.ci|\.github|\.streamlit)/[\w./-]*\w/?|[\w.-]+\.(?:toml|txt))`")
ELSEWHERE = {"packages.txt", "environment.yml", "order.txt"}  # files that do not exist, and one in a user's folder


def links(text: str) -> list[str]:
    return re.findall(r"\]\(([^)\s]+)\)", text)


def missing(text: str, folder: Path) -> list[str]:
    """Return link targets, and paths of this project in backquotes, that do not exist."""
    targets = [target.split("#")[0] for target in links(text) if not target.startswith(("http", "#"))]
    paths = [path for path in OURS.findall(text) if path not in ELSEWHERE]
    apart = [target for target in targets if not (folder / target).exists()]
    return apart + [
        path for path in paths if not any((base / path).exists() for base in (ROOT, folder, ROOT / ".streamlit"))
    ]


def test_the_readme_fits_on_two_screens() -> None:
    assert len((ROOT / "README.md").read_text(encoding="utf-8").splitlines()) <= MAX_LINES


LESSONS = list((ROOT / "attnviz" / "lessons").glob("*.md"))
COUNTED = {  # the number in English and in Chinese, and the folder or the settings that are counted
    r"(\w+) published models": (r"(\d+) 个已发布模型", PRESETS),
    r"(\w+) mistakes in attention code": (r"(\d+) 个错误", MISTAKES),
    r"(\w+) coding tasks": (r"(\d+) 道编程题", TASKS),
    r"(\w+) to answer aloud": (r"(\d+) 道口答题", deck()),
    r"(\w+) guided lessons": (r"(\d+) 课", LESSONS),
}
WORDS = {"ten": 10, "eleven": 11, "twelve": 12, "thirteen": 13, "fourteen": 14}


@pytest.mark.parametrize("what", COUNTED)
def test_the_readmes_count_what_is_there(what: str) -> None:
    chinese, counted = COUNTED[what]
    for name, pattern in (("README.md", what), ("README.zh.md", chinese)):
        written = re.findall(pattern, (ROOT / name).read_text(encoding="utf-8"))
        numbers = [WORDS.get(number.lower()) or int(number) for number in written]
        assert numbers == [len(counted)], f"{name} says {written}; there are {len(counted)}"


def test_both_readmes_have_the_same_commands_and_links() -> None:
    """The Chinese README may be shorter, but each command and each link in it is one of the English README's."""
    english, chinese = ((ROOT / name).read_text(encoding="utf-8") for name in ("README.md", "README.zh.md"))
    assert set(links(chinese)) - {"README.md"} == set(links(english)) - {"README.zh.md"}
    assert commands(chinese) <= commands(english)


def commands(text: str) -> set[str]:
    """Return the indented lines of a README without their comments."""
    return {line.split("#")[0].strip() for line in re.findall(r"^    (\S.*)", text, re.MULTILINE)}


def test_what_the_documentation_names_is_there() -> None:
    found = {str(page.relative_to(ROOT)): missing(page.read_text(encoding="utf-8"), page.parent) for page in PAGES}
    assert {page: names for page, names in found.items() if names} == {}


def test_what_is_missing_is_noticed() -> None:
    text = "[a](docs/nowhere.md) [b](README.md#x) `attnviz/nowhere.py` `attnviz/modules/` `nothing.toml`"
    assert missing(text, ROOT) == ["docs/nowhere.md", "attnviz/nowhere.py", "nothing.toml"]


def test_the_readme_leads_to_all_documentation() -> None:
    linked = {(ROOT / target).resolve() for target in links((ROOT / "README.md").read_text(encoding="utf-8"))}
    assert set((ROOT / "docs").rglob("*.md")) | {ROOT / "CHANGELOG.md", *HIDDEN} <= linked


def test_the_changelog_begins_with_this_version() -> None:
    changelog = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    assert re.search(r"^## (\S+)", changelog, re.MULTILINE)[1] == attnviz.__version__
