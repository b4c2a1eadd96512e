"""The page of a run as text: its size, what it names, what it refuses. Drawn: tests/browser/test_notebook.py."""

import base64
import json
import re
import subprocess
import sys
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import attnviz
from attnviz.assets import SCRIPTS, bundled
from attnviz.notebook import document
from attnviz.runs.run import run_of
from tests.notebook.test_codes import decoded
from tests.runs.test_run import RANDOM, H, L, S, T, names, rows


def header_of(page: str) -> dict[str, Any]:
    return json.loads(re.search(r'<script type="application/json" id="run">(.*?)</script>', page, re.DOTALL)[1])


def codes_in(page: str) -> np.ndarray:
    """The page's codes, decompressed as the browser does."""
    packed = re.search(r'id="weights">(.*?)</script>', page, re.DOTALL)[1]
    high, low = np.frombuffer(zlib.decompress(base64.b64decode(packed)), np.uint8).reshape(2, -1).astype(int)
    return 256 * high + low


def test_the_weights_are_in_the_page() -> None:
    weights = rows(L, H, T, T)
    page = attnviz.show(weights, names(T)).html()
    top = header_of(page)["kinds"][0]["top"]
    found = [float(decoded(code, top)) for code in codes_in(page).tolist()]
    assert np.allclose(found, weights.ravel(), rtol=5e-4, atol=0)


def test_what_the_page_says_of_a_run() -> None:
    weights = {"encoder": rows(L, H, S, S), "decoder": np.tril(rows(L, H, T, T)), "cross": 0.5 * rows(L, H, T, S)}
    run = run_of(
        weights, {"encoder": names(S, "Ġ"), "decoder": ["▁a", "\n", *names(T - 2)]}, n_kv_heads=1, title="Mine"
    )
    page = header_of(attnviz.show(run).html())
    encoder, decoder, cross = page["kinds"]
    assert page["title"] == "Mine" and encoder["tokens"][0] == "·0" and decoder["tokens"][:2] == ["·a", "⏎"]
    assert "is a space" in encoder["marks"] and "ends a line" in decoder["marks"]
    assert (encoder["causal"], decoder["causal"], cross["cross"]) == (False, True, True)
    assert (encoder["sumsToOne"], cross["sumsToOne"]) == (True, False)
    assert any("0.5 instead of 1" in note for note in page["notes"])
    assert f"{L} layers × {H} heads, {T} query tokens and {S} key tokens" in cross["about"]


def test_kv_heads_are_claimed_only_where_they_were_given() -> None:
    known, unknown = (
        header_of(attnviz.show(rows(L, 6, T, T), names(T), **given).html())["kinds"][0]
        for given in ({"n_kv_heads": 2}, {})
    )
    assert known["kv"] == [2, 2] and "read the same KV head" in known["about"]
    assert unknown["kv"] == [None, None] and "was not given" in unknown["about"]
    own = header_of(attnviz.show(rows(L, 6, T, T), names(T), n_kv_heads=6).html())["kinds"][0]
    assert own["kv"] == [None, None] and "each has keys and values of its own" in own["about"]
    causal = header_of(attnviz.show(np.tril(rows(L, 6, T, T)), names(T), n_kv_heads=6).html())["kinds"][0]
    assert causal["kv"] == [6, 6] and "read the same KV head" in causal["about"]


HOSTILE = ["</script><script>alert(1)</script>", "<!--", "$title ${script}", '"', "\ud800", "\u0000", "<img src=x>"]


def test_tokens_are_data_and_never_markup() -> None:
    page = attnviz.show(rows(L, H, S, S), HOSTILE, title="</title><script>alert(2)</script>").html()
    assert header_of(page)["kinds"][0]["tokens"] == [*HOSTILE[:4], "U+D800", "␀", HOSTILE[6]]
    assert page.count("<script") == 3 and "alert(2)</script><" not in page and "<img" not in page
    page.encode("utf-8")


def test_nothing_is_loaded_from_anywhere() -> None:
    page = attnviz.show(rows(L, H, T, T), names(T)).html()
    assert re.findall(r"<link|<script[^>]* src|@import|url\((?!\$|\[)[^)]*http|\bimport\(", page) == []
    addresses = set(re.findall(r"https?://[\w./-]+", page))
    assert addresses == {"http://www.w3.org/2000/svg"}  # a name, of SVG elements


