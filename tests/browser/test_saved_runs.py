"""A saved run in the browser: opened at a bare address, as an upload, and what is pointed at in its maps.

Run: .venv/bin/python -m pytest tests/browser/test_saved_runs.py
"""

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from urllib.parse import quote

import numpy as np
import pytest
from playwright.sync_api import Page, expect

from tests import saved_runs
from tests.browser.conftest import go, turn_to
from tests.browser.painted import settle
from tests.browser.server import Server, serve
from tests.saved_runs import saved


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("runs")
    for name in ("encoder", "encoder-decoder", "picture", "continued"):
        saved(folder, name)
    return folder


@pytest.fixture(scope="module")
def opens(folder: Path) -> Iterator[Server]:
    with serve(env={"ATTNVIZ_RUN": str(folder / "encoder.safetensors")}) as server:
        yield server
        assert server.tracebacks() == []


def heads(folder: Path, name: str, **settings: object) -> str:
    more = "".join(f"&{key}={value}" for key, value in settings.items())
    return f"heads?model={quote(f'run:{folder / name}.safetensors', safe='')}{more}"


def test_saved_runs(tab: Callable[..., Page], folder: Path, opens: Server) -> None:
    page = tab()
    go(page, opens, "heads")
    the_run_of_the_start_is_open_and_its_text_is_sorted_by_weight(page)
    a_file_that_is_none_is_said_and_one_that_is_opens(page, folder)
    turn_to(page, heads(folder, "encoder-decoder", run_kind="cross", layer=1, head=2, query=12))
    a_map_of_two_texts_reads_both(page)
    turn_to(page, heads(folder, "continued", layer=0, head=1, query=14))
    a_row_is_named_by_its_token(page)
    turn_to(page, heads(folder, "picture", layer=0, head=1, query=7))
    a_patch_is_lit_by_its_weight_and_a_key_of_the_map_is_outlined(page)


def the_run_of_the_start_is_open_and_its_text_is_sorted_by_weight(page: Page) -> None:
    expect(page).to_have_url(re.compile("model=run%3A%2F"))
    expect(page.locator(".st-key-text-view .title")).to_have_text(re.compile("^Text shaded by the weights of query"))
    said = page.locator(".tv .strongest").inner_text()
    weights = [float(number) for number in re.findall(r"0\.\d{4}", said)]
    layer, head = map(int, re.match(r"L(\d) H(\d)", said).groups())
    query = int(re.search(r"query (\d+)", page.locator(".tv .title").inner_text()).group(1))
    row = np.sort(saved_runs.encoder().kinds[0].layers[layer][head, query])[::-1]
    assert weights == pytest.approx(row[:3].tolist(), abs=1e-4)
    expect(page.locator(".tv .after")).to_be_hidden()
    expect(page.locator(".hg .legend")).not_to_contain_text("masked")


def a_file_that_is_none_is_said_and_one_that_is_opens(page: Page, folder: Path) -> None:
    sidebar = page.get_by_test_id("stSidebar")
    sidebar.get_by_text("Open a run").click()
    (folder / "other.safetensors").write_bytes(b"nothing of the kind")
    upload = sidebar.locator("input[type=file]")
    upload.set_input_files(folder / "other.safetensors")
    expect(sidebar.get_by_role("alert")).to_contain_text("is no saved run")
    sidebar.locator("input[type=file]").set_input_files(folder / "picture.safetensors")
    expect(page.locator(".pv .title")).to_have_text(re.compile("^Picture shaded by the weights"))
    expect(page).to_have_url(re.compile(r"model=run%3A[0-9a-f]{24}%2Fpicture\.safetensors"))
    expect(sidebar.get_by_label("Model").first).to_have_value("picture · A small ViT · saved run")
    enter_opens_a_path(page, folder)


def enter_opens_a_path(page: Page, folder: Path) -> None:
    sidebar = page.get_by_test_id("stSidebar")
    sidebar.get_by_text("Open a run").click()
    field = sidebar.get_by_role("textbox", name="Path of a saved run")
    field.fill(str(folder / "encoder-decoder.safetensors"))
    field.press("Enter")
    expect(page).to_have_url(re.compile(r"model=run%3A%2F.*encoder-decoder\.safetensors"))
    expect(page).to_have_url(re.compile(r"other_model=run%3A"))


