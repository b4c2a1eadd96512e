"""The decoder: against `transformers`' Llama and Mistral with copied weights, in logits and every layer's weights."""

from dataclasses import replace

import pytest
import torch
from torch import nn
from transformers import LlamaConfig, LlamaForCausalLM, MistralConfig, MistralForCausalLM

from attnviz.config import RUN_FIELDS, ConfigError, ModelConfig, MoEConfig
from attnviz.modules import Block, Recording, Transformer
from attnviz.trace import trace
from tests.oracles import agree, padding_mask

B, T, L, C, H, D, F, VOCAB = 2, 11, 3, 42, 6, 10, 13, 37  # C / H is 7, not D
NAMES = {  # ours: theirs
    "attn_norm": "input_layernorm", "ffn_norm": "post_attention_layernorm", "attn": "self_attn", "ffn": "mlp",
    "blocks": "model.layers", "embed": "model.embed_tokens", "norm": "model.norm",
}  # fmt: skip
MLA = dict(attention="mla", kv_lora_rank=11, qk_rope_head_dim=4, qk_nope_head_dim=6, v_head_dim=7, q_lora_rank=3)


def token_ids(n: int = T) -> torch.Tensor:
    return torch.randint(VOCAB, (B, n))


def config(**settings) -> ModelConfig:
    sizes = dict(n_layers=L, d_model=C, n_heads=H, head_dim=D, d_ff=F, vocab_size=VOCAB)
    return ModelConfig(**sizes | settings)


def random_model(seed: int = 0, **settings) -> Transformer:
    return Transformer.random(config(**settings), seed)


def theirs_and_ours(c: ModelConfig, config_class: type, model_class: type, **settings) -> tuple[nn.Module, Transformer]:
    """Return their model with random weights (including norms and biases), and ours with the same weights."""
    theirs = model_class(
        config_class(
            vocab_size=c.vocab_size, hidden_size=c.d_model, intermediate_size=c.d_ff, num_hidden_layers=c.n_layers,
            num_attention_heads=c.n_heads, num_key_value_heads=c.n_kv_heads, head_dim=c.head_dim, rms_norm_eps=1e-6,
            rope_parameters={"rope_type": "default", "rope_theta": c.rope_theta},
            tie_word_embeddings=c.tie_embeddings, attn_implementation="eager", **settings,
        )
    ).eval()  # fmt: skip
    for parameter in theirs.parameters():
        nn.init.normal_(parameter, std=0.4)
    ours, weights = Transformer(c).eval(), theirs.state_dict()
    ours.load_state_dict({name: weights[their_name(name)] for name in ours.state_dict()})
    return theirs, ours


def their_name(name: str) -> str:
    return ".".join(NAMES.get(part, part) for part in name.split("."))


def assert_same(theirs: nn.Module, ours: Transformer, ids: torch.Tensor, **options) -> None:
    record = Recording()
    expected = theirs(ids, output_attentions=True, **options)
    assert agree(ours(ids, record=record), expected.logits, 1e-4)
    assert len(record) == len(expected.attentions) == ours.config.n_layers
    for ours_of_layer, theirs_of_layer in zip(record, expected.attentions, strict=True):
        assert agree(ours_of_layer.weights, theirs_of_layer, 1e-5)


# --- against transformers -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "settings, llama",
    [
        (dict(n_kv_heads=6), {}),
        (dict(n_kv_heads=3, tie_embeddings=False), {}),
        (dict(n_kv_heads=2, rope_theta=500.0), {}),
        (dict(n_kv_heads=1, head_dim=14, tie_embeddings=False), {}),
        (dict(n_kv_heads=2, qkv_bias=True, o_bias=True, ffn_bias=True), dict(attention_bias=True, mlp_bias=True)),
    ],
)
def test_equals_llama(settings, llama):
    assert_same(*theirs_and_ours(config(**settings), LlamaConfig, LlamaForCausalLM, **llama), token_ids())


@pytest.mark.parametrize("window", [1, 4, T])
def test_equals_mistral_with_its_window(window):
    c = config(n_kv_heads=2, sliding_window=window, tie_embeddings=False)
    assert_same(*theirs_and_ours(c, MistralConfig, MistralForCausalLM, sliding_window=window), token_ids())


