"""What the lines of the shipped source are for, one sentence each, beside what their torch operations do.

A line is found by its file, its function and its first characters. A file that a mistake or a learner has changed has
another name, and so no sentences here: they would say what the right line is for.
"""

from __future__ import annotations

from attnviz.steps import Line, Run

ATTEND = "Lets each query read from the values of the keys it may attend to: attention itself."
GATED = "Computes F hidden units per token, each multiplied by a gate that depends on the token."
NARROW = "Maps the hidden units back to the width of the residual stream."
ROTATE = "Multiplies each pair (a, b) by the 2 × 2 rotation matrix of its angle."
JOIN_HEADS = "Joins the heads' outputs and maps them back to the width of the residual stream."

PURPOSES: dict[tuple[str, str], dict[str, str]] = {  # (file, function) -> the statement's first characters -> sentence
    ("transformer.py", "Transformer.forward"): {
        "x = self.embed(": "Looks up a vector for each token: the start of its residual stream.",
        "x = block(": "Runs one layer: attention, then the feed-forward network.",
        "return self.logits(": "Turns each token's vector into a prediction of the token after it.",
    },
    ("transformer.py", "Transformer.logits"): {
        "x = self.norm(": "Normalises the residual stream before the output.",
        "return F.linear(": "Multiplies each vector by the embedding, or by an output matrix of its own: one logit for "
        "each token of the vocabulary.",
    },
    ("transformer.py", "Block.forward"): {
        "x = x + self.attn(": "Attention passes information between tokens. Its output is added to the residual "
        "stream, which keeps what was there.",
        "return x + self.ffn(": "The feed-forward network works on each token by itself. Its output is added to the "
        "residual stream too.",
    },
    ("transformer.py", "SandwichBlock.forward"): {
        "x = x + self.attn_post_norm(": "Attention passes information between tokens. Its output is normalised and "
        "added to the residual stream, which keeps what was there.",
        "return x + self.ffn_post_norm(": "The feed-forward network works on each token by itself. Its output is "
        "normalised and added to the residual stream too.",
    },
    ("masks.py", "attention_mask"): {
        "allowed = torch.ones(": "Starts with a mask in which every query may attend to every key.",
        "query = torch.arange(": "Numbers the queries by position.",
        "key = torch.arange(": "Numbers the keys by position.",
        "allowed &= (": "Keeps the keys within each query's window, and the attention-sink tokens at the start.",
        "return allowed.tril(": "Removes the keys after each query, if attention is causal: no token may see what "
        "it is to predict.",
    },
    ("norm.py", "RMSNorm.forward"): {
        "scale = torch.rsqrt(": "Computes for each vector the factor that makes the root mean square of its entries 1.",
        "return self.weight * (": "Scales each vector by this factor, and each dimension by a learned weight.",
    },
    ("norm.py", "LayerNorm.forward"): {
        "centred =": "Subtracts from each vector its mean.",
        "scale = torch.rsqrt(": "Computes for each vector the factor that makes the variance of its entries 1.",
        "scaled = self.weight * (": "Scales each vector by this factor, and each dimension by a learned weight.",
        "return scaled": "Adds a learned bias to each dimension, if the model has one.",
    },
    ("feedforward.py", "SwiGLU.forward"): {"hidden = F.silu(": GATED, "return self.down_proj(": NARROW},
    ("feedforward.py", "GeGLU.forward"): {"hidden = F.gelu(": GATED, "return self.down_proj(": NARROW},
    ("feedforward.py", "GELUFeedForward.forward"): {
        "hidden = F.gelu(": "Computes F hidden units per token; GELU suppresses the negative ones.",
        "return self.down_proj(": NARROW,
    },
    ("attention.py", "GroupedQueryAttention.forward"): {
        "q = q_pre_rope = self.q_proj(": "Computes a query for each token and query head: it will be compared with "
        "the keys.",
        "k = k_pre_rope = self.k_proj(": "Computes a key for each token and KV head: queries will be compared with it.",
        "v = self.v_proj(": "Computes a value for each token and KV head: what the token passes on to queries that "
        "attend to it.",
        "q, k = rope(": "Rotates queries and keys by their positions, so that scores depend on the distance of the "
        "tokens.",
        "k, v = cache.append(": "Appends the new keys and values to the cache and continues with all of them, so that "
        "those of earlier tokens are not computed again.",
        "output, weights = (kernel": ATTEND,
        "return self.o_proj(": JOIN_HEADS,
    },
    ("attention.py", "attend"): {
        "q = q.unflatten(": "Groups the query heads by the KV head they share. The scale, 1 / √D by default, keeps "
        "scores from growing with head_dim.",
        "scores = torch.einsum(": "Compares each query with each key of its KV head: one score for each pair.",
        "scores = scores if softcap": "Keeps the scores between −softcap and softcap, if the model has one.",
        "weights = scores.softmax(": "Turns the scores of each query into weights that sum to 1.",
        "sees = mask.any(": "Checks which queries may attend to a key at all; padding may not.",
        "bias = torch.where(": "Makes −∞ for each masked pair and 0 for the others, to be added to the scores. "
        "Rows without any key keep 0: −∞ throughout would give NaN.",
        "weights = scores.add_(": "Masks the scores and turns those of each query into weights that sum to 1, or to 0 "
        "without any key.",
        "used = (F.dropout(": "Groups the weights like the query heads. Dropout only acts in training.",
        "output = torch.einsum(": "Adds up the values for each query, each multiplied by its weight.",
    },
    ("rope.py", "Rope.__call__"): {
        "return rotate_pairs(": "Rotates each pair of dimensions by position × the frequency of the pair.",
    },
    ("rope.py", "rotate_pairs"): {
        "a, b = x.chunk(": "Takes the first and the second number of each pair: in this layout, the two halves.",
        "a, b = x[": "Takes the first and the second number of each pair: in this layout, they are neighbours.",
        "return torch.cat((a * cos": ROTATE,
        "return torch.stack((a * cos": ROTATE,
    },
    ("latent.py", "MultiHeadLatentAttention.forward"): {
        "q_nope, q_rope_before =": "Computes a query for each token and head, in a content part and a part for RoPE.",
        "latent, key_before =": "Computes for each token a latent, from which the keys and values of all heads are "
        "expanded, and one key for RoPE that all heads share. Only these two are cached.",
        "latent = self.kv_a_norm(": "Normalises the latent.",
        "q_rope, shared_key = rotate(": "Rotates the RoPE parts of queries and keys by their positions. The content "
        "parts carry no position.",
        "latent, shared_key = cache.append(": "Appends the new latents and RoPE keys to the cache and continues with "
        "all of them.",
        "return self._absorbed(": "Attends to the latents, without expanding them into keys and values.",
        "k_nope, v = self._expand(": "Expands the latent into a content key and a value for each head.",
        "q = torch.cat((q_nope, q_rope)": "Joins the two parts of each query.",
        "k = torch.cat((k_nope, self._to": "Joins each head's content key with the RoPE key that all heads share.",
        "output, weights = (kernel": ATTEND,
        "return self.o_proj(": JOIN_HEADS,
    },
    ("latent.py", "MultiHeadLatentAttention._queries"): {
        "q = self.q_proj(": "Computes the queries of all heads, directly or from a latent of their own.",
        "return q.view(": "Splits them by head.",
    },
    ("latent.py", "MultiHeadLatentAttention._expand"): {
        "heads = self.kv_b_proj(": "Computes the content keys and the values of all heads from the latent.",
        "return heads.transpose(": "Separates keys and values.",
    },
    ("latent.py", "MultiHeadLatentAttention._to_all_heads"): {
        "return shared_key.unsqueeze(": "Lets all heads read the same key, without copying it.",
    },
    ("latent.py", "MultiHeadLatentAttention._absorbed"): {
        "up = self.kv_b_proj.weight.view(": "Takes the matrix that would expand the latents, head by head.",
        "up_k, up_v = up.split(": "Separates its rows for keys, W_UK, from those for values, W_UV.",
        "q = torch.cat((q_nope @ up_k": "Multiplies the queries by W_UK, so that they can be compared with the latents "
        "themselves.",
        "k = torch.cat((latent": "Joins latent and RoPE key: one key per token for all heads, as in MQA.",
        "read = attend(": "Computes for each head the weighted sum of the latents.",
        "return self.o_proj((read @ up_v": "Multiplies these sums by W_UV, which gives the weighted sums of the "
        "values, then joins the heads.",
    },
    ("cache.py", "KVCache.append"): {
        "buffer.narrow(": "Writes the new tokens' entries behind the cached ones.",
        "return self.tensors": "Returns the entries of all tokens so far.",
    },
    ("cache.py", "KVCache._make_room"): {
        "old = self.tensors": "Keeps what is cached, to copy it.",
        "self.buffers = tuple(": "Reserves larger buffers, for at least twice the cached tokens, so that copying stays "
        "rare.",
        "buffer.narrow(": "Copies what was cached.",
    },
    ("cache.py", "KVCache.tensors"): {
        "return tuple(buffer.narrow(": "Takes the filled part of the buffers.",
    },
    ("generate.py", "_steps"): {
        "logits = read(": "Reads the tokens that are not cached yet, and takes the logits after the last one.",
        "yield Step(": "Gives the chosen token, with its probability before temperature and filters.",
    },
    ("generate.py", "read"): {
        "logits = [": "Runs the model on the new tokens; the keys and values of the others come from the cache.",
    },
    ("sampling.py", "distribution"): {
        "return stages(": "Computes the probabilities to draw from: temperature first, then the filters in use.",
    },
    ("sampling.py", "_probabilities"): {
        "return logits.double().softmax(": "Turns the logits into probabilities; a filtered token, at −∞, gets 0.",
    },
    ("sampling.py", "stages"): {
        'logits = then("repetition penalty"': "Makes the text's own tokens less probable.",
        'logits = then("temperature"': "Makes the distribution sharper or flatter.",
        'logits = then("top-k"': "Keeps the k most probable tokens.",
        'logits = then("top-p"': "Keeps the fewest tokens whose probabilities sum to at least p, most probable first.",
        'logits = then("min-p"': "Keeps the tokens at least p times as probable as the most probable one.",
    },
    ("sampling.py", "penalise_repetition"): {
        "seen = torch.tensor(": "Lists the tokens of the text.",
        "score = logits[": "Takes their logits.",
        "return logits.index_copy(": "Lowers them by a factor: divided if positive, multiplied if negative.",
    },
    ("sampling.py", "keep_largest"): {
        "only = torch.full_like(": "Removes all tokens.",
        "only[logits.argmax()]": "Keeps the one with the largest logit: greedy decoding.",
    },
    ("sampling.py", "scale_by_temperature"): {
        "return logits / temperature": "Divides the logits: a temperature below 1 makes the distribution sharper, one "
        "above 1 flatter.",
    },
    ("sampling.py", "keep_top_k"): {
        "kth = logits.topk(": "Finds the k-th largest logit.",
        "return logits.masked_fill(": "Removes all tokens with a smaller one.",
    },
    ("sampling.py", "keep_top_p"): {
        "ascending, order = logits.sort(": "Sorts the tokens, least probable first.",
        "cumulative = ascending": "Adds up the probabilities in this order.",
        "remove = cumulative": "Marks the least probable tokens, as long as they sum to at most 1 − p.",
        "return logits.masked_fill(": "Removes these tokens.",
    },
    ("sampling.py", "keep_min_p"): {
        "probabilities = logits.softmax(": "Turns the logits into probabilities.",
        "remove = probabilities": "Marks the tokens less than p times as probable as the most probable one.",
        "remove[probabilities.argmax()]": "Keeps the most probable one in any case.",
        "return logits.masked_fill(": "Removes the marked tokens.",
    },
    ("sampling.py", "draw"): {
        "ends = probabilities.cumsum(": "Places the probabilities one after the other, from 0 to 1.",
        "chosen = int(": "Finds the token in whose part the random number u lies.",
        "return min(chosen": "Makes sure that rounding does not lead past the last possible token.",
    },
}  # fmt: skip


def purpose_of(run: Run, line: Line) -> str:
    """Return what a line of the shipped source is for, or "" for another file's."""
    call = run.calls[line.call]
    if run.own:
        return ""
    text = call.source.splitlines()[line.number - call.first].strip()
    lines = PURPOSES.get((call.file, call.function), {})
    return next((purpose for start, purpose in lines.items() if text.startswith(start)), "")
