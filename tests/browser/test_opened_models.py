"""Opened models: by path or hub id on the local machine, only listed ones when hosted."""

import re
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from urllib.parse import quote

import pytest
from playwright.sync_api import Locator, Page, expect
from streamlit.proto.BackMsg_pb2 import BackMsg

from tests.browser.conftest import go, turn_to
from tests.browser.painted import painted_fraction, pixels, settle
from tests.browser.server import Server, serve
from tests.browser.sidebar import the_model
from tests.checkpoints.fake_hub import FakeHub, fake_hub
from tests.checkpoints.tokenizers import byte_level
from tests.soak.session import connected, widget_id
from tests.waiting import result_of

NAME, FORM = "somebody/hub-model", "Open a model"
OPAQUE = """canvas => {
  const { data } = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height);
  return data.filter((each, i) => i % 4 === 3 && each).length / (data.length / 4);
}"""  # share of painted pixels of a canvas


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    """Write a Llama of 14 layers of 10 heads, enough that the grid starts in the overview."""
    from transformers import LlamaConfig, LlamaForCausalLM

    path = tmp_path_factory.mktemp("models") / "tall"
    sizes = dict(hidden_size=60, intermediate_size=70, num_hidden_layers=14, num_attention_heads=10)
    LlamaForCausalLM(LlamaConfig(**sizes, vocab_size=330, num_key_value_heads=5)).save_pretrained(path)
    byte_level(path)
    return path


def the_name(page: Page) -> Locator:
    return page.get_by_role("textbox", name="Path of a folder, or hub id")


def open_form(page: Page) -> None:
    page.get_by_test_id("stSidebar").get_by_text(FORM, exact=True).click()
    expect(the_name(page)).to_be_visible()
    settle(page)


def ask_for(page: Page, name: str) -> None:
    the_name(page).fill(name)
    the_name(page).press("Enter")


def test_on_ones_own_machine_a_path_and_a_hub_id_open(tab: Callable[..., Page], folder: Path) -> None:
    with fake_hub(NAME, folder) as (hub, address), own_server(folder, address) as server:
        page = tab()
        go(page, server, "heads")
        a_path_opens_and_a_large_grid_begins_small(page, folder)
        assert hub.asked == []  # for a path, nothing is downloaded
        turn_to(page, "heads")
        a_hub_id_is_downloaded_and_shown(page, hub)
        assert server.tracebacks() == []


def own_server(folder: Path, hub: str) -> AbstractContextManager[Server]:
    return serve(env={"HF_ENDPOINT": hub, "HF_HUB_CACHE": str(folder.parent / "cache"), "HF_HUB_OFFLINE": "0"})


def a_path_opens_and_a_large_grid_begins_small(page: Page, folder: Path) -> None:
    open_form(page)
    ask_for(page, str(folder.parent / "nothing"))
    expect(page.get_by_test_id("stSidebar").get_by_role("alert")).to_contain_text("no folder")
    ask_for(page, f"{folder}/../tall")
    expect(the_model(page)).to_have_value("tall")
    expect(page).to_have_url(re.compile(re.escape(quote(str(folder), safe=""))))
    expect(page.get_by_text("10 query heads read 5 KV heads").first).to_be_visible()
    settle(page)
    grid = page.locator(".hg").first
    assert grid.locator(".head").count() == 140 and painted_fraction(pixels(grid.locator(".grid"))) > 0.3
    assert grid.locator(".map").first.bounding_box()["width"] < 50
    zoom_down_to_a_cell(page, grid)
    two_fingers_zoom(page, grid)
    heads = page.get_by_label("Heads shown")
    heads.select_option("near")
    assert grid.locator(".head").first.get_attribute("aria-selected") == "true"  # the head itself is the most similar
    heads.select_option("by:distance")
    expect(grid.locator(".role")).to_have_text("largest distance first")
    page.reload()
    settle(page)
    expect(the_model(page)).to_have_value("tall")


def _within(box: dict[str, float], at: tuple[float, float]) -> tuple[float, float]:
    """Return a point of the window as fractions of a box's width and height."""
    return (at[0] - box["x"]) / box["width"], (at[1] - box["y"]) / box["height"]


