"""hash_tensor: the exclusive or of elements' 64-bit patterns."""

import pytest
import torch

from helpers import ALL_DTYPES, random_tensor


@pytest.mark.parametrize("dtype", [*ALL_DTYPES, torch.float64], ids=str)
def test_like_the_cpu(device, dtype):
    for shape in ((), (1,), (2,), (37,), (5, 8, 13), (1, 100)):
        x = random_tensor(*shape, dtype=dtype) if shape else random_tensor(1, dtype=dtype)[0]
        assert torch.hash_tensor(x.to(device)).item() == torch.hash_tensor(x).item()
        if len(shape) == 3:
            for dim, keepdim in (([0], True), ([1, 2], False), ([-1], False), ([0, 2], True), ([], False)):
                for t in (x, x.permute(2, 0, 1), x[1:, ::3]):
                    expected = torch.hash_tensor(t, dim=dim, keepdim=keepdim)
                    actual = torch.hash_tensor(t.to(device), dim=dim, keepdim=keepdim)
                    assert actual.dtype == expected.dtype == torch.uint64
                    assert torch.equal(actual.cpu(), expected)


def test_input_is_kept_and_bits_count(device):
    for dtype in (torch.float64, torch.int64):
        x = random_tensor(9, dtype=dtype).to(device)
        before = x.clone()
        torch.hash_tensor(x)
        assert torch.equal(x, before)
    x = torch.tensor([0.0, -0.0], device=device)
    assert torch.hash_tensor(x).item() == 2**63
    y = random_tensor(1000)
    z = y.clone()
    z[617] = -z[617] - 1
    assert torch.hash_tensor(y.to(device)).item() != torch.hash_tensor(z.to(device)).item()


def test_out_and_checks(device):
    x = random_tensor(4, 6)
    out = torch.empty(0, dtype=torch.uint64, device=device)
    torch.hash_tensor(x.to(device), dim=1, out=out)
    assert torch.equal(out.cpu(), torch.hash_tensor(x, dim=1))
    assert torch.hash_tensor(torch.zeros(3, 0, device=device), dim=0).shape == (0,)
    with pytest.raises(RuntimeError, match="mode"):
        torch.hash_tensor(x.to(device), mode=1)
    with pytest.raises((RuntimeError, IndexError), match="non-zero size|to be specified"):
        torch.hash_tensor(torch.zeros(3, 0, device=device))
