"""All tabs of the Heads page, for texts and models at their limits."""

import re
from pathlib import Path

import pytest

from attnviz import checkpoints
from attnviz.session.pages import PAGES
from attnviz.ui.pages import heads_studies
from tests.pages import HEADS, behind, opened, said

LONG_AND_MANY = {  # 512 tokens, and too many weights to keep at once: they are computed a layer at a time
    "text": "a **x** $y$ <b> " * 60, "model": "own", "n_heads": "14", "d_model": "112", "n_layers": "3",
}  # fmt: skip


@pytest.mark.parametrize("part", PAGES["heads"].tabs)
@pytest.mark.slow
def test_every_part_opens_for_a_long_text_and_many_heads(part):
    """One token, Chinese, padding, windows and checkpoints: tests/test_printed_equations.py."""
    app = opened(HEADS, tab=part, pinned="0.3,7.15", **LONG_AND_MANY)
    assert not app.error


def test_how_the_models_were_trained_is_what_the_model_card_says():
    """Shared run, averaged KV heads, MLA's own run: every number of the sentence is in the model card."""
    card = " ".join((Path(checkpoints.__file__).parent / "README.md").read_text(encoding="utf-8").split())
    assert "MHA, GQA-4, GQA-2 and MQA share one run up to 15,667,200" in card
    assert "MLA had one run of its own" in card and "averaged into groups" in card
    numbers = re.findall(r"\d[\d,]*\d", heads_studies.TRAINING)
    assert numbers and all(f" {number} " in card for number in numbers)
    assert heads_studies.TRAINING in behind(opened(HEADS, heads_part="family"))
    assert heads_studies.TRAINING not in behind(opened(HEADS, heads_part="family", model="own"))


def test_masks_and_ablation_say_the_same_loss():
    masks = said(opened(HEADS, heads_part="masks"))
    for way in ("zero", "mean"):
        ablated = said(opened(HEADS, heads_part="off", off_way=way))
        (loss,) = set(re.findall(r"(?:goes from|most:) (\d\.\d{3,4}) ", ablated))  # both charts
        assert f"loss goes from {loss} to" in ablated and ("fixed text" in ablated) == (way == "mean")
        (causal,) = re.findall(r"loss (\d\.\d{3}) \(causal\)", masks)
        assert abs(float(loss) - float(causal)) < 6e-4  # the ablated one has a digit more where its change needs it
        assert "nats per token" in masks and "nats per token" in ablated


def test_a_masked_cell_is_blank_in_the_table():
    table = opened(HEADS, {"numbers-map-path": True}).dataframe[0]
    assert table.value.isna().any(axis=None) and table.proto.HasField("placeholder") and not table.proto.placeholder


def test_the_selected_key_has_the_equation():
    page = opened(HEADS, heads_part="number", query="21", key="10")
    assert any("a_{21,10}" in formula.value for formula in page.latex)


def test_rollout_cites_the_paper_and_its_reply():
    page = said(opened(HEADS, heads_part="rollout"))
    assert "1902.10186" in page and "1908.04626" in page


def test_heads_without_scores_are_not_ranked():
    app = opened(HEADS, tab="models", window="1")
    assert ["no scores to compare" in each.value for each in app.info] == [True] and not app.dataframe
    assert "most similar" not in app.selectbox(key="control-other_head").format_func(
        app.selectbox(key="control-other_head").value
    )
    assert opened(HEADS, tab="models", window="2").dataframe