def zoom_down_to_a_cell(page: Page, grid: Locator) -> None:
    """Ctrl + wheel keeps the cell under the pointer; keys zoom too, and Fit shows all heads again."""
    head = grid.locator(".map").nth(4 * 10 + 3)
    small = head.bounding_box()
    at = (
        round(small["x"] + 0.2 * small["width"]),
        round(small["y"] + 0.8 * small["height"]),
    )  # integers, as in a wheel event
    before = _within(small, at)
    page.mouse.move(*at)
    said = grid.locator(".read").inner_text()
    assert "Layer 4, H3" in said and "weight" in said
    page.keyboard.down("Control")
    for _ in range(30):
        page.mouse.wheel(0, -100)
    page.keyboard.up("Control")
    expect(grid.get_by_role("status")).to_have_text(re.compile(r"^Zoom \d\d"))
    assert _within(head.bounding_box(), at) == pytest.approx(before, abs=0.005)  # the point stays where it is
    assert grid.locator("canvas").first.evaluate(OPAQUE) > 0.5
    grid.get_by_role("button", name="Fit all heads").click()
    assert head.bounding_box()["width"] == small["width"]
    head.locator("..").focus()
    page.keyboard.press("+")
    assert head.bounding_box()["width"] == pytest.approx(1.5 * small["width"], abs=1)
    page.keyboard.press("0")
    assert head.bounding_box()["width"] == small["width"]


def two_fingers_zoom(page: Page, grid: Locator) -> None:
    """A pinch zooms the maps by its ratio, around the point between the fingers; the page is not zoomed."""
    head = grid.locator(".map").nth(5 * 10 + 4)
    small = head.bounding_box()
    at = round(small["x"] + 0.5 * small["width"]), round(small["y"] + 0.5 * small["height"])
    before = _within(small, at)
    touch = page.context.new_cdp_session(page)
    touch.send("Emulation.setTouchEmulationEnabled", {"enabled": True, "maxTouchPoints": 2})
    for kind, apart in (("touchStart", 20), *(("touchMove", 20 + 4 * i) for i in range(1, 16))):
        fingers = [{"x": at[0] + way * apart, "y": at[1], "id": i} for i, way in enumerate((-1, 1))]
        touch.send("Input.dispatchTouchEvent", {"type": kind, "touchPoints": fingers})
    touch.send("Input.dispatchTouchEvent", {"type": "touchEnd", "touchPoints": []})
    expect(grid.get_by_role("status")).to_have_text("Zoom 4.0 ×")  # from 40 pixels to 160
    assert head.bounding_box()["width"] == pytest.approx(4 * small["width"], abs=2)
    assert _within(head.bounding_box(), at) == pytest.approx(before, abs=0.02)
    assert page.evaluate("visualViewport.scale") == 1
    grid.get_by_role("button", name="Fit all heads").click()
    touch.send("Emulation.setTouchEmulationEnabled", {"enabled": False})


def a_hub_id_is_downloaded_and_shown(page: Page, hub: FakeHub) -> None:
    open_form(page)
    ask_for(page, NAME)
    expect(the_model(page)).to_have_value("hub-model")
    settle(page)
    files = {"config.json", "generation_config.json", "tokenizer.json", "model.safetensors"}
    assert {name for _, name, _ in hub.asked} == files
    expect(page).to_have_url(re.compile("somebody%2Fhub-model"))


def test_hosted_only_what_is_listed_is_offered(folder: Path) -> None:
    """Over the websocket: which models are offered is decided by the server."""

    async def walked(url: str) -> None:
        session = await connected(url, f"model={quote(str(folder.parent), safe='')}")
        await session.open("heads")
        (refused,) = (alert for alert in session.said("alert") if "cannot be opened here" in alert)
        assert "gqa-4 is shown" in refused.replace("\\", "")  # escaped for markdown
        assert not any(FORM.encode() in frame for frame in session.frames)
        box, message = session.control("model"), BackMsg()
        message.rerun_script.fragment_id = box.fragment
        message.rerun_script.widget_states.widgets.add(id=widget_id(box.element), string_value="tall")
        await session._run(message)
        assert any("10 query heads read 5 KV heads" in text for text in session.said("markdown"))
        await session.socket.close()

    with serve(env={"ATTNVIZ_MODELS": str(folder)}) as server:
        result_of(walked(server.url))
        assert server.tracebacks() == []
