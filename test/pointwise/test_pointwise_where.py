"""torch.where with numbers of the host in any of its places."""

import torch

from helpers import assert_close, random_tensor

NUMBERS = [torch.tensor(1.5), torch.tensor(2), torch.tensor(True), torch.tensor(0.1, dtype=torch.float64),
           torch.tensor(1 - 2j), torch.tensor(2.5, dtype=torch.bfloat16), 3, 0.5, False]  # fmt: skip


def test_where_of_numbers_on_the_host(device):
    """As on torch.cuda, any of the three may be a tensor without dimensions on the host."""
    mask = random_tensor(3, 4, dtype=torch.bool)
    for a in NUMBERS:
        for b in NUMBERS:
            expected = torch.where(mask, a, b)
            actual = torch.where(mask.to(device), a, b)
            assert actual.device.type == "aule"
            assert_close(actual, expected, rtol=0, atol=0)
            out = torch.empty(0, dtype=expected.dtype, device=device)
            if isinstance(a, torch.Tensor) and isinstance(b, torch.Tensor):
                assert_close(torch.where(mask.to(device), a, b, out=out), expected, rtol=0, atol=0)
                assert_close(torch.where(mask[0, 0], a, b, out=out), torch.where(mask[0, 0], a, b), rtol=0, atol=0)
    x = random_tensor(3, 4)
    for condition in (torch.tensor(True), torch.tensor(False)):
        for a in NUMBERS:
            for t in (x, x[0, 0], x.to(torch.int32)):
                assert_close(torch.where(condition, t.to(device), a), torch.where(condition, t, a), rtol=0, atol=0)
                assert_close(torch.where(condition, a, t.to(device)), torch.where(condition, a, t), rtol=0, atol=0)
        assert_close(torch.where(condition, x.to(device), x.to(device) + 1), torch.where(condition, x, x + 1))
