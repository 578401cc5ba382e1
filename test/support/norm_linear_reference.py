"""aule::norm_linear_act in float64, and how far the device may be from it."""

import torch
from torch.nn import functional as F

from quantized_reference import EPS


def expected(x, weight, bias, norm, eps, activation, residual, sizes=None):
    """gate(norm(x) @ weight^T + bias) + residual of tensors as the device has them, and a bound of the error.

    Numbers before the product are rounded to x's dtype twice at most, where a norm is a kernel of its own, and sums
    once, where what is behind the product is. Every sum has at most k + 32 roundings of float32, each of a whole unit
    on matrix units. Slopes of both activations are below 1.13, and their exponentials have some units of float32.

    Parameters
    ----------
    sizes : torch.Tensor, optional
        What each weight is the sum of, where it is decoded from several numbers.
    """
    x64, w = x.double(), weight.double()
    sizes = w.abs() if sizes is None else sizes
    unit, single = EPS[x.dtype], 2.0**-23
    h = x64
    if norm is not None:
        h = x64 * torch.rsqrt(x64.square().mean(-1, keepdim=True) + eps) * norm.double()
    k = x.size(-1)
    error_h = h.abs() * (2 * unit + (k + 8) * single) if norm is not None else 0 * h
    y = h @ w.mT
    error = error_h @ w.abs().mT + (k + 32) * single * (h.abs() @ sizes.mT)
    error = error + unit * (h.abs() @ w.abs().mT)  # weights that are decoded first are rounded too
    if bias is not None:
        y = y + bias.double()
        error = error + single * bias.double().abs()
    error = error + 2 * unit * y.abs()
    if activation != "none":
        act = F.silu if activation == "silu" else lambda t: F.gelu(t, approximate="tanh")
        (gate, up), (error_gate, error_up) = y.chunk(2, -1), error.chunk(2, -1)
        y = act(gate) * up
        error = 1.13 * error_gate * (up.abs() + error_up) + act(gate).abs() * error_up
        error = error + (16 * single * (gate.abs() + 1) + 2 * unit) * (y.abs() + up.abs() * single)
    if residual is not None:
        y = y + residual.double()
    return y, error + unit * (y.abs() + error) + 2.0**-24
