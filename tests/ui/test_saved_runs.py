"""Every page and tab with saved runs shows a picture, or a sentence that says what the run lacks.

Run: .venv/bin/python -m pytest tests/ui/test_saved_runs.py
"""

import json

import pytest

from attnviz.compute import recorded
from attnviz.mechanisms import Recorded
from attnviz.runs.file import save_run
from attnviz.session import openable
from attnviz.session.pages import ALL
from attnviz.ui import local_session
from tests import saved_runs
from tests.pages import (
    COST,
    FRONT,
    GROUPS,
    HEADS,
    STEPS,
    checked,
    in_the_open,
    linked,
    opened,
    pictures,
    said,
    sent,
    sentences,
    shown,
    titles,
)
from tests.saved_runs import saved

KINDS = {
    "encoder": "",
    "decoder": "",
    "encoder-decoder": "cross",
    "continued": "",
    "picture": "",
    "crossed": "",
}  # with all tabs of the Heads page; of the other pages the first two
PLACES = [(page, tab) for page in ALL for tab in (list(page.tabs) or [""])]
FEW = [(page, tab) for page, tab in PLACES if page.path == "heads" or tab in list(page.tabs)[:1] or not tab]
DRAW_NOTHING = ("practice", "lessons")


@pytest.fixture
def own_machine(monkeypatch):
    monkeypatch.delenv(openable.ALLOWED, raising=False)
    monkeypatch.setattr(openable, "is_local", lambda: True)
    monkeypatch.setattr(local_session, "is_local_session", lambda: True)
    monkeypatch.setattr(openable, "_recent", [])
    monkeypatch.setattr(recorded, "_refused", {})


@pytest.mark.slow
@pytest.mark.parametrize("name", KINDS)
def test_every_page_and_tab(name, own_machine, tmp_path):
    model = saved(tmp_path, name)
    for page, tab in PLACES if name == "decoder" else FEW:
        app = opened(page.file, model=model, run_kind=KINDS[name], **({"tab": tab} if tab else {}))
        assert not app.error and not app.warning, (page.path, tab, sentences(app))
        assert pictures(app) or sentences(app) or page.path in DRAW_NOTHING, (page.path, tab)
        assert page.path == "lessons" or in_the_open(said(app)) == [], (page.path, tab)
        if page.asks:
            assert Recorded.refusals[page.asks] in sentences(app) and not pictures(app), (page.path, tab)


def test_a_page_that_needs_the_model_says_so_and_offers_a_checkpoint(own_machine, tmp_path, no_links_to_pages):
    app = opened(STEPS, model=saved(tmp_path, "encoder"))
    assert "its source cannot be walked through line by line" in sentences(app) and not pictures(app)
    (button,) = (b for b in app.button if b.label == "Show it with the GQA-4 checkpoint")
    checked(button.click().run())
    assert pictures(app) and not sentences(app) and "model" not in linked(app)


def test_the_heads_page_says_what_was_recorded_and_nothing_of_a_model(own_machine, tmp_path):
    app = opened(HEADS, model=saved(tmp_path, "encoder"))
    text = shown(app)
    assert "3 layers of 5 heads, 11 tokens, saved run encoder.safetensors." in said(app).replace("\\", "")
    assert '"next":null' in text.replace(" ", "")
    for never in ("traced in", "random tokens, repeated once", "Grey cells", "softmax("):
        assert never not in text, never
    decoder = shown(opened(HEADS, model=saved(tmp_path, "decoder")))
    assert "GQA-2 in 3 layers, 17 tokens" in decoder and "11 out" in decoder
    assert "Grey cells lie above the diagonal" in decoder


def test_a_kind_is_chosen_in_the_sidebar_and_is_part_of_the_link(own_machine, tmp_path, no_links_to_pages):
    app = opened(HEADS, model=saved(tmp_path, "encoder-decoder"))
    (kinds,) = (each for each in app.sidebar.get("button_group") if each.label == "Attention")
    assert [option.content for option in kinds.proto.options] == ["Encoder self", "Decoder self", "Cross-attention"]
    checked(kinds.set_value("cross").run())
    assert linked(app)["run_kind"] == "cross"
    assert "Cross-attention: 2 layers of 3 heads, 13 query tokens, 7 key tokens" in said(app)
    assert "layers are numbered in the file's order: 0 is “block.2” and 1 is “block.5”" in said(app).replace("\\", "")
    assert '"rows":["block.2","block.5"]' in sent(app).replace('", "', '","')
    assert [area.value for area in app.sidebar.text_area] == [
        "d0 d1 d2 d3 d4 d5 d6 d7 d8 d9 d10 d11 d12",
        "e0 e1 e2 e3 e4 e5 e6",
    ]
    assert all(area.disabled for area in app.sidebar.text_area)


