"""One small call of each kind of kernel, with the CPU's results in float64.

Each function takes a way to the device and gives pairs: what the device computed, and what it should have.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import torch
import torch.nn.functional as F

Pairs = Iterator[tuple[torch.Tensor, torch.Tensor]]
To = Callable[[torch.Tensor], torch.Tensor]


def _copy(to: To) -> Pairs:
    x = torch.randn(33, 65)
    yield to(x).t().contiguous(), x.t()
    yield to(x).to(torch.float16).float(), x.half().float()
    yield to(x)[1:, ::3].clone(), x[1:, ::3]


def _pointwise(to: To) -> Pairs:
    x, y = torch.randn(37, 53), torch.randn(53)
    yield F.gelu(to(x) * to(y) + 1), F.gelu(x.double() * y.double() + 1)
    yield torch.where(to(x) > 0, to(x).exp(), -to(x)), torch.where(x > 0, x.double().exp(), -x.double())


def _reduction(to: To) -> Pairs:
    x = torch.randn(19, 1025)
    yield to(x).sum(1), x.double().sum(1)
    yield to(x).amax(0), x.amax(0)
    yield to(x).argmin(1), x.argmin(1)
    yield to(x).cumsum(1), x.double().cumsum(1)


def _normalisation(to: To) -> Pairs:
    x, weight = torch.randn(17, 96), torch.randn(96)
    yield torch.softmax(to(x), -1), torch.softmax(x.double(), -1)
    yield F.layer_norm(to(x), (96,), to(weight)), F.layer_norm(x.double(), (96,), weight.double())


def _product(to: To) -> Pairs:
    a, b = torch.randn(67, 129), torch.randn(129, 45)
    yield to(a) @ to(b), a.double() @ b.double()
    a, b = a.half(), b.half()
    yield to(a) @ to(b), a.double() @ b.double()


def _convolution(to: To) -> Pairs:
    x, weight = torch.randn(2, 5, 13, 11), torch.randn(7, 5, 3, 3)
    yield F.conv2d(to(x), to(weight), padding=1), F.conv2d(x.double(), weight.double(), padding=1)
    yield F.max_pool2d(to(x), 2), F.max_pool2d(x, 2)


def _attention(to: To) -> Pairs:
    q, k, v = (torch.randn(2, 3, 65, 32) for _ in range(3))
    for causal in (False, True):
        yield (
            F.scaled_dot_product_attention(to(q), to(k), to(v), is_causal=causal),
            F.scaled_dot_product_attention(q.double(), k.double(), v.double(), is_causal=causal),
        )


def _attention_backward(to: To) -> Pairs:
    tensors = [torch.randn(1, 2, 49, 32) for _ in range(3)]
    grad = torch.randn(1, 2, 49, 32)

    def gradients(place):
        given = [place(t).requires_grad_() for t in tensors]
        return torch.autograd.grad(F.scaled_dot_product_attention(*given, is_causal=True), given, place(grad))

    yield from zip(gradients(to), gradients(lambda t: t.double()), strict=True)


def _indexing(to: To) -> Pairs:
    x, rows = torch.randn(41, 23), torch.randint(41, (67,))
    yield to(x)[to(rows)], x[rows]
    values = torch.randn(67, 23)
    yield to(x).index_add(0, to(rows), to(values)), x.double().index_add(0, rows, values.double())


def _sorting(to: To) -> Pairs:
    x = torch.randn(5, 1031)
    yield to(x).sort(-1).values, x.sort(-1).values
    yield to(x).topk(7).values, x.topk(7).values


def _fourier(to: To) -> Pairs:
    for points in (64, 105):
        x = torch.randn(3, points)
        yield torch.fft.rfft(to(x)), torch.fft.rfft(x.double())
        yield torch.fft.irfft(torch.fft.rfft(to(x)), points), x


def _linear_system(to: To) -> Pairs:
    a, b = torch.randn(3, 12, 12) + 12 * torch.eye(12), torch.randn(3, 12, 2)
    yield torch.linalg.solve(to(a), to(b)), torch.linalg.solve(a.double(), b.double())


def _random(to: To) -> Pairs:
    """Moments of a million numbers; a right generator is off by more once in a billion runs."""
    x = torch.randn(1 << 20, device=to(torch.empty(0)).device)
    for moment, expected, deviation in ((1, 0.0, 1.0), (2, 1.0, 2.0), (3, 0.0, 15.0), (4, 3.0, 96.0)):
        found = x.pow(moment).mean().cpu().double()
        bound = 6.2 * (deviation / x.numel()) ** 0.5
        yield ((found - expected).abs() <= bound).view(1), torch.ones(1, dtype=torch.bool)


def _optimizer(to: To) -> Pairs:
    start, grad = torch.randn(1037), torch.randn(1037)

    def stepped(place):
        parameter = torch.nn.Parameter(place(start))
        optimizer = torch.optim.AdamW([parameter], lr=0.1, fused=True)
        for _ in range(3):
            parameter.grad = place(grad)
            optimizer.step()
        return parameter.detach()

    yield stepped(to), stepped(lambda t: t.double())


KERNELS: dict[str, Callable[[To], Pairs]] = {
    "copies": _copy,
    "pointwise": _pointwise,
    "reductions, scans": _reduction,
    "softmax, layer norm": _normalisation,
    "matrix products": _product,
    "convolution, pooling": _convolution,
    "attention, forward": _attention,
    "attention, backward": _attention_backward,
    "indexing": _indexing,
    "sorting": _sorting,
    "Fourier transform": _fourier,
    "linear system": _linear_system,
    "random numbers": _random,
    "optimizer": _optimizer,
}