def test_equals_llama_on_a_padded_batch():
    theirs, ours = theirs_and_ours(config(n_kv_heads=2), LlamaConfig, LlamaForCausalLM)
    ids, real = (
        token_ids(),
        padding_mask(torch.tensor([T, 4]), T).flip(-1),
    )  # on the left, where the causal mask does not hide it
    expected, got = theirs(ids, attention_mask=real[:, 0, 0].long()).logits, ours(ids, mask=real)
    assert agree(got[0], expected[0], 1e-4)
    assert agree(got[1, -4:], expected[1, -4:], 1e-4)
    assert agree(got[1:, -4:], ours(ids[1:, -4:]), 1e-4)  # RoPE depends only on distances


# --- the block ------------------------------------------------------------------------------------------------------


def test_a_block_adds_to_the_stream_and_computes_each_norm_once():
    block, x, calls = Block(config(n_kv_heads=2)), torch.randn(B, T, C), []
    for norm in (block.attn_norm, block.ffn_norm):
        nn.init.normal_(norm.weight)
        norm.register_forward_hook(lambda module, *_: calls.append(module))
    got = block(x, causal=True)
    assert calls == [block.attn_norm, block.ffn_norm]
    middle = x + block.attn(block.attn_norm(x), causal=True)
    assert agree(got, middle + block.ffn(block.ffn_norm(middle)))


def test_a_block_whose_branches_end_in_zeros_changes_nothing():
    block, x = Block(config()), torch.randn(B, T, C)
    nn.init.zeros_(block.attn.o_proj.weight), nn.init.zeros_(block.ffn.down_proj.weight)
    assert torch.equal(block(x), x)


# --- random weights -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("settings", [dict(n_kv_heads=2, qkv_bias=True), dict(tie_embeddings=False), MLA])
def test_the_seed_alone_decides_the_weights(settings):
    torch.manual_seed(1)
    first = random_model(7, **settings).state_dict()
    torch.manual_seed(2)
    again, other = random_model(7, **settings).state_dict(), random_model(8, **settings).state_dict()
    assert all(torch.equal(first[name], again[name]) for name in first)
    drawn = [name for name in first if not name.endswith(("norm.weight", "bias"))]
    assert not any(torch.equal(first[name], other[name]) for name in drawn)


def test_the_global_random_state_is_neither_read_nor_changed():
    state = torch.get_rng_state()
    random_model(7)
    assert torch.equal(torch.get_rng_state(), state)


def test_weights_have_the_spread_that_is_promised():
    model = Transformer.random(ModelConfig(2, 128, 4, d_ff=256, vocab_size=512, qkv_bias=True), seed=3)
    assert not model.training
    for name, p in model.named_parameters():
        if name.endswith(("norm.weight", "bias")):
            assert (p == (0.0 if name.endswith("bias") else 1.0)).all()
        else:
            smaller = 2.0 if name.endswith(("o_proj.weight", "down_proj.weight")) else 1.0  # sqrt(2 · n_layers)
            assert p.std().item() * smaller * p.shape[1] ** 0.5 == pytest.approx(1, abs=0.03), name


def test_an_untrained_map_is_not_blank():
    untrained = trace(Transformer.random(ModelConfig(2, 128, 4, vocab_size=512), 3), range(64))
    assert all(0.5 < scores.std() < 2 for scores in untrained.scores)


# --- the same weights run in another way ----------------------------------------------------------------------------


@pytest.mark.parametrize("settings", [dict(n_kv_heads=2), dict(tie_embeddings=False), MLA])
def test_another_config_shares_the_weights_and_copies_none(settings):
    model = random_model(**settings)
    other = model.with_config(config(**settings, position="none"))
    ours, theirs = dict(model.named_parameters()), dict(other.named_parameters())
    assert {n: p.data_ptr() for n, p in ours.items()} == {n: p.data_ptr() for n, p in theirs.items()}
    assert len({p.data_ptr() for p in ours.values()}) == len(ours)
    assert not other.training and other.config.position == "none" and model.config.position == "rope"


@pytest.mark.parametrize(
    "change", [dict(position="none"), dict(rope_theta=500.0), dict(rope_layout="interleaved"), dict(sliding_window=2)]
)
def test_another_config_changes_the_run_and_leaves_the_model_as_it_was(change):
    model, ids = random_model(n_kv_heads=2), token_ids()
    before = model(ids)
    assert not agree(model.with_config(config(n_kv_heads=2, **change))(ids), before)
    assert torch.equal(model(ids), before)
    assert torch.equal(model.with_config(model.config)(ids), before)