def test_the_overview_names_the_keys_of_the_other_text(own_machine, tmp_path):
    app = opened(FRONT, model=saved(tmp_path, "encoder-decoder"), run_kind="cross")
    (grid,) = (each.proto.bytes for each in app.get("bidi_component") if "front-grid" in each.proto.id)
    header = json.loads(grid[4 : 4 + int.from_bytes(grid[:4], "little")])
    assert header["labels"] == [[f"·d{i}" for i in range(13)], [f"·e{i}" for i in range(7)]]


def test_the_overview_speaks_of_kv_heads_only_where_a_run_has_them(own_machine, tmp_path):
    assert "Each head has a hue of its own." in said(opened(FRONT, model=saved(tmp_path, "encoder")))
    assert "The hue is that of the key/value (KV) head" in said(opened(FRONT, model=saved(tmp_path, "decoder")))


def test_q_and_k_show_the_way_from_score_to_weight_with_the_numbers_saved(own_machine, tmp_path):
    run = saved_runs.decoder()
    app = opened(HEADS, model=saved(tmp_path, "decoder"), layer="2", head="4", query="13", key="7", tab="number")
    weight = float(run.kinds[0].layers[2][4, 13, 7])
    score = float(run.q["self"][2][4, 13] @ run.k["self"][2][1, 7]) / 7**0.5
    assert f"score {score:.4f}".replace("-", "−") in titles(app) and f"weight {weight:.4f}" in titles(app)


def test_cross_attention_with_q_and_k_shows_its_scores(own_machine, tmp_path):
    run, at = saved_runs.crossed(), {"layer": "1", "head": "4", "query": "12", "key": "5"}
    score = float(run.q["cross"][1][4, 12] @ run.k["cross"][1][4, 5]) / 3**0.5
    weight = f"{run.kinds[0].layers[1][4, 12, 5]:.4f}"
    name = saved(tmp_path, "crossed")
    app = opened(HEADS, model=name, tab="number", **at)
    assert f"Query 12 “·d12” · key 5 “·e5”: score {score:.4f}".replace("-", "−") in titles(app).replace("\\", "")
    assert f"weight {weight}" in titles(app)
    assert "become weights of at most" in titles(opened(HEADS, model=name, tab="stages", **at))


def test_query_grouping_has_what_the_file_says(own_machine, tmp_path):
    app = opened(GROUPS, model=saved(tmp_path, "decoder"))
    keys = saved_runs.decoder().k["self"][1].reshape(2, -1)
    cosine = float(keys[0] @ keys[1] / (keys**2).sum(1).prod() ** 0.5)
    assert f"The keys of KV heads 0 and 1 are most similar: cosine {cosine:.2f}".replace("-", "−") in titles(app)
    assert "6 query heads share 2 KV heads" in titles(app)
    assert "does not say which KV head" in sentences(opened(GROUPS, model=saved(tmp_path, "encoder")))


def test_the_cost_page_counts_another_model_and_says_why(own_machine, tmp_path):
    name = saved(tmp_path, "decoder")
    assert opened(COST, model=name).header is not None
    app = opened(COST, model=name, preset="selected")
    assert "2 KV heads × (7 + 7) = 28 numbers per token and layer" in sentences(app)


def test_two_runs_are_compared_on_the_heads_page(own_machine, tmp_path):
    one, two = saved(tmp_path, "encoder"), f"run:{save_run(tmp_path / 'b.safetensors', saved_runs.encoder(9))}"
    app = opened(HEADS, model=one, tab="models", other_model=two, layer="2", head="3", other_head="2.3")
    first, second = (saved_runs.encoder(seed).kinds[0].layers[2][3] for seed in (0, 9))
    assert f"at most {abs(first - second).max():.4f}" in titles(app)
    assert "Of the heads in the same place" in titles(app) and "differs most" in titles(app)
    again = f"run:{save_run(tmp_path / 'c.safetensors', saved_runs.encoder())}"
    equal = titles(opened(HEADS, model=one, tab="models", other_model=again)).replace("\\", "")
    assert (
        "are equal: 121 weights, no difference" in equal and "15 pairs of heads in the same place: all equal" in equal
    )
    beside = opened(HEADS, model=one, tab="models", other_model="gqa-4")
    assert "weights on different tokens are not subtracted" in sentences(beside) and len(pictures(beside)) > 4


def test_the_cross_attention_of_a_run_is_a_button_away_on_its_tab(own_machine, tmp_path, no_links_to_pages):
    app = opened(HEADS, model=saved(tmp_path, "encoder-decoder"), run_kind="decoder", tab="cross")
    (button,) = (b for b in app.button if b.label == "Show its cross-attention")
    checked(button.click().run())
    assert linked(app)["run_kind"] == "cross" and "13 query tokens, 7 key tokens" in said(app)


