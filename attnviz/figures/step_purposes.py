"""What the lines of the shipped source are for, one sentence each, beside what their torch operations do.

A line is found by its file, its function and its first characters. A file that a mistake or a learner has changed has
another name, and so no sentences here: they would say what the right line is for.
"""

from __future__ import annotations

from attnviz.steps import Line, Run

ATTEND = (
    "Computes attention: for each query the weighted sum of the values it may attend to; the weights come from "
    "comparing the query with the keys."
)
GATED = (
    "Computes F hidden units per token: a projection of x, multiplied entry by entry by a gate, the activation of "
    "another projection. A gate near 0 switches its unit off."
)
NARROW = "Maps the hidden units back to d_model, so that they can be added to the residual stream."
ROTATE = "Multiplies each pair (a, b) by the 2 × 2 rotation matrix of its angle; YaRN and LongRoPE also scale it."
JOIN_HEADS = (
    "Concatenates the heads' outputs and multiplies them by a learned matrix, which mixes the heads into one vector "
    "per token for the residual stream."
)
UNEMBED = (
    "Computes one logit for each token of the vocabulary: the dot product with this token's row of the embedding, or "
    "of a separate output matrix."
)

PURPOSES: dict[tuple[str, str], dict[str, str]] = {  # (file, function) -> the statement's first characters -> sentence
    ("transformer.py", "Transformer.forward"): {
        "x = self.embed(": "Looks up a vector for each token: the start of its residual stream.",
        "x = block(": "Runs one layer: attention, then the feed-forward network.",
        "return self.logits(": "Computes the logits at each position. Softmax turns them into probabilities of the "
        "next token.",
    },
    ("transformer.py", "Transformer.logits"): {
        "x = self.norm(": "Normalises each vector a last time, so that the logits do not depend on its length.",
        "return self.config.logit_softcap": "Keeps the logits between −softcap and softcap.",
        "return F.linear(": UNEMBED,
    },
    ("transformer.py", "Transformer.unembedded"): {
        "return F.linear(": UNEMBED,
    },
    ("transformer.py", "Block.forward"): {
        "x = x + self.attn(": "Normalises x, passes information between tokens by attention, and adds the result to x: "
        "a residual connection.",
        "return x + self.ffn(": "Normalises x, processes each token by itself in the feed-forward network, and adds "
        "the result to x.",
    },
    ("transformer.py", "SandwichBlock.forward"): {
        "x = x + self.attn_post_norm(": "Normalises x, passes information between tokens by attention, normalises the "
        "result too and adds it to x: a residual connection.",
        "return x + self.ffn_post_norm(": "Normalises x, processes each token by itself in the feed-forward network, "
        "normalises the result too and adds it to x.",
    },
    ("embedding.py", "PositionEmbedding.forward"): {
        "return super().forward(ids) + ": "Adds to each token's vector a learned vector of its position, since this "
        "model has no RoPE.",
    },
    ("embedding.py", "ScaledEmbedding.forward"): {
        "return super().forward(ids) * ": "Looks up a vector for each token and multiplies it by a constant.",
    },
    ("masks.py", "attention_mask"): {
        "allowed = torch.ones(": "Starts with a mask in which every query may attend to every key.",
        "query = torch.arange(": "Numbers the queries by position.",
        "key = torch.arange(": "Numbers the keys by position.",
        "allowed &= (": "Masks the keys at the distance `window` or farther from each query, except the attention-sink "
        "tokens, if there are any.",
        "return allowed.tril(": "Masks the keys after each query, if attention is causal: no token may see what it is "
        "to predict.",
    },
    ("norm.py", "RMSNorm.forward"): {
        "scale = torch.rsqrt(": "Computes for each vector the factor that brings the root mean square of its entries "
        "to 1; eps prevents a division by 0.",
        "return self.weight * (": "Scales each vector by this factor, and each dimension by a learned weight.",
    },
    ("norm.py", "LayerNorm.forward"): {
        "centred =": "Subtracts from each vector the mean of its entries.",
        "scale = torch.rsqrt(": "Computes for each vector the factor that brings the variance of its entries to 1; eps "
        "prevents a division by 0.",
        "scaled = self.weight * (": "Scales each vector by this factor, and each dimension by a learned weight.",
        "return scaled": "Adds a learned bias to each dimension, if the model has one.",
    },
    ("feedforward.py", "SwiGLU.forward"): {
        "hidden = F.silu(": GATED,
        "return self.down_proj(": NARROW,
    },
    ("feedforward.py", "GeGLU.forward"): {
        "hidden = F.gelu(": GATED,
        "return self.down_proj(": NARROW,
    },
    ("feedforward.py", "GELUFeedForward.forward"): {
        "hidden = F.gelu(": "Computes F hidden units per token; GELU brings negative ones close to 0. Without it, "
        "up_proj and down_proj would amount to one matrix.",
        "return self.down_proj(": NARROW,
    },
    ("attention.py", "GroupedQueryAttention.forward"): {
        "q = q_pre_rope = self.q_proj(": "Computes a query for each token and query head: it will be compared with the "
        "keys.",
        "k = k_pre_rope = self.k_proj(": "Computes a key for each token and KV head: queries will be compared with it.",
        "v = self.v_proj(": "Computes a value for each token and KV head: what the token passes on to queries that "
        "attend to it.",
        "q, k = q_pre_rope, k_pre_rope =": "Normalises each query and key, so that scores do not grow with their "
        "lengths.",
        "q, k = rope(": "Rotates queries and keys by their positions, so that positions count in a score only through "
        "their distance. Values are not rotated.",
        "k, v = cache.append(": "Appends the new keys and values to the cache and continues with all of them, so that "
        "those of earlier tokens are not computed again.",
        "output, weights = (kernel": ATTEND,
        "return self.o_proj(": JOIN_HEADS,
    },
    ("attention.py", "attend"): {
        "q = q.unflatten(": "Groups the query heads by the KV head they read. The scale, 1 / √D by default, keeps "
        "scores from growing with head_dim: with large ones, softmax gives nearly all weight to one key.",
        "scores = torch.einsum(": "Computes the dot product of each query with each key of its KV head: one score for "
        "each query head and pair of tokens.",
        "scores = scores if softcap": "Keeps the scores between −softcap and softcap, if the model has one.",
        "weights = scores.softmax(": "Turns the scores of each query into weights that sum to 1.",
        "sees = mask.any(": "Checks which queries may attend to at least one key; padding in front of a text may not.",
        "bias = torch.where(": "Makes a number to add to each score: 0, or −∞ for a masked pair, whose weight becomes "
        "exp(−∞) = 0. A row whose keys are all masked keeps 0, since −∞ throughout would give NaN.",
        "weights = scores.add_(": "Masks the scores and turns those of each query into weights that sum to 1, or to 0 "
        "where all keys are masked.",
        "used = (F.dropout(": "Groups the weights like the query heads, for the values of their KV heads. Dropout only "
        "acts in training.",
        "output = torch.einsum(": "Computes for each query the weighted sum of the values: the head's output.",
    },
    ("rope.py", "Rope.__call__"): {
        "return rotate_pairs(": "Rotates each pair of dimensions by position × the frequency of the pair.",
    },
    ("rope.py", "Rope._table"): {
        "positions = torch.arange(": "Numbers the tokens by their position in the text.",
        "angles = rope_angles(": "Computes the angle of each pair at each position.",
        "cos, sin =": "Takes cosine and sine, the entries of the rotation matrices, once for all layers. YaRN and "
        "LongRoPE also multiply them by a factor.",
        "return cos.to(": "Converts them to the type of q and k. The angles have 64 bits, to be exact at large "
        "positions.",
    },
    ("rope.py", "rope_angles"): {
        "return positions.double()": "Multiplies each position by the frequency of each pair: the angle in radians.",
    },
    ("rope.py", "rotate_pairs"): {
        "a, b = x.chunk(": "Takes the first and the second number of each pair: in this layout, the two halves.",
        "a, b = x[": "Takes the first and the second number of each pair: in this layout, they are neighbours.",
        "return torch.cat((a * cos": ROTATE,
        "return torch.stack((a * cos": ROTATE,
    },
    ("latent.py", "MultiHeadLatentAttention.forward"): {
        "q_nope, q_rope_before =": "Computes a query for each token and head, in a content part and a part for RoPE.",
        "latent, key_before =": "Compresses each token into a latent, from which the content keys and the values of "
        "all heads can be computed, and one RoPE key that all heads share. A cache needs only these two.",
        "latent = self.kv_a_norm(": "Normalises the latent, so that keys and values do not depend on its length.",
        "q_rope, shared_key = rotate(": "Rotates the RoPE part of the queries, and the shared key, by position. The "
        "content parts are not rotated: otherwise W_UK could not be absorbed into the query.",
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
        "return q.view(": "Splits the queries by head.",
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
        "up_k, up_v = up.split(": "Separates the rows for keys, W_UK, from those for values, W_UV.",
        "q = torch.cat((q_nope @ up_k": "Multiplies the content part of each query by W_UK, so that it can be compared "
        "with the latents themselves, and appends the RoPE part.",
        "k = torch.cat((latent": "Joins latent and RoPE key: one key per token for all heads, as in MQA.",
        "read = kernel(": "Computes for each head the weighted sum of the latents.",
        "return self.o_proj((read @ up_v": "Multiplies these sums by W_UV, which gives the weighted sums of the "
        "values, then mixes the heads.",
    },
    ("delta.py", "GatedDeltaNet.forward"): {
        "x = x * mask": "Sets padding to zero, so that it writes nothing to the state.",
        "qkv = torch.cat(": "Projects each token to the channels of queries, keys and values.",
        "mixed, inputs = short_convolution(": "Mixes each channel over the last few tokens: a key can then stand for a "
        "pair of neighbours.",
        "q, k, v = F.silu(": "Applies SiLU and separates queries, keys and values.",
        "q = l2_normalised(": "Splits the queries by key head and divides each by its length.",
        "k = l2_normalised(": "Splits the keys by key head and divides each by its length: with keys of length 1, "
        "β = 1 overwrites exactly what the state holds under a key.",
        "v = v.unflatten(": "Splits the values by value head.",
        "step = F.softplus(": "Computes for each token and head how much it forgets: Δt, above 0.",
        "decay = (": "Turns Δt into the decay, exp(−A · Δt), between 0 and 1.",
        "beta = self.beta_proj(": "Computes for each token and head how much of the difference is written, between 0 "
        "and 1.",
        "queries, keys = q.repeat_interleave(": "Repeats each key head's queries and keys for the value heads that "
        "share them.",
        "output, state = rule(": "Runs the delta rule over the tokens: each updates the state, then reads it.",
        "gate = self.gate_proj(": "Computes a gate for each number of the output.",
        "normed = self.norm(": "Normalises what each head read, and multiplies it by SiLU of the gate.",
        "return self.o_proj(": JOIN_HEADS,
    },
    ("delta.py", "gated_delta_rule"): {
        "S = q.new_zeros(": "Starts with the state of the tokens before, or with zeros.",
        "decay = decay.unsqueeze(": "Adds an axis, so that one decay applies to all channels of a key.",
        "q_t, k_t, v_t =": "Takes query, key and value of one token.",
        "S = decay[": "Forgets: multiplies the whole state by this token's decay.",
        "held = torch.einsum(": "Reads what the state holds under this token's key.",
        "write = beta[": "Takes the difference between the token's value and what is held, times β.",
        "S = S + torch.einsum(": "Writes it under the key: adds the outer product of key and difference.",
        "outputs.append(": "Reads the new state with the token's query: the head's output.",
        "return torch.stack(": "Joins the outputs of all tokens.",
    },
    ("delta.py", "short_convolution"): {
        "past = x.new_zeros(": "Takes the inputs of the tokens before, or zeros.",
        "seen = torch.cat(": "Puts them in front of the new ones.",
        "mixed = torch.zeros_like(": "Starts a sum for each token and channel.",
        "mixed = mixed + ": "Adds one tap: the input this many tokens back, times the channel's weight for it.",
        "return mixed": "Returns the sums, and the last inputs for the tokens to come.",
    },
    ("delta.py", "l2_normalised"): {
        "return x * (": "Divides each vector by its length, so that q·k is a cosine.",
    },
    ("delta.py", "GatedRMSNorm.forward"): {
        "return self.weight * x": "Brings each head's output to a root mean square of 1, weighs each dimension, and "
        "multiplies by SiLU of the gate.",
    },
    ("extended.py", "ExtendedAttention.forward"): {
        "return super().forward(": "Runs grouped-query attention, with the sink and the gate around its kernel.",
    },
    ("extended.py", "Around.attend"): {
        "output, weights = self.kernel(": ATTEND,
        "output, weights = attend_with_sink(": "Computes attention with one more key per query head, whose score is "
        "the head's learned sink logit and whose value is 0.",
        "return Attended(": "Multiplies what each head read by its gate, if the layer has one.",
    },
    ("extended.py", "Around.__init__"): {
        "gate = layer.gate_proj(": "Computes a gate between 0 and 1 from each token's vector.",
        "self.gate = gate.unflatten(": "Splits the gates by head.",
    },
    ("extended.py", "attend_with_sink"): {
        "logits = (sinks / scale)": "Divides each head's learned logit by the scale that its score will be multiplied "
        "by.",
        "q = torch.cat(": "Appends it to each query, as one more dimension.",
        "k, v = F.pad(": "Appends a key of zeros, with a value of zeros, and a dimension of zeros to all keys.",
        "k[..., -1, -1] = 1": "Sets the added dimension of the added key to 1: its score is then the sink logit.",
        "mask = F.pad(": "Lets every query attend to the added key.",
        "return kernel(": ATTEND,
    },
    ("extended.py", "CacheReadingAttention.forward"): {
        "k, v = (t.expand(": "Takes the keys and values of the layer whose cache this one reads: it has no projections "
        "of its own for them.",
        "q = q_pre_rope = self.q_norm(": "Computes the queries of all heads, one row of heads per token.",
        "q = rope(": "Rotates the queries by position. The keys were rotated before they were cached.",
        "output, weights = around.attend(": ATTEND,
        "return self.o_proj(": JOIN_HEADS,
    },
    ("indexed.py", "SparseAttention.forward"): {
        "indexed = self.indexer(": "Computes index queries, their heads' weights and one index key per token.",
        "return super().forward(": "Runs the attention with a mask of the keys that the indexer keeps.",
    },
    ("indexed.py", "SparseLatentAttention.forward"): {
        "queries = x if": "Takes what index queries are projected from: the query latent, or x.",
        "indexed = self.indexer(": "Computes index queries, their heads' weights and one index key per token.",
        "return super().forward(": "Runs the attention with a mask of the keys that the indexer keeps.",
    },
    ("indexed.py", "Indexer.forward"): {
        "q = self.q_proj(": "Computes a few small index queries for each token.",
        "k = self.k_norm(": "Computes one index key for each token, which all index heads share, and normalises it.",
        "q, k = rope(": "Rotates the first dimensions of index queries and keys by position.",
        "weights = self.weights_proj(": "Computes how much each index head counts for this query.",
        "return q, weights, k": "Returns what the index scores are computed from.",
    },
    ("indexed.py", "Selection.append"): {
        "*cached, self.k = self.cache.append(": "Appends keys, values and the index key to the layer's cache.",
    },
    ("indexed.py", "Selection.attend"): {
        "allowed = mask.any(": "Takes the mask over queries and keys.",
        "self.scores = index_scores(": "Scores every key for every query by the index heads.",
        "self.mask = top_k_mask(": "Keeps each query's best keys among those it may attend to.",
        "self.mask = self.mask & mask": "Keeps each head's own mask, too.",
        "return self.kernel(": ATTEND,
    },
    ("sparse.py", "index_scores"): {
        "products = torch.einsum(": "Computes the dot product of each index query and index key; negative ones become "
        "0.",
        "return torch.einsum(": "Adds up the index heads' products, each times its weight.",
    },
    ("sparse.py", "top_k_mask"): {
        "scores = scores.masked_fill(": "Takes masked keys out before the ranking: they would take places among the k.",
        "best = scores.argsort(": "Ranks the keys of each query, and takes the first k.",
        "kept = torch.zeros_like(": "Marks these keys.",
        "return (kept if": "Takes out masked keys that were among them where fewer than k are allowed.",
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
        "logits = read(": "Runs the model on the tokens that are not cached yet and keeps the logits of the last one: "
        "they predict the next token.",
        "yield Step(": "Returns the chosen token with the model's own probability for it, before penalty, temperature "
        "and filters.",
    },
    ("generate.py", "read"): {
        "logits = [": "Runs the model on the new tokens only. For the earlier ones each layer reads its cache.",
    },
    ("sampling.py", "distribution"): {
        "return stages(": "Computes the probabilities to draw from: repetition penalty, temperature, top-k, top-p and "
        "min-p, in this order, if in use. At temperature 0 the largest logit is chosen.",
    },
    ("sampling.py", "_probabilities"): {
        "return logits.double().softmax(": "Turns the logits into probabilities; a filtered token, at −∞, gets 0.",
    },
    ("sampling.py", "stages"): {
        'logits = then("repetition penalty"': "Lowers the logits of the tokens that the text already contains; a "
        "penalty below 1 raises them.",
        'logits = then("temperature"': "Makes the distribution sharper or flatter.",
        'logits = then("top-k"': "Keeps the k most likely tokens.",
        'logits = then("top-p"': "Keeps the fewest tokens whose probabilities sum to at least p, most likely first.",
        'logits = then("min-p"': "Keeps the tokens at least p times as likely as the most likely one.",
    },
    ("sampling.py", "penalise_repetition"): {
        "seen = torch.tensor(": "Lists the tokens of the text.",
        "score = logits[": "Takes the logits of the tokens in the text.",
        "return logits.index_copy(": "Divides these tokens' positive logits by the penalty and multiplies the negative "
        "ones: a penalty above 1 lowers both.",
    },
    ("sampling.py", "keep_largest"): {
        "only = torch.full_like(": "Sets all logits to −∞, which removes every token.",
        "only[logits.argmax()]": "Keeps the token with the largest logit: greedy decoding.",
    },
    ("sampling.py", "scale_by_temperature"): {
        "return logits / temperature": "Divides the logits: a temperature below 1 makes the distribution sharper, one "
        "above 1 flatter.",
    },
    ("sampling.py", "keep_top_k"): {
        "kth = logits.topk(": "Finds the k-th largest logit.",
        "return logits.masked_fill(": "Removes the tokens with a smaller logit than this one; ties stay.",
    },
    ("sampling.py", "keep_top_p"): {
        "ascending, order = logits.sort(": "Sorts the tokens, least likely first.",
        "cumulative = ascending": "Adds up the probabilities, least likely token first.",
        "remove = cumulative": "Marks the least likely tokens, as long as they sum to at most 1 − p.",
        "return logits.masked_fill(": "Removes the marked tokens.",
    },
    ("sampling.py", "keep_min_p"): {
        "probabilities = logits.softmax(": "Turns the logits into probabilities.",
        "remove = probabilities": "Marks the tokens less than p times as likely as the most likely one.",
        "remove[probabilities.argmax()]": "Keeps the most likely one in any case.",
        "return logits.masked_fill(": "Removes the marked tokens.",
    },
    ("sampling.py", "draw"): {
        "ends = probabilities.cumsum(": "Adds up the probabilities: each token gets a stretch of the line from 0 to 1 "
        "as long as its probability.",
        "chosen = int(": "Finds the token in whose stretch the random number u lies.",
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
