"""Pages without a browser: opened at a link, and what they say, draw and have in their address."""

from __future__ import annotations

import re
from pathlib import Path

from streamlit.testing.v1 import AppTest

from tests.reading import plain

ROOT = Path(__file__).parents[1]
FRONT, HEADS, GROUPS, ROPE = "app.py", "pages/1_heads.py", "pages/2_query_groups.py", "pages/3_rope.py"
COST, STEPS, DECODE = "pages/4_cost.py", "pages/5_steps.py", "pages/6_decode.py"
MISTAKES, PRACTICE, LESSONS = "pages/7_mistakes.py", "pages/8_practice.py", "pages/9_lessons.py"
LINEAR = "pages/10_linear.py"
TRACED = [HEADS, GROUPS, ROPE]  # pages that draw a text's trace
DRAW_NOTHING = ("copy_link", "workarounds", "progress_store", "page_index")  # components


def opened(page: str = FRONT, session: dict[str, object] | None = None, /, **link: str) -> AppTest:
    """Open a page at a link, as the first request of a session. session: what it holds already."""
    app = AppTest.from_file(ROOT / FRONT, default_timeout=120)
    for name, value in (session or {}).items():
        app.session_state[name] = value
    if page != FRONT:
        app.switch_page(page)
    app.query_params.update(link)
    app.run()
    assert not app.exception, (page, link, [each.value for each in app.exception])
    return app


def checked(app: AppTest) -> AppTest:
    assert not app.exception, [each.value for each in app.exception]
    return app


def said(block: object) -> str:
    """Return all texts of a page or of a part of it, one per line."""
    boxes = (block.info, block.warning, block.error, block.success)
    return plain("\n".join(each.value for kind in (block.markdown, block.caption, *boxes) for each in kind))


# Sources, tolerances and how a number was checked, which belong behind a question mark. One paragraph is about papers.
PROVENANCE = re.compile(
    r"(?i)[^.]*(?:arXiv \d|tolerance|traced in|counted in the live|largest difference of|\(computed|\(derivation|"
    r"checked against|PyTorch's kernel, )[^.]*"
)
ABOUT_PAPERS = "Do attention weights explain a prediction?"


def in_the_open(text: str) -> list[str]:
    """Return the sentences on provenance in what a page says openly."""
    return [found for line in text.splitlines() if ABOUT_PAPERS not in line for found in PROVENANCE.findall(line)]


def behind(block: object) -> str:
    """Return what is behind the question marks of a page's texts, one per line."""
    return plain("\n".join(each.proto.help for kind in (block.markdown, block.caption) for each in kind))


def sent(app: AppTest) -> str:
    """Return what the page's components are sent and what its charts are called, one per line."""
    components = [plain(each.proto.bytes.decode(errors="ignore")) for each in app.get("bidi_component")]
    return "\n".join([*components, *(chart.proto.alt for chart in app.get("plotly_chart"))])


def shown(app: AppTest) -> str:
    """Return all that the page says, sends and draws."""
    return f"{said(app)}\n{sent(app)}"


def sentences(app: AppTest) -> str:
    """Return what the page refuses, warns of or explains, without markdown's escapes."""
    return " ".join(each.value for each in (*app.warning, *app.info, *app.error)).replace("\\", "")


def titles(app: AppTest) -> str:
    """Return the titles on the page, one per line."""
    return "\n".join(each.value.partition("\n")[0] for each in app.main.markdown if each.value.startswith("## "))


def pictures(app: AppTest) -> list[str]:
    """Return the keys of the charts and drawings on the page, without the components that draw nothing."""
    components = (each.proto for each in app.get("bidi_component") if each.proto.bytes)
    drawn = [each.id for each in components if each.component_name not in DRAW_NOTHING]
    return [chart.proto.id for chart in app.get("plotly_chart")] + drawn


def linked(app: AppTest) -> dict[str, str]:
    """Return the address's query; AppTest gives a value as it was set, or in a list."""
    return {name: value if isinstance(value, str) else value[0] for name, value in app.query_params.items()}
