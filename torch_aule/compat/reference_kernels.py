"""Small kernels that collections of reference kernels compare devices with, as functions and as modules."""

from __future__ import annotations

import math

import torch
import torch.nn as nn
import torch.nn.functional as F

from torch_aule.indices import autocast_operands

__all__ = [
    "DiagonalMatMul",
    "FusedLinearRowSum",
    "diagonal_matmul",
    "fused_linear_rowsum",
    "layer_norm",
    "softmax",
]


def diagonal_matmul(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """``torch.diag(a) @ b`` in one pass over `b`: row ``r`` of `b` times ``a[r]``.

    Differentiable once in both; backward is one pass too. ``torch.compile`` calls it where a program has
    ``torch.diag(a) @ b``.

    Parameters
    ----------
    a : torch.Tensor
        The diagonal, ``[n]``; float32, float64, float16 or bfloat16.
    b : torch.Tensor
        ``[n, m]``, of the dtype and on the device of `a`.

    Returns
    -------
    torch.Tensor
        ``[n, m]``, contiguous; under ``torch.autocast`` of its dtype, as a product.

    Raises
    ------
    ValueError, RuntimeError
        For shapes, dtypes or devices that do not fit together.
    """
    return torch.ops.aule.diagonal_matmul(*autocast_operands(a, b))


def fused_linear_rowsum(x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None = None) -> torch.Tensor:
    """``linear(x, weight, bias).sum(-1)`` as ``x @ weight.sum(0) + bias.sum()``, without the layer's outputs.

    `x` and `weight` are read once, and sums are float32 (float64 of float64). Differentiable once in all three.
    ``torch.compile`` calls it where a program has ``linear(...).sum(-1)``.

    Parameters
    ----------
    x : torch.Tensor
        ``[..., in]``; float32, float64, float16 or bfloat16.
    weight : torch.Tensor
        ``[out, in]``.
    bias : torch.Tensor, optional
        ``[out]``.

    Returns
    -------
    torch.Tensor
        ``[...]``, of the dtype of `x`; under ``torch.autocast`` of its dtype.

    Raises
    ------
    ValueError, RuntimeError
        For shapes, dtypes or devices that do not fit together.
    """
    return torch.ops.aule.fused_linear_rowsum(*autocast_operands(x, weight, bias))


def layer_norm(
    x: torch.Tensor, weight: torch.Tensor | None = None, bias: torch.Tensor | None = None, eps: float = 1e-5
) -> torch.Tensor:
    """Layer normalisation of the last dimension (Ba et al., 2016): one kernel forward, two backward.

    Parameters
    ----------
    x : torch.Tensor
        ``[..., n]``.
    weight, bias : torch.Tensor, optional
        ``[n]``.
    eps : float, default 1e-5
        Added to the variance.

    Returns
    -------
    torch.Tensor
        Like `x`.
    """
    return F.layer_norm(x, x.shape[-1:], weight, bias, eps)


def softmax(x: torch.Tensor, dim: int = -1) -> torch.Tensor:
    """``exp(x - max) / sum`` along a dimension, in one pass where rows fit into registers.

    Parameters
    ----------
    x : torch.Tensor
        Of any shape.
    dim : int, default -1
        Along which values sum to 1.

    Returns
    -------
    torch.Tensor
        Like `x`.
    """
    return torch.softmax(x, dim)


class DiagonalMatMul(nn.Module):
    """:func:`diagonal_matmul` as a module without parameters: ``module(a, b)``."""

    def forward(self, a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        """See :func:`diagonal_matmul`.

        Parameters
        ----------
        a, b : torch.Tensor
            ``[n]`` and ``[n, m]``.

        Returns
        -------
        torch.Tensor
            ``[n, m]``.
        """
        return diagonal_matmul(a, b)


class FusedLinearRowSum(nn.Module):
    """A linear layer whose outputs are summed: ``module(x)`` is ``linear(x).sum(-1)``.

    Parameters
    ----------
    input_dim, output_dim : int
        Features of an input, and of the layer before the sum.
    bias : bool, default True
        Whether there is a bias.
    device : torch.device, optional
        Of the parameters.
    dtype : torch.dtype, optional
        Of the parameters.

    Attributes
    ----------
    weight : torch.nn.Parameter
        ``[output_dim, input_dim]``, initialised as in ``torch.nn.Linear``.
    bias : torch.nn.Parameter or None
        ``[output_dim]``.
    """

    def __init__(self, input_dim: int, output_dim: int, bias: bool = True, device=None, dtype=None):
        super().__init__()
        self.weight = nn.Parameter(torch.empty(output_dim, input_dim, device=device, dtype=dtype))
        self.bias = nn.Parameter(torch.empty(output_dim, device=device, dtype=dtype)) if bias else None
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw the parameters anew, uniform within ``1 / sqrt(input_dim)``, as ``torch.nn.Linear`` does."""
        bound = 1 / math.sqrt(max(self.weight.size(1), 1))
        for parameter in self.parameters():
            nn.init.uniform_(parameter, -bound, bound)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """See :func:`fused_linear_rowsum`.

        Parameters
        ----------
        x : torch.Tensor
            ``[..., input_dim]``.

        Returns
        -------
        torch.Tensor
            ``[...]``.
        """
        return fused_linear_rowsum(x, self.weight, self.bias)
