"""A linear layer with what follows it, in one product."""

from __future__ import annotations

import torch

__all__ = ["linear_bias_act"]


def linear_bias_act(
    x: torch.Tensor,
    weight: torch.Tensor,
    bias: torch.Tensor | None = None,
    activation: str = "none",
    residual: torch.Tensor | None = None,
) -> torch.Tensor:
    """Compute ``activation(x @ weight.T + bias) + residual``, on GPUs in the product's own kernel.

    Everything after the product is computed in float32 before the result is rounded. Software devices, and calls that
    autograd is to differentiate, take a kernel for each part. Differentiable in all tensors, any number of times. Under
    ``torch.autocast("aule")`` all tensors are cast.

    Parameters
    ----------
    x : torch.Tensor
        ``[..., k]`` of any strides, of a floating point dtype. CPU tensors are computed by PyTorch's operators.
    weight : torch.Tensor
        ``[n, k]``, x's dtype, as ``torch.nn.Linear`` keeps it.
    bias : torch.Tensor, optional
        ``[n]``, x's dtype.
    activation : str, default "none"
        "none", "relu", "gelu" (by erf), "gelu_tanh" (its approximation by tanh) or "silu".
    residual : torch.Tensor, optional
        ``[..., n]``, the result's sizes and x's dtype; it is not broadcast. Added after the activation.

    Returns
    -------
    torch.Tensor
        ``[..., n]``, contiguous, x's dtype.

    Raises
    ------
    ValueError
        If `activation` is none of these.
    RuntimeError
        If sizes or dtypes do not fit.

    Examples
    --------
    >>> layer = torch.nn.Linear(768, 3072, device="aule", dtype=torch.float16)
    >>> x = torch.randn(8, 128, 768, device="aule", dtype=torch.float16)
    >>> with torch.no_grad():
    ...     y = torch_aule.linear_bias_act(x, layer.weight, layer.bias, "gelu")
    """
    return torch.ops.aule.linear_bias_act(x, weight, bias, activation, residual)