@pytest.mark.parametrize(
    "change, words",
    [
        (dict(n_kv_heads=3), "n_kv_heads must stay 2, .* not 3"), (dict(d_ff=24), "d_ff must stay"),
        (dict(qkv_bias=True), "qkv_bias must stay False"), (dict(tie_embeddings=False), "tie_embeddings must stay"),
        (dict(qk_norm="head"), "qk_norm must stay None"), (dict(qk_norm="width"), "runs with qk_norm"),
    ],
)  # fmt: skip
def test_a_config_of_another_shape_is_refused(change, words):
    with pytest.raises(ConfigError, match=words):
        random_model(n_kv_heads=2).with_config(config(**{"n_kv_heads": 2, **change}))


def test_fields_that_only_say_how_a_model_runs_shape_no_tensor():
    """Change every field that with_config allows: the parameters' names and shapes stay the same."""
    plain = config()
    changes = dict(
        position="none", max_context=99, rope_theta=77.0, rope_theta_windowed=88.0,
        rope_scaling=(("type", "linear"), ("factor", 2.0)),
        rope_layout="interleaved", rotary_fraction=0.5, causal=False, sliding_window=3, full_layers=(1,), n_sinks=2,
        id="a", name="b", family="c", year=2020, dtype="d",
    )  # fmt: skip
    assert changes.keys() == set(RUN_FIELDS)
    for name, value in changes.items():
        other = Transformer(replace(plain, **{name: value}))
        assert getattr(plain, name) != value
        shapes = [{n: p.shape for n, p in model.named_parameters()} for model in (Transformer(plain), other)]
        assert shapes[0] == shapes[1], name


def test_a_part_of_a_copy_is_not_put_into_the_original():
    model, ids = random_model(n_kv_heads=2), token_ids()
    before, attn = model(ids), model.blocks[1].attn
    other = model.with_attentions({1: random_model(seed=9, n_kv_heads=2).blocks[1].attn})
    assert not agree(other(ids), before) and torch.equal(model(ids), before) and model.blocks[1].attn is attn
    assert other.blocks[0] is model.blocks[0] and other.blocks[1].ffn is model.blocks[1].ffn
    other = model.with_config(model.config)
    other.norm = torch.nn.Identity()
    assert torch.equal(model(ids), before)


def test_layers_named_as_full_have_no_window():
    record = Recording()
    random_model(sliding_window=2, full_layers=(1,))(token_ids(), record=record)
    assert [r.weights[0, 0, -1].count_nonzero().item() for r in record] == [2, T, 2]


def test_without_causality_the_future_is_seen():
    ids = token_ids()
    changed = ids.clone()
    changed[:, -1] = (ids[:, -1] + 1) % VOCAB
    for causal in (True, False):
        model = random_model(causal=causal)
        assert torch.equal(model(ids)[:, :-1], model(changed)[:, :-1]) == causal


# --- a model's state and gradients ----------------------------------------------------------------------------------


def test_running_writes_nothing_to_the_model():
    model = random_model(n_kv_heads=2)
    before = {name: p.clone() for name, p in model.state_dict().items()}
    attributes = [set(vars(module)) for module in model.modules()]
    model(token_ids(), cache=model.new_cache(), record=Recording())
    assert all(torch.equal(p, before[name]) for name, p in model.state_dict().items())
    assert [set(vars(module)) for module in model.modules()] == attributes


@pytest.mark.parametrize("settings", [dict(n_kv_heads=2, qkv_bias=True), MLA | dict(tie_embeddings=False)])
def test_every_parameter_learns(settings):
    model, ids = random_model(**settings), token_ids()
    nn.functional.cross_entropy(model(ids[:, :-1]).flatten(0, 1), ids[:, 1:].flatten()).backward()
    gradients = {name: p.grad for name, p in model.named_parameters()}
    assert [name for name, g in gradients.items() if g is None or not g.isfinite().all() or not g.any()] == []


def test_tied_embeddings_have_no_matrix_of_their_own_for_the_logits():
    tied, untied = (sum(p.numel() for p in random_model(tie_embeddings=t).parameters()) for t in (True, False))
    assert untied - tied == VOCAB * C


