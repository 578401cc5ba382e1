"""Functions of lists, as Inductor makes them, with captured calls: shared by the tests of those."""

import torch

from torch_aule.compile.replay import WARM_UPS, GraphedFunction, cudagraphify

DEVICE = torch.device("aule")


def boxed(function):
    """As Inductor's functions: takes a list and empties it, gives a tuple."""

    def model(inputs):
        args = list(inputs)
        inputs.clear()
        outputs = function(*args)
        return outputs if isinstance(outputs, tuple) else (outputs,)

    return model


def graphed(function, static=(), **kwargs) -> GraphedFunction:
    return cudagraphify(
        boxed(function), static, device_index=0, stack_traces=None, is_backward=False, is_inference=True, **kwargs
    )


def warm(f, *args):
    for _ in range(WARM_UPS):
        f(list(args))
    assert f.calls == []


def random_on(device, *shape, **kwargs):
    return torch.randn(*shape, **kwargs).to(device)
