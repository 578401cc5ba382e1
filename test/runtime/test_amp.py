"""Autocast and loss scaling."""

import pytest
import torch

import torch_aule
from helpers import assert_close, random_tensor
from torch_aule import functional


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_autocast_dtypes(device, dtype):
    x, w = random_tensor(4, 8).to(device), random_tensor(8, 8).to(device)
    with torch.autocast("aule", dtype=dtype):
        y = x @ w
        assert y.dtype == dtype
        assert torch.nn.functional.linear(x, w).dtype == dtype
        assert torch.softmax(y, -1).dtype == torch.float32
        assert y.exp().dtype == torch.float32
        assert (y * 2).dtype == dtype
        assert torch.addcmul(y, x, x).dtype == torch.float32
        assert y.sum().dtype == torch.float32
        with torch.autocast("aule", enabled=False):
            assert (x @ w).dtype == torch.float32
    # Operands and the result are rounded to `dtype`.
    bound = 2 * torch.finfo(dtype).eps * (x.cpu().abs() @ w.cpu().abs())
    assert ((y.float().cpu() - x.cpu() @ w.cpu()).abs() <= bound).all()


def test_autocast_refuses_binary_cross_entropy(device):
    x = torch.rand(4, device=device)
    with torch.autocast("aule", dtype=torch.float16), pytest.raises(RuntimeError, match="unsafe to autocast"):
        torch.nn.functional.binary_cross_entropy(x, x)


def test_autocast_backward(device):
    layer = torch.nn.Linear(8, 4).to(device)
    with torch.autocast("aule", dtype=torch.bfloat16):
        loss = layer(random_tensor(3, 8).to(device)).float().pow(2).mean()
    loss.backward()
    assert layer.weight.grad.dtype == torch.float32
    assert torch.isfinite(layer.weight.grad).all().item()


def test_autocast_of_own_functions(device):
    """Operands of several dtypes, as layers and tables leave them, meet in that of autocast."""
    q, v = torch.randn(2, 1, 4, 32, 32, device=device)
    k, lengths = q.half(), torch.tensor([0, 10, 32], device=device, dtype=torch.int32)
    kept = torch.ones(4, 4, dtype=torch.bool, device=device)
    cos, sin = functional.precompute_rope_frequencies(32, 32, device=device)
    layer = torch.nn.Linear(32, 24, device=device)
    calls = [
        lambda q, k, v: torch_aule.flash_attention(
            q, k, v, causal=True, alibi_slopes=functional.alibi_slopes(4, device)
        ),
        lambda q, k, v: functional.flash_attention_rope(q, k, v, cos, sin),
        lambda q, k, v: functional.block_sparse_attention(q, k, v, kept, block_size=8),
        lambda q, k, v: functional.varlen_attention(
            q[0, 0][:, None], k[0, 0][:, None], v[0, 0][:, None], lengths, lengths, 22, 22
        ),
        lambda q, k, v: functional.fused_linear_rowsum(k, layer.weight.to(q.dtype), layer.bias.to(q.dtype)),
        lambda q, k, v: functional.diagonal_matmul(k[0, 0, 0], v[0, 0]),
    ]
    for call in calls:
        with torch.autocast("aule", dtype=torch.bfloat16):
            mixed = call(q, k, v)
        assert mixed.dtype == torch.bfloat16
        assert_close(mixed.float(), call(q, k.float(), v), rtol=5e-2, atol=5e-2)


@pytest.mark.parametrize("hidden", [64, 20])
def test_autocast_of_experts(device, hidden):
    layer = torch.nn.Sequential(torch.nn.Linear(8, 32), torch_aule.MixtureOfExperts(32, hidden, 4, 2)).to(device)
    x = torch.randn(10, 8, device=device)
    with torch.autocast("aule", dtype=torch.bfloat16):
        mixed = layer(x)
    assert mixed.dtype == torch.bfloat16
    mixed.float().sum().backward()
    assert all(p.grad.dtype == torch.float32 and p.grad.isfinite().all() for p in layer.parameters())


def test_unscale(device):
    grads = [random_tensor(5, 7), random_tensor(2000), random_tensor(0), random_tensor(6, 4).t()]
    mine = [g.to(device) for g in grads[:3]] + [grads[3].t().to(device).t()]
    mine.append(torch.ones(4, 4, device=device)[:, ::2])
    grads.append(torch.ones(4, 2))
    mine.append(torch.ones(3, dtype=torch.float16, device=device))
    grads.append(torch.ones(3, dtype=torch.float16))
    found, inverse = torch.zeros(1, device=device), torch.full((1,), 0.25, device=device)
    torch._amp_foreach_non_finite_check_and_unscale_(mine, found, inverse)
    assert found.item() == 0
    for m, g in zip(mine, grads):
        assert_close(m, (g * 0.25).to(g.dtype))
    for bad in [float("inf"), float("nan"), -float("inf")]:
        found.zero_()
        mine[1][1999] = bad
        torch._amp_foreach_non_finite_check_and_unscale_(mine, found, inverse)
        assert found.item() == 1


def test_update_scale(device):
    for found in [0.0, 1.0]:
        for tracker in [0, 1, 2]:
            for scale in [8.0, 3e38]:
                args = [torch.tensor([scale]), torch.tensor([tracker], dtype=torch.int32), torch.tensor([found])]
                mine = [a.to(device) for a in args]
                torch._amp_update_scale_(*mine, 2.0, 0.5, 3)
                torch._amp_update_scale_(*args, 2.0, 0.5, 3)
                assert_close(mine, args)


@pytest.mark.parametrize("fused", [False, True])
def test_grad_scaler(device, fused):
    torch.manual_seed(0)
    layer = torch.nn.Linear(6, 3)
    mine = torch.nn.Linear(6, 3).to(device)
    mine.load_state_dict(layer.state_dict())
    scaler = torch.amp.GradScaler("aule", init_scale=256.0, growth_interval=2)
    optimizer = torch.optim.AdamW(mine.parameters(), lr=0.1, fused=fused)
    reference = torch.optim.AdamW(layer.parameters(), lr=0.1)
    for step in range(5):
        x = random_tensor(7, 6)
        layer(x).pow(2).mean().backward()
        loss = mine(x.to(device)).pow(2).mean()
        if step == 2:
            loss = loss * float("inf")
        scaler.scale(loss).backward()
        if step == 3:
            scaler.unscale_(optimizer)
        scaler.step(optimizer)
        scaler.update()
        if step != 2:
            reference.step()
        optimizer.zero_grad()
        reference.zero_grad()
    for p, q in zip(mine.parameters(), layer.parameters()):
        assert_close(p.data, q.data, rtol=1e-4, atol=1e-5)
    assert scaler.get_scale() == 512.0  # doubled, halved, doubled
