"""Bounds of clamp that an integer dtype does not have."""

import pytest
import torch

pytestmark = pytest.mark.smoke


@pytest.mark.parametrize("dtype", [torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64])
def test_bounds_are_cast_to_the_dtype(device, dtype):
    """As this torch's CPU does, error messages too: since 2.15 a bound that is out of range is as good as none."""
    x = torch.tensor([0, 1, 5, 100], dtype=dtype)

    def result(t, low, high):
        try:
            return t.clamp(low, high).cpu()
        except RuntimeError as error:
            return str(error)

    far = (300, -300, 2**40, -(2**40))
    bounds = [(-1, 3), (None, -1), (-1, None), (2, 4), *((b, None) for b in far), *((None, b) for b in far)]
    for low, high in bounds:
        ours, cpu = result(x.to(device), low, high), result(x, low, high)
        assert torch.equal(ours, cpu) if isinstance(cpu, torch.Tensor) else ours == cpu, (low, high, ours, cpu)