def test_a_large_run_is_drawn_layer_by_layer(own_machine, tmp_path, monkeypatch):
    monkeypatch.setattr("attnviz.compute.models.MAX_TRACE_BYTES", 1)
    for name in ("decoder", "continued"):
        app = opened(HEADS, model=saved(tmp_path, name))
        assert [key.split("-", 2)[2].split("-None")[0] for key in pictures(app) if "head-grid" in key], name


@pytest.mark.parametrize("lesson", ["one-head", "score-to-weight", "many-heads"])
def test_a_lesson_step_with_a_run_selected_is_drawn(lesson, own_machine, tmp_path):
    for step in ("1", "3"):
        opened(HEADS, model=saved(tmp_path, "encoder"), lesson=lesson, lesson_step=step)


# ---- opening


def test_a_path_is_opened_in_the_sidebar(own_machine, tmp_path, no_links_to_pages):
    saved(tmp_path, "encoder")
    app = opened(HEADS, {"open-run-shown": True})
    app.text_input(key="open-run-path").set_value(str(tmp_path / "nothing"))
    checked(app.button(key="open-run-go").click().run())
    assert "There is no file" in sentences(app)
    app.text_input(key="open-run-path").set_value(str(tmp_path / "encoder.safetensors"))
    checked(app.button(key="open-run-go").click().run())
    assert linked(app)["model"] == f"run:{tmp_path / 'encoder.safetensors'}"
    assert "encoder · A small BERT · saved run" in app.sidebar.selectbox[0].options


def test_a_run_is_compared_with_the_one_that_was_open(own_machine, tmp_path, no_links_to_pages):
    one, two = saved(tmp_path, "encoder"), saved(tmp_path, "decoder")
    openable.remember(one)
    app = opened(HEADS, {"open-run-shown": True}, model=one)
    app.text_input(key="open-run-path").set_value(two.removeprefix("run:"))
    checked(app.button(key="open-run-go").click().run())
    assert linked(app)["other_model"] == one
    assert "model" in linked(app) and linked(app)["model"] == two
    swapped = opened(HEADS, model=one, tab="models", other_model=one)  # the one chosen is now the one compared with
    (other,) = (each for each in swapped.selectbox if each.label == "Other model")
    assert other.value == two


def test_enter_opens_what_was_typed(own_machine):
    """Both fields are in a form, which a browser submits at Enter."""
    app = opened(HEADS, {"open-run-shown": True, "open-model-shown": True})
    for name in ("run", "model"):
        field = app.text_input(key={"run": "open-run-path", "model": "open-model-name"}[name])
        button = app.button(key=f"open-{name}-go")
        assert field.proto.form_id == button.proto.form_id == f"open-{name}-form" and button.proto.is_form_submitter


def test_the_run_that_the_app_was_started_with_opens_at_a_bare_address(own_machine, tmp_path, monkeypatch):
    monkeypatch.setenv(openable.RUN, saved(tmp_path, "encoder").removeprefix("run:"))
    app = opened(HEADS)
    assert "saved run encoder.safetensors" in said(app).replace("\\", "") and linked(app)["model"].startswith("run:/")
    assert "saved run" in said(opened(FRONT)) and "saved run" not in said(opened(HEADS, model="mha"))


def test_a_link_without_its_file_says_what_to_do(own_machine, tmp_path):
    app = opened(HEADS, model=f"run:{tmp_path}/gone.safetensors")
    assert "There is no file" in sentences(app) and "opens on the machine that has its file" in sentences(app)
    assert "Open another file with “Open a run”, or choose another model in the sidebar." in sentences(app)
    again = opened(HEADS, model=f"run:{'0' * openable.N_DIGITS}/bert.safetensors")
    assert "Open its file again with “Open a run”" in sentences(again)


def test_hosted_no_run_is_opened(tmp_path, monkeypatch):
    name = saved(tmp_path, "encoder")
    monkeypatch.setattr(openable, "is_local", lambda: False)
    app = opened(HEADS, {"open-run-shown": True}, model=name)
    assert "this server does not open; gqa-4 is shown" in sentences(app) and "encoder" not in said(app.sidebar)
    assert "Open a run" not in [each.label for each in app.sidebar.expander]


def test_the_name_of_a_file_is_no_markup(own_machine, tmp_path):
    path = save_run(tmp_path / "my_*run*_[1](x).safetensors", saved_runs.encoder(), title="**<b>**")
    for page in (HEADS, GROUPS):
        text = said(opened(page, model=f"run:{path}"))
        assert r"my\_\*run\*\_\[1\]\(x\)" in text and "_*run*_" not in text
