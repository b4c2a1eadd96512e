"""Fields of config.json with sizes that no two share, so that none can be taken for another."""

SIZES = {
    "vocab_size": 211, "hidden_size": 8 * 3 * 13, "intermediate_size": 101, "num_hidden_layers": 7,
    "num_attention_heads": 6, "num_key_value_heads": 3, "max_position_embeddings": 89,
}  # fmt: skip
LIKE = SIZES | {"rms_norm_eps": 1e-6}  # Llama's fields
ROW = SIZES | {"num_key_value_heads": 6}
GPT = {"vocab_size": 211, "n_embd": 156, "n_layer": 7, "n_head": 6, "n_positions": 89}
QWEN = {"num_experts": 11, "num_experts_per_tok": 3, "moe_intermediate_size": 37}
LATENT = {
    "q_lora_rank": 41, "kv_lora_rank": 43, "qk_nope_head_dim": 19, "qk_rope_head_dim": 14, "v_head_dim": 23,
    "num_key_value_heads": 6,
}  # fmt: skip
MIXED = {
    "n_routed_experts": 12, "n_shared_experts": 2, "num_experts_per_tok": 3, "moe_intermediate_size": 37,
    "first_k_dense_replace": 2, "n_group": 2, "topk_group": 1,
}  # fmt: skip
DEEPSEEK = LATENT | MIXED
BIASED = {"attention_bias": True, "mlp_bias": True}
HEAD = {"head_dim": 34}