def test_a_picture_is_in_the_page_after_the_weights() -> None:
    picture = RANDOM.integers(0, 255, (4, 6, 3), np.uint8)
    weights = {"encoder": rows(L, H, S, S), "cross": rows(L, H, T, S)}
    run = run_of(weights, {"encoder": names(S), "decoder": names(T)}, picture=picture, patches=(2, 3), n_before=1)
    page = attnviz.show(run).html()
    header, packed = header_of(page), re.search(r'id="weights">(.*?)</script>', page, re.DOTALL)[1]
    assert header["picture"] == {"height": 4, "width": 6, "patches": [2, 3], "before": 1}
    assert zlib.decompress(base64.b64decode(packed))[-picture.size :] == picture.tobytes()
    assert [kind["patches"] for kind in header["kinds"]] == [True, True]
    assert header_of(attnviz.show(rows(L, H, T, T), names(T)).html())["picture"] is None


def test_a_large_picture_has_fewer_pixels_in_the_page(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(document, "MAX_PIXELS", 50)
    run = run_of(rows(L, H, S, S), names(S), picture=np.zeros((20, 30, 3), np.uint8), patches=(1, 7))
    assert header_of(attnviz.show(run).html())["picture"]["height"] == 5


def test_a_large_run_is_small_enough() -> None:
    """270 heads of 128 tokens, as random as weights can be."""
    view = attnviz.show(rows(30, 9, 128, 128), names(128))
    assert len(view.html()) < 15e6


def test_a_run_too_large_for_a_page_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(document, "MAX_WEIGHTS", L * H * T * T - 1)
    with pytest.raises(ValueError, match=r"150 weights.*149.*attention\[:4\].*save_run"):
        attnviz.show(rows(L, H, T, T), names(T))


def test_it_displays_itself_in_a_frame_and_can_be_saved(tmp_path: Path) -> None:
    view = attnviz.show(rows(L, H, T, T), names(T))
    frame = view._repr_html_()
    assert frame.startswith("<iframe srcdoc=") and frame.count('"', 0, 20) == 1 and "<script" not in frame
    path = view.save(tmp_path / "run.html")
    assert path.read_text(encoding="utf-8") == view.html()
    assert f"{L} layers × {H} heads, {T} tokens" in repr(view)


def test_show_needs_numpy_alone() -> None:
    code = (
        "import sys, numpy, attnviz; attnviz.show(numpy.full((2, 3, 5, 5), 0.2), list('abcde')).html();"
        "print({'torch', 'streamlit', 'plotly', 'safetensors', 'tokenizers'} & {m.split('.')[0] for m in sys.modules})"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == "set()"


def test_one_script_has_the_modules_in_order_without_imports() -> None:
    script = bundled("notebook/host.js", {"server/page.js": "notebook/page.js"})
    assert not re.search(r"^(import|export) ", script, re.MULTILINE)
    order = re.findall(r'^modules\["(.*?)"\] = ', script, re.MULTILINE)
    assert order[-1] == "notebook/host.js" and "server/page.js" not in order and len(set(order)) == len(order)
    for name in order:
        used = re.findall(
            r'modules\["(.*?)"\](?! =)', script[script.index(f'modules["{name}"] = ') :].split("\nmodules[")[0]
        )
        assert all(order.index(each) < order.index(name) for each in used if each != name)
    needed = [name for name, text in SCRIPTS.items() if name in order and "server/page.js" in text]
    assert len(needed) >= 2  # that the substitute is tested at all


def test_the_page_around_answers_what_the_components_ask() -> None:
    """notebook/page.js has every name that the bundled modules import from server/page.js."""
    order = re.findall(
        r'^modules\["(.*?)"\] = ', bundled("notebook/host.js", {"server/page.js": "notebook/page.js"}), re.MULTILINE
    )
    wanted = {
        name
        for module in order
        for names_, file in re.findall(r'^import \{([^}]*)\} from "(\..*)";$', SCRIPTS[module], re.MULTILINE)
        if file.endswith("server/page.js")
        for name in re.findall(r"\w+", names_)
    }
    assert wanted and wanted <= set(re.findall(r"^export const (\w+)", SCRIPTS["notebook/page.js"], re.MULTILINE))
