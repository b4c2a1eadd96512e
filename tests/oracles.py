"""Oracles for tests: attention in plain numpy loops, torch's own layer, a memory watch."""

import numpy as np
import torch
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode


def agree(a: Tensor, b: Tensor, tolerance: float = 1e-5) -> bool:
    """Check whether two arrays are equal in shape and, within the tolerance, in all elements; NaN is never equal."""
    return a.shape == b.shape and torch.allclose(a, b, rtol=tolerance, atol=tolerance)


def attention_by_hand(q: Tensor, k: Tensor, v: Tensor, allowed: Tensor | None = None) -> tuple[Tensor, Tensor]:
    """Compute output (B, H, T, Dv) and weights (B, H, T, S), one query at a time in float64 numpy."""
    (B, H, T, D), (K, S) = q.shape, k.shape[1:3]
    may = np.ones((B, H, T, S), bool) if allowed is None else allowed.expand(B, H, T, S).numpy()
    q, k, v = (x.detach().double().numpy() for x in (q, k, v))
    output, weights = np.zeros((B, H, T, v.shape[-1])), np.zeros((B, H, T, S))
    for b, h, t in np.ndindex(B, H, T):
        head, keys = h * K // H, np.flatnonzero(may[b, h, t])
        if len(keys):
            raised = np.exp(k[b, head, keys] @ q[b, h, t] / np.sqrt(D))
            weights[b, h, t, keys] = raised / raised.sum()
            output[b, h, t] = weights[b, h, t] @ v[b, head]
    return torch.from_numpy(output), torch.from_numpy(weights)


def torch_layer_like(ours: nn.Module) -> nn.MultiheadAttention:
    """Build a torch.nn.MultiheadAttention with the weights of a MultiHeadAttention."""
    parts, bias = (ours.q_proj, ours.k_proj, ours.v_proj), ours.q_proj.bias is not None
    theirs = nn.MultiheadAttention(ours.q_proj.in_features, ours.n_heads, bias=bias, batch_first=True)
    theirs = theirs.to(ours.q_proj.weight.dtype)
    with torch.no_grad():
        theirs.in_proj_weight.copy_(torch.cat([p.weight for p in parts]))
        theirs.out_proj.weight.copy_(ours.o_proj.weight)
        if bias:
            theirs.in_proj_bias.copy_(torch.cat([p.bias for p in parts]))
            theirs.out_proj.bias.copy_(ours.o_proj.bias)
    return theirs.eval()


def padding_mask(lengths: Tensor, n_keys: int) -> Tensor:
    """Return a padding mask, bool (B, 1, 1, S): the first `lengths[b]` keys of sequence b are allowed."""
    return (torch.arange(n_keys) < lengths[:, None])[:, None, None, :]


class LargestTensor(TorchDispatchMode):
    """Context manager; `.bytes` is the largest storage of any operation's result (a view counts as its base)."""

    bytes = 0

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        result = function(*args, **(kwargs or {}))
        for tensor in result if isinstance(result, (tuple, list)) else (result,):
            if isinstance(tensor, Tensor):
                self.bytes = max(self.bytes, tensor.untyped_storage().nbytes())
        return result
