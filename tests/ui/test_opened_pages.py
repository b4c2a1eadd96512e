"""Every page and tab with opened models shows a picture, or a sentence that says why there is none."""

from pathlib import Path

import pytest
import torch
from transformers import (
    Gemma2Config,
    Gemma2ForCausalLM,
    Gemma3ForCausalLM,
    Gemma3TextConfig,
    GPT2Config,
    GPT2LMHeadModel,
    Qwen3Config,
    Qwen3ForCausalLM,
)  # fmt: skip

from attnviz.session import openable
from attnviz.session.pages import ALL, PAGES
from attnviz.ui.pages.mistakes import ANSWERS, SKIPPED
from tests.checkpoints.tokenizers import byte_level, words
from tests.pages import COST, GROUPS, HEADS, MISTAKES, ROPE, in_the_open, opened, pictures, said, sentences
from tests.walk import decode_little

pytestmark = pytest.mark.slow

SIZES = dict(
    vocab_size=330, hidden_size=30, intermediate_size=37, num_hidden_layers=3, num_attention_heads=6,
    num_key_value_heads=2, max_position_embeddings=600, head_dim=8,
)  # fmt: skip
GEMMA = SIZES | dict(query_pre_attn_scalar=7, sliding_window=9)
MODELS = {
    "qwen3": (lambda: Qwen3ForCausalLM(Qwen3Config(**SIZES, tie_word_embeddings=True)), byte_level),
    "gpt2": (lambda: GPT2LMHeadModel(GPT2Config(vocab_size=330, n_positions=70, n_embd=30, n_layer=3, n_head=5)),
             byte_level),
    "gemma2": (lambda: Gemma2ForCausalLM(Gemma2Config(**GEMMA)), words),
    "gemma3": (lambda: Gemma3ForCausalLM(Gemma3TextConfig(**GEMMA)), words),
}  # fmt: skip
DRAW_NOTHING = ("mistakes", "practice", "lessons")  # before a prediction or question is answered; a list of links
SPECIAL = (  # mistakes in code that some of the models do not run, or run with another number of tokens
    "left_padding_without_shifted_positions", "sigmoid_gate", "norm_on_residual_sum", "scale_by_d_model",
    "scores_overflow_in_fp16", "fully_masked_row", "rope_on_values", "attention_across_the_batch",
)  # fmt: skip
PLACES = [(page, tab) for page in ALL for tab in (list(page.tabs) or [""])]
TRACED = ("heads", "query_groups", "rope", "steps")
FIRST_TABS = [(page, next(iter(page.tabs), "")) for page in ALL]
SEEN_WITH = {  # what is unlike the others: learned positions; norms of q and k and two bases of RoPE; capped scores
    "gpt2": PLACES,
    "gemma3": [place for place in PLACES if place in FIRST_TABS or place[0].path in (*TRACED, "decode", "")],
    "gemma2": [place for i, place in enumerate(PLACES) if place in FIRST_TABS or (place[0].path in TRACED and i % 2)],
    "qwen3": FIRST_TABS,
}  # each page of each model


@pytest.fixture(scope="module")
def folders(tmp_path_factory) -> dict[str, Path]:
    torch.manual_seed(3)
    found = {name: tmp_path_factory.mktemp(name) for name in MODELS}
    for name, (make, tokenizer) in MODELS.items():
        make().bfloat16().save_pretrained(found[name])
        tokenizer(found[name])
    return found


@pytest.fixture
def listed(folders, monkeypatch):
    monkeypatch.setenv(openable.ALLOWED, ",".join(map(str, folders.values())))
    decode_little(monkeypatch, n_read=24)
    return folders


@pytest.mark.parametrize("model", MODELS)
def test_every_page_and_tab(model, listed):
    for page, tab in SEEN_WITH[model]:
        app = opened(page.file, model=str(listed[model]), bound="16", **({"tab": tab} if tab else {}))
        assert not app.error and not app.warning, (page.path, tab, sentences(app))
        assert pictures(app) or sentences(app) or page.path in DRAW_NOTHING, (page.path, tab)
        assert page.path == "lessons" or in_the_open(said(app)) == [], (page.path, tab)
    if model == "qwen3":
        assert "KV heads" in sentences(opened(GROUPS, model=str(listed[model]), tab="alike"))


@pytest.mark.parametrize("model", MODELS)
def test_each_mistake_that_is_answered_is_run_or_says_why_not(model, listed):
    for name in SPECIAL:
        app = opened(MISTAKES, {ANSWERS: {name: SKIPPED}}, model=str(listed[model]), mistake=name)
        assert bool(app.metric) != ("It does not show in" in sentences(app)), name
        why = sentences(app)
        assert app.metric or "did not run" in why or "does not fit this model" in why, (name, why)
        assert not app.error and not app.warning, (name, why)


@pytest.mark.parametrize(
    ("path", "tab", "control", "checkpoint"),
    [
        ("heads", "family", "Layer", "GQA-4"),
        ("query_groups", "cost", None, "GQA-4"),
        ("query_groups", "maps", None, "GQA-4"),
        ("query_groups", "alike", "Compare", "GQA-4"),
        ("query_groups", "latent", None, "MLA"),
        ("rope", "longer", "Scaling factor: extended context ÷ training context", "GQA-4"),
        ("rope", "latent", None, "MLA"),
        ("decode", "models", None, "GQA-4"),
    ],
)
def test_a_part_for_checkpoints_only_offers_one_instead_of_controls(
    path, tab, control, checkpoint, listed, no_links_to_pages
):
    app = opened(PAGES[path].file, model=str(listed["qwen3"]), tab=tab)
    shown = {e.label for kind in ("button_group", "slider") for e in app.get(kind)}
    assert control not in shown and "in the sidebar" not in sentences(app)
    before = pictures(app)
    (button,) = (b for b in app.button if b.label == f"Show it with the {checkpoint} checkpoint")
    button.click().run()
    assert not app.exception and not app.error and len(pictures(app)) > len(before)
    assert not [b for b in app.button if b.label.startswith("Show it with the")]
    assert control is None or control in {e.label for kind in ("button_group", "slider") for e in app.get(kind)}


