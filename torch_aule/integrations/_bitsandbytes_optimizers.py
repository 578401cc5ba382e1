"""Steps of bitsandbytes' optimizers, whose states are bytes in blocks of 256 (arXiv:2110.02861) or float32 numbers.

Each rule takes the gradient in float32 and the states, which it changes, and gives the update that the learning rate
multiplies: Adam and AdamW (arXiv:1711.05101; LAMB's rule is the same), AdEMAMix (arXiv:2409.03137), Lion
(arXiv:2302.06675), momentum (LARS' rule is the same), RMSprop and Adagrad.
"""

from __future__ import annotations

from math import sqrt
from typing import NamedTuple

import torch

__all__ = ["optimizer_update_32bit", "optimizer_update_8bit_blockwise"]

BLOCK = 256


class Numbers(NamedTuple):
    """Numbers of a rule, beside tensors."""

    beta1: float
    beta2: float
    beta3: float
    alpha: float
    eps: float
    step: int


def _adam(grad, states, n: Numbers):
    first, second = states
    first.lerp_(grad, 1 - n.beta1)
    second.mul_(n.beta2).addcmul_(grad, grad, value=1 - n.beta2)
    root = second.sqrt().div_(sqrt(1 - n.beta2**n.step)).add_(n.eps)
    return first / root / (1 - n.beta1**n.step)


def _ademamix(grad, states, n: Numbers):
    fast, slow, second = states
    fast.lerp_(grad, 1 - n.beta1)
    slow.lerp_(grad, 1 - n.beta3)
    second.mul_(n.beta2).addcmul_(grad, grad, value=1 - n.beta2)
    root = second.sqrt().div_(sqrt(1 - n.beta2**n.step)).add_(n.eps)
    return (fast / (1 - n.beta1**n.step) + n.alpha * slow) / root


def _lion(grad, states, n: Numbers):
    (first,) = states
    update = torch.lerp(first, grad, 1 - n.beta1).sign_()
    first.lerp_(grad, 1 - n.beta2)
    return update


def _momentum(grad, states, n: Numbers):
    (first,) = states
    return (first.copy_(grad) if n.step == 1 else first.mul_(n.beta1).add_(grad)).clone()


def _rmsprop(grad, states, n: Numbers):
    (second,) = states
    second.mul_(n.beta1).addcmul_(grad, grad, value=1 - n.beta1)
    return grad / second.sqrt().add_(n.eps)


def _adagrad(grad, states, n: Numbers):
    (second,) = states
    second.addcmul_(grad, grad)
    return grad / second.sqrt().add_(n.eps)


# Name -> rule, and whether weight decay is apart from the gradient.
RULES = {
    "adam": (_adam, True),
    "lamb": (_adam, True),
    "ademamix": (_ademamix, True),
    "lion": (_lion, True),
    "momentum": (_momentum, False),
    "lars": (_momentum, False),
    "rmsprop": (_rmsprop, False),
    "adagrad": (_adagrad, False),
}


def _step(name, g, p, states, numbers, lr, weight_decay, gnorm_scale, skip_zeros, limit=None):
    """Change the states, float32 tensors, and the parameter. `limit` scales the update by what is known of it."""
    if name not in RULES:
        raise ValueError(f"expected optimizer_name to be one of {', '.join(RULES)}, but got {name!r}")
    if skip_zeros:
        raise NotImplementedError("bitsandbytes: skip_zeros=True is not supported on aule")
    rule, decays_apart = RULES[name]
    grad, weights = g.float() * gnorm_scale, p.float()
    if weight_decay > 0 and not decays_apart:
        grad = grad.add_(weights, alpha=weight_decay)
    update = rule(grad, states, numbers)
    if limit is not None:
        update = limit(update)
    if weight_decay > 0 and decays_apart:
        weights = weights * (1 - lr * weight_decay)
    p.copy_(weights.sub(update, alpha=lr))


def _decoded(codes, table, factors):
    numbers = table[codes.reshape(-1).int()]
    return (numbers * factors.repeat_interleave(BLOCK)[: numbers.numel()]).view(codes.shape)


def _encode(x, codes, table, factors):
    """The nearest number of the table, which is in order, for each x over the largest of its block."""
    flat = x.reshape(-1)
    blocks = torch.nn.functional.pad(flat, (0, -flat.numel() % BLOCK)).view(-1, BLOCK)
    largest = blocks.abs().amax(1)
    scaled = blocks / largest.clamp(min=1e-38)[:, None]
    nearest = torch.bucketize(scaled, (table[:-1] + table[1:]) / 2, out_int32=True)
    codes.copy_(nearest.view(-1)[: flat.numel()].view(codes.shape))
    factors.copy_(largest)


def optimizer_update_8bit_blockwise(
    optimizer_name, g, p, state1, state2, beta1, beta2, beta3, alpha, eps, step, lr, qmap1, qmap2, absmax1, absmax2,
    weight_decay, gnorm_scale, skip_zeros=False,
):  # fmt: skip
    """One step with states of a byte."""
    places = [(state1, qmap1, absmax1)]
    if absmax1.dim() == 2:  # AdEMAMix has two of them in one tensor
        places = [(state1[i], qmap1, absmax1[i]) for i in range(2)]
    if state2 is not None:
        places.append((state2, qmap2, absmax2))
    states = [_decoded(*place) for place in places]
    numbers = Numbers(beta1, beta2, beta3, alpha, eps, step)
    _step(optimizer_name, g, p, states, numbers, lr, weight_decay, gnorm_scale, skip_zeros)
    for state, place in zip(states, places):
        _encode(state, *place)


def optimizer_update_32bit(
    optimizer_name, g, p, state1, state2, unorm_vec, max_unorm, param_norm, beta1, beta2, beta3, alpha, eps,
    weight_decay, step, lr, gnorm_scale, skip_zeros=False,
):  # fmt: skip
    """One step with states of float32. An update longer than `max_unorm` times the parameter is made shorter."""
    states = [state1] if state1.dim() == p.dim() else list(state1)
    if state2 is not None:
        states.append(state2)

    def limit(update):
        length = update.norm()
        unorm_vec.copy_(length.square())
        return update * (max_unorm * param_norm / length).clamp(max=1.0)

    numbers = Numbers(beta1, beta2, beta3, alpha, eps, step)
    _step(
        optimizer_name, g, p, states, numbers, lr, weight_decay, gnorm_scale, skip_zeros,
        limit if max_unorm > 0 else None,
    )  # fmt: skip