def a_map_of_two_texts_reads_both(page: Page) -> None:
    weights = saved_runs.encoder_decoder().kind("cross").layers[1][2]
    settle(page)
    key = int(weights[12].argmax())
    expect(page.locator(".hv .read").first).to_have_text(
        f"Query 12 “·d12” → key {key} “·e{key}”: weight {weights[12, key]:.4f}"
    )
    side = page.locator(".hv .map").bounding_box()
    page.locator(".hv .map").focus()
    page.keyboard.press("ArrowUp")
    expect(page.locator(".hv .read").first).to_contain_text(f"{weights[11, key]:.4f}")
    expect(page.locator(".tv .title")).to_contain_text("query 11 “·d11”")
    assert side["height"] > 100 and page.locator(".tv .text .token").count() == 7


def a_row_is_named_by_its_token(page: Page) -> None:
    row = saved_runs.continued().kinds[0].layers[0][1, 3]
    expect(page.locator(".hv .read").first).to_contain_text(f"Query 14 out “·j” → key {int(row.argmax())} ")
    expect(page.locator(".hv .read").first).to_contain_text(f"{row.max():.4f}")
    page.locator(".tv .token").nth(12).click()  # of the words, that of token 12
    expect(page).to_have_url(re.compile("query=12"))
    expect(page.locator(".hv .read").first).to_contain_text("Query 12 out")


LIGHT = """canvas => {  // mean brightness of each patch's middle, which no frame covers
  const ink = canvas.getContext("2d"), [rows, columns] = [3, 5], found = [];
  for (let y = 0; y < rows; y++) for (let x = 0; x < columns; x++) {
    const [w, h] = [canvas.width / columns, canvas.height / rows];
    const box = [(x + 0.25) * w, (y + 0.25) * h, w / 2, h / 2].map(Math.round), { data } = ink.getImageData(...box);
    found.push(data.reduce((sum, v, i) => sum + (i % 4 < 3 ? v : 0), 0) / (0.75 * data.length));
  }
  return found;
}"""


def a_patch_is_lit_by_its_weight_and_a_key_of_the_map_is_outlined(page: Page) -> None:
    weights = saved_runs.picture().kinds[0].layers[0][1]  # (17, 17): [CLS], [REG], 15 patches
    picture = page.locator(".pv")
    expect(picture.locator(".title")).to_contain_text("query 7 “1,0”")
    settle(page)
    lit = np.array(picture.locator("canvas").evaluate(LIGHT))
    shares = np.sqrt(weights[7, 2:] / weights[7, 2:].max())
    assert np.corrcoef(lit, 1 - 0.82 * (1 - shares))[0, 1] > 0.97
    expect(picture.locator(".before .token")).to_have_text(["[CLS]", "[REG]"])
    map_ = page.locator(".hv .map")
    page.mouse.move(2, 2)  # a patch that comes below the pointer when the page scrolls is pointed at
    map_.focus()
    page.keyboard.press("ArrowDown")
    expect(picture.locator(".title")).to_contain_text("query 8 “1,1”")
    key = int(weights[7].argmax())
    expect(picture.locator(".strongest")).to_contain_text(f"key {key} ")
    expect(picture.locator(".strongest")).to_contain_text(f"{weights[8, key]:.4f}")
    frame = picture.locator(".frame")
    frame.focus()
    for key, query in (
        ("ArrowUp", "3 “0,1”"),
        ("ArrowUp", "1 “[REG]”"),
        ("ArrowLeft", "0 “[CLS]”"),
        ("ArrowDown", "2 “0,0”"),
    ):
        page.keyboard.press(key)
        expect(picture.locator(".title")).to_contain_text(f"query {query}")
    frame.click(position={"x": 10, "y": 10})
    expect(page).to_have_url(re.compile("query=2(&|$)"))
