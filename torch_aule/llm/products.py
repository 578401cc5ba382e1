"""Linear layers of a step with what surrounds them as one kernel: RMSNorm before, a gate or a residual behind."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import nn

from torch_aule.quantized import Weight

__all__ = ["Norm", "Product", "products_of"]


class Norm(NamedTuple):
    """RMSNorm of the rows that a product reads.

    Attributes
    ----------
    weight : torch.Tensor
        float32 ``[k]``.
    eps : float
        Added to the mean of squares.
    """

    weight: torch.Tensor
    eps: float


def _is_dense(module) -> bool:
    """Whether the weight is numbers: packages keep packed ones in classes of tensors that say they are numbers."""
    if type(module) is not nn.Linear or type(module.weight.data) is not torch.Tensor:
        return False
    return module.weight.is_floating_point() and module.weight.device.type == "aule"


def _weight_of(module) -> torch.Tensor | Weight | None:
    """The weight of a product: numbers, a packed weight, or nothing that is known."""
    if _is_dense(module):
        return module.weight.data
    packed = getattr(module, "aule_weight", None)
    return None if packed is None else packed()


def _can_join(modules: list) -> bool:
    """Whether the weights of modules may be rows of one weight."""
    weights = [_weight_of(module) for module in modules]
    first = weights[0]
    biases = [module.bias for module in modules if getattr(module, "bias", None) is not None]
    if biases and (len(biases) < len(modules) or len({bias.dtype for bias in biases}) > 1):
        return False
    if isinstance(first, torch.Tensor):
        return all(
            isinstance(w, torch.Tensor) and w.dtype == first.dtype and w.size(1) == first.size(1) for w in weights
        )
    return isinstance(first, Weight) and all(
        isinstance(w, Weight)
        and hasattr(module, "set_aule_weight")
        and w.format == first.format
        and w.group == first.group
        and w.packed.size(1) == first.packed.size(1)
        and [(s.dtype, s.dim(), s.shape[1:]) for s in w.scales] == [(s.dtype, 2, s.shape[1:]) for s in first.scales]
        for w, module in zip(weights, modules)
    )


class Product:
    """Linear layers that read the same rows, as one.

    Parameters
    ----------
    modules : list of nn.Module
        Their weights become rows of one weight, of which theirs are views. All are dense, or packed in one format.

    Attributes
    ----------
    sizes : list of int
        Columns of each layer's result.
    """

    def __init__(self, modules: list):
        weights: list = [_weight_of(module) for module in modules]
        biases: list = [getattr(module, "bias", None) for module in modules]
        self.bias: torch.Tensor | None = None
        self.sizes = [w.packed.size(0) if isinstance(w, Weight) else w.size(0) for w in weights]
        if len(modules) == 1:
            self._weight = weights[0]
            self.bias = None if biases[0] is None else biases[0].data
            return
        if biases[0] is not None:
            self.bias = torch.cat([bias.data for bias in biases])
            for bias, part in zip(biases, self.bias.split(self.sizes)):
                bias.data = part
        first = weights[0]
        if isinstance(first, Weight):
            packed = torch.cat([w.packed for w in weights])
            scales = tuple(torch.cat(parts) for parts in zip(*(w.scales for w in weights)))
            self._weight = first._replace(packed=packed, scales=scales)
            for i, module in enumerate(modules):
                own = tuple(scale.split(self.sizes)[i] for scale in scales)
                module.set_aule_weight(first._replace(packed=packed.split(self.sizes)[i], scales=own))
        else:
            self._weight = torch.cat(weights)
            for module, part in zip(modules, self._weight.split(self.sizes)):
                module.weight.data = part

    def __call__(
        self,
        x: torch.Tensor,
        norm: Norm | None = None,
        activation: str = "none",
        residual: torch.Tensor | None = None,
    ) -> torch.Tensor:
        """Compute ``gate(norm(x) @ weight.T + bias) + residual`` (``torch.ops.aule.norm_linear_act``).

        Parameters
        ----------
        x : torch.Tensor
            ``[..., k]``.
        norm : Norm, optional
            Before the product.
        activation : str, default "none"
            "silu" or "gelu_tanh": the first half of the columns is a gate of the second.
        residual : torch.Tensor, optional
            Added to the result, of its sizes.

        Returns
        -------
        torch.Tensor
            ``[..., n]``, or half as many columns with an activation.
        """
        weight, eps = (None, 0.0) if norm is None else norm
        if isinstance(self._weight, Weight):
            packed, form, scales, group = self._weight
            return torch.ops.aule.quantized_norm_linear_act(
                x, packed, form, self.bias, scales, group, weight, eps, activation, residual
            )
        return torch.ops.aule.norm_linear_act(x, self._weight, self.bias, weight, eps, activation, residual)


def products_of(modules: Sequence[nn.Module], dtype: torch.dtype) -> list[Product] | None:
    """Linear layers that read the same rows, as few products.

    Parameters
    ----------
    modules : sequence of nn.Module
        In the order of their results.
    dtype : torch.dtype
        Of the rows.

    Returns
    -------
    list of Product or None
        Neighbours whose weights have one form are one product. None if a weight is not understood, or of another dtype.
    """
    groups: list[list] = []
    for module in modules:
        bias, weight = getattr(module, "bias", None), _weight_of(module)
        if weight is None or bias is not None and bias.dtype != dtype:
            return None
        if isinstance(weight, torch.Tensor) and weight.dtype != dtype:
            return None
        if groups and _can_join([*groups[-1], module]):
            groups[-1].append(module)
        else:
            groups.append([module])
    return [Product(group) for group in groups]
