"""How near the values of a model come to kinks: places where a function's derivative jumps, as ReLU's does at zero.

A rounding that carries one value over a kink changes a gradient by percents, in float32 on the CPU as anywhere. Of ten
thousand values one in a hundred draws lies so near. A test that compares gradients draws again then.
"""

import torch
import torch.nn.functional as F
from torch.utils._python_dispatch import TorchDispatchMode

aten = torch.ops.aten
CLEAR = 2e-5  # of the root mean square of the values: about ten times what float32 loses in a few layers


# What is called with (x, *options) -> where its derivative jumps.
KINKS = {
    aten.relu: lambda *_: [0.0],
    aten.leaky_relu: lambda *_: [0.0],
    aten.threshold: lambda threshold, *_: [threshold],
    aten.hardtanh: lambda low=-1.0, high=1.0: [low, high],
    aten.hardswish: lambda *_: [-3.0, 3.0],
    aten.hardsigmoid: lambda *_: [-3.0, 3.0],
}
KINKS |= {getattr(aten, f"{op.__name__}_"): kinks for op, kinks in list(KINKS.items())}  # in place


def _pairs(value):
    """(height, width) of a list of one or two numbers."""
    value = [value] if isinstance(value, int) else list(value)
    return tuple(value * 2 if len(value) == 1 else value)


def _gap_of_pool(x, kernel, stride=(), padding=0, dilation=1, *_):
    """The smallest difference between the largest and the next value of a window; equal ones go by their order."""
    height, width = _pairs(padding)
    padded = F.pad(x.detach(), (width, width, height, height), value=torch.finfo(x.dtype).min)
    windows = F.unfold(
        padded.flatten(0, -3).unsqueeze(1), _pairs(kernel), _pairs(dilation), 0, _pairs(stride or kernel)
    )
    if windows.shape[1] < 2:
        return None
    largest, second = windows.topk(2, dim=1).values.unbind(1)
    gaps = (largest - second)[largest > second]
    return gaps.min() if gaps.numel() else None


class NearestKink(TorchDispatchMode):
    """While it is entered, `distance` is the least distance to a kink so far, in root mean squares of the values."""

    def __init__(self):
        super().__init__()
        self.distance = float("inf")

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        packet = func.overloadpacket
        if packet in KINKS and args[0].numel():
            x = args[0].detach()
            gap = min((x - kink).abs().min() for kink in KINKS[packet](*args[1:], **kwargs))
            self._note(gap, x)
        elif packet is aten.max_pool2d_with_indices:
            gap = _gap_of_pool(*args, **kwargs)
            if gap is not None:
                self._note(gap, args[0].detach())
        return func(*args, **kwargs)

    def _note(self, gap, x):
        self.distance = min(self.distance, (gap / x.square().mean().sqrt()).item())


def draw_clear(draw, tries=12):
    """The first of `tries` draws whose values keep clear of kinks, or the one that keeps clear of them farthest.

    Parameters
    ----------
    draw : callable
        Draws a model and its inputs, computes them on the CPU, and gives anything.
    tries : int
        The most draws: a model with millions of values has always one near a kink, and feels one least.

    Returns
    -------
    What `draw` gave.
    """
    best = None
    for _ in range(tries):
        with NearestKink() as nearest:
            drawn = draw()
        if best is None or nearest.distance > best[0]:
            best = nearest.distance, drawn
        if best[0] >= CLEAR:
            break
    return best[1]