def test_an_opened_model_is_named_once_beside_its_map_and_on_a_mistake(listed):
    name = listed["qwen3"].name
    beside = opened(HEADS, model=str(listed["qwen3"]), tab="models", query="2")
    found = [m.value for m in beside.markdown if m.value.startswith(f"**{name}**")]
    assert len(found) == 1 and found[0].count(name) == 1, found
    run = opened(MISTAKES, {ANSWERS: {SPECIAL[0]: SKIPPED}}, model=str(listed["qwen3"]), mistake=SPECIAL[0])
    titles = [m.value for m in run.markdown if m.value.startswith("## On your text")]
    assert [title.count(name) for title in titles] == [1], titles


def test_gpt2_says_why_there_is_no_rope(listed):
    assert "no RoPE" in sentences(opened(ROPE, model=str(listed["gpt2"])))


def test_the_cost_page_names_the_opened_model(listed, monkeypatch, tmp_path):
    (folder := tmp_path / "my_toy*1").mkdir()
    for file in listed["gpt2"].iterdir():
        (folder / file.name).symlink_to(file)
    monkeypatch.setenv(openable.ALLOWED, str(folder))
    app = opened(COST, model=str(folder), preset="selected")
    (header,) = (h.value for h in app.header if "selected in the sidebar" in h.value)
    assert header.startswith(r"my\_toy\*1: ")
    assert r"**my\_toy\*1 needs" in " ".join(m.value for m in app.markdown)


def test_too_few_learned_positions_are_a_sentence(listed, monkeypatch, tmp_path):
    config = GPT2Config(vocab_size=330, n_positions=9, n_embd=30, n_layer=1, n_head=5)
    GPT2LMHeadModel(config).save_pretrained(tmp_path)
    byte_level(tmp_path)
    monkeypatch.setenv(openable.ALLOWED, str(tmp_path))
    assert "has 9 learned positions" in sentences(opened(HEADS, model=str(tmp_path)))


def test_a_text_longer_than_the_learned_positions_is_cut_there(listed):
    app = opened(HEADS, model=str(listed["gpt2"]), text="The little girl found a ball. " * 40)
    assert "first 70 are shown" in sentences(app) and "has 70 learned positions" in sentences(app)


def test_a_model_that_is_not_listed_is_named_and_the_default_shown(listed):
    app = opened(HEADS, model="/etc")
    assert "“/etc”, which cannot be opened here; gqa-4 is shown" in sentences(app) and pictures(app)


def test_a_listed_model_that_is_broken_gets_a_sentence(listed, monkeypatch, tmp_path):
    (tmp_path / "config.json").write_text('{"architectures": ["BloomForCausalLM"]}')
    monkeypatch.setenv(openable.ALLOWED, str(tmp_path))
    app = opened(HEADS, model=str(tmp_path))
    assert "BloomForCausalLM" in sentences(app)


@pytest.mark.parametrize("is_own_machine", [True, False])
def test_lines_to_run_are_shown_on_ones_own_machine_only(is_own_machine, listed, monkeypatch, tmp_path):
    for file in listed["qwen3"].iterdir():
        (tmp_path / file.name.replace("model.safetensors", "pytorch_model.bin")).symlink_to(file)
    if is_own_machine:
        monkeypatch.delenv(openable.ALLOWED)
        monkeypatch.setattr(openable, "is_local", lambda: True)
    else:
        monkeypatch.setenv(openable.ALLOWED, str(tmp_path))
    app = opened(HEADS, model=str(tmp_path))
    assert "a pickle" in sentences(app) and "\n" not in sentences(app)
    code = [each.value for each in app.code]
    assert [f".save_pretrained('{tmp_path}')" in each for each in code] == [True] * is_own_machine
    assert sentences(app).endswith(":" if is_own_machine else "convert it. Choose another model in the sidebar.")


def test_a_second_text_with_a_token_that_the_model_lacks_is_a_sentence(tmp_path, monkeypatch):
    GPT2LMHeadModel(GPT2Config(vocab_size=301, n_positions=70, n_embd=10, n_layer=1, n_head=2)).save_pretrained(
        tmp_path
    )
    byte_level(tmp_path)
    monkeypatch.setenv(openable.ALLOWED, str(tmp_path))
    app = opened(HEADS, model=str(tmp_path), tab="cross", second_text="a <tool>", text="a dog")
    assert not app.exception and "the token “<tool>” (id 301)" in app.error[0].value.replace("\\", "")


def test_the_next_run_shows_files_that_were_replaced(tmp_path, monkeypatch):
    def save(n_layer: int) -> None:
        GPT2LMHeadModel(
            GPT2Config(vocab_size=330, n_positions=70, n_embd=10, n_layer=n_layer, n_head=2)
        ).save_pretrained(tmp_path)

    save(3)
    byte_level(tmp_path)
    monkeypatch.setenv(openable.ALLOWED, str(tmp_path))
    app = opened(HEADS, model=str(tmp_path), layer="2", text="a dog")
    assert pictures(app) and not sentences(app)
    save(1)
    app.run()
    assert pictures(app) and not app.exception and not app.error
    (tmp_path / "model.safetensors").write_bytes(b"half a file")
    app.run()
    assert not app.exception and "damaged or incomplete" in sentences(app)