@pytest.mark.parametrize(
    "settings",
    [
        dict(position="learned", learned_position_rows=T), dict(ffn="gelu", norm="layernorm", norm_bias=True),
        dict(ffn="geglu", norms_per_layer=4, qk_norm="head", attention_softcap=3.0, logit_softcap=5.0),
        dict(embedding_scale=7.0, attention_scale=0.3),
        dict(sliding_window=3, full_layers=(1,), rope_theta_windowed=9.0),
    ],
)  # fmt: skip
def test_each_mechanism_learns_and_decodes_with_a_cache_as_without(settings):
    test_every_parameter_learns(settings)
    model, ids = random_model(**settings, n_kv_heads=2), token_ids()
    cache = model.new_cache()
    steps = [model(ids[:, i : i + 1], cache=cache) for i in range(T)]
    assert agree(torch.cat(steps, dim=1), model(ids), 1e-4)
    assert not agree(model(ids), random_model(n_kv_heads=2)(ids), 1e-2)


def test_frequencies_are_computed_once_for_all_texts_with_a_window_too():
    model = random_model(sliding_window=3, full_layers=(1,), rope_theta_windowed=9.0)
    full, windowed = model.rope(1).frequencies, model.rope(0).frequencies
    assert model.rope(1, 5).frequencies is full and model.rope(0, 5).frequencies is windowed
    assert windowed[1] == pytest.approx(9.0 ** (-2 / model.config.rotary_dim)) != full[1]


def test_learned_positions_end_and_stay_learned():
    model = random_model(position="learned", learned_position_rows=5)
    with pytest.raises(ValueError, match="learned 5 positions, and position 5"):
        model(token_ids(6))
    with pytest.raises(ConfigError, match="position must stay 'learned'"):
        model.with_config(config(position="none", learned_position_rows=5))


def test_one_token_and_none():
    model = random_model()
    assert model(token_ids(1)).shape == (B, 1, VOCAB) and model(token_ids(0)).shape == (B, 0, VOCAB)


@pytest.mark.parametrize(
    "settings, word",
    [
        (dict(ffn="relu"), "ffn"), (dict(norms_per_layer=1), "norms_per_layer"),
        (dict(qk_norm="width"), "qk_norm"), (dict(parallel_block=True), "parallel_block"),
        (MLA | dict(qk_norm="head"), "qk_norm"), (MLA | dict(attention_softcap=3.0), "softcap"),
        (MLA | dict(attention_sinks=True), "attention_sinks"), (dict(position="alibi"), "alibi"),
        (dict(moe=MoEConfig(3, 2, 5)), "mixture of experts"), (dict(embedding_norm=True), "embedding_norm"),
        (dict(lm_head_bias=True), "lm_head_bias"), (dict(norm_bias=True), "norm_bias"),
    ],
)  # fmt: skip
def test_what_only_the_cost_formulas_know_is_refused_by_name(settings, word):
    with pytest.raises(ConfigError, match=word):
        Transformer(config(**settings))


@pytest.mark.parametrize("attention", [dict(n_kv_heads=2), MLA], ids=["gqa", "mla"])
def test_first_tokens_are_kept_behind_the_window_with_a_cache_as_without(attention):
    model, ids, record = random_model(sliding_window=3, n_sinks=2, **attention), token_ids(), Recording()
    whole = model(ids, record=record)
    t = torch.arange(ids.shape[1])
    near, first = t[:, None] - t < 3, t < 2
    assert all(torch.equal(r.allowed, (near | first) & (t <= t[:, None])) for r in record)
    cache = model.new_cache()
    steps = [model(ids[:, i : i + 1], cache=cache) for i in range(ids.shape[1])]
    assert torch.allclose(torch.cat(steps, dim=1), whole, atol=1e-5)


def test_rope_without_a_theta_is_refused_when_the_model_is_built():
    with pytest.raises(ConfigError, match="rope_theta"):
        Transformer(config(rope_theta=None))


def test_a_model_on_meta_leaves_the_cached_frequencies_alone():
    live = random_model(rope_theta=1234.5)  # of no other test, so not cached yet
    with torch.device("meta"):
        Transformer(live.config)(token_ids())
    assert live(token_ids()).isfinite().all()
